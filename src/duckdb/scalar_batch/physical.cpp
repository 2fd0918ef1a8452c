#include "duckdb/scalar_batch/physical.hpp"

#include "duckdb/scalar_batch/device.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"

#include <deque>

namespace duckdb {

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//
PhysicalBulk::PhysicalBulk(PhysicalPlan &plan, ClientContext &context, LogicalBulk &bulk, PhysicalOperator &child)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, bulk.types, bulk.estimated_cardinality),
      calls(std::move(bulk.expressions)), columns(bulk.columns), buffered_columns(child.types.size()) {
	children.push_back(child);
	for (auto &call : calls) {
		tasks.emplace_back();
		if (!FindBulkTask(*call, tasks.back())) {
			throw InternalException("VIBE_BULK: a call that is none");
		}
		ExpressionIterator::VisitExpression<BoundReferenceExpression>(
		    *call, [&](const BoundReferenceExpression &column) { buffered_columns[IndexOf(column)] = true; });
	}
	for (auto column : columns) {
		buffered_columns[column] = true;
	}
	planned_engine = DeviceBulk::DescribePlan(context, tasks[0].Kernel(), child.estimated_cardinality);
}

string PhysicalBulk::GetName() const {
	return "VIBE_BULK";
}

InsertionOrderPreservingMap<string> PhysicalBulk::ParamsToString() const {
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

class BulkGlobalState : public GlobalOperatorState {
public:
	BulkGlobalState(ClientContext &context, const PhysicalBulk &op) : device(context, op) {
	}
	DeviceBulk device;
};

//! One thread's batches: one collects while the other is worked on
class BulkState : public OperatorState {
public:
	BulkState(ExecutionContext &context, const PhysicalBulk &op)
	    : client(context.client), op(op), rows(context.client, op) {
		auto mode = PhysicalOperator::SelectOperatorCachingMode(context);
		holds_back = mode == OperatorCachingMode::ORDERED || mode == OperatorCachingMode::UNORDERED;
	}

	bool IsEmpty() const {
		return !filling && !flying && giving.empty();
	}
	BulkRows &Rows() {
		return rows;
	}

	void Add(DataChunk &input, DeviceBulk &device) {
		if (!filling) {
			filling = spare ? std::move(spare) : make_uniq<BulkBatch>(client, op, device, rows);
		}
		filling->Add(input);
		if (!holds_back || !device.IsActive()) {
			Flush();
		} else if (filling->IsFull()) {
			filling->Launch();
			Finish(flying);
			flying = std::move(filling);
		}
	}

	//! What was collected comes out
	void Flush() {
		if (filling) {
			filling->Launch();
		}
		Finish(flying);
		Finish(filling);
	}

	//! The next chunk that is done; false when there is none
	bool Next(DataChunk &chunk) {
		while (!giving.empty()) {
			auto &batch = giving.front();
			if (next_chunk < batch->ChunkCount()) {
				batch->Emit(next_chunk++, chunk);
				return true;
			}
			batch->Clear();
			spare = std::move(batch);
			giving.pop_front();
			next_chunk = 0;
		}
		return false;
	}

	//! The chunk of the last Execute() is in a batch
	bool taken = false;

private:
	void Finish(unique_ptr<BulkBatch> &batch) {
		if (batch) {
			batch->Finish();
			giving.push_back(std::move(batch));
		}
	}

	ClientContext &client;
	const PhysicalBulk &op;
	BulkRows rows;
	bool holds_back;
	unique_ptr<BulkBatch> filling;
	unique_ptr<BulkBatch> flying;
	std::deque<unique_ptr<BulkBatch>> giving;
	unique_ptr<BulkBatch> spare;
	idx_t next_chunk = 0;
};

} // namespace

unique_ptr<GlobalOperatorState> PhysicalBulk::GetGlobalOperatorState(ClientContext &context) const {
	return make_uniq<BulkGlobalState>(context, *this);
}

unique_ptr<OperatorState> PhysicalBulk::GetOperatorState(ExecutionContext &context) const {
	return make_uniq<BulkState>(context, *this);
}

OperatorResultType PhysicalBulk::Execute(ExecutionContext &, DataChunk &input, DataChunk &chunk,
                                         GlobalOperatorState &gstate, OperatorState &state_p) const {
	auto &state = state_p.Cast<BulkState>();
	auto &device = gstate.Cast<BulkGlobalState>().device;
	if (!state.taken) {
		device.Start();
		bool points = state.IsEmpty() && device.IsActive() && device.LeavesPoints() && state.Rows().ArePoints(input);
		if (state.IsEmpty() && (points || !device.IsActive())) {
			device.AddPoints(points ? input.size() : 0);
			state.Rows().Execute(input, chunk);
			return OperatorResultType::NEED_MORE_INPUT;
		}
		state.Add(input, device);
		state.taken = true;
	}
	if (state.Next(chunk)) {
		return OperatorResultType::HAVE_MORE_OUTPUT;
	}
	state.taken = false;
	return OperatorResultType::NEED_MORE_INPUT;
}

OperatorFinalizeResultType PhysicalBulk::FinalExecute(ExecutionContext &, DataChunk &chunk, GlobalOperatorState &,
                                                      OperatorState &state_p) const {
	auto &state = state_p.Cast<BulkState>();
	state.Flush();
	return state.Next(chunk) ? OperatorFinalizeResultType::HAVE_MORE_OUTPUT : OperatorFinalizeResultType::FINISHED;
}

OperatorFinalResultType PhysicalBulk::OperatorFinalize(Pipeline &, Event &, ClientContext &,
                                                       OperatorFinalizeInput &input) const {
	input.global_state.Cast<BulkGlobalState>().device.Finish();
	return OperatorFinalResultType::FINISHED;
}

} // namespace duckdb
