// Correlated subqueries. DuckDB joins the outer rows with what the subquery gives for their distinct values. DuckDB 1.5 reads these values
// with a LogicalDelimGet below a delim join; DuckDB 2.0 makes common table expressions of the outer rows and of the values.
#include "duckdb/knn/neighbours.hpp"
#include "duckdb/knn/rewrites/rewrites.hpp"
#include "duckdb/optimizer/column_binding_replacer.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/spatial_join/rewrites/rewrites.hpp"

namespace duckdb {

namespace knn_rewrites {

namespace {

using join_rewrites::ReplaceColumns;
using join_rewrites::ReplaceThrough;

optional_ptr<LogicalMaterializedCTE> FindCte(LogicalOperator &op, TableIndex cte_index) {
	if (op.type == LogicalOperatorType::LOGICAL_MATERIALIZED_CTE &&
	    op.Cast<LogicalMaterializedCTE>().table_index == cte_index) {
		return op.Cast<LogicalMaterializedCTE>();
	}
	for (auto &child : op.children) {
		if (auto found = FindCte(*child, cte_index)) {
			return found;
		}
	}
	return nullptr;
}

//! DuckDB made it for a correlated subquery
bool IsSharedRows(const LogicalMaterializedCTE &cte) {
	return StringUtil::StartsWith(NameOf(cte.ctename), "__duckdb_delim_");
}

idx_t CountReferences(LogicalOperator &op, TableIndex cte_index) {
	idx_t count = op.type == LogicalOperatorType::LOGICAL_CTE_REF && op.Cast<LogicalCTERef>().cte_index == cte_index;
	for (auto &child : op.children) {
		count += CountReferences(*child, cte_index);
	}
	return count;
}

//! The aggregate that makes the rows of a common table expression distinct
optional_ptr<LogicalAggregate> FindDistinct(Plan &plan, LogicalOperator &op) {
	if (op.type != LogicalOperatorType::LOGICAL_CTE_REF) {
		return nullptr;
	}
	auto cte = FindCte(*plan.root, op.Cast<LogicalCTERef>().cte_index);
	if (!cte || cte->children[0]->type != LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
		return nullptr;
	}
	auto &aggregate = cte->children[0]->Cast<LogicalAggregate>();
	if (!aggregate.expressions.empty() || aggregate.grouping_sets.size() > 1 || aggregate.groups.empty()) {
		return nullptr;
	}
	return aggregate;
}

//! For each column of the distinct values `values` the column of the outer rows that they come from; empty if they do not come from these
vector<unique_ptr<Expression>> OuterColumns(Plan &plan, LogicalComparisonJoin &join, LogicalOperator &values) {
	vector<unique_ptr<Expression>> result;
	if (values.type == LogicalOperatorType::LOGICAL_DELIM_GET) {
		if (join.type == LogicalOperatorType::LOGICAL_DELIM_JOIN && !join.delim_flipped) {
			for (auto &column : join.duplicate_eliminated_columns) {
				result.push_back(column->Copy());
			}
		}
		return result;
	}
	auto aggregate = FindDistinct(plan, values);
	if (!aggregate || join.children[0]->type != LogicalOperatorType::LOGICAL_CTE_REF ||
	    aggregate->children[0]->type != LogicalOperatorType::LOGICAL_CTE_REF) {
		return result;
	}
	auto &outer = join.children[0]->Cast<LogicalCTERef>();
	auto &rows = aggregate->children[0]->Cast<LogicalCTERef>();
	if (outer.cte_index != rows.cte_index) {
		return result;
	}
	for (auto &group : aggregate->groups) {
		if (group->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF ||
		    BindingOf(group->Cast<BoundColumnRefExpression>()).table_index != rows.table_index) {
			return {};
		}
		auto column = BindingOf(group->Cast<BoundColumnRefExpression>()).column_index;
		result.push_back(
		    make_uniq<BoundColumnRefExpression>(ReturnTypeOf(*group), ColumnBinding(outer.table_index, column)));
	}
	return result;
}

bool SameColumn(const Expression &left, const Expression &right) {
	return left.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
	       right.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF &&
	       BindingOf(left.Cast<BoundColumnRefExpression>()) == BindingOf(right.Cast<BoundColumnRefExpression>());
}

} // namespace

unique_ptr<Expression> NullWithoutNeighbour(const LogicalNeighbours &neighbours, unique_ptr<Expression> expr) {
	auto has_none = make_uniq<BoundOperatorExpression>(ExpressionType::OPERATOR_IS_NULL, LogicalType::BOOLEAN);
	ChildrenOf(*has_none).push_back(neighbours.OwnColumn(LogicalNeighbours::RANK));
	auto null = make_uniq<BoundConstantExpression>(Value(ReturnTypeOf(*expr)));
	return make_uniq<BoundCaseExpression>(std::move(has_none), std::move(null), std::move(expr));
}

bool ReadsOuterRows(Plan &plan, LogicalCTERef &ref, LogicalOperator &top) {
	auto cte = FindCte(*plan.root, ref.cte_index);
	return cte && IsSharedRows(*cte) && !FindCte(top, ref.cte_index);
}

bool GivesDistinctRows(Plan &plan, LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_DELIM_GET || FindDistinct(plan, op);
}

bool RewriteLateral(Plan &plan, unique_ptr<LogicalOperator> &op) {
	auto &join = op->Cast<LogicalComparisonJoin>();
	const bool outer = join.join_type == JoinType::LEFT || join.join_type == JoinType::SINGLE;
	if ((!outer && join.join_type != JoinType::INNER) || HasPredicate(join)) {
		return false;
	}
	reference<unique_ptr<LogicalOperator>> slot = join.children[1];
	vector<reference<LogicalProjection>> projections;
	join_rewrites::SkipProjections(slot, projections);
	if (projections.empty() || !LogicalNeighbours::Is(*slot.get())) {
		return false;
	}
	auto &inner = static_cast<LogicalNeighbours &>(*slot.get());
	if (inner.request.outer || (join.join_type == JoinType::SINGLE && inner.request.k != 1)) {
		return false;
	}
	// Conditions on the outer row alone are filters of its values
	vector<unique_ptr<Expression>> conditions;
	reference<LogicalOperator> values = *inner.children[0];
	for (; values.get().type == LogicalOperatorType::LOGICAL_FILTER; values = *values.get().children[0]) {
		for (auto &expr : values.get().expressions) {
			conditions.push_back(expr->Copy());
		}
	}
	if ((outer && !conditions.empty()) ||
	    join_rewrites::HasOperator(*inner.children[1], LogicalOperatorType::LOGICAL_DELIM_GET)) {
		return false;
	}
	const auto outer_columns = OuterColumns(plan, join, values);
	const auto bindings = values.get().GetColumnBindings();
	if (outer_columns.empty() || outer_columns.size() != bindings.size()) {
		return false;
	}
	if (values.get().type == LogicalOperatorType::LOGICAL_CTE_REF &&
	    CountReferences(*inner.children[1], values.get().Cast<LogicalCTERef>().cte_index) > 0) {
		return false;
	}
	auto outer_column = [&](const ColumnBinding &binding) -> unique_ptr<Expression> {
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (bindings[i] == binding) {
				return outer_columns[i]->Copy();
			}
		}
		return nullptr;
	};
	// Every value must be matched with the column that it comes from, and nothing else
	unordered_set<idx_t> matched;
	for (auto &condition : join.conditions) {
		if (!IsComparison(condition, ExpressionType::COMPARE_NOT_DISTINCT_FROM)) {
			return false;
		}
		auto expr = RightOf(condition).Copy();
		ReplaceThrough(expr, projections);
		idx_t column = 0;
		while (column < bindings.size() &&
		       !SameColumn(*expr, BoundColumnRefExpression(ReturnTypeOf(*expr), bindings[column]))) {
			column++;
		}
		if (column == bindings.size() || !SameColumn(*outer_columns[column], LeftOf(condition))) {
			return false;
		}
		matched.insert(column);
	}
	for (auto &column : outer_columns) {
		if (column->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
			return false;
		}
	}
	for (auto &projection : projections) {
		for (auto &expr : projection.get().expressions) {
			if (expr->IsVolatile()) {
				return false;
			}
		}
	}
	if (matched.size() != bindings.size()) {
		return false;
	}

