//===----------------------------------------------------------------------===//
// geometry/geojson.hpp
//
// GeoJSON geometries (RFC 7946), read and written as text
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

#include <string>

namespace vibespatial {

//! Appends one geometry as a row. A position has two or more numbers; the third is Z, the rest is ignored. One Z
//! makes the whole row XYZ, with 0 where it is missing. Empty coordinates are EMPTY. Unknown members are ignored.
//! Throws GeometryError (not JSON, not a geometry, a number beyond double, too deep) and leaves the batch as it was.
void ReadGeoJson(const char *text, size_t size, GeometryBatch &batch);

//! The row as text without spaces: Z is the third number, M is dropped, EMPTY points of a MULTIPOINT are dropped.
//! Throws GeometryError for NULL and for a coordinate that JSON has no number for.
std::string WriteGeoJson(const GeometryBatch &batch, size_t row);

} // namespace vibespatial
