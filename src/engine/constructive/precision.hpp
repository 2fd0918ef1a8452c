//===----------------------------------------------------------------------===//
// engine/constructive/precision.hpp
//
// A geometry on a grid.
//
// Promise: every coordinate is the double nearest to a multiple of the grid, and polygons are valid, unless doubles of that
// size cannot tell such multiples apart. Polygons are snapped as areas, their crossings too; lines and points vertex
// by vertex. What collapses is dropped.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"

namespace vibespatial {

//! Appends the row on the grid, without Z and M. Throws GeometryError when the row is not usable (geometry/checks.hpp)
//! or the grid is not a positive number.
void ReducePrecision(const GeometryBatch &batch, size_t row, double grid, Overlay &overlay, Parallel &parallel,
                     GeometryBatch &out);

} // namespace vibespatial