	// From here on the plan changes
	op->ResolveOperatorTypes();
	const auto left_bindings = join.children[0]->GetColumnBindings();
	const auto left_types = join.children[0]->types;
	const auto right_bindings = join.children[1]->GetColumnBindings();
	const auto right_types = join.children[1]->types;
	auto left_geometry = std::move(inner.expressions[0]);
	ReplaceColumns(left_geometry, outer_column);
	for (auto &expr : conditions) {
		ReplaceColumns(expr, outer_column);
	}
	auto left = std::move(join.children[0]);
	if (!conditions.empty()) {
		auto filter = make_uniq<LogicalFilter>();
		filter->expressions = std::move(conditions);
		filter->children.push_back(std::move(left));
		left = std::move(filter);
	}
	auto request = inner.request;
	request.outer = outer;
	auto neighbours =
	    make_uniq<LogicalNeighbours>(inner.table_index, std::move(request), std::move(left_geometry),
	                                 std::move(inner.expressions[1]), std::move(left), std::move(inner.children[1]));
	vector<unique_ptr<Expression>> expressions;
	ColumnBindingReplacer replacer;
	const auto table_index = plan.binder.GenerateTableIndex();
	auto add = [&](const ColumnBinding &replaced, unique_ptr<Expression> expr) {
		replacer.replacement_bindings.emplace_back(replaced,
		                                           ColumnBinding(table_index, ProjectionIndex(expressions.size())));
		expressions.push_back(std::move(expr));
	};
	for (idx_t i = 0; i < left_bindings.size(); i++) {
		add(left_bindings[i], make_uniq<BoundColumnRefExpression>(left_types[i], left_bindings[i]));
	}
	for (idx_t i = 0; i < right_bindings.size(); i++) {
		unique_ptr<Expression> expr = make_uniq<BoundColumnRefExpression>(right_types[i], right_bindings[i]);
		ReplaceThrough(expr, projections);
		ReplaceColumns(expr, outer_column);
		add(right_bindings[i], outer ? NullWithoutNeighbour(*neighbours, std::move(expr)) : std::move(expr));
	}
	auto projection = make_uniq<LogicalProjection>(table_index, std::move(expressions));
	projection->children.push_back(std::move(neighbours));
	replacer.stop_operator = *projection;
	op = std::move(projection);
	replacer.VisitOperator(*plan.root);
	return true;
}

void RemoveSharedRows(unique_ptr<LogicalOperator> &op) {
	for (auto &child : op->children) {
		RemoveSharedRows(child);
	}
	if (op->type != LogicalOperatorType::LOGICAL_MATERIALIZED_CTE) {
		return;
	}
	auto &cte = op->Cast<LogicalMaterializedCTE>();
	if (!IsSharedRows(cte)) {
		return;
	}
	if (CountReferences(*cte.children[1], cte.table_index) == 0) {
		auto query = std::move(cte.children[1]);
		op = std::move(query);
	} else {
		join_rewrites::InlineSharedRows(op);
	}
}

} // namespace knn_rewrites

} // namespace duckdb
