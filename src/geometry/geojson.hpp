//===----------------------------------------------------------------------===//
// geometry/geojson.hpp
//
// GeoJSON geometries (RFC 7946), read and written as text
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

#include <string>
#include <string_view>

namespace vibespatial {

//! Appends one geometry as a row. A position has two or more numbers; the third is Z, the rest is ignored. One Z
//! makes the whole row XYZ, with 0 where it is missing. Empty coordinates are EMPTY. Unknown members are ignored.
//! Throws GeometryError (not JSON, not a geometry, a number beyond double, too deep) and leaves the batch as it was.
void ReadGeoJson(const char *text, size_t size, GeometryBatch &batch);

//! The row as text without spaces: Z is the third number, M is dropped, EMPTY points of a MULTIPOINT are dropped.
//! Throws GeometryError for NULL and for a coordinate that JSON has no number for.
std::string WriteGeoJson(const GeometryBatch &batch, size_t row);
//! The same in memory that is kept from row to row: the text is at its beginning
std::string_view WriteGeoJson(const GeometryBatch &batch, size_t row, CountedVector<char> &text);
//! The same of a geometry in WKB, which is read into `scratch` where that is needed. Throws what ReadWkb throws, too.
std::string_view WriteGeoJson(const uint8_t *wkb, size_t size, GeometryBatch &scratch, CountedVector<char> &text);

} // namespace vibespatial
