// The phases that join the probe rows which the streaming part left over: Tiles and HeldChunks
#include "duckdb/spatial_join/physical/chunk_join.hpp"
#include "duckdb/spatial_join/physical/phases.hpp"

namespace duckdb {

namespace {

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//
class TilesWork : public ProbingWork {
public:
	using ProbingWork::ProbingWork;

	void BeginUnit() override {
		ProbingWork::BeginUnit();
		if (auto pinned = state.pairs_dispatch.Pinned()) {
			probe->Resume(*state.build, *pinned, unit);
		} else {
			probe->Resume(*state.build, unit);
		}
	}
	bool Next(DataChunk &result) override {
		if (!in_chunk && !probe->NextChunk()) {
			return false;
		}
		in_chunk = SpatialChunkJoin(op, *probe, *gather, Groups()).Next(result);
		return true;
	}
	void End() override {
		PhaseWork::End();
		EndProbing();
	}
};

class TilesPhase : public SourcePhase {
public:
	using SourcePhase::SourcePhase;

	idx_t Begin() override {
		return state.pairs_dispatch.TileCount();
	}
	idx_t MaxThreads(idx_t units, idx_t threads) const override {
		return MinValue(threads, units);
	}
	unique_ptr<PhaseWork> NewWork() override {
		return make_uniq<TilesWork>(source);
	}
};

//===----------------------------------------------------------------------===//
// HeldChunks
//===----------------------------------------------------------------------===//
class HeldChunksWork : public ProbingWork {
public:
	HeldChunksWork(SpatialSource &source, ColumnDataParallelScanState &scan) : ProbingWork(source), scan(scan) {
	}

	void BeginUnit() override {
		if (!probe) {
			state.held->InitializeScanChunk(chunk);
		}
		ProbingWork::BeginUnit();
	}
	bool Next(DataChunk &result) override {
		if (!in_chunk) {
			if (!state.held->Scan(scan, local_scan, chunk)) {
				return false;
			}
			probe->SetInput(chunk);
			probe->Begin(*state.build);
			state.build->CountMemory();
		}
		in_chunk = SpatialChunkJoin(op, *probe, *gather, Groups()).Next(result);
		return in_chunk;
	}
	void End() override {
		PhaseWork::End();
		EndProbing();
	}

private:
	ColumnDataParallelScanState &scan;
	ColumnDataLocalScanState local_scan;
	DataChunk chunk;
};

class HeldChunksPhase : public SourcePhase {
public:
	using SourcePhase::SourcePhase;

	idx_t Begin() override {
		if (!state.held) {
			return 0;
		}
		state.held->InitializeScan(scan);
		return state.held->ChunkCount();
	}
	idx_t MaxThreads(idx_t units, idx_t threads) const override {
		return MinValue(threads, units);
	}
	unique_ptr<PhaseWork> NewWork() override {
		return make_uniq<HeldChunksWork>(source, scan);
	}

private:
	ColumnDataParallelScanState scan;
};

} // namespace

unique_ptr<SourcePhase> MakeTilesPhase(SpatialSource &source) {
	return make_uniq<TilesPhase>(source);
}

unique_ptr<SourcePhase> MakeHeldChunksPhase(SpatialSource &source) {
	return make_uniq<HeldChunksPhase>(source);
}

} // namespace duckdb
