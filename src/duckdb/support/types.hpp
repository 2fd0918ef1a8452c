//===----------------------------------------------------------------------===//
// duckdb/support/types.hpp
//
// The types `spatial` gives its functions beside GEOMETRY, equal to its own: two overloads with the same arguments
// and different results would make every call ambiguous. They are not put into the catalog, where a type
// can exist only once and `spatial` registers its own.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"

namespace duckdb {

//! STRUCT(x, y[, z[, m]]) named POINT_2D, POINT_3D, POINT_4D
LogicalType PointType(idx_t ordinates);
//! STRUCT(min_x, min_y, max_x, max_y) named BOX_2D
LogicalType BoxType();
//! The enumeration named GEOMETRY_TYPE; its values are the WKB codes less one
LogicalType GeometryTypeEnum();

} // namespace duckdb
