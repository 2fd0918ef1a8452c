//===----------------------------------------------------------------------===//
// engine/join/session/stream.hpp
//
// One thread's way through a join: chunks of probe rows in, batches of pairs out, whichever engine finds them.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/session/session.hpp"

namespace vibespatial {

struct PinnedPiece;
struct PinnedProbe;
class TileQueue;

//! Probe rows whose pairs come next
struct JoinChunk {
	size_t count = 0;
	//! The rows are chunk `number` of this payload. It stays until the next call of NextChunk().
	TilePayload *payload = nullptr;
	size_t number = 0;
	//! FOUND: which rows have a pair; no pairs come. Null for another output.
	const uint8_t *found = nullptr;
	//! PAIRS: how many come
	size_t pairs = 0;
};

//! Two ways of use: Begin() with a chunk, then Next() for its pairs; or Collect() with chunks, and whenever NextChunk() returns one,
//! Next() for the pairs of that. The second lets the device work on many chunks at once.
class JoinStream {
public:
	//! `first_only`: one pair of each row is enough. Begin() may give more.
	explicit JoinStream(JoinBuild &build, bool first_only = false);
	~JoinStream();

	//! The rows stay where they are until their pairs were read. Rows that are marked in `done`, also meanwhile, need no pairs.
	void Begin(const JoinInput &input, const bool *done = nullptr);

	//! The device must take part. Nothing of the input is needed afterwards but what the payload has kept.
	void Collect(const JoinInput &input);
	//! False when there is none yet: more rows must come
	bool NextChunk(JoinChunk &chunk);
	//! There are no more rows to collect. The session has what was not emitted, as left tiles or counts.
	void EndCollecting();
	//! Finishes one of the session's left tiles, whose chunks come next
	void Resume(size_t left_tile);
	//! Finds the pairs, or flags, of rows of a pinned table, whose chunks come next; their payload has nothing. The probe stays until the
	//! stream has ended.
	void BeginPinned(const PinnedProbe &probe, const PinnedPiece &piece);

	//! Writes the next pairs of the chunk, with rows numbered from its first; 0 at its end
	size_t Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity);

	//! What the CPU's probes of this stream came to
	JoinCounts Counts() const;

private:
	enum class Source : uint8_t { PROBE, SHARES, TILE };
	//! The tile whose chunks come next, or null
	Tile *Current();
	void SetPairs(Tile &tile, size_t chunk);
	size_t NextOfTile(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity);

	JoinBuild &build;
	Source source = Source::PROBE;
	//! By this thread alone, and by all that are free
	JoinProbe probe;
	JoinShares shares;
	//! For one chunk at a time
	std::unique_ptr<Tile> chunk_tile;
	std::unique_ptr<TileQueue> queue;
	std::unique_ptr<Tile> resumed;
	//! For one piece of a pinned table after the other
	std::unique_ptr<Tile> pinned_tile;
	bool in_pinned = false;
	size_t next_chunk = 0;
	//! The pairs that are left of a tile's chunk
	const uint32_t *tile_probe = nullptr;
	const uint32_t *tile_build = nullptr;
	size_t tile_pairs = 0;
};

} // namespace vibespatial
