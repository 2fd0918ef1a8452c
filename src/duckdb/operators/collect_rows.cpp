#include "duckdb/operators/collect_rows.hpp"

#include "duckdb/common/types/batched_data_collection.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"

namespace duckdb {

static vector<LogicalType> TypesOf(const PhysicalOperator &child, const vector<idx_t> &columns) {
	vector<LogicalType> types;
	for (auto column : columns) {
		types.push_back(child.types[column]);
	}
	return types;
}

PhysicalCollectRows::PhysicalCollectRows(PhysicalPlan &plan, ClientContext &context, PhysicalOperator &child,
                                         vector<idx_t> columns_p, bool deterministic)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, TypesOf(child, columns_p), child.estimated_cardinality),
      columns(std::move(columns_p)) {
	children.push_back(child);
	ordered = deterministic || PhysicalPlanGenerator::PreserveInsertionOrder(context, child);
	batched = ordered && PhysicalPlanGenerator::UseBatchIndex(context, child);
}

InsertionOrderPreservingMap<string> PhysicalCollectRows::ParamsToString() const {
	InsertionOrderPreservingMap<string> result;
	result["Operator"] = GetName(); // DuckDB's text has no names of extension operators
	result["Order"] = !ordered ? "any" : batched ? "as scanned, by batches" : "as scanned, by one thread";
	return result;
}

namespace {

class CollectGlobalSink : public GlobalSinkState {
public:
	CollectGlobalSink(ClientContext &context, const vector<LogicalType> &types, shared_ptr<RowsElsewhere> elsewhere)
	    : elsewhere(std::move(elsewhere)), batches(context, types, ColumnDataAllocatorType::BUFFER_MANAGER_ALLOCATOR),
	      rows(make_uniq<ColumnDataCollection>(BufferManager::GetBufferManager(context), types)) {
	}

	const shared_ptr<RowsElsewhere> elsewhere;

	mutex lock;
	BatchedDataCollection batches;
	unique_ptr<ColumnDataCollection> rows;
};

class CollectLocalSink : public LocalSinkState {
public:
	CollectLocalSink(ClientContext &context, const vector<LogicalType> &types)
	    : batches(context, types, ColumnDataAllocatorType::BUFFER_MANAGER_ALLOCATOR),
	      rows(BufferManager::GetBufferManager(context), types) {
		rows.InitializeAppend(append_state);
		chunk.InitializeEmpty(types);
	}

	BatchedDataCollection batches;
	ColumnDataCollection rows;
	ColumnDataAppendState append_state;
	DataChunk chunk;
};

} // namespace

unique_ptr<GlobalSinkState> PhysicalCollectRows::GetGlobalSinkState(ClientContext &context) const {
	return make_uniq<CollectGlobalSink>(context, types, find_elsewhere ? find_elsewhere(context) : nullptr);
}

unique_ptr<LocalSinkState> PhysicalCollectRows::GetLocalSinkState(ExecutionContext &context) const {
	return make_uniq<CollectLocalSink>(context.client, types);
}

SinkResultType PhysicalCollectRows::Sink(ExecutionContext &, DataChunk &chunk, OperatorSinkInput &input) const {
	auto &elsewhere = input.global_state.Cast<CollectGlobalSink>().elsewhere;
	if (elsewhere && elsewhere->HasRows()) {
		return SinkResultType::FINISHED;
	}
	auto &local = input.local_state.Cast<CollectLocalSink>();
	for (idx_t i = 0; i < columns.size(); i++) {
		local.chunk.data[i].Reference(chunk.data[columns[i]]);
	}
	SetRowCount(local.chunk, chunk.size());
	if (batched) {
		local.batches.Append(local.chunk, local.partition_info.batch_index.GetIndex());
	} else {
		local.rows.Append(local.append_state, local.chunk);
	}
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType PhysicalCollectRows::Combine(ExecutionContext &, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<CollectGlobalSink>();
	auto &local = input.local_state.Cast<CollectLocalSink>();
	lock_guard<mutex> guard(global.lock);
	if (batched) {
		global.batches.Merge(local.batches);
	} else {
		global.rows->Combine(local.rows);
	}
	return SinkCombineResultType::FINISHED;
}

SinkFinalizeType PhysicalCollectRows::Finalize(Pipeline &, Event &, ClientContext &,
                                               OperatorSinkFinalizeInput &input) const {
	auto &global = input.global_state.Cast<CollectGlobalSink>();
	if (batched) {
		global.rows = global.batches.FetchCollection();
	}
	return SinkFinalizeType::READY;
}

shared_ptr<RowsElsewhere> PhysicalCollectRows::Elsewhere() const {
	return sink_state->Cast<CollectGlobalSink>().elsewhere;
}

ColumnDataCollection &PhysicalCollectRows::Rows() const {
	return *sink_state->Cast<CollectGlobalSink>().rows;
}

void PhysicalCollectRows::Clear() const {
	sink_state->Cast<CollectGlobalSink>().rows->Reset();
}

} // namespace duckdb
