//===----------------------------------------------------------------------===//
// duckdb/knn/rewrites/rewrites.hpp
//
// The rewrites that put LogicalNeighbours into a plan. They run before DuckDB's own rules, which would turn the windows that they look
// for into aggregates. What they do not recognise stays as it is.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/knn/neighbours.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_cteref.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

//! Before DuckDB's rules: runs all of them on a plan
void RewriteNeighbours(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan);
//! Puts the operator in the place of joins by ST_KNN. Runs when a statement is bound, whatever is optimized, on all but what depends on outer
//! rows; then again when subqueries are joins, and throws where a call is left.
void RewriteJoinConditions(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan,
                           bool is_decorrelated);
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
//! Whether a common table expression that is not below `top` gives rows of an outer query, or their distinct values (since DuckDB 2.0)
bool ReadsOuterRows(Plan &plan, LogicalCTERef &ref, LogicalOperator &top);
//! NULL where a left row has no neighbour
unique_ptr<Expression> NullWithoutNeighbour(const LogicalNeighbours &neighbours, unique_ptr<Expression> expr);
//! Removes the common table expressions of such subqueries that are no longer read, or read once (since DuckDB 2.0)
void RemoveSharedRows(unique_ptr<LogicalOperator> &op);

} // namespace knn_rewrites

} // namespace duckdb
