#include "duckdb/scalar_batch/physical.hpp"

#include "duckdb/scalar_batch/batch.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"

#include <deque>

namespace duckdb {

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
PhysicalScalarBatch::PhysicalScalarBatch(PhysicalPlan &plan, ClientContext &context, LogicalScalarBatch &logical,
                                         PhysicalOperator &child)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, logical.types, logical.estimated_cardinality),
      calls(std::move(logical.expressions)), columns(logical.columns), buffered_columns(child.types.size()) {
	children.push_back(child);
	for (auto &call : calls) {
		tasks.emplace_back();
		if (!FindScalarTask(*call, tasks.back())) {
			throw InternalException("VIBE_SCALAR_BATCH: the device cannot compute %s", call->ToString());
		}
		ExpressionIterator::VisitExpression<BoundReferenceExpression>(
		    *call, [&](const BoundReferenceExpression &column) { buffered_columns[IndexOf(column)] = true; });
	}
	for (auto column : columns) {
		buffered_columns[column] = true;
	}
	planned_engine = ScalarBatchDispatch::DescribePlan(context, OperationOf(tasks[0]), child.estimated_cardinality);
}

string PhysicalScalarBatch::GetName() const {
	return "VIBE_SCALAR_BATCH";
}

InsertionOrderPreservingMap<string> PhysicalScalarBatch::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	string text;
	for (auto &call : calls) {
		text += (text.empty() ? "" : "\n") + call->GetName();
	}
	result["Calls"] = text;
	result["Engine"] = planned_engine;
	SetEstimatedCardinality(result, estimated_cardinality);
	return result;
}

//===----------------------------------------------------------------------===//
// Operator
//===----------------------------------------------------------------------===//
namespace {

class ScalarBatchGlobalState : public GlobalOperatorState {
public:
	ScalarBatchGlobalState(ClientContext &context, const PhysicalScalarBatch &op) : dispatch(context, op) {
	}
	ScalarBatchDispatch dispatch;
};

//! One thread's batches: one collects rows while the device works on another
class ScalarBatchState : public OperatorState {
public:
	ScalarBatchState(ExecutionContext &context, const PhysicalScalarBatch &op)
	    : client(context.client), op(op), calls(context.client, op) {
		auto mode = PhysicalOperator::SelectOperatorCachingMode(context);
		may_collect = mode == OperatorCachingMode::ORDERED || mode == OperatorCachingMode::UNORDERED;
	}

	bool IsEmpty() const {
		return !collecting && !on_device && finished.empty();
	}
	ScalarCalls &Calls() {
		return calls;
	}

	void Add(DataChunk &input, ScalarBatchDispatch &dispatch) {
		if (!collecting) {
			collecting = reusable ? std::move(reusable) : make_uniq<ScalarBatch>(client, op, dispatch, calls);
		}
		collecting->Add(input);
		if (!may_collect || !dispatch.IsActive()) {
			Flush();
		} else if (collecting->IsFull()) {
			collecting->Launch();
			Finish(on_device);
			on_device = std::move(collecting);
		}
	}

	//! Finishes all rows that were added
	void Flush() {
		if (collecting) {
			collecting->Launch();
		}
		Finish(on_device);
		Finish(collecting);
	}

	//! Emits the next chunk of finished rows; false when there is none
	bool Next(DataChunk &chunk) {
		while (!finished.empty()) {
			auto &batch = finished.front();
			if (next_chunk < batch->ChunkCount()) {
				batch->Emit(next_chunk++, chunk);
				return true;
			}
			batch->Clear();
			reusable = std::move(batch);
			finished.pop_front();
			next_chunk = 0;
		}
		return false;
	}

	//! The input of the current Execute() has been added to a batch
	bool input_is_added = false;

private:
	void Finish(unique_ptr<ScalarBatch> &batch) {
		if (batch) {
			batch->Finish();
			finished.push_back(std::move(batch));
		}
	}

	ClientContext &client;
	const PhysicalScalarBatch &op;
	ScalarCalls calls;
	bool may_collect;
	unique_ptr<ScalarBatch> collecting;
	unique_ptr<ScalarBatch> on_device;
	//! In the order of the input
	std::deque<unique_ptr<ScalarBatch>> finished;
	unique_ptr<ScalarBatch> reusable;
	//! Of the first finished batch
	idx_t next_chunk = 0;
};

} // namespace

unique_ptr<GlobalOperatorState> PhysicalScalarBatch::GetGlobalOperatorState(ClientContext &context) const {
	return make_uniq<ScalarBatchGlobalState>(context, *this);
}

unique_ptr<OperatorState> PhysicalScalarBatch::GetOperatorState(ExecutionContext &context) const {
	return make_uniq<ScalarBatchState>(context, *this);
}

OperatorResultType PhysicalScalarBatch::Execute(ExecutionContext &, DataChunk &input, DataChunk &chunk,
                                                GlobalOperatorState &gstate, OperatorState &state_p) const {
	auto &state = state_p.Cast<ScalarBatchState>();
	auto &dispatch = gstate.Cast<ScalarBatchGlobalState>().dispatch;
	if (!state.input_is_added) {
		dispatch.Start();
		bool points =
		    state.IsEmpty() && dispatch.IsActive() && dispatch.LeavesPoints() && state.Calls().ArePoints(input);
		if (state.IsEmpty() && (points || !dispatch.IsActive())) {
			dispatch.AddRowsOnCpu(input.size(), points);
			state.Calls().Execute(input, chunk);
			return OperatorResultType::NEED_MORE_INPUT;
		}
		state.Add(input, dispatch);
		state.input_is_added = true;
	}
	if (state.Next(chunk)) {
		return OperatorResultType::HAVE_MORE_OUTPUT;
	}
	state.input_is_added = false;
	return OperatorResultType::NEED_MORE_INPUT;
}

OperatorFinalizeResultType PhysicalScalarBatch::FinalExecute(ExecutionContext &, DataChunk &chunk,
                                                             GlobalOperatorState &, OperatorState &state_p) const {
	auto &state = state_p.Cast<ScalarBatchState>();
	state.Flush();
	return state.Next(chunk) ? OperatorFinalizeResultType::HAVE_MORE_OUTPUT : OperatorFinalizeResultType::FINISHED;
}

OperatorFinalResultType PhysicalScalarBatch::OperatorFinalize(Pipeline &, Event &, ClientContext &,
                                                              OperatorFinalizeInput &input) const {
	input.global_state.Cast<ScalarBatchGlobalState>().dispatch.Finish();
	return OperatorFinalResultType::FINISHED;
}

} // namespace duckdb
