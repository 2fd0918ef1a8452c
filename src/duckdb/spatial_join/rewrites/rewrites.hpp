//===----------------------------------------------------------------------===//
// duckdb/spatial_join/rewrites/rewrites.hpp
//
// The rewrites that put LogicalSpatialJoin into a plan, and those that improve the plan around it. All run after DuckDB's own rules.
// Each takes an operator whose children have been rewritten, and returns whether it has replaced it. driver.cpp has their order.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/pinned/tables.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/logical_operator.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"

namespace duckdb {

//! Runs all of them on a plan
void RewriteSpatialJoins(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan);

namespace join_rewrites {

//===----------------------------------------------------------------------===//
// Joins by a spatial condition (join_conditions.cpp)
//===----------------------------------------------------------------------===//
//! A JOIN ON with a condition that compares nothing
bool RewriteAnyJoin(ClientContext &context, unique_ptr<LogicalOperator> &op);
//! A join by comparisons that has other conditions beside them (since DuckDB 2.0)
bool RewriteMixedJoin(ClientContext &context, unique_ptr<LogicalOperator> &op);
//! A filter over a cross product or over a join by comparisons
bool RewriteFilterOverJoin(ClientContext &context, unique_ptr<LogicalOperator> &op);

//===----------------------------------------------------------------------===//
// EXISTS and IN (exists.cpp, exists_cte.cpp)
//===----------------------------------------------------------------------===//
//! A subquery as DuckDB 1.5 plans it: a delim join
bool RewriteDelimJoin(ClientContext &context, unique_ptr<LogicalOperator> &op);
//! A subquery as DuckDB 2.0 plans it: a join of a common table expression with its own distinct rows
bool RewriteSharedRowsJoin(ClientContext &context, unique_ptr<LogicalOperator> &op);
//! The common table expression of such a subquery, once a single reference to it is left
bool InlineSharedRows(unique_ptr<LogicalOperator> &op);
//! A filter on the mark of a MARK join: the join becomes a SEMI or ANTI join, and the filter loses the condition
void TakeMarkFilter(ClientContext &context, LogicalFilter &filter);

//===----------------------------------------------------------------------===//
// Aggregates (aggregate.cpp)
//===----------------------------------------------------------------------===//
//! An aggregate over a spatial join whose groups are columns of one side: no pairs have to be emitted
bool FuseAggregate(ClientContext &context, unique_ptr<LogicalOperator> &op);

//===----------------------------------------------------------------------===//
// Filters by a constant geometry (constant_filter.cpp)
//===----------------------------------------------------------------------===//
//! predicate(column, constant) over as many rows as the GPU is used for: a SEMI join with a build side of one row.
//! `ordered`: the order of the rows is visible above.
bool RewriteConstantFilter(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &op, bool ordered);
//! The same in the filters that DuckDB has pushed into a scan
bool RewriteScanFilters(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &op, bool ordered);

//===----------------------------------------------------------------------===//
// Columns (columns.cpp)
//===----------------------------------------------------------------------===//
//! A filter without conditions over a spatial join: its projection map goes into the join
bool DropEmptyFilter(unique_ptr<LogicalOperator> &op);
//! Removes the columns of all spatial joins that no operator above reads: the geometries, mostly
void PruneColumns(LogicalOperator &plan);

//===----------------------------------------------------------------------===//
// Filters for scans (probe_scans.cpp)
//===----------------------------------------------------------------------===//
//! Finds for each join the scans of its probe side that can take the box of its build side as a dynamic filter
void FindProbeScans(ClientContext &context, LogicalOperator &plan);
//! Gives scans of files with a bounding box column the boxes of constants in filters above them
void PushConstantBoxes(ClientContext &context, LogicalOperator &plan);

//===----------------------------------------------------------------------===//
// Tables on the device (pinned_scans.cpp, pinned_unions.cpp)
//===----------------------------------------------------------------------===//
//! Finds what each join, each search for neighbours and each union asks of a table, which may be pinned when it runs
void FindPinnedScans(ClientContext &context, unique_ptr<LogicalOperator> &plan);
//! What a side of an operator asks of a table, by a column of geometries; false where it is no scan of a table of DuckDB's own
bool FindPinnedScan(ClientContext &context, LogicalOperator &side, const Expression &key, PinnedScan &scan);
//! Puts VIBE_PINNED_SCAN below an aggregate that unites the geometries of a table that is pinned now, and VIBE_PINNED_UNION above it
void PlanPinnedUnion(ClientContext &context, unique_ptr<LogicalOperator> &aggregate);
//! Whether a geometry of `input` is a column of a table that is pinned, as far as the plan can know
bool IsPinned(ClientContext &context, LogicalOperator &input, const Expression &geometry);

} // namespace join_rewrites

} // namespace duckdb
