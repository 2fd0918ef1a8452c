#include "duckdb/knn/rewrites/distance.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/support/function_builder.hpp"

#include <cmath>

namespace duckdb {

namespace knn_rewrites {

optional_ptr<BoundFunctionExpression> OurFunction(Expression &expr, const char *name, idx_t arguments) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
		return nullptr;
	}
	auto &function = expr.Cast<BoundFunctionExpression>();
	if (ChildrenOf(function).size() != arguments || !SqlFunction::IsOurs(FunctionOf(function)) ||
	    SpatialFunctionName(FunctionName(function)) != name) {
		return nullptr;
	}
	return function;
}

bool ConstantOf(ClientContext &context, const Expression &expr, Value &value) {
	if (!expr.IsFoldable() || expr.HasParameter()) {
		return false;
	}
	value = ExpressionExecutor::EvaluateScalar(context, expr);
	return !value.IsNull();
}

bool DistanceBetween::IsOf(const Expression &geometry, const Expression &other) const {
	return (geometry.Equals(*first) && other.Equals(*second)) || (geometry.Equals(*second) && other.Equals(*first));
}

bool DistanceBetween::Is(Expression &expr) const {
	auto function = OurFunction(expr, "distance", 2);
	return function && IsOf(*ChildrenOf(*function)[0], *ChildrenOf(*function)[1]);
}

bool TakeLimit(ClientContext &context, Expression &conjunct, const DistanceBetween &distance, KnnRequest &request) {
	auto limit_to = [&](const Expression &limit, bool inclusive) {
		Value value;
		if (!ConstantOf(context, limit, value) || value.type().id() != LogicalTypeId::DOUBLE) {
			return false;
		}
		auto most = DoubleValue::Get(value);
		if (!(most >= 0) || (!inclusive && most == 0)) {
			return false;
		}
		request.max_distance = MinValue(request.max_distance, inclusive ? most : std::nextafter(most, 0.0));
		request.null_is_last = false;
		return true;
	};
	if (conjunct.GetExpressionType() == ExpressionType::OPERATOR_IS_NOT_NULL) {
		request.null_is_last = false;
		return distance.Is(*ChildrenOf(conjunct.Cast<BoundOperatorExpression>())[0]);
	}
	if (auto within = OurFunction(conjunct, "dwithin", 3)) {
		auto &arguments = ChildrenOf(*within);
		if (!distance.IsOf(*arguments[0], *arguments[1])) {
			return false;
		}
		request.empty_is_near = false;
		return limit_to(*arguments[2], true);
	}
	if (!IsComparison(conjunct)) {
		return false;
	}
	auto type = conjunct.GetExpressionType();
	auto left = LeftOf(conjunct).get(), right = RightOf(conjunct).get();
	if (distance.Is(*right)) {
		std::swap(left, right);
		type = FlipComparisonExpression(type);
	}
	bool inclusive = type == ExpressionType::COMPARE_LESSTHANOREQUALTO;
	return distance.Is(*left) && (inclusive || type == ExpressionType::COMPARE_LESSTHAN) && limit_to(*right, inclusive);
}

void UseDistance(unique_ptr<Expression> &expr, const DistanceBetween &distance, const Expression &column) {
	if (distance.Is(*expr)) {
		auto found = column.Copy();
		found->SetAlias(expr->GetAlias());
		expr = std::move(found);
		return;
	}
	ExpressionIterator::EnumerateChildren(*expr,
	                                      [&](unique_ptr<Expression> &child) { UseDistance(child, distance, column); });
}

unique_ptr<LogicalOperator> WithFilter(unique_ptr<LogicalOperator> child, vector<unique_ptr<Expression>> conditions) {
	if (conditions.empty()) {
		return child;
	}
	auto filter = make_uniq<LogicalFilter>();
	filter->expressions = std::move(conditions);
	filter->children.push_back(std::move(child));
	return std::move(filter);
}

} // namespace knn_rewrites

} // namespace duckdb
