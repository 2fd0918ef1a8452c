//===----------------------------------------------------------------------===//
// engine/constructive/remove_repeated_points.hpp
//
// Lines and rings without vertices that repeat the one before them.
//
// Promise: every vertex is a vertex of the input with its Z and M, in the same order. Two vertices repeat each other where
// ST_Distance of them is at most the tolerance.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

namespace vibespatial {

//! Appends the row without repeated vertices. A vertex goes where it is within the tolerance of the last one that stays. The ends
//! of a line stay, so the last vertex takes the place of the one before it where they are that near. A ring that would be left
//! with fewer than 4 vertices stays as it is, as do points, also those of a multipoint, and EMPTY members.
//! Throws GeometryError for a negative or NaN tolerance.
void RemoveRepeatedPoints(const GeometryBatch &batch, size_t row, double tolerance, GeometryBatch &out);

} // namespace vibespatial
