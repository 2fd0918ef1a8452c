#include "duckdb/expressions/rewrites.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/function_binder.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/expressions/wkb_input.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"

namespace duckdb {

namespace {

//! "buffer" for a call of our ST_Buffer or vibe_buffer; empty for what is no call of ours
string CallName(const Expression &expr) {
	if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
		return string();
	}
	auto &call = expr.Cast<BoundFunctionExpression>();
	return SqlFunction::IsOurs(FunctionOf(call)) ? SpatialFunctionName(FunctionName(call)) : string();
}

bool IsCall(const Expression &expr, const string &name, idx_t arguments) {
	return CallName(expr) == name && ChildrenOf(expr.Cast<BoundFunctionExpression>()).size() == arguments;
}

vector<unique_ptr<Expression>> &Arguments(Expression &call) {
	return ChildrenOf(call.Cast<BoundFunctionExpression>());
}

unordered_set<TableIndex> TablesOf(const Expression &expr) {
	unordered_set<TableIndex> tables;
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
	    expr, [&](const BoundColumnRefExpression &column) { tables.insert(BindingOf(column).table_index); });
	return tables;
}

//! Of different tables, and so maybe of the two sides of a join
bool AreApart(const Expression &left, const Expression &right) {
	auto left_tables = TablesOf(left);
	auto right_tables = TablesOf(right);
	for (auto table : left_tables) {
		if (right_tables.count(table)) {
			return false;
		}
	}
	return !left_tables.empty() && !right_tables.empty();
}

bool IsColumn(const Expression &expr) {
	return expr.GetExpressionType() == ExpressionType::BOUND_COLUMN_REF;
}

class ExpressionRewriter {
public:
	explicit ExpressionRewriter(ClientContext &context) : context(context) {
	}

	void Operator(LogicalOperator &op) {
		for (auto &child : op.children) {
			Operator(*child);
		}
		if (op.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN) {
			VisitConditions(op.Cast<LogicalComparisonJoin>(),
			                [&](unique_ptr<Expression> &expr, bool is_condition) { Visit(expr, is_condition); });
		}
		const bool is_condition =
		    op.type == LogicalOperatorType::LOGICAL_FILTER || op.type == LogicalOperatorType::LOGICAL_ANY_JOIN;
		LogicalOperatorVisitor::EnumerateExpressions(op,
		                                             [&](unique_ptr<Expression> *expr) { Visit(*expr, is_condition); });
	}

private:
	//! From the inside out. `is_condition`: all that counts is whether the expression is true.
	void Visit(unique_ptr<Expression> &expr, bool is_condition) {
		const bool passes = is_condition && expr->GetExpressionClass() == ExpressionClass::BOUND_CONJUNCTION;
		ExpressionIterator::EnumerateChildren(*expr, [&](unique_ptr<Expression> &child) { Visit(child, passes); });
		if (expr->GetExpressionClass() == ExpressionClass::BOUND_FUNCTION) {
			ReadWkbInPlace(expr->Cast<BoundFunctionExpression>());
		}
		auto result = Rewritten(*expr, is_condition);
		if (result && ReturnTypeOf(*result) == ReturnTypeOf(*expr)) {
			result->SetAlias(expr->GetAlias());
			expr = std::move(result);
		}
	}

	//! Nothing when the expression stays; its parts may go into the result
	unique_ptr<Expression> Rewritten(Expression &expr, bool is_condition) {
		switch (expr.GetExpressionType()) {
		case ExpressionType::BOUND_FUNCTION:
			return Call(expr, is_condition);
		case ExpressionType::OPERATOR_NOT:
			return Negation(expr);
		case ExpressionType::COMPARE_GREATERTHAN:
		case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		case ExpressionType::COMPARE_LESSTHAN:
		case ExpressionType::COMPARE_LESSTHANOREQUALTO:
			return is_condition ? Comparison(expr) : nullptr;
		default:
			return nullptr;
		}
	}

	unique_ptr<Expression> Call(Expression &expr, bool is_condition) {
		auto name = CallName(expr);
		if (name.empty()) {
			return nullptr;
		}
		auto &arguments = Arguments(expr);
		if (name == "area" && arguments.size() == 1) {
			return Area(*arguments[0]);
		}
		if (name == "length" && arguments.size() == 1) {
			return Length(*arguments[0]);
		}
		if (name == "isempty" && arguments.size() == 1) {
			return IsEmpty(*arguments[0]);
		}
		if (name == "unaryunion" && arguments.size() == 1) {
			return UnaryUnion(*arguments[0]);
		}
		if (name == "buffer") {
			return Buffer(arguments);
		}
		if (name == "intersects" && arguments.size() == 2) {
			return BufferIntersects(arguments, is_condition);
		}
		return nullptr;
	}

