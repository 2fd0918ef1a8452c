//===----------------------------------------------------------------------===//
// duckdb/spatial_join/build.hpp
//
// The build side of a spatial join, or one partition of it, ready to be probed
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/spatial_join/physical.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/join/session/session.hpp"

#include <atomic>

namespace duckdb {

//! One bit per row. Many threads may set bits at the same time.
class RowFlags {
public:
	void Resize(idx_t rows) {
		words = vector<std::atomic<uint64_t>>((rows + 63) / 64);
		for (auto &word : words) {
			word.store(0, std::memory_order_relaxed);
		}
	}
	//! Returns whether it was set before
	bool Set(idx_t row) {
		auto bit = uint64_t(1) << (row % 64);
		auto &word = words[row / 64];
		return (word.load(std::memory_order_relaxed) & bit) != 0 ||
		       (word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0;
	}
	bool Has(idx_t row) const {
		return words[row / 64].load(std::memory_order_relaxed) >> (row % 64) & 1;
	}

private:
	vector<std::atomic<uint64_t>> words;
};

//! Consecutive rows of a collection that came from one batch of a scan. A batch is scanned by one thread.
struct BuildRun {
	idx_t batch;
	//! In the order of the thread
	idx_t number;
	idx_t first;
	idx_t count;
};

class SpatialBuild {
public:
	//! `matched` has a bit for every row of the whole build side, by row number; only used where the join marks rows
	SpatialBuild(ClientContext &context, const PhysicalSpatialJoin &op, unique_ptr<TupleDataCollection> rows,
	             RowFlags &matched);

	//! An estimate of the memory that so many rows take on top of the rows themselves
	static idx_t EstimateMemory(idx_t rows);
	//! Pins the rows
	void Load(vibespatial::Parallel &parallel);
	enum class Use : uint8_t { CPU, DEVICE, DEVICE_AND_TREE };
	//! Loads and indexes the rows, on the engine that was chosen for that. `use`: whether the GPU will look for pairs, and whether
	//! the CPU needs the tree all the same. `runs`: the batches that the rows came in, if known; rows are numbered in their order.
	//! `beside`: work on the loaded rows that a thread does at the same time.
	void Build(vibespatial::Parallel &parallel, IndexDispatch &dispatch, TaskThreads &threads, idx_t expected_probes,
	           Use use, vector<BuildRun> runs = {}, std::function<void()> beside = nullptr);
	//! The device has packed a tree of its own
	void NoteDeviceTree(idx_t boxes, const vibespatial::GpuTimes &times) {
		index_dispatch->NoteDevice(boxes, times);
	}
	//! After Build(): what streams of the engine ask
	void SetJoin(std::unique_ptr<vibespatial::JoinBuild> join_p) {
		join = std::move(join_p);
	}
	vibespatial::JoinBuild &Join() {
		return *join;
	}
	//! Accounts for memory that grew while probing
	void CountMemory();

	vibespatial::JoinIndex &Index() {
		return *index;
	}
	idx_t Count() const {
		return locations.size();
	}
	const TupleDataCollection &Rows() const {
		return *rows;
	}
	data_ptr_t Location(idx_t row) const {
		return locations[row];
	}
	bool IsMatched(idx_t row) const {
		return matched.Has(op.NumberOf(locations[row]));
	}
	void SetMatched(idx_t row) {
		matched.Set(op.NumberOf(locations[row]));
	}

	double seconds = 0;
	//! With an aggregate: the group of each row
	vector<uint32_t> groups;

private:
	void Order(vector<BuildRun> runs, vibespatial::Parallel &parallel);
	idx_t UsedMemory() const;
	//! As in JoinIndex::CellMemory
	bool ReserveCells(idx_t bytes);
	void SettleCells();

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	unique_ptr<TupleDataCollection> rows;
	vibespatial::UninitializedVector<data_ptr_t> locations;
	RowFlags &matched;
	optional_ptr<IndexDispatch> index_dispatch;
	unique_ptr<vibespatial::JoinIndex> index;
	std::unique_ptr<vibespatial::JoinBuild> join;
	CountedMemory memory;
	mutex memory_lock;
	//! While cells are built: what was counted before, and what is reserved for them
	idx_t before_cells = 0;
	atomic<idx_t> cells_reserved {0};
};

//! Gathers some columns of build rows into a chunk
class BuildGather {
public:
	BuildGather(const TupleDataLayout &layout, vector<column_t> columns);

	//! Valid until the next call
	DataChunk &Gather(const SpatialBuild &build, const uint32_t *build_rows, idx_t count);

private:
	vector<column_t> columns;
	Vector locations;
	TupleDataChunkState state;
	DataChunk chunk;
};

} // namespace duckdb
