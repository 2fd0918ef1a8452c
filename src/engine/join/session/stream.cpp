#include "engine/join/session/stream.hpp"

#include "engine/join/session/pinned.hpp"
#include "engine/join/session/tile_queue.hpp"

#include <cstring>

namespace vibespatial {

static JoinShares::Threads ThreadsOf(JoinHost &host) {
	return [&host](const std::function<void(Parallel &)> &work) { host.Run(work); };
}

JoinStream::JoinStream(JoinBuild &build, bool first_only)
    : build(build), probe(build.index, build.session.Poll()),
      shares(build.index, build.session.Poll(), ThreadsOf(build.session.host)) {
	probe.SetOrdered(build.session.ordered);
	probe.SetFirstOnly(first_only);
	shares.SetFirstOnly(first_only);
}

JoinStream::~JoinStream() = default;

void JoinStream::Begin(const JoinInput &input, const bool *done) {
	auto &session = build.session;
	if (build.OnDevice()) {
		if (!chunk_tile) {
			chunk_tile = std::make_unique<Tile>(build, JoinOutput::PAIRS);
		}
		chunk_tile->Run(input);
		SetPairs(*chunk_tile, 0);
	} else if (session.host.Threads() > 1 && !session.ordered && JoinShares::Pays(input.count, input.bytes)) {
		source = Source::SHARES;
		shares.Begin(input.rows, input.count, input.limits, done);
	} else {
		source = Source::PROBE;
		const bool has_points = input.x && !input.has_nulls;
		probe.Begin(input.rows, input.count, input.limits, done, has_points ? input.x : nullptr,
		            has_points ? input.y : nullptr);
	}
}

void JoinStream::Collect(const JoinInput &input) {
	if (!queue) {
		queue = std::make_unique<TileQueue>(build);
	}
	queue->Add(input);
}

Tile *JoinStream::Current() {
	if (in_pinned) {
		return pinned_tile.get();
	}
	return resumed ? resumed.get() : queue ? queue->Front() : nullptr;
}

bool JoinStream::NextChunk(JoinChunk &chunk) {
	while (auto tile = Current()) {
		if (next_chunk < tile->ChunkCount()) {
			chunk.count = tile->ChunkRows(next_chunk);
			chunk.payload = &tile->Payload();
			chunk.number = next_chunk;
			chunk.found = tile->ChunkFound(next_chunk);
			SetPairs(*tile, next_chunk++);
			chunk.pairs = tile_pairs;
			return true;
		}
		next_chunk = 0;
		if (in_pinned) {
			in_pinned = false;
		} else if (resumed) {
			resumed.reset();
		} else {
			queue->Pop();
		}
	}
	return false;
}

void JoinStream::EndCollecting() {
	if (queue) {
		queue->End();
	}
}

void JoinStream::Resume(size_t left_tile) {
	resumed = build.session.TakeTile(left_tile);
	resumed->Finish(nullptr);
	next_chunk = 0;
}

void JoinStream::BeginPinned(const PinnedProbe &probe, const PinnedPiece &piece) {
	if (!pinned_tile) {
		pinned_tile = std::make_unique<Tile>(build, build.session.Output());
	}
	pinned_tile->SetPinned(probe, piece);
	pinned_tile->Finish(nullptr);
	in_pinned = true;
	next_chunk = 0;
}

void JoinStream::SetPairs(Tile &tile, size_t chunk) {
	source = Source::TILE;
	const auto pairs = tile.ChunkPairs(chunk);
	tile_probe = pairs.probe;
	tile_build = pairs.build;
	tile_pairs = pairs.count;
}

size_t JoinStream::NextOfTile(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity) {
	const size_t count = std::min(capacity, tile_pairs);
	if (count > 0) {
		std::memcpy(probe_rows, tile_probe, count * sizeof(uint32_t));
		std::memcpy(build_rows, tile_build, count * sizeof(uint32_t));
	}
	tile_probe += count;
	tile_build += count;
	tile_pairs -= count;
	return count;
}

size_t JoinStream::Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity) {
	switch (source) {
	case Source::PROBE:
		return probe.Next(probe_rows, build_rows, capacity);
	case Source::SHARES:
		return shares.Next(probe_rows, build_rows, capacity);
	case Source::TILE:
		break;
	}
	return NextOfTile(probe_rows, build_rows, capacity);
}

JoinCounts JoinStream::Counts() const {
	auto total = shares.Counts();
	total.Add(probe.counts);
	return total;
}

} // namespace vibespatial
