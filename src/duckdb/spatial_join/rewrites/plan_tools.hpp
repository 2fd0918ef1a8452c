//===----------------------------------------------------------------------===//
// duckdb/spatial_join/rewrites/plan_tools.hpp
//
// What several rewrites ask about a plan, or do to it
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/spatial_join/logical.hpp"

namespace duckdb {

namespace join_rewrites {

bool IsSpatialJoin(const LogicalOperator &op);
LogicalSpatialJoin &AsSpatialJoin(LogicalOperator &op);
//! In the whole plan below and including `op`
bool HasOperator(const LogicalOperator &op, LogicalOperatorType type);
bool HasSpatialJoin(const LogicalOperator &op);

idx_t Cardinality(ClientContext &context, LogicalOperator &op);
void CopyCardinality(const LogicalOperator &from, LogicalOperator &to);

//! The columns of a projection map; an empty map stands for all `count` columns
vector<idx_t> MapColumns(const vector<ProjectionIndex> &map, idx_t count);

//! Moves `slot` down to the first operator that is no projection, and collects the projections above it
void SkipProjections(reference<unique_ptr<LogicalOperator>> &slot, vector<reference<LogicalProjection>> &projections);
//! Rewrites an expression over the first of the projections into one over the input of the last
void ReplaceThrough(unique_ptr<Expression> &expr, const vector<reference<LogicalProjection>> &projections);

//! The INNER spatial join below the projections of a subquery; null where there is none
optional_ptr<LogicalSpatialJoin> FindInnerJoin(unique_ptr<LogicalOperator> &subquery,
                                               vector<reference<LogicalProjection>> &projections);

//! Makes the smaller side of a SEMI or ANTI join the build side. DuckDB does not: it has no operator for RIGHT_SEMI or RIGHT_ANTI
//! without an equality.
void ChooseBuildSide(ClientContext &context, LogicalSpatialJoin &join);

//! Replaces every column reference by what `find` returns for its binding; false where it returned null for one
template <class FIND>
bool ReplaceColumns(unique_ptr<Expression> &expr, const FIND &find) {
	bool all = true;
	ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
	    expr, [&](BoundColumnRefExpression &column, unique_ptr<Expression> &slot) {
		    auto found = find(BindingOf(column));
		    if (found) {
			    slot = std::move(found);
		    } else {
			    all = false;
		    }
	    });
	return all;
}

} // namespace join_rewrites

} // namespace duckdb
