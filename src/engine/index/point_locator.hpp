//===----------------------------------------------------------------------===//
// engine/index/point_locator.hpp
//
// Promise: exact. Where points lie in one polygonal shape, for many points: the edges are sorted into bands of y, so that
// a point looks at the few edges of its band.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"

#include <cstdint>
#include <vector>

namespace vibespatial {

class PointLocator {
public:
	//! `shape` is an area in one element
	explicit PointLocator(const vibe::ShapeView &shape);

	vibe::Location Locate(const vibe::Vec2 &point) const;

private:
	struct Edge {
		vibe::Vec2 from;
		vibe::Vec2 to;
	};
	//! Monotone in y, so an edge is in all bands that hold a point of it
	uint32_t BandOf(double y) const;

	vibe::Box box;
	double bands_per_unit = 0;
	uint32_t last_band = 0;
	std::vector<uint32_t> band_begin;
	std::vector<Edge> edges;
};

} // namespace vibespatial
