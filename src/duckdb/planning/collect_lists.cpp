#include "duckdb/planning/collect_lists.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/aggregate_function_catalog_entry.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/function/function_binder.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

namespace {

//! The lists of geometries that an aggregate collects, and what stands above it and sees them
class Collector {
public:
	Collector(ClientContext &context, LogicalAggregate &aggregate) : context(context), aggregate(aggregate) {
	}

	//! Nothing but these operators sees the columns of the aggregate
	void Rewrite(const vector<reference<LogicalOperator>> &above) {
		for (idx_t i = 0; i < aggregate.expressions.size(); i++) {
			if (!IsList(*aggregate.expressions[i])) {
				continue;
			}
			uses = 0;
			collected = 0;
			for (auto op : above) {
				for (auto &expr : op.get().expressions) {
					Count(*expr, i);
				}
			}
			if (uses == 0 || uses != collected) {
				continue;
			}
			auto collect = Bound(*aggregate.expressions[i]);
			if (ReturnTypeOf(*collect) != type) {
				continue;
			}
			collect->SetAlias(aggregate.expressions[i]->GetAlias());
			aggregate.expressions[i] = std::move(collect);
			for (auto op : above) {
				for (auto &expr : op.get().expressions) {
					Replace(expr, i);
				}
			}
		}
	}

private:
	//! A list of geometries in no order of its own
	static bool IsList(const Expression &expr) {
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_AGGREGATE) {
			return false;
		}
		auto &list = expr.Cast<BoundAggregateExpression>();
		auto &name = FunctionName(list);
		return (name == "list" || name == "array_agg") && !list.IsDistinct() && !HasOrder(list) &&
		       ChildrenOf(list).size() == 1 && ReturnTypeOf(*ChildrenOf(list)[0]).id() == LogicalTypeId::GEOMETRY;
	}
	//! vibe_collect_list with the argument and the FILTER of a list
	unique_ptr<Expression> Bound(const Expression &list) const {
		// The parts of an aggregate without an order are its arguments, and then its filter
		vector<unique_ptr<Expression>> arguments;
		ExpressionIterator::EnumerateChildren(list, [&](const Expression &part) { arguments.push_back(part.Copy()); });
		unique_ptr<Expression> filter;
		if (HasFilter(list.Cast<BoundAggregateExpression>())) {
			filter = std::move(arguments.back());
			arguments.pop_back();
		}
		auto &entry = Catalog::GetSystemCatalog(context).GetEntry<AggregateFunctionCatalogEntry>(
		    context, Identifier(DEFAULT_SCHEMA), Identifier("vibe_collect_list"));
		return FunctionBinder(context).BindAggregateFunction(entry.functions.functions[0], std::move(arguments),
		                                                     std::move(filter));
	}
	bool IsColumn(const Expression &expr, idx_t index) const {
		if (expr.GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
			return false;
		}
		auto &binding = BindingOf(expr.Cast<BoundColumnRefExpression>());
		return binding.table_index == aggregate.aggregate_index && binding.column_index == ProjectionIndex(index);
	}
	bool IsCollect(const Expression &expr, idx_t index) const {
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_FUNCTION) {
			return false;
		}
		auto &call = expr.Cast<BoundFunctionExpression>();
		return SqlFunction::IsOurs(FunctionOf(call)) && SpatialFunctionName(FunctionName(call)) == "collect" &&
		       ChildrenOf(call).size() == 1 && IsColumn(*ChildrenOf(call)[0], index);
	}
	void Count(const Expression &expr, idx_t index) {
		if (IsColumn(expr, index)) {
			uses++;
		}
		if (IsCollect(expr, index)) {
			type = ReturnTypeOf(expr);
			collected++;
		}
		ExpressionIterator::EnumerateChildren(expr, [&](const Expression &child) { Count(child, index); });
	}
	void Replace(unique_ptr<Expression> &expr, idx_t index) {
		if (IsCollect(*expr, index)) {
			const auto binding =
			    BindingOf(ChildrenOf(expr->Cast<BoundFunctionExpression>())[0]->Cast<BoundColumnRefExpression>());
			auto alias = expr->GetAlias();
			expr = make_uniq<BoundColumnRefExpression>(type, binding);
			expr->SetAlias(alias);
			return;
		}
		ExpressionIterator::EnumerateChildren(*expr, [&](unique_ptr<Expression> &child) { Replace(child, index); });
	}

	ClientContext &context;
	LogicalAggregate &aggregate;
	idx_t uses = 0;
	idx_t collected = 0;
	//! Of the calls
	LogicalType type;
};

} // namespace

void CollectWithoutLists(ClientContext &context, LogicalOperator &plan) {
	if (plan.type == LogicalOperatorType::LOGICAL_PROJECTION) {
		// What is above a projection does not see what is below it; HAVING stands between
		vector<reference<LogicalOperator>> above {plan};
		auto below = plan.children[0].get();
		while (below->type == LogicalOperatorType::LOGICAL_FILTER) {
			above.push_back(*below);
			below = below->children[0].get();
		}
		if (below->type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
			Collector(context, below->Cast<LogicalAggregate>()).Rewrite(above);
		}
	}
	for (auto &child : plan.children) {
		CollectWithoutLists(context, *child);
	}
}

} // namespace duckdb
