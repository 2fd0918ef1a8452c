#include "duckdb/planning/engines.hpp"

#include "duckdb/functions/functions.hpp"
#include "duckdb/overlay/dispatch.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/scalar_batch/logical.hpp"
#include "duckdb/spatial_join/rewrites/plan_tools.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/function_builder.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

namespace {

void NameEngine(ClientContext &context, Expression &expr) {
	if (IsUnionAggregate(expr)) {
		expr.SetAlias(Identifier(expr.ToString() + " on " + OverlayDispatch::DescribePlan(context)));
	}
}

class StrictPlan {
public:
	explicit StrictPlan(ClientContext &context) : context(context) {
	}

	void Check(LogicalOperator &op) {
		for (auto &child : op.children) {
			Check(*child);
		}
		const bool is_batch =
		    op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR && op.GetName() == "VIBE_SCALAR_BATCH";
		LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
			if (is_batch) {
				// The device computes the calls, and the CPU their arguments
				ExpressionIterator::EnumerateChildren(**expr, [&](const Expression &argument) { Check(argument); });
			} else {
				Check(**expr);
			}
		});
		if (op.type == LogicalOperatorType::LOGICAL_GET) {
			auto &get = op.Cast<LogicalGet>();
			if (HasFilters(get.table_filters)) {
				TakeFilters(get, [&](idx_t, const Expression &term) {
					Check(term);
					return false;
				});
			}
		}
		if (join_rewrites::IsSpatialJoin(op)) {
			auto &join = join_rewrites::AsSpatialJoin(op);
			auto &spatial = join.spatial;
			for (auto part :
			     {&spatial.left, &spatial.right, &spatial.left_limit, &spatial.right_limit, &spatial.residual}) {
				if (*part) {
					Check(**part);
				}
			}
			for (idx_t i = 0; join.aggregate && i < join.aggregate->aggregates.size(); i++) {
				Check(*join.aggregate->aggregates[i]);
			}
		}
	}

private:
	void Check(const Expression &expr) {
		if (expr.IsFoldable()) {
			return;
		}
		if (expr.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION) {
			auto &call = expr.Cast<BoundFunctionExpression>();
			const auto on_cpu = SqlFunction::OnCpu(FunctionOf(call));
			if (on_cpu && !on_cpu->may_use_device) {
				RequireGpu(context, on_cpu->name, on_cpu->reason);
			}
		}
		ExpressionIterator::EnumerateChildren(expr, [&](const Expression &child) { Check(child); });
	}

	ClientContext &context;
};

} // namespace

void NameEngines(ClientContext &context, LogicalOperator &plan) {
	if (plan.type == LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY) {
		for (auto &expr : plan.expressions) {
			NameEngine(context, *expr);
		}
	} else if (join_rewrites::IsSpatialJoin(plan) && join_rewrites::AsSpatialJoin(plan).aggregate) {
		for (auto &expr : join_rewrites::AsSpatialJoin(plan).aggregate->aggregates) {
			NameEngine(context, *expr);
		}
	}
	for (auto &child : plan.children) {
		NameEngines(context, *child);
	}
}

void RequireGpuFunctions(ClientContext &context, LogicalOperator &plan) {
	if (GetGpuStrict(context)) {
		StrictPlan(context).Check(plan);
	}
}

} // namespace duckdb
