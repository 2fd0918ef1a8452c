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

	const vibe::ShapeView &View() const {
		return view;
	}

private:
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