	//===------------------------------------------------------------------===//
	// Measures that need no geometry
	//===------------------------------------------------------------------===//
	//! ST_Area(ST_Intersection(a, b)) -> vibe_intersection_area(a, b), and its kin
	unique_ptr<Expression> Area(Expression &overlay) {
		for (auto name : {"intersection", "union", "difference", "symdifference"}) {
			if (IsCall(overlay, name, 2)) {
				auto &arguments = Arguments(overlay);
				return Bind(string("vibe_") + name + "_area", std::move(arguments[0]), std::move(arguments[1]));
			}
		}
		return nullptr;
	}

	//! ST_Length(ST_MakeLine(a, b)) -> vibe_segment_length(a, b)
	unique_ptr<Expression> Length(Expression &line) {
		if (!IsCall(line, "makeline", 2)) {
			return nullptr;
		}
		auto &arguments = Arguments(line);
		return Bind("vibe_segment_length", std::move(arguments[0]), std::move(arguments[1]));
	}

	//! ST_IsEmpty(ST_Intersection(a, b)) -> NOT ST_Intersects(a, b)
	unique_ptr<Expression> IsEmpty(Expression &overlay) {
		if (!IsCall(overlay, "intersection", 2)) {
			return nullptr;
		}
		auto &arguments = Arguments(overlay);
		auto result = make_uniq<BoundOperatorExpression>(ExpressionType::OPERATOR_NOT, LogicalType::BOOLEAN);
		ChildrenOf(*result).push_back(Bind("vibe_intersects", std::move(arguments[0]), std::move(arguments[1])));
		return std::move(result);
	}

	//! NOT NOT x -> x
	static unique_ptr<Expression> Negation(Expression &expr) {
		auto &child = *ChildrenOf(expr.Cast<BoundOperatorExpression>())[0];
		if (child.GetExpressionType() != ExpressionType::OPERATOR_NOT) {
			return nullptr;
		}
		return std::move(ChildrenOf(child.Cast<BoundOperatorExpression>())[0]);
	}

	//! vibe_intersection_area(a, b) > c -> ST_Intersects(a, b) AND .., for a join to be found by
	unique_ptr<Expression> Comparison(Expression &expr) {
		const bool is_greater = expr.GetExpressionType() == ExpressionType::COMPARE_GREATERTHAN ||
		                        expr.GetExpressionType() == ExpressionType::COMPARE_GREATERTHANOREQUALTO;
		const bool is_strict = expr.GetExpressionType() == ExpressionType::COMPARE_GREATERTHAN ||
		                       expr.GetExpressionType() == ExpressionType::COMPARE_LESSTHAN;
		auto &area = is_greater ? *LeftOf(expr) : *RightOf(expr);
		auto &least = is_greater ? *RightOf(expr) : *LeftOf(expr);
		if (!IsCall(area, "intersection_area", 2) || expr.IsVolatile() || TablesOf(area).size() < 2 ||
		    !(is_strict ? IsNotNegative(least) : IsPositive(least))) {
			return nullptr;
		}
		auto &arguments = Arguments(area);
		return make_uniq<BoundConjunctionExpression>(
		    ExpressionType::CONJUNCTION_AND, Bind("vibe_intersects", arguments[0]->Copy(), arguments[1]->Copy()),
		    expr.Copy());
	}

