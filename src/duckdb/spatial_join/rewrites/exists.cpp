// EXISTS and IN as DuckDB 1.5 plans them, and filters on their marks
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

//! EXISTS (SELECT .. WHERE predicate(outer, inner)) is planned as a join of the outer table with a subquery. The subquery joins the inner
//! table with a LogicalDelimGet: the distinct values of the outer columns that it reads. If the outer join only matches these values
//! with the rows that they come from, both are the same as one SEMI, ANTI or MARK join of outer and inner table.
bool RewriteDelimJoin(ClientContext &context, unique_ptr<LogicalOperator> &op) {
	auto &delim = op->Cast<LogicalComparisonJoin>();
	if ((delim.join_type != JoinType::SEMI && delim.join_type != JoinType::ANTI && delim.join_type != JoinType::MARK) ||
	    delim.delim_flipped || HasPredicate(delim)) {
		return false;
	}
	vector<reference<LogicalProjection>> projections;
	auto found = FindInnerJoin(delim.children[1], projections);
	if (!found) {
		return false;
	}
	auto &inner = *found;
	idx_t get_side = 0;
	while (get_side < 2 && inner.children[get_side]->type != LogicalOperatorType::LOGICAL_DELIM_GET) {
		get_side++;
	}
	if (get_side == 2 || HasOperator(*inner.children[1 - get_side], LogicalOperatorType::LOGICAL_DELIM_GET)) {
		return false;
	}
	auto get_index = inner.children[get_side]->Cast<LogicalDelimGet>().table_index;
	auto outer_column = [&](const ColumnBinding &binding) -> unique_ptr<Expression> {
		if (binding.table_index == get_index) {
			return delim.duplicate_eliminated_columns[binding.column_index]->Copy();
		}
		return nullptr;
	};
	// Every condition must match a value with the outer column that it comes from, and nothing else
	for (auto &condition : delim.conditions) {
		if (!IsComparison(condition, ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
			return false;
		}
		auto expr = RightOf(condition).Copy();
		ReplaceThrough(expr, projections);
		if (!ReplaceColumns(expr, outer_column) || !expr->Equals(LeftOf(condition))) {
			return false;
		}
	}

	if (get_side == 1) {
		inner.spatial.Flip();
	}
	auto &spatial = inner.spatial;
	for (auto expr : {&spatial.left, &spatial.left_limit, &spatial.residual}) {
		if (*expr) {
			// Columns of the inner table stay
			ReplaceColumns(*expr, outer_column);
		}
	}
	auto left_columns = MapColumns(delim.left_projection_map, delim.children[0]->GetColumnBindings().size());
	auto result = make_uniq<LogicalSpatialJoin>(delim.join_type, std::move(spatial), std::move(delim.children[0]),
	                                            std::move(inner.children[1 - get_side]));
	result->mark_index = delim.mark_index;
	result->left_columns = std::move(left_columns);
	CopyCardinality(delim, *result);
	ChooseBuildSide(context, *result);
	op = std::move(result);
	return true;
}

void TakeMarkFilter(ClientContext &context, LogicalFilter &filter) {
	if (!IsSpatialJoin(*filter.children[0]) || filter.projection_map.empty()) {
		return;
	}
	auto &join = AsSpatialJoin(*filter.children[0]);
	bool emits_mark = std::find(filter.projection_map.begin(), filter.projection_map.end(),
	                            ProjectionIndex(join.left_columns.size())) != filter.projection_map.end();
	if (join.join_type != JoinType::MARK || emits_mark) {
		return;
	}
	auto is_mark = [&](const Expression &expr) {
		return expr.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
		       BindingOf(expr.Cast<BoundColumnRefExpression>()).table_index == join.mark_index;
	};
	auto found = JoinType::MARK;
	idx_t position = 0;
	for (idx_t i = 0; i < filter.expressions.size(); i++) {
		auto &expr = *filter.expressions[i];
		bool is_not = expr.GetExpressionType() == ExpressionType::OPERATOR_NOT;
		if (is_mark(is_not ? *ChildrenOf(expr.Cast<BoundOperatorExpression>())[0] : expr)) {
			found = is_not ? JoinType::ANTI : JoinType::SEMI;
			position = i;
			continue;
		}
		bool reads_mark = false;
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    expr, [&](const BoundColumnRefExpression &column) { reads_mark |= is_mark(column); });
		if (reads_mark) {
			return;
		}
	}
	if (found != JoinType::MARK) {
		filter.expressions.erase_at(position);
		join.join_type = found;
		ChooseBuildSide(context, join);
	}
}

} // namespace join_rewrites

} // namespace duckdb
