// The sink of a spatial join: stores the rows of the build side, then indexes them, or partitions them when memory is short
#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/spatial_join/physical/probe_filters.hpp"
#include "duckdb/spatial_join/physical/state.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

namespace {

//! One build row in this many goes into the BuildSample
constexpr idx_t SAMPLED_ROWS = 61;
//! A chunk is copied by one more thread for each of these many bytes of geometry, if the other threads are idle
constexpr idx_t BYTES_PER_COPYING_THREAD = idx_t(256) << 10;
//! Limits of the probe chunks that are held back: bytes per thread, and the fraction of the memory limit for all threads
constexpr idx_t MAX_HELD_BYTES = idx_t(32) << 20;
constexpr idx_t HELD_FRACTION_OF_MEMORY = 16;

//! Build rows that one thread has copied
struct CopiedRows {
	CopiedRows(ClientContext &context, const PhysicalSpatialJoin &op)
	    : rows(make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION)) {
		rows->InitializeAppend(append_state);
	}

	unique_ptr<TupleDataCollection> rows;
	TupleDataAppendState append_state;
	//! Where the scan numbers its batches
	vector<BuildRun> runs;
};

class SpatialJoinLocalSink : public LocalSinkState {
public:
	SpatialJoinLocalSink(ClientContext &context, const PhysicalSpatialJoin &op)
	    : executor(context, op.build_keys), numbers(LogicalType::UBIGINT) {
		vector<LogicalType> types;
		for (auto &key : op.build_keys) {
			types.push_back(ReturnTypeOf(*key));
		}
		if (!types.empty()) {
			keys.Initialize(Allocator::Get(context), types);
		}
		chunk.InitializeEmpty(op.layout->GetTypes());
		copies.push_back(make_uniq<CopiedRows>(context, op));
	}

	ExpressionExecutor executor;
	DataChunk keys;
	//! The input in the columns of the layout
	DataChunk chunk;
	//! The first is this thread's own, the others are of threads that help it
	vector<unique_ptr<CopiedRows>> copies;
	bool is_counted = false;
	Vector numbers;
	idx_t rows_until_sample = 0;
	BuildSample sample;
	idx_t next_run = 0;

	//! The next rows of a batch, which are the last of a copy
	void AddRun(idx_t batch, idx_t copy, idx_t count) {
		auto &runs = copies[copy]->runs;
		if (runs.empty() || runs.back().batch != batch || runs.back().number + 1 != next_run) {
			runs.push_back(BuildRun {batch, next_run++, copies[copy]->rows->Count() - count, 0});
		}
		runs.back().count += count;
	}
};

idx_t ShareBegin(idx_t count, idx_t share, idx_t shares) {
	return count * share / shares;
}

//! Copies the selected rows with several threads. A few rows can be many bytes, and DuckDB scans them with one thread.
void CopyInParallel(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads,
                    SpatialJoinLocalSink &local, const SelectionVector &kept, idx_t count, idx_t shares) {
	while (local.copies.size() < shares) {
		local.copies.push_back(make_uniq<CopiedRows>(context, op));
	}
	// Reading a vector that is not flat may change it, which several threads must not do at once
	local.chunk.Flatten();
	threads.Run([&](vibespatial::Parallel &parallel) {
		parallel.For(shares, [&](size_t share) {
			auto begin = ShareBegin(count, share, shares), end = ShareBegin(count, share + 1, shares);
			SelectionVector some(end - begin);
			for (auto i = begin; i < end; i++) {
				some.set_index(i - begin, kept.get_index(i));
			}
			auto &copy = *local.copies[share];
			copy.rows->Append(copy.append_state, local.chunk, some, end - begin);
		});
	});
}

} // namespace

//===----------------------------------------------------------------------===//
// Storing rows
//===----------------------------------------------------------------------===//
unique_ptr<GlobalSinkState> PhysicalSpatialJoin::GetGlobalSinkState(ClientContext &context) const {
	ClearProbeFilters(*this);
	return make_uniq<SpatialJoinState>(context, *this);
}

unique_ptr<LocalSinkState> PhysicalSpatialJoin::GetLocalSinkState(ExecutionContext &context) const {
	return make_uniq<SpatialJoinLocalSink>(context.client, *this);
}

SinkResultType PhysicalSpatialJoin::Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const {
	return WithFunctionName(function, [&] { return Collect(context, chunk, input); });
}

