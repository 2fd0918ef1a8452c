#include "duckdb/scalar_batch/logical.hpp"

#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/operators/geometry_kinds.hpp"
#include "duckdb/scalar_batch/dispatch.hpp"
#include "duckdb/support/settings.hpp"

#include <algorithm>

namespace duckdb {

using vibespatial::Operation;

namespace {

bool IsScalarBatch(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR && op.GetName() == "VIBE_SCALAR_BATCH";
}

class ScalarBatchRewriter {
public:
	ScalarBatchRewriter(ClientContext &context, Binder &binder) : context(context), binder(binder) {
	}

	void Rewrite(unique_ptr<LogicalOperator> &op) {
		for (auto &child : op->children) {
			Rewrite(child);
		}
		switch (op->type) {
		case LogicalOperatorType::LOGICAL_FILTER:
			for (auto operation : OPERATIONS) {
				Filter(op->Cast<LogicalFilter>(), operation);
			}
			break;
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
			PruneFilter(*op);
			for (auto operation : OPERATIONS) {
				Expressions(*op, operation);
			}
			break;
		default:
			break;
		}
	}

private:
	//! One operator does one operation. Overlays come first, so that others are computed of their results. Pairs take the calls of rows in
	//! their arguments with them. Rows come last, so that measures of what another operation makes have an operator of their own above it.
	static constexpr Operation OPERATIONS[] = {Operation::OVERLAY_PAIRS,    Operation::SCALAR_PAIRS,
	                                           Operation::SCALAR_HAUSDORFF, Operation::SCALAR_HULLS,
	                                           Operation::SCALAR_SIMPLIFY,  Operation::SCALAR_ROWS};

	//! The calls in an expression that are computed for every row: none in the branches of CASE, COALESCE or TRY
	static void FindCalls(unique_ptr<Expression> &expr, Operation operation,
	                      vector<reference<unique_ptr<Expression>>> &calls) {
		vibespatial::ScalarTask task;
		switch (expr->GetExpressionClass()) {
		case ExpressionClass::BOUND_CASE:
		case ExpressionClass::BOUND_SUBQUERY:
		case ExpressionClass::BOUND_LAMBDA:
		case ExpressionClass::BOUND_WINDOW:
			return;
		case ExpressionClass::BOUND_OPERATOR:
			if (expr->GetExpressionType() == ExpressionType::OPERATOR_COALESCE ||
			    expr->GetExpressionType() == ExpressionType::OPERATOR_TRY) {
				return;
			}
			break;
		case ExpressionClass::BOUND_AGGREGATE:
			if (HasFilter(expr->Cast<BoundAggregateExpression>())) {
				return;
			}
			break;
		default:
			if (FindScalarTask(*expr, task) && OperationOf(task) == operation) {
				calls.push_back(expr);
				return;
			}
		}
		ExpressionIterator::EnumerateChildren(
		    *expr, [&](unique_ptr<Expression> &child) { FindCalls(child, operation, calls); });
	}

	//! Four edges meet wherever the borders of a symmetric difference cross: the host cuts those rings
	static bool AnyIsSlow(const vector<reference<unique_ptr<Expression>>> &calls) {
		vibespatial::ScalarTask task;
		return std::any_of(calls.begin(), calls.end(), [&](unique_ptr<Expression> &call) {
			return FindScalarTask(*call, task) && task.IsOverlay() &&
			       task.overlay.kind == vibe::NetRule::SYM_DIFFERENCE;
		});
	}

	bool GoesToDevice(LogicalOperator &input, Operation operation,
	                  const vector<reference<unique_ptr<Expression>>> &calls) {
		auto rows = input.has_estimated_cardinality ? input.estimated_cardinality : input.EstimateCardinality(context);
		OperatorDispatch dispatch(context, "VIBE_SCALAR_BATCH");
		auto decision = vibespatial::Decide(dispatch.Mode(), operation, rows, GetGpuMinRows(context));
		if (decision.IsGpu() && dispatch.Mode() == vibespatial::ExecutionMode::AUTO && GetGpuMinRows(context) < 0 &&
		    AnyIsSlow(calls)) {
			decision = vibespatial::Decision();
			decision.reason = "the CPU is faster at symmetric differences";
		}
		if (decision.selected == vibespatial::ExecutionMode::GPU || decision.device_is_missing) {
			RequestKernels(input, calls);
		}
		if (decision.selected != vibespatial::ExecutionMode::GPU) {
			dispatch.LogCpu(operation, decision, rows);
			return false;
		}
		return true;
	}

	//! Also where a device that is still coming up does none of it: it will be there for the next query
	void RequestKernels(LogicalOperator &input, const vector<reference<unique_ptr<Expression>>> &calls) {
		vibespatial::KernelNames kernels;
		bool are_known = true;
		for (auto &slot : calls) {
			vibespatial::ScalarTask task;
			if (!FindScalarTask(*slot.get(), task)) {
				continue;
			}
			vibespatial::SideKinds kinds[2];
			auto &arguments = ChildrenOf(slot.get()->Cast<BoundFunctionExpression>());
			for (idx_t side = 0; side < (task.IsOfPairs() ? 2 : 1); side++) {
				kinds[side] = FindGeometryKinds(context, input, *arguments[side]);
				are_known = are_known && (kinds[side].AreKnown() || !task.IsOfPairs() || task.IsOverlay());
			}
			vibespatial::AddNames(kernels, vibespatial::ScalarNeeds(task, kinds[0], kinds[1]));
		}
		OperatorDispatch::RequestKernels(context, kernels, "VIBE_SCALAR_BATCH", are_known);
	}

