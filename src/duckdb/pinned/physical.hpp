//===----------------------------------------------------------------------===//
// duckdb/pinned/physical.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/pinned/logical.hpp"

namespace duckdb {

//! VIBE_PIN. Threads send the rows of the child as they are scanned; when all are there, the device puts them in order, and queries may
//! use them.
class PhysicalPin : public PhysicalOperator {
public:
	PhysicalPin(PhysicalPlan &plan, LogicalPin &pin, PhysicalOperator &child, vector<idx_t> columns);

	const PinRequest request;
	//! Those of the request in the child
	const vector<idx_t> columns;

	string GetName() const override {
		return "VIBE_PIN";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Sink interface
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return true;
	}
	bool SinkOrderDependent() const override {
		return false;
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override;
	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override;
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override;
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override;
	SinkFinalizeType Finalize(Pipeline &pipeline, Event &event, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override;

	// Source interface
	bool IsSource() const override {
		return true;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override;

protected:
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override;
};

} // namespace duckdb
