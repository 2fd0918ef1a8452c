//===----------------------------------------------------------------------===//
// duckdb/spatial_join/physical.hpp
//
// The operator. The folder physical/ has its parts: plan, sink, probe, source and explain.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/types/row/tuple_data_layout.hpp"
#include "duckdb/execution/operator/join/physical_join.hpp"
#include "duckdb/spatial_join/logical.hpp"
#include "duckdb/planner/expression/bound_aggregate_expression.hpp"

namespace duckdb {

//! VIBE_SPATIAL_JOIN. The right child is the build side: it is sunk and indexed. The left child is the probe side: it streams through.
//! The source emits what is known only at the end of the probe side: build rows that matched or did not, the groups of an
//! aggregate, and the pairs of a build side that was partitioned because it does not fit into memory.
class PhysicalSpatialJoin : public ReportingOperator<PhysicalJoin> {
public:
	PhysicalSpatialJoin(PhysicalPlan &plan, ClientContext &context, LogicalSpatialJoin &join, PhysicalOperator &left,
	                    PhysicalOperator &right);

	// The condition
	vibespatial::JoinCondition condition;
	string predicate_text;
	//! Its function: messages about geometries name it
	string function;
	string residual_text;

	// The expressions that each side computes: the geometry, then its part of the distance limit; on the build side also groups and
	// arguments of aggregates
	vector<unique_ptr<Expression>> probe_keys;
	vector<unique_ptr<Expression>> build_keys;

	// What is stored of the build side: columns of the right child, then its keys
	vector<idx_t> kept_columns;
	shared_ptr<TupleDataLayout> layout;
	idx_t geometry_column;
	idx_t limit_column;
	//! The number of the row, if rows are marked
	idx_t number_column;

	// The output: columns of the left child, then columns of the layout
	vector<idx_t> left_columns;
	vector<column_t> right_columns;
	//! The one column of the left child only counts rows, and is emitted as NULL
	bool left_is_unread;
	//! What dispatch decides: for points on the left side, and for other geometries
	vibespatial::Operation points_operation;
	vibespatial::Operation shapes_operation;
	//! What statistics and types tell of the geometries: for requests ahead of time only
	vibespatial::SideKinds probe_kinds;
	vibespatial::SideKinds build_kinds;

	//! The columns of the left child that are read after the pairs of its rows are known
	vector<bool> buffered_columns;

	// The residual reads a chunk of these columns of the left child and of the layout
	unique_ptr<Expression> residual;
	vector<idx_t> residual_left;
	vector<column_t> residual_right;

	// The aggregate: BoundAggregateExpressions, and the side of their groups and arguments
	bool has_aggregate;
	vector<unique_ptr<Expression>> aggregates;
	vector<LogicalType> group_types;
	vector<unique_ptr<Expression>> probe_groups;
	vector<column_t> build_groups;
	struct Argument {
		bool from_probe;
		idx_t index;
	};
	vector<Argument> arguments;
	vector<LogicalType> argument_types;
	vector<unique_ptr<Expression>> probe_arguments;
	vector<column_t> build_arguments;
	//! The same as expressions over the right child, to be computed for a row of NULLs
	vector<unique_ptr<Expression>> build_argument_expressions;

	vector<ProbeScan> probe_scans;
	//! What is asked of the probe side, where that is a table that may be pinned
	unique_ptr<PinnedScan> pinned_scan;
	//! The build side, where that is one
	unique_ptr<PinnedScan> pinned_build;
	bool deterministic;
	//! For EXPLAIN
	string planned_engine;
	string planned_pin;
	//! The scan of the build side has batch indexes: its rows are put in the same order in every query, so that the device can find a build
	//! side that it still has
	bool has_batches = false;

	// Rows of the layout
	vibespatial::JoinRow GeometryOf(data_ptr_t row) const;
	double LimitOf(data_ptr_t row) const;
	idx_t NumberOf(data_ptr_t row) const {
		return Load<uint64_t>(row + layout->GetOffsets()[number_column]);
	}

	//! Build rows are emitted by whether they matched
	bool MarksBuild() const;
	//! Probe rows are emitted even without a match
	bool KeepsProbe() const;
	//! The number of pairs of each build row is all that the aggregate needs
	bool OnlyCounts() const;

public:
	string GetName() const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	// Sink interface
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return !deterministic;
	}
	OperatorPartitionInfo RequiredPartitionInfo() const override {
		return has_batches ? OperatorPartitionInfo::BatchIndex() : OperatorPartitionInfo::NoPartitionInfo();
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override;
	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override;
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override;
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override;
	void PrepareFinalize(ClientContext &context, GlobalSinkState &sink_state) const override;
	SinkFinalizeType Finalize(Pipeline &pipeline, Event &event, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override;

	// Operator interface
	bool ParallelOperator() const override {
		return !(deterministic && has_aggregate);
	}
	OrderPreservationType OperatorOrder() const override {
		return deterministic ? OrderPreservationType::INSERTION_ORDER : OrderPreservationType::NO_ORDER;
	}
	unique_ptr<OperatorState> GetOperatorState(ExecutionContext &context) const override;

	// Source interface
	bool IsSource() const override {
		return true;
	}
	bool ParallelSource() const override {
		return true;
	}
	OrderPreservationType SourceOrder() const override {
		return deterministic ? OrderPreservationType::INSERTION_ORDER : OrderPreservationType::NO_ORDER;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override;
	unique_ptr<LocalSourceState> GetLocalSourceState(ExecutionContext &context,
	                                                 GlobalSourceState &gstate) const override;
	ProgressData GetProgress(ClientContext &context, GlobalSourceState &gstate) const override;
	InsertionOrderPreservingMap<string> Report(GlobalSourceState &gstate) const override;

protected:
	OperatorResultType ExecuteInternal(ExecutionContext &context, DataChunk &input, DataChunk &chunk,
	                                   GlobalOperatorState &gstate, OperatorState &state) const override;
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override;

private:
	// What may throw a GeometryError
	SinkResultType Collect(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const;
	SinkFinalizeType Build(ClientContext &context, GlobalSinkState &sink) const;
	OperatorResultType Probe(ExecutionContext &context, DataChunk &input, DataChunk &chunk, OperatorState &state) const;
	SourceResultType Emit(ExecutionContext &context, DataChunk &chunk, OperatorSourceInput &input) const;
};

} // namespace duckdb
