//===----------------------------------------------------------------------===//
// duckdb/operators/collect_rows.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/execution/physical_operator.hpp"

namespace duckdb {

//! Where an operator may find the rows of a child when the query runs, so that they need not be collected
class RowsElsewhere {
public:
	virtual ~RowsElsewhere() = default;
	//! False: they have to be collected
	virtual bool HasRows() const = 0;
};

//! VIBE_COLLECT: keeps some columns of its child, spillable, in the order in which the child's rows are scanned; by many threads
//! where batch numbers tell that order. Whoever it is a child of takes the rows.
class PhysicalCollectRows : public PhysicalOperator {
public:
	PhysicalCollectRows(PhysicalPlan &plan, ClientContext &context, PhysicalOperator &child, vector<idx_t> columns,
	                    bool deterministic);

	const vector<idx_t> columns;
	//! Asked when the rows are about to be collected; may be missing
	std::function<shared_ptr<RowsElsewhere>(ClientContext &context)> find_elsewhere;

	//! What that found; null where there was nothing to ask
	shared_ptr<RowsElsewhere> Elsewhere() const;
	//! When all are there
	ColumnDataCollection &Rows() const;
	//! Lets go of them
	void Clear() const;

	string GetName() const override {
		return "VIBE_COLLECT";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Sink interface
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return !ordered || batched;
	}
	bool SinkOrderDependent() const override {
		return ordered;
	}
	OperatorPartitionInfo RequiredPartitionInfo() const override {
		return batched ? OperatorPartitionInfo::BatchIndex() : OperatorPartitionInfo::NoPartitionInfo();
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override;
	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override;
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override;
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override;
	SinkFinalizeType Finalize(Pipeline &pipeline, Event &event, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override;

private:
	bool ordered;
	bool batched;
};

} // namespace duckdb
