//===----------------------------------------------------------------------===//
// duckdb/knn/rewrites/rewrites.hpp
//
// The rewrites that put LogicalNeighbours into a plan. They run before DuckDB's own rules, which would turn the windows that they look
// for into aggregates. What they do not recognise stays as it is.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

//! Before DuckDB's rules: runs all of them on a plan
void RewriteNeighbours(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan);
//! After DuckDB's rules: conditions on the left row go below the operator, and columns that nobody reads do not come out of it
void FinishNeighbours(ClientContext &context, unique_ptr<LogicalOperator> &plan);

namespace knn_rewrites {

//! What the rewrites of one plan share
struct Plan {
	ClientContext &context;
	Binder &binder;
	unique_ptr<LogicalOperator> &root;
};

//===----------------------------------------------------------------------===//
// The first rows of each partition (top_rows.cpp)
//===----------------------------------------------------------------------===//
//! row_number() OVER (PARTITION BY left ORDER BY ST_Distance(left, right)) <= k over a cross product, or over a join by limits of that
//! distance: what QUALIFY and a LIMIT in a correlated subquery are planned as
bool RewriteTopRows(Plan &plan, unique_ptr<LogicalOperator> &op);

//===----------------------------------------------------------------------===//
// Correlated subqueries (lateral.cpp)
//===----------------------------------------------------------------------===//
//! A subquery is planned as a join of the outer rows with the neighbours of their distinct values: becomes the neighbours of the outer rows
bool RewriteLateral(Plan &plan, unique_ptr<LogicalOperator> &op);
//! Whether all columns of `op` together are different in every row, because it gives the distinct values of outer rows
bool GivesDistinctRows(Plan &plan, LogicalOperator &op);
//! Removes the common table expressions of such subqueries that are no longer read, or read once (since DuckDB 2.0)
void RemoveSharedRows(unique_ptr<LogicalOperator> &op);

} // namespace knn_rewrites

} // namespace duckdb
