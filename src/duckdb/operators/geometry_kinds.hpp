//===----------------------------------------------------------------------===//
// duckdb/operators/geometry_kinds.hpp
//
// What a plan knows of the geometries of an expression: by the statistics of a column, by the function that makes them, or by a
// constant. Only hints: rows that another transaction adds may be of any kind.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/logical_operator.hpp"
#include "engine/dispatch/needs.hpp"

namespace duckdb {

//! Of an expression over the columns of `input`, before columns are resolved
vibespatial::SideKinds FindGeometryKinds(ClientContext &context, LogicalOperator &input, Expression &geometry);

} // namespace duckdb
