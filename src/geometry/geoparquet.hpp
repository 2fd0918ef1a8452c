//===----------------------------------------------------------------------===//
// geometry/geoparquet.hpp
//
// The `geo` metadata of a GeoParquet file
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace vibespatial {

//! How a column of a GeoParquet file holds its geometries, and where their boxes are
struct GeoParquetColumn {
	enum class Crs : uint8_t {
		DEFAULT, // not written: OGC:CRS84
		UNKNOWN, // null
		GIVEN
	};

	std::string name;
	//! In lower case: "wkb", "point", "linestring", ..
	std::string encoding;
	Crs crs = Crs::DEFAULT;
	//! PROJJSON, as it is written
	std::string crs_text;
	//! The struct with the boxes and its fields xmin, ymin, xmax, ymax; empty when there is none, or it is named for several columns of
	//! which this is not the primary one
	std::string box_column;
	std::array<std::string, 4> box_fields;
};

//! The columns that the metadata describe. Members that are not understood are left out: a newer file may have more. Throws
//! GeometryError where the text is no JSON object with columns.
std::vector<GeoParquetColumn> ReadGeoParquet(const char *text, size_t size);

} // namespace vibespatial
