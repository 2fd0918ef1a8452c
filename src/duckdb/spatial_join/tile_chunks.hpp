//===----------------------------------------------------------------------===//
// duckdb/spatial_join/tile_chunks.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/operators/kept_rows.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/join/session/host.hpp"

namespace duckdb {

//! A chunk of the probe side, as the engine takes it
struct ChunkInput : vibespatial::JoinInput {
	explicit ChunkInput(DataChunk &chunk) : chunk(chunk) {
	}
	DataChunk &chunk;
};

//! The columns of a tile's rows that are needed when their pairs are known. Counts the memory of the whole tile.
class TileChunks : public vibespatial::TilePayload {
public:
	TileChunks(ClientContext &context, const vector<bool> &columns)
	    : kept(context, columns), memory(context), manager(BufferManager::GetBufferManager(context)),
	      threads(ThreadCount(context)) {
	}

	//! The input is a ChunkInput
	void Keep(const vibespatial::JoinInput &input, size_t begin, size_t count, size_t at) override {
		kept.Add(static_cast<const ChunkInput &>(input).chunk, begin, count, at);
	}
	void Clear() override {
		kept.Clear();
	}
	bool CountMemory(uint64_t tile_bytes) override {
		// DuckDB counts what it is asked for before it looks for it: other threads would run out of memory meanwhile
		constexpr idx_t TILES_PER_THREAD = 2;
		const auto bytes = Rounded(tile_bytes);
		if (bytes > memory.Size() && bytes > manager.GetMaxMemory() / (TILES_PER_THREAD * threads)) {
			return false;
		}
		return memory.TryResize(bytes);
	}
	void RequireMemory(uint64_t tile_bytes) override {
		memory.Resize(Rounded(tile_bytes));
	}
	uint64_t CountedBytes() const override {
		return memory.Size();
	}
	DataChunk &Chunk(idx_t number) {
		return kept.Chunk(number);
	}

private:
	//! DuckDB is asked for this much at a time
	idx_t Rounded(uint64_t tile_bytes) const {
		constexpr idx_t STEP = 256 << 10;
		return (kept.Bytes() + tile_bytes + STEP - 1) / STEP * STEP;
	}

	KeptRows kept;
	CountedMemory memory;
	BufferManager &manager;
	const idx_t threads;
};

} // namespace duckdb