	//! Moves the calls into an operator over `input`, and puts references to its columns in their place
	unique_ptr<LogicalScalarBatch> Take(unique_ptr<LogicalOperator> input,
	                                    const vector<reference<unique_ptr<Expression>>> &calls) {
		auto batch = make_uniq<LogicalScalarBatch>(binder.GenerateTableIndex(), std::move(input));
		for (auto &slot : calls) {
			auto &call = slot.get();
			idx_t index = 0;
			while (index < batch->expressions.size() && !batch->expressions[index]->Equals(*call)) {
				index++;
			}
			auto column = make_uniq<BoundColumnRefExpression>(
			    call->GetName(), ReturnTypeOf(*call), ColumnBinding(batch->table_index, ProjectionIndex(index)));
			column->SetAlias(call->GetAlias());
			if (index == batch->expressions.size()) {
				batch->expressions.push_back(std::move(call));
			}
			call = std::move(column);
		}
		return batch;
	}

	static column_binding_set_t Used(LogicalOperator &op) {
		column_binding_set_t used;
		LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
			ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
			    **expr, [&](const BoundColumnRefExpression &column) { used.insert(BindingOf(column)); });
		});
		return used;
	}

	void Expressions(LogicalOperator &op, Operation operation) {
		vector<reference<unique_ptr<Expression>>> calls;
		LogicalOperatorVisitor::EnumerateExpressions(
		    op, [&](unique_ptr<Expression> *expr) { FindCalls(*expr, operation, calls); });
		if (calls.empty() || !GoesToDevice(*op.children[0], operation, calls)) {
			return;
		}
		auto batch = Take(std::move(op.children[0]), calls);
		auto used = Used(op);
		auto bindings = batch->children[0]->GetColumnBindings();
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (used.count(bindings[i])) {
				batch->columns.push_back(i);
			}
		}
		op.children[0] = std::move(batch);
	}

	void Filter(LogicalFilter &filter, Operation operation) {
		vector<unique_ptr<Expression>> conjuncts, with_calls, rest;
		for (auto &expr : filter.expressions) {
			conjuncts.push_back(expr->Copy());
		}
		LogicalFilter::SplitPredicates(conjuncts);
		vector<reference<unique_ptr<Expression>>> calls;
		for (auto &conjunct : conjuncts) {
			const auto before = calls.size();
			FindCalls(conjunct, operation, calls);
			(calls.size() == before ? rest : with_calls).push_back(std::move(conjunct));
		}
		// A call that is a conjunct by itself was moved
		calls.clear();
		for (auto &expr : with_calls) {
			FindCalls(expr, operation, calls);
		}
		if (with_calls.empty() || !GoesToDevice(*filter.children[0], operation, calls)) {
			return;
		}
		auto outputs = filter.GetColumnBindings();
		auto input = std::move(filter.children[0]);
		if (!rest.empty()) {
			// The cheap conditions run first
			auto below = make_uniq<LogicalFilter>();
			below->expressions = std::move(rest);
			below->SetEstimatedCardinality(input->EstimateCardinality(context));
			below->children.push_back(std::move(input));
			input = std::move(below);
		}
		filter.expressions = std::move(with_calls);
		calls.clear();
		for (auto &expr : filter.expressions) {
			FindCalls(expr, operation, calls);
		}
		filter.children[0] = Take(std::move(input), calls);
		SetOutputs(filter, outputs);
	}

	//! Sets the columns that a filter over VIBE_SCALAR_BATCH emits, and the columns of the child that are needed for them
	static void SetOutputs(LogicalFilter &filter, const vector<ColumnBinding> &outputs) {
		auto &batch = static_cast<LogicalScalarBatch &>(*filter.children[0]);
		auto used = Used(filter);
		used.insert(outputs.begin(), outputs.end());
		batch.columns.clear();
		auto below = batch.children[0]->GetColumnBindings();
		for (idx_t i = 0; i < below.size(); i++) {
			if (used.count(below[i])) {
				batch.columns.push_back(i);
			}
		}
		filter.projection_map.clear();
		auto bindings = batch.GetColumnBindings();
		for (auto &output : outputs) {
			auto position = std::find(bindings.begin(), bindings.end(), output) - bindings.begin();
			filter.projection_map.push_back(ProjectionIndex(NumericCast<idx_t>(position)));
		}
		if (outputs.empty()) {
			filter.projection_map.push_back(
			    ProjectionIndex(batch.columns.size())); // one column stays, to count the rows
		}
	}

	//! Removes the columns that `op` does not read from the filter below it: the geometries, mostly
	static void PruneFilter(LogicalOperator &op) {
		auto &child = *op.children[0];
		if (child.type != LogicalOperatorType::LOGICAL_FILTER || !IsScalarBatch(*child.children[0])) {
			return;
		}
		auto used = Used(op);
		vector<ColumnBinding> outputs;
		for (auto &binding : child.GetColumnBindings()) {
			if (used.count(binding)) {
				outputs.push_back(binding);
			}
		}
		SetOutputs(child.Cast<LogicalFilter>(), outputs);
	}

	ClientContext &context;
	Binder &binder;
};

} // namespace

void PlanScalarBatches(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan) {
	ScalarBatchRewriter(context, binder).Rewrite(plan);
}

} // namespace duckdb
