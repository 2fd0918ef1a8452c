// The columns that come out of a spatial join
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace join_rewrites {

//! Takes the projection map of an operator above into the join
static void ApplyProjectionMap(LogicalSpatialJoin &join, const vector<ProjectionIndex> &map) {
	if (map.empty()) {
		return;
	}
	idx_t left_count = join.left_columns.size();
	idx_t mark = join.join_type == JoinType::MARK;
	vector<idx_t> left_columns, right_columns;
	bool has_mark = !mark;
	for (idx_t i = 0; i < map.size(); i++) {
		if (map[i] < left_count) {
			left_columns.push_back(join.left_columns[map[i]]);
		} else if (mark && map[i] == left_count) {
			has_mark = true;
		} else {
			right_columns.push_back(join.right_columns[map[i] - left_count - mark]);
		}
	}
	if (!has_mark || !std::is_sorted(map.begin(), map.end())) {
		throw InternalException("vibespatial: a projection map without the mark, or not in ascending order");
	}
	join.left_columns = std::move(left_columns);
	join.right_columns = std::move(right_columns);
}

bool DropEmptyFilter(unique_ptr<LogicalOperator> &op) {
	auto &filter = op->Cast<LogicalFilter>();
	if (!filter.expressions.empty() || !IsSpatialJoin(*filter.children[0]) ||
	    AsSpatialJoin(*filter.children[0]).aggregate) {
		return false;
	}
	auto join = std::move(filter.children[0]);
	ApplyProjectionMap(AsSpatialJoin(*join), filter.projection_map);
	op = std::move(join);
	return true;
}

void PruneColumns(LogicalOperator &op) {
	if (!IsSpatialJoin(*op.children[0]) || AsSpatialJoin(*op.children[0]).aggregate) {
		return;
	}
	auto &join = AsSpatialJoin(*op.children[0]);
	column_binding_set_t used;
	LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    **expr, [&](const BoundColumnRefExpression &column) { used.insert(BindingOf(column)); });
	});
	auto prune = [&](LogicalOperator &child, vector<idx_t> &columns) {
		auto bindings = child.GetColumnBindings();
		vector<idx_t> kept;
		for (auto column : columns) {
			if (used.count(bindings[column])) {
				kept.push_back(column);
			}
		}
		return kept;
	};
	auto left_columns = prune(*join.children[0], join.left_columns);
	auto right_columns = prune(*join.children[1], join.right_columns);
	if (left_columns.empty() && right_columns.empty() && join.join_type != JoinType::MARK) {
		// DuckDB has no chunks without columns: one stays to count the rows
		join.left_is_unread = !join.left_columns.empty();
		(join.left_is_unread ? left_columns : right_columns)
		    .push_back(join.left_is_unread ? join.left_columns[0] : join.right_columns[0]);
	}
	join.left_columns = std::move(left_columns);
	join.right_columns = std::move(right_columns);
}

} // namespace join_rewrites

} // namespace duckdb
