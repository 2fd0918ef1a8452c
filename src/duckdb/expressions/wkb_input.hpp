//===----------------------------------------------------------------------===//
// duckdb/expressions/wkb_input.hpp
//
// DuckDB stores a geometry as WKB, and its ST_GeomFromWKB copies every row. Bytes that would be stored as they are need no copy.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"

namespace duckdb {

//! Where the call is one of DuckDB's ST_GeomFromWKB: it will pass its argument on when all rows of a chunk are as they would be stored, and
//! do what it did before, with the same errors, for other chunks
void ReadWkbInPlace(BoundFunctionExpression &call);

} // namespace duckdb
