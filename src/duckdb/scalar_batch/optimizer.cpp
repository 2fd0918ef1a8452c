#include "duckdb/scalar_batch/logical.hpp"

#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/support/settings.hpp"

namespace duckdb {

namespace {

bool IsBulk(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_EXTENSION_OPERATOR && op.GetName() == "VIBE_BULK";
}

class BulkRewriter {
public:
	BulkRewriter(ClientContext &context, Binder &binder) : context(context), binder(binder) {
	}

	void Rewrite(unique_ptr<LogicalOperator> &op) {
		for (auto &child : op->children) {
			Rewrite(child);
		}
		switch (op->type) {
		case LogicalOperatorType::LOGICAL_FILTER:
			for (auto kernel : KERNELS) {
				Filter(op->Cast<LogicalFilter>(), kernel);
			}
			break;
		case LogicalOperatorType::LOGICAL_PROJECTION:
		case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
			PruneFilter(*op);
			for (auto kernel : KERNELS) {
				Expressions(*op, kernel);
			}
			break;
		default:
			break;
		}
	}

private:
	//! An operator has calls of one of them; those of pairs come first, since their arguments may be calls of the other
	static constexpr const char *KERNELS[] = {"scalar_pairs", "scalar_rows"};

	//! The calls in an expression that is computed for every row: not what an arm of a CASE or the like asks for
	static void FindCalls(unique_ptr<Expression> &expr, const char *kernel,
	                      vector<reference<unique_ptr<Expression>>> &calls) {
		vibespatial::BulkTask task;
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
			if (FindBulkTask(*expr, task) && strcmp(task.Kernel(), kernel) == 0) {
				calls.push_back(expr);
				return;
			}
		}
		ExpressionIterator::EnumerateChildren(*expr,
		                                      [&](unique_ptr<Expression> &child) { FindCalls(child, kernel, calls); });
	}

	bool GoesToDevice(LogicalOperator &input, const char *kernel) {
		auto rows = input.has_estimated_cardinality ? input.estimated_cardinality : input.EstimateCardinality(context);
		OperatorDispatch dispatch(context, "VIBE_BULK");
		auto decision =
		    vibespatial::Decide(dispatch.Mode(), vibespatial::FindOperation(kernel), rows, GetGpuMinRows(context));
		if (decision.selected != vibespatial::ExecutionMode::GPU) {
			dispatch.LogCpu(kernel, decision, rows);
			return false;
		}
		OperatorDispatch::RequestKernels(context, kernel, "VIBE_BULK");
		return true;
	}

	//! Takes the calls into an operator over `input`; columns of it stand in their place
	unique_ptr<LogicalBulk> Take(unique_ptr<LogicalOperator> input,
	                             const vector<reference<unique_ptr<Expression>>> &calls) {
		auto bulk = make_uniq<LogicalBulk>(binder.GenerateTableIndex(), std::move(input));
		for (auto &slot : calls) {
			auto &call = slot.get();
			idx_t index = 0;
			while (index < bulk->expressions.size() && !bulk->expressions[index]->Equals(*call)) {
				index++;
			}
			auto column = make_uniq<BoundColumnRefExpression>(call->GetName(), ReturnTypeOf(*call),
			                                                  ColumnBinding(bulk->table_index, ProjectionIndex(index)));
			column->SetAlias(call->GetAlias());
			if (index == bulk->expressions.size()) {
				bulk->expressions.push_back(std::move(call));
			}
			call = std::move(column);
		}
		return bulk;
	}

	static column_binding_set_t Used(LogicalOperator &op) {
		column_binding_set_t used;
		LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) {
			ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
			    **expr, [&](const BoundColumnRefExpression &column) { used.insert(BindingOf(column)); });
		});
		return used;
	}

	void Expressions(LogicalOperator &op, const char *kernel) {
		vector<reference<unique_ptr<Expression>>> calls;
		LogicalOperatorVisitor::EnumerateExpressions(
		    op, [&](unique_ptr<Expression> *expr) { FindCalls(*expr, kernel, calls); });
		if (calls.empty() || !GoesToDevice(*op.children[0], kernel)) {
			return;
		}
		auto bulk = Take(std::move(op.children[0]), calls);
		auto used = Used(op);
		auto bindings = bulk->children[0]->GetColumnBindings();
		for (idx_t i = 0; i < bindings.size(); i++) {
			if (used.count(bindings[i])) {
				bulk->columns.push_back(i);
			}
		}
		op.children[0] = std::move(bulk);
	}

	void Filter(LogicalFilter &filter, const char *kernel) {
		vector<unique_ptr<Expression>> conjuncts, with_calls, rest;
		for (auto &expr : filter.expressions) {
			conjuncts.push_back(expr->Copy());
		}
		LogicalFilter::SplitPredicates(conjuncts);
		vector<reference<unique_ptr<Expression>>> calls;
		for (auto &conjunct : conjuncts) {
			calls.clear();
			FindCalls(conjunct, kernel, calls);
			(calls.empty() ? rest : with_calls).push_back(std::move(conjunct));
		}
		if (with_calls.empty() || !GoesToDevice(*filter.children[0], kernel)) {
			return;
		}
		auto outputs = filter.GetColumnBindings();
		auto input = std::move(filter.children[0]);
		if (!rest.empty()) {
			// What costs little comes first
			auto below = make_uniq<LogicalFilter>();
			below->expressions = std::move(rest);
			below->SetEstimatedCardinality(input->EstimateCardinality(context));
			below->children.push_back(std::move(input));
			input = std::move(below);
		}
		filter.expressions = std::move(with_calls);
		calls.clear();
		for (auto &expr : filter.expressions) {
			FindCalls(expr, kernel, calls);
		}
		filter.children[0] = Take(std::move(input), calls);
		SetOutputs(filter, outputs);
	}

	//! The columns that come out of a filter over VIBE_BULK, and so those that go in
	static void SetOutputs(LogicalFilter &filter, const vector<ColumnBinding> &outputs) {
		auto &bulk = static_cast<LogicalBulk &>(*filter.children[0]);
		auto used = Used(filter);
		used.insert(outputs.begin(), outputs.end());
		bulk.columns.clear();
		auto below = bulk.children[0]->GetColumnBindings();
		for (idx_t i = 0; i < below.size(); i++) {
			if (used.count(below[i])) {
				bulk.columns.push_back(i);
			}
		}
		filter.projection_map.clear();
		auto bindings = bulk.GetColumnBindings();
		for (auto &output : outputs) {
			auto position = std::find(bindings.begin(), bindings.end(), output) - bindings.begin();
			filter.projection_map.push_back(ProjectionIndex(NumericCast<idx_t>(position)));
		}
		if (outputs.empty()) {
			filter.projection_map.push_back(
			    ProjectionIndex(bulk.columns.size())); // rows need a column to be counted by
		}
	}

	//! Columns that nobody above reads stay below: the geometries, mostly
	static void PruneFilter(LogicalOperator &op) {
		auto &child = *op.children[0];
		if (child.type != LogicalOperatorType::LOGICAL_FILTER || !IsBulk(*child.children[0])) {
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

void PutBulk(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan) {
	BulkRewriter(context, binder).Rewrite(plan);
}

} // namespace duckdb