	bool IsPositive(Expression &expr) {
		double value;
		return Constant(expr, value) && value > 0;
	}
	//! Surely; also when it is NaN, which is above all numbers
	bool IsNotNegative(Expression &expr) {
		double value;
		if (Constant(expr, value)) {
			return value >= 0;
		}
		if (IsCall(expr, "area", 1)) {
			return true;
		}
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
			return false;
		}
		auto &function = expr.Cast<BoundFunctionExpression>();
		return (FunctionName(function) == "*" || FunctionName(function) == "+") && ChildrenOf(function).size() == 2 &&
		       ReturnTypeOf(function).id() == LogicalTypeId::DOUBLE && IsNotNegative(*ChildrenOf(function)[0]) &&
		       IsNotNegative(*ChildrenOf(function)[1]);
	}

	//===------------------------------------------------------------------===//
	// What is done already
	//===------------------------------------------------------------------===//
	//! ST_UnaryUnion of what is a union -> that
	static unique_ptr<Expression> UnaryUnion(const Expression &argument) {
		const bool is_done =
		    IsCall(argument, "union", 2) || IsCall(argument, "unaryunion", 1) || CallName(argument) == "buffer";
		return is_done ? argument.Copy() : nullptr;
	}

	//! ST_Buffer(ST_Buffer(a, r), 0) -> ST_Buffer(a, r), ST_Buffer(ST_Buffer(a, r, n), s, m) -> ST_Buffer(a, r + s, n + m)
	unique_ptr<Expression> Buffer(vector<unique_ptr<Expression>> &arguments) {
		double outer, inner, outer_segments, inner_segments;
		if (CallName(*arguments[0]) != "buffer" || !Constant(*arguments[1], outer)) {
			return nullptr;
		}
		if (outer == 0 && arguments.size() == 2) {
			return arguments[0]->Copy();
		}
		auto &within = Arguments(*arguments[0]);
		if (!Constant(*within[1], inner) || !(inner > 0) || !(outer > 0) || !Segments(arguments, outer_segments) ||
		    !Segments(within, inner_segments)) {
			return nullptr;
		}
		auto distance = make_uniq_base<Expression, BoundConstantExpression>(Value::DOUBLE(inner + outer));
		auto segments = make_uniq_base<Expression, BoundConstantExpression>(
		    Value::INTEGER(int32_t(inner_segments + outer_segments)));
		return Bind("vibe_buffer", within[0]->Copy(), std::move(distance), std::move(segments));
	}
	//! Of a quarter circle, where ST_Buffer has no other style
	bool Segments(vector<unique_ptr<Expression>> &arguments, double &result) {
		constexpr double MOST = 1000;
		result = 8;
		return arguments.size() == 2 ||
		       (arguments.size() == 3 && Constant(*arguments[2], result) && result >= 1 && result <= MOST);
	}

	//===------------------------------------------------------------------===//
	// Buffers that are met
	//===------------------------------------------------------------------===//
	//! A buffer that hangs on a row; what hangs on none is made once and is better left as it is
	static bool IsRowBuffer(const Expression &expr) {
		return IsCall(expr, "buffer", 2) && !expr.IsFoldable();
	}

	//! ST_Intersects(ST_Buffer(a, r), b) -> vibe_buffer_intersects(a, b, r), after ST_DWithin between tables
	unique_ptr<Expression> BufferIntersects(vector<unique_ptr<Expression>> &arguments, bool is_condition) {
		const idx_t side = IsRowBuffer(*arguments[0]) ? 0 : 1;
		if (!IsRowBuffer(*arguments[side])) {
			return nullptr;
		}
		auto &buffer = Arguments(*arguments[side]);
		auto &geometry = buffer[0];
		auto &distance = buffer[1];
		auto &other = arguments[1 - side];
		unique_ptr<Expression> within;
		if (is_condition && IsColumn(*geometry) && IsColumn(*other) && AreApart(*geometry, *other) &&
		    !distance->IsVolatile()) {
			auto limit =
			    Bind("+", Bind("vibe_buffer_reach", distance->Copy()), Bind("vibe_buffer_reach", geometry->Copy()));
			within = Bind("vibe_dwithin", geometry->Copy(), other->Copy(), std::move(limit));
		} else if (is_condition && AreApart(*arguments[side], *other)) {
			// A join has the buffer of an expression once for each row, but would have the expression again for each pair
			return nullptr;
		}
		auto result = Bind("vibe_buffer_intersects", std::move(geometry), std::move(other), std::move(distance));
		if (within) {
			return make_uniq<BoundConjunctionExpression>(ExpressionType::CONJUNCTION_AND, std::move(within),
			                                             std::move(result));
		}
		return result;
	}

	//===------------------------------------------------------------------===//
	// Small things about expressions
	//===------------------------------------------------------------------===//
	//! A number that is known now; not NULL
	bool Constant(Expression &expr, double &result) {
		Value value;
		if (!expr.IsFoldable() || !ReturnTypeOf(expr).IsNumeric() ||
		    !ExpressionExecutor::TryEvaluateScalar(context, expr, value) || value.IsNull()) {
			return false;
		}
		result = value.GetValue<double>();
		return true;
	}

	template <class... ARGS>
	unique_ptr<Expression> Bind(const string &name, ARGS... args) {
		vector<unique_ptr<Expression>> arguments;
		(arguments.push_back(std::move(args)), ...);
		ErrorData error;
		const bool is_operator = name == "+";
		auto result = FunctionBinder(context).BindScalarFunction(Identifier(DEFAULT_SCHEMA), Identifier(name),
		                                                         std::move(arguments), error, is_operator);
		if (error.HasError()) {
			error.Throw();
		}
		return result;
	}

	ClientContext &context;
};

} // namespace

void RewriteExpressions(ClientContext &context, LogicalOperator &plan) {
	ExpressionRewriter(context).Operator(plan);
}

} // namespace duckdb
