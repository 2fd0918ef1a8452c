//===----------------------------------------------------------------------===//
// duckdb/spatial_join/physical/phases.hpp
//
// The phases of the source of a spatial join. Each has units of work that any thread can take. A phase begins when all threads are
// done with the one before it, so it can rely on all that was found until then. source.cpp runs the phases.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/spatial_join/physical/state.hpp"

namespace duckdb {

//! What the phases of one execution share
struct SpatialSource {
	SpatialSource(ClientContext &context, const PhysicalSpatialJoin &op)
	    : context(context), op(op), state(SpatialJoinState::Get(op)) {
		if (state.partitions) {
			probe_found.Resize(state.partitions->probe_count);
		}
	}

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	SpatialJoinState &state;
	//! With partitions: the probe rows, by number, that have a match in a part. Parts sets them, UnmatchedProbe reads them.
	RowFlags probe_found;
};

//! The units of the current phase. Written under the lock of the source; read without it to report progress.
struct PhaseUnits {
	std::atomic<idx_t> count {0};
	std::atomic<idx_t> next {0};
};

//! One thread's work in one phase. It is made under the lock of the source, so what costs time is left to BeginUnit().
class PhaseWork {
public:
	explicit PhaseWork(SpatialSource &source) : source(source), op(source.op), state(source.state) {
	}
	virtual ~PhaseWork() = default;

	//! Before the first Next() of each unit
	virtual void BeginUnit() {
	}
	//! The next rows of the unit, if any; returns false when it is done
	virtual bool Next(DataChunk &result) = 0;
	//! After the last Next() of each unit, when its rows have been consumed
	virtual void EndUnit() {
	}
	//! No unit of this phase is left for this thread: adds what it has gathered to the state of the operator. Under the lock of
	//! the source.
	virtual void End();

	idx_t unit = 0;

protected:
	//! With an aggregate: the results of this thread in this phase
	optional_ptr<SpatialGroups> Groups();

	SpatialSource &source;
	const PhysicalSpatialJoin &op;
	SpatialJoinState &state;

private:
	unique_ptr<SpatialGroups> groups;
};

//! Work that reads probe rows or emits pairs
class ProbingWork : public PhaseWork {
public:
	explicit ProbingWork(SpatialSource &source) : PhaseWork(source) {
	}

	void BeginUnit() override;

protected:
	//! Adds what the probe has counted
	void EndProbing();

	unique_ptr<SpatialProbe> probe;
	unique_ptr<BuildGather> gather;
	//! The chunk that was begun may have more rows
	bool in_chunk = false;
};

//! The probe rows of a part, chunk by chunk
class PartReader {
public:
	explicit PartReader(const PhysicalSpatialJoin &op);

	//! Reads a chunk of a part; false when there are not so many
	bool Fetch(SpatialPartitions &partitions, idx_t part, idx_t index);
	//! The columns of the left child
	DataChunk &Chunk() {
		return chunk;
	}
	//! The number of a row among all probe rows
	idx_t NumberOf(idx_t row) const {
		return NumericCast<idx_t>(numbers[row]);
	}

private:
	unique_ptr<RowReader> reader;
	DataChunk chunk;
	int64_t *numbers = nullptr;
};

//! What all threads share of one phase
class SourcePhase {
public:
	explicit SourcePhase(SpatialSource &source) : source(source), op(source.op), state(source.state) {
	}
	virtual ~SourcePhase() = default;

	//! Called once, when the phase before it has ended; returns the number of units. A phase without units is skipped.
	virtual idx_t Begin() = 0;
	//! How many threads the phase is worth
	virtual idx_t MaxThreads(idx_t units, idx_t threads) const = 0;
	virtual unique_ptr<PhaseWork> NewWork() = 0;
	//! Gives a thread its next unit; false when none is left. Under the lock of the source.
	virtual bool Take(PhaseWork &work, PhaseUnits &units) {
		if (units.next >= units.count) {
			return false;
		}
		work.unit = units.next++;
		return true;
	}

protected:
	SpatialSource &source;
	const PhysicalSpatialJoin &op;
	SpatialJoinState &state;
};

//! Parts. Joins the parts of a partitioned build side with the probe rows of each, one part at a time, all threads on the same part.
//! The first phase: it begins when all probe rows have been partitioned. A unit is a part.
unique_ptr<SourcePhase> MakePartsPhase(SpatialSource &source);

//! Tiles. Finishes the tiles of probe rows that threads had not sent to the device when their input ended, or does all tiles of a probe
//! side that is pinned. Begins when the probe side has been read, if the device looks for pairs. A unit is a tile.
unique_ptr<SourcePhase> MakeTilesPhase(SpatialSource &source);

//! HeldChunks. Joins the chunks that few scanning threads held back, now with all threads.
//! Begins when the probe side has been read. A unit is a chunk.
unique_ptr<SourcePhase> MakeHeldChunksPhase(SpatialSource &source);

//! UnmatchedProbe. Emits the probe rows that matched in no part, and for MARK joins all of them with their mark.
//! Begins when all parts have been joined; without partitions the probe emits these rows itself. A unit is a part.
unique_ptr<SourcePhase> MakeUnmatchedProbePhase(SpatialSource &source);

//! BuildRows. Emits the build rows that never matched (RIGHT, OUTER, RIGHT_ANTI) or that matched (RIGHT_SEMI).
//! Begins when all pairs have been found. A unit is a vector of build rows, with partitions a part.
unique_ptr<SourcePhase> MakeBuildRowsPhase(SpatialSource &source);

//! Groups. Emits the results of an aggregate that was taken into the join.
//! Begins when all pairs and all rows without a match have been added. A unit is a vector of groups.
unique_ptr<SourcePhase> MakeGroupsPhase(SpatialSource &source);

} // namespace duckdb
