//===----------------------------------------------------------------------===//
// duckdb/expressions/rewrites.hpp
//
// Expressions over geometries that give the same answer with less work: docs/internals/rewrites.md
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

//! Before the built-in rules: conditions stand as they were written. Expressions of other extensions' functions stay.
void RewriteExpressions(ClientContext &context, LogicalOperator &plan);

} // namespace duckdb
