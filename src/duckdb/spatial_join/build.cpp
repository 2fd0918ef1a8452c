#include "duckdb/spatial_join/build.hpp"

#include "duckdb/common/types/row/tuple_data_iterator.hpp"
#include "duckdb/support/task_parallel.hpp"

#include <chrono>

namespace duckdb {

using vibespatial::JoinIndex;

//! Chunks of rows that one step of a parallel loop takes
static constexpr idx_t CHUNKS_PER_STEP = 16;

SpatialBuild::SpatialBuild(ClientContext &context, const PhysicalSpatialJoin &op, unique_ptr<TupleDataCollection> rows,
                           RowFlags &matched)
    : context(context), op(op), rows(std::move(rows)), matched(matched), memory(context) {
}

idx_t SpatialBuild::EstimateMemory(idx_t count) {
	return JoinIndex::EstimateMemory(count) + count * (sizeof(data_ptr_t) + sizeof(uint32_t) + 1);
}

void SpatialBuild::Load(vibespatial::Parallel &parallel) {
	idx_t count = rows->Count();
	if (count >= NumericLimits<uint32_t>::Maximum()) {
		throw OutOfRangeException("a spatial join takes at most 4 billion rows on its build side");
	}
	memory.Resize(EstimateMemory(count));
	// Rows are numbered in the order of the collection. How many a chunk has, reading it tells.
	auto chunks = rows->ChunkCount();
	struct Share {
		vector<data_ptr_t> found;
		idx_t first = 0;
	};
	vector<Share> shares((chunks + CHUNKS_PER_STEP - 1) / CHUNKS_PER_STEP);
	parallel.For(shares.size(), [&](size_t step) {
		auto &found = shares[step].found;
		found.reserve(MinValue<idx_t>(count, CHUNKS_PER_STEP * STANDARD_VECTOR_SIZE));
		TupleDataChunkIterator iterator(*rows, TupleDataPinProperties::KEEP_EVERYTHING_PINNED, step * CHUNKS_PER_STEP,
		                                MinValue<idx_t>(chunks, (step + 1) * CHUNKS_PER_STEP), true);
		do {
			auto pointers = iterator.GetRowLocations();
			found.insert(found.end(), pointers, pointers + iterator.GetCurrentChunkCount());
		} while (iterator.Next());
	});
	for (idx_t i = 1; i < shares.size(); i++) {
		shares[i].first = shares[i - 1].first + shares[i - 1].found.size();
	}
	locations.resize(count);
	parallel.For(shares.size(), [&](size_t step) {
		auto &share = shares[step];
		std::copy(share.found.begin(), share.found.end(), locations.data() + share.first);
	});
}

//! As one thread would have scanned them: a device knows a build side by its rows in their order
void SpatialBuild::Order(vector<BuildRun> runs, vibespatial::Parallel &parallel) {
	std::sort(runs.begin(), runs.end(), [](const BuildRun &a, const BuildRun &b) {
		return a.batch != b.batch ? a.batch < b.batch : a.number < b.number;
	});
	vector<idx_t> begins;
	idx_t count = 0;
	for (auto &run : runs) {
		begins.push_back(count);
		count += run.count;
	}
	D_ASSERT(count == locations.size());
	vibespatial::UninitializedVector<data_ptr_t> ordered(count);
	// Each about a row group
	parallel.For(runs.size(), [&](size_t run) {
		std::copy_n(locations.data() + runs[run].first, runs[run].count, ordered.data() + begins[run]);
	});
	locations = std::move(ordered);
}

void SpatialBuild::Build(vibespatial::Parallel &parallel, IndexDispatch &dispatch, TaskThreads &threads,
                         idx_t expected_probes, Use use, vector<BuildRun> runs, std::function<void()> beside) {
	auto begin = std::chrono::steady_clock::now();
	auto since = OperatorDispatch::Now();
	Load(parallel);
	if (use != Use::CPU && !runs.empty()) {
		Order(std::move(runs), parallel);
	}
	auto count = locations.size();
	bool has_limits = op.limit_column != DConstants::INVALID_INDEX;
	vibespatial::JoinRows geometries(count);
	std::vector<double> limits(has_limits ? count : 0);
	idx_t rows_per_step = CHUNKS_PER_STEP * STANDARD_VECTOR_SIZE;
	parallel.For((count + rows_per_step - 1) / rows_per_step, [&](size_t step) {
		for (idx_t i = step * rows_per_step; i < MinValue<idx_t>(count, (step + 1) * rows_per_step); i++) {
			geometries[i] = op.GeometryOf(locations[i]);
			if (has_limits) {
				limits[i] = op.LimitOf(locations[i]);
			}
		}
	});
	index_dispatch = dispatch;
	index = make_uniq<JoinIndex>(op.condition, std::move(geometries), std::move(limits), ThreadCount(context),
	                             CancelPoll(context));
	index->ExpectPoints(expected_probes);
	if (use != Use::CPU) {
		index->KeepForDevice();
	}
	if (dispatch.IsForDevice()) {
		index->SetTreeBuilder([&dispatch](const vibe::Box *boxes, size_t box_count, vibespatial::Parallel &threads) {
			return dispatch.Build(boxes, box_count, threads);
		});
	}
	// A device that looks for pairs packs one for itself, with the rows
	index->SetLeaveTree([&dispatch, use] { return use == Use::DEVICE || dispatch.DeviceIsComing(); });
	vibespatial::Beside both(parallel, std::move(beside));
	index->Build(both);
	both.Finish();
	index->SetInvite([&](const std::shared_ptr<vibespatial::SharedWork> &work) { threads.Invite(work); });
	auto free_memory = [&manager = BufferManager::GetBufferManager(context)]() -> size_t {
		return manager.GetMaxMemory() - MinValue(manager.GetMaxMemory(), manager.GetUsedMemory());
	};
	index->SetShapeMemory(free_memory() / 2);
	index->SetCellMemory(
	    {free_memory, [this](size_t bytes) { return ReserveCells(bytes); }, [this] { SettleCells(); }});
	CountMemory();
	seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	dispatch.AddStep("index", "build side", since, OperatorDispatch::Now());
	if (!dispatch.IsForDevice()) {
		dispatch.NoteIndex(count, 1000 * seconds);
	}
}

//! What cells take while they are built is asked for in steps of this size
static constexpr idx_t CELL_STEP = idx_t(16) << 20;

idx_t SpatialBuild::UsedMemory() const {
	return index->MemoryUsage() + locations.size() * (sizeof(data_ptr_t) + 1) + groups.size() * sizeof(uint32_t);
}

bool SpatialBuild::ReserveCells(idx_t bytes) {
	if (bytes <= cells_reserved) {
		return true;
	}
	lock_guard<mutex> guard(memory_lock);
	if (cells_reserved == 0) {
		before_cells = memory.Size();
	}
	for (auto reserved : {bytes + CELL_STEP, bytes}) {
		if (bytes <= cells_reserved) {
			return true;
		}
		if (memory.TryResize(MaxValue(memory.Size(), before_cells + reserved))) {
			cells_reserved = reserved;
		}
	}
	return bytes <= cells_reserved;
}

void SpatialBuild::SettleCells() {
	lock_guard<mutex> guard(memory_lock);
	cells_reserved = 0;
	memory.TryResize(UsedMemory()); // what is missing, CountMemory() reports
}

void SpatialBuild::CountMemory() {
	auto bytes = UsedMemory();
	if (bytes == memory.Size()) {
		return;
	}
	lock_guard<mutex> guard(memory_lock);
	memory.Resize(cells_reserved > 0 ? MaxValue(bytes, before_cells + cells_reserved) : bytes);
}

BuildGather::BuildGather(const TupleDataLayout &layout, vector<column_t> columns_p)
    : columns(std::move(columns_p)), locations(LogicalType::POINTER) {
	if (columns.empty()) {
		return;
	}
	vector<LogicalType> types;
	for (auto column : columns) {
		types.push_back(layout.GetTypes()[column]);
	}
	TupleDataCollection::InitializeChunkState(state, layout.GetTypes(), columns);
	chunk.Initialize(Allocator::DefaultAllocator(), types);
}

DataChunk &BuildGather::Gather(const SpatialBuild &build, const uint32_t *build_rows, idx_t count) {
	if (columns.empty()) {
		return chunk;
	}
	auto pointers = MutableData<data_ptr_t>(locations);
	for (idx_t i = 0; i < count; i++) {
		pointers[i] = build.Location(build_rows[i]);
	}
	chunk.Reset();
	TupleDataCollection::ResetCachedCastVectors(state, columns);
	auto &all = *FlatVector::IncrementalSelectionVector();
	build.Rows().Gather(locations, all, count, columns, chunk, all, state.cached_cast_vectors);
	SetRowCount(chunk, count);
	return chunk;
}

} // namespace duckdb
