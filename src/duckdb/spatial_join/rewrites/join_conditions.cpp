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

//! Takes what asks for rows of one side alone out of a condition
unique_ptr<Expression> TakeGuard(vector<unique_ptr<Expression>> &conjuncts, const JoinTables &tables, JoinSide side) {
	unique_ptr<Expression> guard;
	for (idx_t i = 0; i < conjuncts.size();) {
		if (!conjuncts[i]->IsVolatile() && JoinSide::GetJoinSide(*conjuncts[i], tables.left, tables.right) == side) {
			guard = AndOf(std::move(guard), std::move(conjuncts[i]));
			conjuncts.erase_at(i);
		} else {
			i++;
		}
	}
	return guard;
}

//! A condition on a side all of whose rows come out cannot be pushed below the join. It is asked before the geometry is looked at, as it may
//! say which geometries are valid: a row that does not pass meets nothing, like one without a geometry.
void GuardSide(unique_ptr<Expression> guard, unique_ptr<Expression> &geometry, unique_ptr<Expression> &limit,
               SpatialCondition &spatial) {
	if (!guard) {
		return;
	}
	spatial.text += " where " + guard->ToString();
	if (limit) {
		limit = NullUnless(guard->Copy(), std::move(limit));
	}
	geometry = NullUnless(std::move(guard), std::move(geometry));
}

//! The operator in place of a join with the condition `conjuncts`; null, with nothing changed, if none of them is spatial
unique_ptr<LogicalSpatialJoin> MakeJoin(ClientContext &context, LogicalOperator &join, JoinType type,
                                        vector<unique_ptr<Expression>> &conjuncts) {
	JoinTables tables(join);
	LogicalFilter::SplitPredicates(conjuncts);
	unique_ptr<Expression> left_guard, right_guard;
	if (type == JoinType::LEFT || type == JoinType::ANTI || type == JoinType::OUTER) {
		left_guard = TakeGuard(conjuncts, tables, JoinSide::LEFT);
	}
	if (type == JoinType::RIGHT || type == JoinType::OUTER) {
		right_guard = TakeGuard(conjuncts, tables, JoinSide::RIGHT);
	}
	SpatialCondition spatial;
	if (!SpatialCondition::Take(context, tables, conjuncts, spatial)) {
		return nullptr;
	}
	if (left_guard && IsPinned(context, *join.children[0], *spatial.left)) {
		spatial.residual = AndOf(std::move(spatial.residual), std::move(left_guard)); // it is read where it is
	}
	GuardSide(std::move(left_guard), spatial.left, spatial.left_limit, spatial);
	GuardSide(std::move(right_guard), spatial.right, spatial.right_limit, spatial);
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
