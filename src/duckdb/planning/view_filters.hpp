//===----------------------------------------------------------------------===//
// duckdb/planning/view_filters.hpp
//
// DuckDB moves no filter that may throw through the projection that a view is. So it never reaches the scan, which reads the other
// columns only where the filter is true. Where the projection only selects columns, the two may change places.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

//! Before the built-in rules: filters that call our functions go below projections that only select columns
void MoveFiltersBelowViews(unique_ptr<LogicalOperator> &plan);

} // namespace duckdb
