//===----------------------------------------------------------------------===//
// duckdb/spatial_join/physical/state.hpp
//
// What sink, probe, source and EXPLAIN ANALYZE of a spatial join share
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/operators/chunk_exchange.hpp"
#include "duckdb/spatial_join/build.hpp"
#include "duckdb/spatial_join/pairs_dispatch.hpp"
#include "duckdb/spatial_join/groups.hpp"
#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/spatial_join/partitions.hpp"
#include "duckdb/spatial_join/physical.hpp"
#include "duckdb/spatial_join/probe.hpp"
#include "duckdb/storage/temporary_memory_manager.hpp"
#include "duckdb/support/task_parallel.hpp"

namespace duckdb {

//! The boxes of some build rows and their sizes in bytes. A partition grid is made from them when memory is short.
struct BuildSample {
	std::vector<vibe::Box> boxes;
	std::vector<double> weights;
};

//! What EXPLAIN ANALYZE says about indexes: the last one, the largest, and the time for all of them
struct IndexReport {
	string description;
	idx_t bytes = 0;
	double seconds = 0;

	void Add(SpatialBuild &build) {
		description = build.Index().Describe();
		bytes = MaxValue<idx_t>(bytes, build.Index().MemoryUsage());
		seconds += build.seconds + build.Index().CellSeconds();
	}
};

//! The state of the whole operator. The sink fills it, the probe and the source read it and add their results.
class SpatialJoinState : public GlobalSinkState {
public:
	SpatialJoinState(ClientContext &context, const PhysicalSpatialJoin &op)
	    : threads(context),
	      index_dispatch(context, vibespatial::JoinNeeds(op.condition, op.probe_kinds, op.build_kinds)),
	      pairs_dispatch(context, op, threads),
	      rows(make_uniq<TupleDataCollection>(context, op.layout, MemoryTag::EXTENSION)),
	      temporary_memory(TemporaryMemoryManager::Get(context).Register(context)) {
		if (op.has_aggregate) {
			groups = make_uniq<SpatialGroups>(context, op);
		}
	}

	static SpatialJoinState &Get(const PhysicalOperator &op) {
		return op.sink_state->Cast<SpatialJoinState>();
	}

	TaskThreads threads;
	IndexDispatch index_dispatch;
	PairsDispatch pairs_dispatch;
	mutex lock;

	// Sink
	unique_ptr<TupleDataCollection> rows;
	std::atomic<idx_t> row_count {0};
	//! Threads that have sunk a row
	std::atomic<idx_t> sinking_threads {0};
	vector<BuildRun> runs;
	BuildSample sample;
	unique_ptr<TemporaryMemoryState> temporary_memory;

	// The build side once it is complete: `build` where it fits into memory, `partitions` where it does not
	unique_ptr<SpatialBuild> build;
	unique_ptr<SpatialPartitions> partitions;
	//! The build rows that matched, by their number, for joins that mark them
	RowFlags matched;
	//! With an aggregate: the results of all threads
	unique_ptr<SpatialGroups> groups;

	// Probe chunks that a thread does not join itself. When few threads scan the probe side, they hold chunks back until
	// all threads can join them (source phase HeldChunks).
	bool may_hold = false;
	atomic<bool> holds {false};
	idx_t max_held_bytes_per_thread = 0;
	unique_ptr<ColumnDataCollection> held;
	//! With an aggregate, threads that have finished their scan take chunks from those that have not
	ChunkExchange exchange;

	// For EXPLAIN ANALYZE
	idx_t built_rows = 0;
	//! Of the parts that have been joined; `build` speaks for itself
	IndexReport part_indexes;
	vibespatial::JoinCounts counts;
	idx_t probed_rows = 0;
	idx_t pairs = 0;
	double probe_seconds = 0;

	//! Adds what a thread's probe has counted. The caller holds the lock.
	void AddProbe(const SpatialProbe &probe) {
		probe.AddTo(counts);
		probed_rows += probe.probed_rows;
		pairs += probe.pairs;
		probe_seconds += probe.seconds;
	}
};

} // namespace duckdb
