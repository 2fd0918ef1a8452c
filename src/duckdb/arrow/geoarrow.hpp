//===----------------------------------------------------------------------===//
// duckdb/arrow/geoarrow.hpp
//
// Native GeoArrow through DuckDB's Arrow extension types: columns of Arrow tables and streams arrive as GEOMETRY, and
// results leave in a native encoding where one is asked for.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "geometry/geoarrow.hpp"

namespace duckdb {

//! Arrow extension types geoarrow.point .. geoarrow.multipolygon, geoarrow.box and geoarrow.wkt, as they come in
void RegisterGeoArrowInput(ExtensionLoader &loader);

//! The types that results have for a native encoding, the function that gives them, and the setting vibe_arrow_encoding
void RegisterGeoArrowOutput(ExtensionLoader &loader);

inline void RegisterGeoArrow(ExtensionLoader &loader) {
	RegisterGeoArrowInput(loader);
	RegisterGeoArrowOutput(loader);
}

//! The type of a column in an encoding: 'point', 'multipolygon_z', 'linestring_interleaved' or the like, with the CRS of
//! the GEOMETRY `geometry`. ArrowConverter and ArrowAppender write it as GeoArrow. 'wkb' gives a GEOMETRY. Throws
//! InvalidInputException for all else.
LogicalType GeoArrowColumnType(const LogicalType &geometry, const string &encoding);

//! Rows of GEOMETRY as rows of such a type, which is that of `result`. Throws InvalidInputException for a row of another
//! kind or other dimensions.
void GeometryToGeoArrow(Vector &source, Vector &result, idx_t count);

} // namespace duckdb
