//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/physical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/scalar_batch/logical.hpp"

namespace duckdb {

//! VIBE_BULK. Rows stream through in their order. Where the sink allows it they are held back until there are enough for the device,
//! and the rest comes out at the end of a thread; where not, each chunk goes there alone.
class PhysicalBulk : public PhysicalOperator {
public:
	PhysicalBulk(PhysicalPlan &plan, ClientContext &context, LogicalBulk &bulk, PhysicalOperator &child);

	//! The calls, and what they ask: all of one kernel
	vector<unique_ptr<Expression>> calls;
	vector<vibespatial::BulkTask> tasks;
	//! Columns of the child that come out, before those of the calls
	vector<idx_t> columns;
	//! Those, and the ones that the calls read
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