SinkResultType PhysicalSpatialJoin::Collect(ExecutionContext &context, DataChunk &chunk,
                                            OperatorSinkInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinState>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSink>();
	if (!build_keys.empty()) {
		local.keys.Reset();
		local.executor.Execute(chunk, local.keys);
	}
	for (idx_t i = 0; i < kept_columns.size(); i++) {
		local.chunk.data[i].Reference(chunk.data[kept_columns[i]]);
	}
	for (idx_t i = 0; i < build_keys.size(); i++) {
		local.chunk.data[kept_columns.size() + i].Reference(local.keys.data[i]);
	}
	auto first = global.row_count.fetch_add(chunk.size());
	if (MarksBuild()) {
		for (idx_t i = 0; i < chunk.size(); i++) {
			MutableData<uint64_t>(local.numbers)[i] = first + i;
		}
		local.chunk.data[number_column].Reference(local.numbers);
	}
	SetRowCount(local.chunk, chunk.size());

	// A NULL matches nothing: such rows are stored only if the join emits build rows without a match
	SelectionVector kept(STANDARD_VECTOR_SIZE);
	idx_t count = 0;
	bool keep_all = MarksBuild() && join_type != JoinType::RIGHT_SEMI;
	UnifiedVectorFormat format;
	local.chunk.data[geometry_column].ToUnifiedFormat(chunk.size(), format);
	auto geometries = UnifiedVectorFormat::GetData<string_t>(format);
	idx_t bytes = 0;
	for (idx_t i = 0; i < chunk.size(); i++) {
		auto at = format.sel->get_index(i);
		bool valid = format.validity.RowIsValid(at);
		if (!valid && !keep_all) {
			continue;
		}
		kept.set_index(count++, i);
		auto size = valid ? geometries[at].GetSize() : 0;
		bytes += size;
		if (valid && local.rows_until_sample-- == 0) {
			local.rows_until_sample = SAMPLED_ROWS - 1;
			vibespatial::JoinRow row {const_data_ptr_cast(geometries[at].GetData()), NumericCast<uint32_t>(size)};
			local.sample.boxes.push_back(condition.Reach(row, 0));
			local.sample.weights.push_back(double(size + layout->GetRowWidth()));
		}
	}
	if (count == 0) {
		return SinkResultType::NEED_MORE_INPUT;
	}
	if (!local.is_counted && global.sinking_threads++ == 0) {
		global.index_dispatch.NoteFirstRow();
	}
	local.is_counted = true;
	auto shares = MinValue<idx_t>(bytes / BYTES_PER_COPYING_THREAD, global.threads.Count() / global.sinking_threads);
	if (shares > 1 && !deterministic) {
		shares = MinValue(shares, count);
		CopyInParallel(context.client, *this, global.threads, local, kept, count, shares);
	} else {
		shares = 1;
		auto &own = *local.copies[0];
		own.rows->Append(own.append_state, local.chunk, kept, count);
	}
	for (idx_t share = 0; has_batches && share < shares; share++) {
		local.AddRun(local.partition_info.batch_index.GetIndex(), share,
		             ShareBegin(count, share + 1, shares) - ShareBegin(count, share, shares));
	}
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType PhysicalSpatialJoin::Combine(ExecutionContext &, OperatorSinkCombineInput &input) const {
	auto &global = input.global_state.Cast<SpatialJoinState>();
	auto &local = input.local_state.Cast<SpatialJoinLocalSink>();
	for (auto &copy : local.copies) {
		copy->rows->FinalizePinState(copy->append_state.pin_state);
	}
	lock_guard<mutex> guard(global.lock);
	for (auto &copy : local.copies) {
		for (auto &run : copy->runs) {
			global.runs.push_back(BuildRun {run.batch, run.number, global.rows->Count() + run.first, run.count});
		}
		global.rows->Combine(std::move(copy->rows));
	}
	auto &sample = global.sample;
	sample.boxes.insert(sample.boxes.end(), local.sample.boxes.begin(), local.sample.boxes.end());
	sample.weights.insert(sample.weights.end(), local.sample.weights.begin(), local.sample.weights.end());
	return SinkCombineResultType::FINISHED;
}

//===----------------------------------------------------------------------===//
// Indexing or partitioning them
//===----------------------------------------------------------------------===//
static idx_t NeededMemory(const TupleDataCollection &rows) {
	return rows.SizeInBytes() + SpatialBuild::EstimateMemory(rows.Count());
}

void PhysicalSpatialJoin::PrepareFinalize(ClientContext &context, GlobalSinkState &sink) const {
	auto &global = sink.Cast<SpatialJoinState>();
	global.temporary_memory->SetRemainingSizeAndUpdateReservation(context, NeededMemory(*global.rows));
}

//! How many parts the build side must be cut into to fit into memory; 1 if it fits as a whole
static idx_t PartCountForMemory(ClientContext &context, const SpatialJoinState &global) {
	//! More parts than the ratio of needed to available memory: parts differ in size, and rows lie in several of them
	constexpr idx_t PARTS_PER_SHARE = 4;
	//! While a thread partitions rows it holds a block of rows and a block of their heap for each part
	constexpr idx_t BLOCKS_PER_PART = 2;
	Value forced;
	if (context.TryGetCurrentSetting("vibe_join_partitions", forced) && UBigIntValue::Get(forced) > 0) {
		return MinValue<idx_t>(UBigIntValue::Get(forced), vibespatial::PartitionGrid::MAX_PARTS);
	}
	auto needed = NeededMemory(*global.rows);
	auto available = MaxValue<idx_t>(1, global.temporary_memory->GetReservation());
	if (needed <= available) {
		return 1;
	}
	auto &manager = BufferManager::GetBufferManager(context);
	auto threads = ThreadCount(context);
	auto most = manager.GetMaxMemory() / 2 / (threads * BLOCKS_PER_PART * manager.GetBlockSize());
	auto wanted = PARTS_PER_SHARE * (needed / available + 1);
	return MaxValue<idx_t>(2, MinValue<idx_t>(MinValue<idx_t>(wanted, most), vibespatial::PartitionGrid::MAX_PARTS));
}

//! How many parts host memory and device memory ask for
static idx_t PartCount(ClientContext &context, const SpatialJoinState &global) {
	auto for_device = global.pairs_dispatch.PartCount(global.rows->SizeInBytes(), global.built_rows);
	return MaxValue(PartCountForMemory(context, global),
	                MinValue<idx_t>(for_device, vibespatial::PartitionGrid::MAX_PARTS));
}

//! Whether and how much probe threads hold back. They begin with it at once if the probe side has too few row groups for all threads.
static void DecideHolding(ClientContext &context, const PhysicalSpatialJoin &op, SpatialJoinState &global,
                          idx_t probe_rows) {
	auto threads = global.threads.Count();
	global.may_hold = !op.deterministic && threads > 1;
	global.max_held_bytes_per_thread = MinValue(
	    MAX_HELD_BYTES, BufferManager::GetBufferManager(context).GetMaxMemory() / (HELD_FRACTION_OF_MEMORY * threads));
	global.holds = global.may_hold && probe_rows / DEFAULT_ROW_GROUP_SIZE < threads / 2;
}

SinkFinalizeType PhysicalSpatialJoin::Finalize(Pipeline &, Event &, ClientContext &context,
                                               OperatorSinkFinalizeInput &input) const {
	return WithFunctionName(function, [&] { return Build(context, input.global_state); });
}

SinkFinalizeType PhysicalSpatialJoin::Build(ClientContext &context, GlobalSinkState &sink) const {
	auto &global = sink.Cast<SpatialJoinState>();
	auto probe_rows = children[0].get().estimated_cardinality;
	global.built_rows = global.rows->Count();
	if (MarksBuild()) {
		global.matched.Resize(global.row_count);
	}
	global.index_dispatch.Decide(global.built_rows, global.rows->SizeInBytes());
	global.pairs_dispatch.Decide(global.built_rows, global.rows->SizeInBytes(), probe_rows);
	probe_rows = global.pairs_dispatch.ExpectedRows();
	auto parts = PartCount(context, global);
	// A device that is still starting need not be waited for yet: the index (except for its tree) and the scan of the probe side
	// do without it. A partitioned build needs it now.
	if (parts > 1 || !global.index_dispatch.DeviceIsComing()) {
		global.index_dispatch.RequireDevice();
		global.pairs_dispatch.Require();
	}
	if (parts > 1) {
		global.partitions =
		    make_uniq<SpatialPartitions>(context, *this, global.sample.boxes, global.sample.weights, parts);
		global.threads.Run(
		    [&](vibespatial::Parallel &parallel) { global.partitions->CutBuild(parallel, std::move(global.rows)); });
		global.pairs_dispatch.UsePinned(nullptr);
		return SinkFinalizeType::READY;
	}
	DecideHolding(context, *this, global, probe_rows);
	global.build = make_uniq<SpatialBuild>(context, *this, std::move(global.rows), global.matched);
	global.threads.Run([&](vibespatial::Parallel &parallel) {
		std::function<void()> number;
		if (!build_groups.empty()) {
			number = [&] { global.groups->NumberBuild(*global.build); };
		}
		global.build->Build(parallel, global.index_dispatch, global.threads, probe_rows,
		                    global.pairs_dispatch.UseOfBuild(), std::move(global.runs), std::move(number));
	});
	global.pairs_dispatch.SetBuild(*global.build);
	if (!global.pairs_dispatch.IsAwaited()) {
		global.index_dispatch.RequireDevice();
	}
	if (global.pairs_dispatch.UsePinned(global.build.get())) {
		// The scan has nothing to add: it can skip all row groups whose statistics it has, and ends with its first rows otherwise
		constexpr double NOWHERE = 1e300;
		PushProbeFilters(context, *this, vibe::Box {NOWHERE, NOWHERE, NOWHERE, NOWHERE});
		return SinkFinalizeType::NO_OUTPUT_POSSIBLE;
	}
	PushProbeFilters(context, *this, global.build->Index().Bounds());
	return global.built_rows == 0 && EmptyResultIfRHSIsEmpty() && !has_aggregate ? SinkFinalizeType::NO_OUTPUT_POSSIBLE
	                                                                             : SinkFinalizeType::READY;
}

} // namespace duckdb
