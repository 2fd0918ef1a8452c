//===----------------------------------------------------------------------===//
// engine/constructive/buffer_reach.hpp
//
// How far a round buffer reaches, without making it.
//
// Promise: the polygon that Buffer() makes with its usual style has every point within `inner` of a geometry in it, and
// none beyond `outer`, by distances as ShapeDistance computes them. What lies between hangs on the vertices of its arcs.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

struct BufferReach {
	//! Negative: no point is sure to be in it
	double inner;
	double outer;

	//! `box`: of the geometry. Throws GeometryError when the distance is not finite.
	BufferReach(const vibe::Box &box, double distance);
};

//! What to add to the outer reach around no more than a point in 0, for the buffer of a geometry with any distance.
//! Polygons that are not valid have places that distances do not know as theirs, but buffers do: the margin is the box.
double BufferMargin(const uint8_t *wkb, size_t size);
//! Whether that holds for this one
bool HidesAreas(const uint8_t *wkb, size_t size);

} // namespace vibespatial
