//===----------------------------------------------------------------------===//
// engine/constructive/make_valid.hpp
//
// A valid geometry from the lines and rings of one that is not.
//
// Promise: valid by OGC rules for any finite input. What lies inside an odd number of the rings of a polygon, or of
// all polygons of a multipolygon, is inside; a ring that comes twice in the same role counts once. What is left of the
// rings outside of that stays as lines and points. Rings that are not closed are. Members of a collection are looked
// at one by one.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"

namespace vibespatial {

//! Appends the row, made valid, without Z and M. Throws GeometryError for coordinates that are NaN or infinite.
void MakeValid(const GeometryBatch &batch, size_t row, Overlay &overlay, Parallel &parallel, GeometryBatch &out);

} // namespace vibespatial
