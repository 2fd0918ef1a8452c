#include "duckdb/planning/view_filters.hpp"

#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

namespace {

bool CallsOurs(const Expression &expr) {
	bool result = false;
	ExpressionIterator::VisitExpression<BoundFunctionExpression>(
	    expr, [&](const BoundFunctionExpression &call) { result = result || SqlFunction::IsOurs(FunctionOf(call)); });
	return result;
}

bool HasSubquery(const LogicalFilter &filter) {
	for (auto &expr : filter.expressions) {
		if (expr->HasSubquery()) {
			return true;
		}
	}
	return false;
}

bool SelectsColumns(const LogicalProjection &projection) {
	for (auto &expr : projection.expressions) {
		if (expr->GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
			return false;
		}
	}
	return true;
}

//! A filter over a view, and nothing but views down to a scan
bool IsOverView(const LogicalOperator &op) {
	auto &filter = op.Cast<LogicalFilter>();
	auto below = op.children[0].get();
	if (below->type != LogicalOperatorType::LOGICAL_PROJECTION || filter.HasProjectionMap() || HasSubquery(filter)) {
		return false;
	}
	while (below->type == LogicalOperatorType::LOGICAL_PROJECTION && SelectsColumns(below->Cast<LogicalProjection>())) {
		below = below->children[0].get();
	}
	return below->type == LogicalOperatorType::LOGICAL_GET;
}

} // namespace

void MoveFiltersBelowViews(unique_ptr<LogicalOperator> &plan) {
	if (plan->type == LogicalOperatorType::LOGICAL_FILTER && IsOverView(*plan)) {
		bool ours = false;
		for (auto &expr : plan->expressions) {
			ours = ours || CallsOurs(*expr);
		}
		if (ours) {
			auto view = std::move(plan->children[0]);
			auto &columns = view->expressions;
			for (auto &expr : plan->expressions) {
				ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
				    expr, [&](BoundColumnRefExpression &column, unique_ptr<Expression> &slot) {
					    auto alias = column.GetAlias();
					    slot = columns[BindingOf(column).column_index]->Copy();
					    slot->SetAlias(alias);
				    });
			}
			plan->children[0] = std::move(view->children[0]);
			view->children[0] = std::move(plan);
			plan = std::move(view);
		}
	}
	for (auto &child : plan->children) {
		MoveFiltersBelowViews(child);
	}
}

} // namespace duckdb
