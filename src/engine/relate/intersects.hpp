//===----------------------------------------------------------------------===//
// engine/relate/intersects.hpp
//
// Promise: exact, the answer of the matrix. Do two geometries share a point? That asks for one contact of two edges or,
// without any, for one vertex of each line or ring: no nodes, no sides, no memory.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"

namespace vibespatial {

//! Lines or areas whose members do not overlap: what Intersect() takes
inline bool IsLinesOrArea(const vibe::ShapeView &shape) {
	return shape.dimension >= 1 && !shape.mixed;
}

bool Intersect(const vibe::ShapeView &a, const vibe::ShapeView &b);

} // namespace vibespatial
