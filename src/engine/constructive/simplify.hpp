//===----------------------------------------------------------------------===//
// engine/constructive/simplify.hpp
//
// Fewer vertices (Douglas & Peucker 1973).
//
// Promise: best effort. Every vertex is a vertex of the input, and every vertex left out
// is within the tolerance of the segment that replaced it, up to the rounding of that
// distance (a few units in the last place). Rings are treated one by one, so a result may
// cross itself where the tolerance is coarse.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

namespace vibespatial {

//! Appends the simplified row. Lines keep their ends. A ring left with fewer than 4 vertices is dropped, a polygon with
//! its shell; the first vertex of a ring goes too when it is within the tolerance of its neighbours' segment. EMPTY
//! members are dropped; a multi geometry of one member becomes that member. Z stays with its vertex, M is dropped.
//! Throws GeometryError for a negative or NaN tolerance and when the row is not usable (geometry/checks.hpp).
void Simplify(const GeometryBatch &batch, size_t row, double tolerance, GeometryBatch &out);

} // namespace vibespatial
