//===----------------------------------------------------------------------===//
// engine/shape/shape.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "vibe/shape.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! Owns what a vibe::ShapeView shows: one geometry made ready for exact work on its edges. Building is one pass over the
//! vertices; building again reuses the memory.
class Shape {
public:
	void Build(const vibe::GeometryView &geometry);
	//! A LINESTRING or POLYGON in XY, straight from its bytes: what Build() makes of it. False, with the shape unusable, for
	//! all other bytes, for what CheckUsable refuses and for lines and rings with repeated vertices.
	bool BuildPlain(const uint8_t *wkb, size_t size);
	//! What matters of a POLYGON or MULTIPOLYGON to a geometry inside a window, in one pass over its bytes. Rings that the
	//! window does not meet are left out but for two, and runs of edges that pass it by on one side are one edge, so
	//! contacts with edges in the window, and what a place in the window lies in, are the same, and so is the matrix. So is
	//! the distance to what is farther from the window's border than from the shape. The box is that of the whole. False,
	//! with the shape unusable, for other types, for what CheckUsable refuses, for rings without area, and for a long ring that
	//! is all in the window.
	//!
	//! A probe looks whether the first few rings that the window meets answer a question by themselves: does one meet the area, or lie
	//! in its interior, or show that a part of the area lies outside of the geometry, or of the geometry outside of the area? Then it is
	//! found, the bytes are checked up to their end, and the shape is of no use.
	struct WindowProbe {
		enum Until { MEET, INTERIORS, AREA_OUTSIDE, GEOMETRY_OUTSIDE };
		const vibe::ShapeView &area;
		Until until;
		bool found = false;
		uint32_t tries = 64;
		//! Some vertex of the geometry is no farther than this from any place in the area's box
		double reach = vibe::Infinity();
	};
	bool BuildInWindow(const uint8_t *wkb, size_t size, const vibe::Box &window, WindowProbe *probe = nullptr);

	const vibe::ShapeView &View() const {
		return view;
	}

private:
	class WindowReader;

	void AddRing(const vibe::GeometryView &geometry, uint32_t ring, bool is_area, uint32_t element);
	void Reset();
	//! Shows what is there; how many vertices, the dimension and what it follows from are the caller's
	void Show();

	CountedVector<double> x;
	CountedVector<double> y;
	CountedVector<uint32_t> vertex_ring;
	CountedVector<vibe::ShapeRing> rings;
	CountedVector<uint32_t> element_begin;
	CountedVector<vibe::Box> element_box;
	CountedVector<vibe::Vec2> points;
	CountedVector<vibe::Vec2> ends;
	CountedVector<vibe::Box> boxes;
	CountedVector<uint32_t> flat_shells;
	vibe::ShapeView view {};
};

} // namespace vibespatial
