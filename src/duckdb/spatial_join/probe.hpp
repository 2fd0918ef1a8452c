//===----------------------------------------------------------------------===//
// duckdb/spatial_join/probe.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/spatial_join/build.hpp"
#include "duckdb/spatial_join/pairs_dispatch.hpp"
#include "duckdb/spatial_join/partitions.hpp"
#include "duckdb/spatial_join/tile_chunks.hpp"
#include "engine/join/session/stream.hpp"

namespace duckdb {

//! One thread's pairs: the keys of its chunks go into a stream of the engine, and batches of pairs that meet the whole condition
//! come out, whichever engine has found them
class SpatialProbe {
public:
	SpatialProbe(ClientContext &context, const PhysicalSpatialJoin &op);

	//! Computes the keys of a chunk
	void SetInput(DataChunk &input);
	//! Looks for the pairs of the chunk that was set. With partitions, `build` is one of them, and only pairs that belong to it come.
	void Begin(SpatialBuild &build, optional_ptr<const SpatialPartitions> partitions = nullptr, uint32_t part = 0);

	//! Collects the chunk that was set for the device
	void Collect(SpatialBuild &build);
	//! The next chunk whose pairs are known becomes the input; false when there is none
	bool NextChunk();
	//! There are no more chunks to collect; the rest is left to the source
	void EndCollecting();
	//! Takes one of the tiles that threads have left to the source; NextChunk() has its chunks
	void Resume(SpatialBuild &build, idx_t left_tile);
	//! Takes a piece of a pinned probe side; NextChunk() has its chunks
	void Resume(SpatialBuild &build, const PinnedWork &pinned, idx_t piece);
	//! Lets go of a build side that may go before the probe does
	void EndBuild();

	//! Whether the chunk that was set is too little for several threads to share
	bool IsLight() const {
		return row_bytes < vibespatial::join_tuning::BYTES_TO_SHARE;
	}
	//! The chunk that was set, with coordinates if all its geometries are points or NULL
	ChunkInput FirstRows() {
		ArePoints();
		return StreamInput();
	}
	const vibespatial::JoinRow *Geometries() const {
		return rows;
	}
	const double *Limits() const {
		return op.probe_keys.size() > 1 ? limits : nullptr;
	}
	//! The next pairs; 0 at the end of the chunk
	idx_t Next();
	//! Next() until the end, for those who only need `found`
	void FindAll();

	//! The pairs of the last Next()
	SelectionVector probe_rows;
	uint32_t build_rows[STANDARD_VECTOR_SIZE];
	//! Rows of the chunk that have had a pair so far
	bool found[STANDARD_VECTOR_SIZE];
	//! A row of the chunk that a filter leaves out, which is known only here: the device looks for no pairs of it
	bool IsDropped(idx_t row) const {
		return has_dropped && dropped[row];
	}

	SpatialBuild &Build() {
		return *build;
	}
	DataChunk &Input() {
		return *input;
	}
	//! The totals of all chunks so far
	void AddTo(vibespatial::JoinCounts &total) const {
		total.Add(counts);
		if (stream) {
			total.Add(stream->Counts());
		}
	}
	idx_t probed_rows = 0;
	idx_t pairs = 0;
	double seconds = 0;

private:
	//! A stream over this build side, or this part of it
	void SetBuild(SpatialBuild &build, optional_ptr<const SpatialPartitions> partitions = nullptr, uint32_t part = 0);
	//! Whether all geometries of the chunk that was set are points or NULL; reads their coordinates
	bool ArePoints();
	ChunkInput StreamInput();
	//! A chunk of the pinned rows becomes the input
	void ReadPinned(const vibespatial::JoinChunk &chunk);
	idx_t KeepOwn(idx_t count);
	idx_t ApplyResidual(idx_t count);

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	//! One pair decides about a row of the probe side
	const bool one_is_enough;
	optional_ptr<SpatialBuild> build;
	optional_ptr<DataChunk> input;
	ExpressionExecutor key_executor;
	DataChunk keys;
	vibespatial::JoinRow rows[STANDARD_VECTOR_SIZE];
	size_t row_bytes = 0;
	//! The coordinates of the chunk, where all its rows are points or NULL
	bool are_points = false;
	bool has_nulls = false;
	double point_x[STANDARD_VECTOR_SIZE];
	double point_y[STANDARD_VECTOR_SIZE];
	double limits[STANDARD_VECTOR_SIZE];
	unique_ptr<vibespatial::JoinStream> stream;
	optional_ptr<const SpatialPartitions> partitions;
	uint32_t part = 0;
	//! The rows of a pinned probe side, and where the chunks that come next begin
	unique_ptr<PinnedSideReader> pinned_rows;
	vibespatial::PinnedPiece pinned_piece;
	bool may_drop = false;
	bool has_dropped = false;
	bool dropped[STANDARD_VECTOR_SIZE];
	//! Of the streams before this one
	vibespatial::JoinCounts counts;

	unique_ptr<ExpressionExecutor> residual_executor;
	DataChunk residual_chunk;
	BuildGather residual_gather;
	SelectionVector residual_sel;
};

} // namespace duckdb
