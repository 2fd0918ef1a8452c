//===----------------------------------------------------------------------===//
// engine/constructive/hull.hpp
//
// The convex hull of all points, lines and shells.
//
// Promise: exact. The vertices of the hull are vertices of the input, no three of
// them lie in a line, and no vertex of the input lies outside.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

namespace vibespatial {

//! Appends the hull of a row: GEOMETRYCOLLECTION EMPTY without vertices, the POINT, the LINESTRING between the two
//! ends, or a POLYGON clockwise from its lowest vertex, of those the leftmost. Two points come in their own order,
//! three or more in a line from the lowest. Z stays with its vertex, M is dropped. Throws GeometryError for coordinates
//! that are NaN or infinite.
void ConvexHull(const GeometryBatch &batch, size_t row, GeometryBatch &out);

//! The same from WKB, of which only those vertices get into memory that may be on the hull
void ConvexHull(const uint8_t *wkb, size_t size, GeometryBatch &scratch, GeometryBatch &out);

} // namespace vibespatial
