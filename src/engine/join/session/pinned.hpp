//===----------------------------------------------------------------------===//
// engine/join/session/pinned.hpp
//
// A join whose probe side is on the device (engine/gpu/interface/pinned.hpp)
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/session/session.hpp"

namespace vibespatial {

//! The rows of a pinned table that pass a filter
struct PinnedProbe {
	std::shared_ptr<const PinnedRows> rows;
	PinnedTerms filter;
	//! Reads points of a segment from the host's copy, NaN for rows that do not pass; null: only the device has them
	std::function<void(size_t segment, size_t begin, size_t count, vibe::Vec2 *to)> read;
	//! Takes the number in the segment and the WKB, which is gone afterwards; no data for NULL, and where the row does not pass
	typedef std::function<void(size_t row, const JoinRow &wkb)> Visit;
	//! Visits rows of a segment of shapes, given in ascending order, in the host's copy
	std::function<void(size_t segment, const std::vector<size_t> &rows, const Visit &visit)> read_shapes;
};

//! Rows of a segment that are a tile
struct PinnedPiece {
	size_t segment = 0;
	size_t begin = 0;
	size_t count = 0;
};

//! Enough rows to fill the device, and few enough that their pairs take little of the host's memory and soon come out
static constexpr size_t PINNED_PIECE_ROWS = 256 * JOIN_CHUNK_ROWS;

//! All rows, in pieces of at most so many, which is a multiple of JOIN_CHUNK_ROWS. JoinStream::BeginPinned() takes them.
std::vector<PinnedPiece> CutPinned(const PinnedRows &rows, size_t most = PINNED_PIECE_ROWS);

//! How many pairs each row of the build side has with them, segment by segment; to be called once, by one thread. Throws GpuError where the
//! device failed, and its rows with it: nothing was counted then, and the session looks for pairs without the device.
void CountPinned(JoinBuild &build, const PinnedProbe &probe);

} // namespace vibespatial
