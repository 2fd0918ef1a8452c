//===----------------------------------------------------------------------===//
// duckdb/spatial_join/probe.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/spatial_join/build.hpp"
#include "duckdb/spatial_join/partitions.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/join/shares.hpp"

namespace duckdb {

//! One thread's probes: the pairs of a chunk and a build side that meet the whole condition
class SpatialProbe {
public:
	SpatialProbe(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads);

	//! The keys of a chunk, to be probed or cut
	void SetInput(DataChunk &input);
	//! Probes with the chunk that was set. With partitions, `build` is one of them, and only its own pairs come.
	void Begin(SpatialBuild &build, optional_ptr<const SpatialPartitions> partitions = nullptr, uint32_t part = 0);
	//! Pairs of a chunk that are known already, but for the residual; or only which of its rows have one
	void BeginPairs(SpatialBuild &build, DataChunk &chunk, const uint32_t *probe, const uint32_t *build_rows,
	                idx_t count, optional_ptr<const SpatialPartitions> partitions = nullptr, uint32_t part = 0);
	void BeginFound(SpatialBuild &build, DataChunk &chunk, const uint8_t *found);
	//! Are the geometries of the chunk that was set points, or hardly more? Too few for several threads to share it
	bool IsLight() const {
		return tile_bytes < vibespatial::join_tuning::BYTES_TO_SHARE;
	}
	const vibespatial::JoinRow *Geometries() const {
		return tile;
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
	//! Rows of the chunk that met something so far
	bool found[STANDARD_VECTOR_SIZE];

	SpatialBuild &Build() {
		return *build;
	}
	DataChunk &Input() {
		return *input;
	}
	//! What all chunks so far came to
	void AddTo(vibespatial::JoinCounts &total) const {
		total.Add(counts);
		if (probe) {
			total.Add(probe->counts);
			total.Add(shares->Counts());
		}
	}
	idx_t probed_rows = 0;
	idx_t pairs = 0;
	double seconds = 0;

private:
	idx_t NextCandidates();
	idx_t KeepOwn(idx_t count);
	idx_t ApplyResidual(idx_t count);

	ClientContext &context;
	const PhysicalSpatialJoin &op;
	TaskThreads &threads;
	optional_ptr<SpatialBuild> build;
	optional_ptr<DataChunk> input;
	ExpressionExecutor key_executor;
	DataChunk keys;
	vibespatial::JoinRow tile[STANDARD_VECTOR_SIZE];
	size_t tile_bytes = 0;
	//! Of the tile, where all of it are points
	bool are_points = false;
	double point_x[STANDARD_VECTOR_SIZE];
	double point_y[STANDARD_VECTOR_SIZE];
	double limits[STANDARD_VECTOR_SIZE];
	//! Of the current build: by this thread, or together with others
	unique_ptr<vibespatial::JoinProbe> probe;
	unique_ptr<vibespatial::JoinShares> shares;
	//! Whom Next() asks
	enum class Source : uint8_t { PROBE, SHARES, KNOWN };
	Source source = Source::PROBE;
	//! What is known already
	const uint32_t *known_probe = nullptr;
	const uint32_t *known_build = nullptr;
	idx_t known_count = 0;
	optional_ptr<const SpatialPartitions> partitions;
	uint32_t part = 0;
	//! Of the builds before
	vibespatial::JoinCounts counts;

	unique_ptr<ExpressionExecutor> residual_executor;
	DataChunk residual_chunk;
	BuildGather residual_gather;
	SelectionVector residual_sel;
};

} // namespace duckdb
