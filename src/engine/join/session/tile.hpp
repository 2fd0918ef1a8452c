//===----------------------------------------------------------------------===//
// engine/join/session/tile.hpp
//
// A tile: the probe rows that are sent to the device at once. What the device leaves open, or fails to do, the CPU does. Nothing is
// emitted before all pairs of the tile are known, so a failure loses and repeats no pair. Where the host has no memory for all of them, that
// holds for the chunks of the tile, one after the other.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/session/tile_rows.hpp"
#include "geometry/work_scope.hpp"

namespace vibespatial {

struct PinnedPiece;
struct PinnedProbe;

class Tile {
public:
	Tile(JoinBuild &build, JoinOutput output);

	//! Takes rows of the input from `begin` on, as many as there is room for; returns how many. 0: they are for another tile.
	size_t Add(const JoinInput &input, size_t begin);
	bool IsFull() const;
	size_t Count() const {
		return rows.Count();
	}
	//! False when the host has no memory for more rows
	bool HasRoom() const {
		return has_room;
	}
	TilePayload &Payload() {
		return *payload;
	}
	//! Forgets the rows and keeps the memory
	void Clear();

	//! The rows are those of a pinned table, which outlives the tile; nothing can be added to them. What the device fails to do with them
	//! is a GpuError where they cannot be read back and the host has no copy.
	void SetPinned(const PinnedProbe &probe, const PinnedPiece &piece);

	//! Starts the device on the tile; waits for nothing that it does
	void Launch();
	//! Launches the tile where that was not done, waits, and decides what is left. With COUNTS adds to `counts`.
	void Finish(std::vector<uint64_t> *counts);
	//! All rows of an input at once, which stays the caller's: nothing is kept of it
	void Run(const JoinInput &input);

	// After Finish(), chunk by chunk of JOIN_CHUNK_ROWS rows
	size_t ChunkCount() const;
	size_t ChunkRows(size_t chunk) const {
		return std::min(JOIN_CHUNK_ROWS, Count() - chunk * JOIN_CHUNK_ROWS);
	}
	struct Pairs {
		const uint32_t *probe;
		const uint32_t *build;
		size_t count;
	};
	//! PAIRS: those of a chunk, whose rows are numbered from 0; none for another output. Valid until the next call, which may look for
	//! them only then.
	Pairs ChunkPairs(size_t chunk);
	//! FOUND: one flag for each row of a chunk; null for another output
	const uint8_t *ChunkFound(size_t chunk) const {
		return output == JoinOutput::FOUND ? found.data() + chunk * JOIN_CHUNK_ROWS : nullptr;
	}

private:
	struct Pair {
		uint32_t probe;
		uint32_t build;

		bool operator<(const Pair &other) const {
			return probe != other.probe ? probe < other.probe : build < other.build;
		}
	};

	void Begin(TileRows::Kind kind);
	size_t PointCapacity() const;
	void CountMemory();
	//! Before pinned memory grows. Throws HostMemoryError where the pairs of a chunk may fit, and the host's error where they do not.
	void Reserve(uint64_t bytes);
	GpuTileInput Input(size_t first, size_t size);
	void Start(size_t first, size_t size);
	//! The kernels that the tile launches
	std::vector<std::string> Needs() const;
	//! The pairs of all rows, or of one chunk
	void FindPairs(size_t first, size_t size);
	//! Runs rows [first, first + size) in halves, and these in halves, until they fit on the device
	void RunHalves(size_t first, size_t size, size_t depth);
	//! Takes all of a result but its pairs
	void Use(const GpuTileResult &result, size_t first, size_t size);
	void DecideOpen(const GpuTileResult &result);
	//! Lets the CPU read rows of the tile, given in ascending order, where they are pinned; of shapes, these alone. Throws GpuError.
	void FetchPinned(const std::vector<uint32_t> &tile_rows);
	void RunOnCpu(size_t first, size_t size);
	void RunRowsOnCpu(const std::vector<uint32_t> &tile_rows);
	void AddPair(uint32_t probe, uint32_t build_row);
	void SortPairs();

	JoinSession &session;
	JoinBuild &build;
	const JoinOutput output;
	std::unique_ptr<GpuTile> device_tile;
	std::unique_ptr<TilePayload> payload;
	TileRows rows;
	//! Null where rows are added
	const PinnedProbe *pinned = nullptr;
	size_t pinned_segment = 0;
	size_t pinned_begin = 0;
	bool pinned_is_here = false;
	size_t max_shapes = 0;
	bool has_room = true;

	//! Launch() was called; all that the device needs was ready then; the device has begun
	bool was_launched = false;
	bool is_prepared = false;
	bool is_running = false;
	std::chrono::system_clock::time_point begun;
	bool use_cells = false;
	//! The chunks are done one by one
	bool by_chunk = false;

	//! Pairs of the device, where it left them
	const uint32_t *device_probe = nullptr;
	const uint32_t *device_build = nullptr;
	size_t device_pairs = 0;
	//! Pairs of the CPU, and of halves
	CountedVector<Pair> pairs;
	std::vector<uint8_t> found;
	std::vector<uint64_t> *counted = nullptr;
	//! All pairs that were found, by chunk
	std::vector<size_t> chunk_begin;
	CountedVector<uint32_t> sorted_probe;
	CountedVector<uint32_t> sorted_build;
};

} // namespace vibespatial
