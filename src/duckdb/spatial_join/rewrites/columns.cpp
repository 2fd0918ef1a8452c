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

namespace {

//! Removes the columns of spatial joins that no operator above reads, from the root down
class Pruner {
public:
	//! What the operators above read of the columns of an operator
	struct Reads {
		column_binding_set_t columns;
		//! By the operator right above alone
		bool end_here;
	};
	//! `above`: null where all columns have to stay
	void Visit(LogicalOperator &op, optional_ptr<const Reads> above) {
		if (IsSpatialJoin(op)) {
			VisitJoin(AsSpatialJoin(op), above);
			return;
		}
		switch (op.type) {
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY: {
			Reads own {{}, true};
			Read(op, own);
			Visit(*op.children[0], own);
			return;
		}
		case LogicalOperatorType::LOGICAL_FILTER:
			VisitBelow(op, {op.Cast<LogicalFilter>().projection_map}, above);
			return;
		case LogicalOperatorType::LOGICAL_ORDER_BY:
			VisitBelow(op, {op.Cast<LogicalOrder>().projection_map}, above);
			return;
		case LogicalOperatorType::LOGICAL_COMPARISON_JOIN: {
			auto &join = op.Cast<LogicalComparisonJoin>();
			VisitBelow(op, {join.left_projection_map, join.right_projection_map}, above);
			return;
		}
		case LogicalOperatorType::LOGICAL_LIMIT:
		case LogicalOperatorType::LOGICAL_TOP_N:
			VisitBelow(op, {}, above);
			return;
		default:
			for (auto &child : op.children) {
				Visit(*child, nullptr);
			}
		}
	}

private:
	static void Read(const Expression &expr, Reads &reads) {
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    expr, [&](const BoundColumnRefExpression &column) { reads.columns.insert(BindingOf(column)); });
	}
	static void Read(LogicalOperator &op, Reads &reads) {
		LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) { Read(**expr, reads); });
	}
	static void Read(LogicalSpatialJoin &join, Reads &reads) {
		auto &spatial = join.spatial;
		for (auto expr :
		     {&spatial.left, &spatial.right, &spatial.left_limit, &spatial.right_limit, &spatial.residual}) {
			if (*expr) {
				Read(**expr, reads);
			}
		}
		if (!join.aggregate) {
			return;
		}
		for (auto exprs : {&join.aggregate->groups, &join.aggregate->aggregates}) {
			for (auto &expr : *exprs) {
				Read(*expr, reads);
			}
		}
	}

	//! The child emits fewer columns than before: where the same ones are now
	template <class INDEX>
	static void MoveColumns(vector<INDEX> &columns, const vector<ColumnBinding> &before, LogicalOperator &child) {
		const auto after = child.GetColumnBindings();
		for (auto &column : columns) {
			const auto found = std::find(after.begin(), after.end(), before[column]);
			if (found == after.end()) {
				throw InternalException("vibespatial: a column that is read was removed");
			}
			column = INDEX(NumericCast<idx_t>(found - after.begin()));
		}
	}

	//! Below an operator that passes the columns of its children on; `maps`: those that it passes on, for each child that has a map
	void VisitBelow(LogicalOperator &op, const vector<reference<vector<ProjectionIndex>>> &maps,
	                optional_ptr<const Reads> above) {
		if (!above) {
			for (auto &child : op.children) {
				Visit(*child, nullptr);
			}
			return;
		}
		Reads reads {above->columns, false};
		Read(op, reads);
		for (idx_t i = 0; i < op.children.size(); i++) {
			const auto before = op.children[i]->GetColumnBindings();
			if (i >= maps.size()) {
				Visit(*op.children[i], reads);
				continue;
			}
			for (auto column : maps[i].get()) {
				reads.columns.insert(before[column]);
			}
			Visit(*op.children[i], reads);
			MoveColumns(maps[i].get(), before, *op.children[i]);
		}
	}

	void VisitJoin(LogicalSpatialJoin &join, optional_ptr<const Reads> above) {
		if (above && !join.aggregate) {
			Prune(join, *above);
		}
		Reads reads {{}, false};
		Read(join, reads);
		for (idx_t i = 0; i < 2; i++) {
			auto &columns = i == 0 ? join.left_columns : join.right_columns;
			const auto before = join.children[i]->GetColumnBindings();
			for (auto column : columns) {
				reads.columns.insert(before[column]);
			}
			Visit(*join.children[i], reads);
			MoveColumns(columns, before, *join.children[i]);
		}
	}

	static void Prune(LogicalSpatialJoin &join, const Reads &above) {
		auto prune = [&](LogicalOperator &child, vector<idx_t> &columns) {
			auto bindings = child.GetColumnBindings();
			vector<idx_t> kept;
			for (auto column : columns) {
				if (above.columns.count(bindings[column])) {
					kept.push_back(column);
				}
			}
			return kept;
		};
		auto left_columns = prune(*join.children[0], join.left_columns);
		auto right_columns = prune(*join.children[1], join.right_columns);
		if (left_columns.empty() && right_columns.empty() && join.join_type != JoinType::MARK) {
			// DuckDB has no chunks without columns: one stays to count the rows
			const bool of_left = !join.left_columns.empty();
			join.left_is_unread = of_left && above.end_here;
			(of_left ? left_columns : right_columns).push_back(of_left ? join.left_columns[0] : join.right_columns[0]);
		}
		join.left_columns = std::move(left_columns);
		join.right_columns = std::move(right_columns);
	}
};

} // namespace

void PruneColumns(LogicalOperator &plan) {
	Pruner().Visit(plan, nullptr);
}

} // namespace join_rewrites

} // namespace duckdb
