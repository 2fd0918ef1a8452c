//===----------------------------------------------------------------------===//
// engine/constructive/boundary.hpp
//
// The boundary of a geometry.
//
// Promise: exact. Every vertex is a vertex of the input.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"
#include "geometry/wkb_edit.hpp"

namespace vibespatial {

//! Appends the boundary of a row:
//!   POINT, MULTIPOINT            GEOMETRYCOLLECTION EMPTY
//!   LINESTRING                   MULTIPOINT of start and end, EMPTY when they are the same
//!   MULTILINESTRING              MULTIPOINT of the points in which an odd number of lines end, by x, then y
//!   POLYGON                      LINESTRING, or with holes MULTILINESTRING
//!   MULTIPOLYGON                 MULTILINESTRING of all rings
//!   GEOMETRYCOLLECTION           NULL: not defined
//! Z and M stay with their vertex; an EMPTY result is XY. Throws GeometryError when the row is not usable
//! (geometry/checks.hpp).
void Boundary(const GeometryBatch &batch, size_t row, GeometryBatch &out);

//! The rings of a POLYGON or MULTIPOLYGON where they lie, which are its boundary: a line for a polygon of one ring, else a multi line.
//! False for all other geometries, and where Boundary() finds an empty ring or something wrong.
bool TryBoundaryRings(WkbSlice geometry, CountedVector<WkbVertices> &rings);

} // namespace vibespatial
