//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/physical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/scalar_batch/logical.hpp"

namespace duckdb {

//! VIBE_SCALAR_BATCH. Rows keep their order. If the sink allows it, a thread collects rows until there are enough for the device, and emits
//! the last of them when its input ends; otherwise every chunk goes to the device by itself.
class PhysicalScalarBatch : public PhysicalOperator {
public:
	PhysicalScalarBatch(PhysicalPlan &plan, ClientContext &context, LogicalScalarBatch &logical,
	                    PhysicalOperator &child);

	//! The calls, and what the device computes for each; all are of the same operation
	vector<unique_ptr<Expression>> calls;
	vector<vibespatial::ScalarTask> tasks;
	//! The columns of the child that are emitted, before those of the calls
	vector<idx_t> columns;
	//! The columns of the child that are emitted or that calls read
	vector<bool> buffered_columns;
	//! As EXPLAIN shows it
	string planned_engine;

public:
	string GetName() const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Operator interface
	bool ParallelOperator() const override {
		return true;
	}
	bool RequiresFinalExecute() const override {
		return true;
	}
	bool RequiresOperatorFinalize() const override {
		return true;
	}
	unique_ptr<GlobalOperatorState> GetGlobalOperatorState(ClientContext &context) const override;
	unique_ptr<OperatorState> GetOperatorState(ExecutionContext &context) const override;
	OperatorResultType Execute(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                           GlobalOperatorState &gstate, OperatorState &state) const override;
	OperatorFinalizeResultType FinalExecute(ExecutionContext &context, DataChunk &chunk, GlobalOperatorState &gstate,
	                                        OperatorState &state) const override;
	OperatorFinalResultType OperatorFinalize(Pipeline &pipeline, Event &event, ClientContext &context,
	                                         OperatorFinalizeInput &input) const override;
};

} // namespace duckdb
