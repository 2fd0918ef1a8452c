// Joins by a spatial condition: in JOIN ON, beside comparisons, or in a filter over a join
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

namespace {

//! A hash join is the better plan if its equalities leave at most this many pairs per row
constexpr double MAX_PAIRS_PER_ROW_OF_HASH_JOIN = 4;

bool IsSupported(JoinType type) {
	switch (type) {
	case JoinType::INNER:
	case JoinType::LEFT:
	case JoinType::RIGHT:
	case JoinType::OUTER:
	case JoinType::SEMI:
	case JoinType::ANTI:
		return true;
	default:
		return false;
	}
}

bool PrefersHashJoin(ClientContext &context, LogicalComparisonJoin &join) {
	idx_t ranges = 0;
	if (!join.HasEquality(ranges)) {
		return false;
	}
	for (auto &child : join.children) {
		// A join with the distinct values of an outer query: RewriteDelimJoin() removes them only if this join is spatial
		if (child->type == LogicalOperatorType::LOGICAL_DELIM_GET) {
			return false;
		}
	}
	auto rows = MaxValue(Cardinality(context, *join.children[0]), Cardinality(context, *join.children[1]));
	return double(Cardinality(context, join)) <= MAX_PAIRS_PER_ROW_OF_HASH_JOIN * double(rows);
}

//! The operator in place of a join with the condition `conjuncts`; null, with nothing changed, if none of them is spatial
unique_ptr<LogicalSpatialJoin> MakeJoin(ClientContext &context, LogicalOperator &join, JoinType type,
                                        vector<unique_ptr<Expression>> &conjuncts) {
	JoinTables tables(join);
	SpatialCondition spatial;
	if (!SpatialCondition::Take(context, tables, conjuncts, spatial)) {
		return nullptr;
	}
	auto result = make_uniq<LogicalSpatialJoin>(type, std::move(spatial), std::move(join.children[0]),
	                                            std::move(join.children[1]));
	CopyCardinality(join, *result);
	return result;
}

bool ReplaceJoin(ClientContext &context, unique_ptr<LogicalOperator> &op, vector<unique_ptr<Expression>> conjuncts) {
	auto &join = op->Cast<LogicalJoin>();
	if (!IsSupported(join.join_type)) {
		return false;
	}
	auto left_columns = MapColumns(join.left_projection_map, join.children[0]->GetColumnBindings().size());
	auto right_columns = MapColumns(join.right_projection_map, join.children[1]->GetColumnBindings().size());
	auto result = MakeJoin(context, join, join.join_type, conjuncts);
	if (!result) {
		return false;
	}
	result->left_columns = std::move(left_columns);
	if (result->EmitsRight()) {
		result->right_columns = std::move(right_columns);
	}
	ChooseBuildSide(context, *result);
	op = std::move(result);
	return true;
}

} // namespace

bool RewriteAnyJoin(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	vector<unique_ptr<Expression>> conjuncts;
	conjuncts.push_back(op->Cast<LogicalAnyJoin>().condition->Copy());
	return ReplaceJoin(context, op, std::move(conjuncts));
}

bool RewriteMixedJoin(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	auto &join = op->Cast<LogicalComparisonJoin>();
	if (!HasMixedConditions(join)) {
		return false;
	}
	// DuckDB estimates the number of equal pairs for INNER joins only
	if (join.join_type == JoinType::INNER && PrefersHashJoin(context, join)) {
		return false;
	}
	return ReplaceJoin(context, op, CopyConditions(join));
}

bool RewriteFilterOverJoin(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	auto &filter = op->Cast<LogicalFilter>();
	// The join may be below projections: the filter's conditions are then rewritten over its columns
	reference<unique_ptr<LogicalOperator>> slot = filter.children[0];
	vector<reference<LogicalProjection>> projections;
	SkipProjections(slot, projections);
	auto &child = *slot.get();
	vector<unique_ptr<Expression>> conjuncts;
	vector<idx_t> left_columns, right_columns;
	auto set_columns = [&](const vector<ProjectionIndex> &left_map, const vector<ProjectionIndex> &right_map) {
		left_columns = MapColumns(left_map, child.children[0]->GetColumnBindings().size());
		right_columns = MapColumns(right_map, child.children[1]->GetColumnBindings().size());
	};
	if (child.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
		auto &join = child.Cast<LogicalComparisonJoin>();
		if (join.join_type != JoinType::INNER || HasPredicate(join) || PrefersHashJoin(context, join)) {
			return false;
		}
		set_columns(join.left_projection_map, join.right_projection_map);
		conjuncts = CopyConditions(join);
	} else if (child.type == LogicalOperatorType::LOGICAL_CROSS_PRODUCT) {
		set_columns({}, {});
	} else {
		return false;
	}
	for (auto &expr : filter.expressions) {
		auto copy = expr->Copy();
		ReplaceThrough(copy, projections);
		if (!projections.empty() && copy->IsVolatile()) {
			return false;
		}
		conjuncts.push_back(std::move(copy));
	}
	auto result = MakeJoin(context, child, JoinType::INNER, conjuncts);
	if (!result) {
		return false;
	}
	CopyCardinality(filter, *result);
	result->left_columns = std::move(left_columns);
	result->right_columns = std::move(right_columns);
	slot.get() = std::move(result);
	filter.expressions.clear();
	if (projections.empty()) {
		return DropEmptyFilter(op);
	}
	PruneColumns(projections.back().get());
	// A filter with a projection map stays, to drop columns
	if (filter.projection_map.empty()) {
		auto input = std::move(filter.children[0]);
		op = std::move(input);
	}
	return true;
}

} // namespace join_rewrites

} // namespace duckdb
