// Aggregates that the join computes itself: each pair updates the state of its group and is never emitted
#include "duckdb/planner/joinside.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

//! Groups of probe columns, which each thread keeps in memory. DuckDB's own hash tables can spill more.
static constexpr idx_t MAX_PROBE_GROUPS = 100000;

static bool IsSupported(const Expression &expr) {
	auto &aggregate = expr.Cast<BoundAggregateExpression>();
	static const unordered_set<string> NAMES {"count", "count_star", "sum", "sum_no_overflow", "min", "max", "avg"};
	return NAMES.count(FunctionName(aggregate)) && !aggregate.IsDistinct() && !HasFilter(aggregate) &&
	       !HasOrder(aggregate) && ChildrenOf(aggregate).size() <= 1;
}

static bool IsSupported(const LogicalAggregate &aggregate) {
	if (aggregate.grouping_sets.size() > 1 || !aggregate.grouping_functions.empty()) {
		return false;
	}
	for (auto &expr : aggregate.expressions) {
		if (!IsSupported(*expr)) {
			return false;
		}
	}
	return true;
}

//! A filter by a constant: each probe row has one pair at most, so the rows are as many as the pairs of an INNER join
static bool IsSemiByOneRow(const LogicalSpatialJoin &join) {
	return join.join_type == JoinType::SEMI && join.children[1]->type == LogicalOperatorType::LOGICAL_DUMMY_SCAN;
}

bool FuseAggregate(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	auto &aggregate = op->Cast<LogicalAggregate>();
	if (!IsSupported(aggregate)) {
		return false;
	}
	reference<unique_ptr<LogicalOperator>> slot = aggregate.children[0];
	vector<reference<LogicalProjection>> projections;
	SkipProjections(slot, projections);
	if (!IsSpatialJoin(*slot.get())) {
		return false;
	}
	auto &join = AsSpatialJoin(*slot.get());
	const bool by_constant = IsSemiByOneRow(join);
	if (join.aggregate || !(join.join_type == JoinType::INNER || join.join_type == JoinType::RIGHT ||
	                        join.join_type == JoinType::LEFT || by_constant)) {
		return false;
	}

	JoinTables tables(join);
	auto spec = make_uniq<SpatialAggregate>();
	spec->group_index = aggregate.group_index;
	spec->aggregate_index = aggregate.aggregate_index;
	auto side = JoinSide(JoinSide::NONE);
	for (auto &group : aggregate.groups) {
		auto expr = group->Copy();
		ReplaceThrough(expr, projections);
		side = JoinSide::CombineJoinSide(side, JoinSide::GetJoinSide(*expr, tables.left, tables.right));
		if (expr->IsVolatile() || side == JoinSide::BOTH) {
			return false;
		}
		spec->groups.push_back(std::move(expr));
	}
	spec->groups_from_left = side == JoinSide::LEFT;
	// Rows without a match form a group of NULLs, unless the groups are columns of their own side
	if ((side == JoinSide::LEFT && join.join_type == JoinType::RIGHT) ||
	    (side == JoinSide::RIGHT && join.join_type == JoinType::LEFT)) {
		return false;
	}
	if (side == JoinSide::NONE && !aggregate.groups.empty()) {
		return false;
	}
	if (side == JoinSide::LEFT && Cardinality(context, aggregate) > MAX_PROBE_GROUPS) {
		return false;
	}
	for (auto &expr : aggregate.expressions) {
		auto copy = expr->Copy();
		for (auto &argument : ChildrenOf(copy->Cast<BoundAggregateExpression>())) {
			ReplaceThrough(argument, projections);
			auto argument_side = JoinSide::GetJoinSide(*argument, tables.left, tables.right);
			if (argument->IsVolatile() || argument_side == JoinSide::BOTH) {
				return false;
			}
			spec->argument_from_left.push_back(argument_side != JoinSide::RIGHT);
		}
		spec->aggregates.push_back(std::move(copy));
	}
	if (by_constant) {
		// Other aggregates read the rows that pass, for which DuckDB's own operator is as good
		if (!spec->groups.empty() || std::find(spec->argument_from_left.begin(), spec->argument_from_left.end(),
		                                       true) != spec->argument_from_left.end()) {
			return false;
		}
		join.join_type = JoinType::INNER;
	}
	join.aggregate = std::move(spec);
	join.left_columns.clear();
	join.right_columns.clear();
	CopyCardinality(aggregate, join);
	auto result = std::move(slot.get());
	op = std::move(result);
	return true;
}

} // namespace join_rewrites

} // namespace duckdb
