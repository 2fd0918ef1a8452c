//===----------------------------------------------------------------------===//
// engine/join/shares.hpp
//
// Probes a tile with several threads: for tiles of lines and areas, which take long
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/probe.hpp"
#include "engine/join/tuning.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

//! Probes one tile at a time with all free threads. The tile is cut into shares of rows, each with a JoinProbe of its own.
class JoinShares {
public:
	//! Runs a function with the threads that are free
	typedef std::function<void(const std::function<void(Parallel &)> &)> Threads;

	JoinShares(JoinIndex &index, const std::function<void()> &poll, Threads threads);

	//! As those of JoinProbe, but pairs come in no particular order, and rows marked in `done` while the tile is processed may
	//! still be probed
	void Begin(const JoinRow *tile, size_t count, const double *row_limits, const bool *done);
	void SetFirstOnly(bool value);
	size_t Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity);

	JoinCounts Counts() const;

	//! Whether a tile of that many rows and bytes of WKB is worth sharing: a tile of points is finished before another thread
	//! has started
	static bool Pays(size_t count, size_t bytes) {
		return count > join_tuning::ROWS_PER_SHARE && bytes >= join_tuning::BYTES_TO_SHARE;
	}

private:
	struct Share {
		Share(JoinIndex &index, const std::function<void()> &poll) : probe(index, poll) {
			probe.SetOrdered(false);
		}
		JoinProbe probe;
		uint32_t first_row = 0;
		bool begun = false;
		//! Pairs in the buffers, and how many of them Next() has returned
		size_t found = 0;
		size_t given = 0;
		bool more = false;
		uint32_t probe_rows[join_tuning::PAIRS_PER_SHARE];
		uint32_t build_rows[join_tuning::PAIRS_PER_SHARE];
	};

	JoinIndex &index;
	const std::function<void()> poll;
	const Threads threads;
	bool first_only = false;
	std::vector<std::unique_ptr<Share>> shares;
	//! Shares of the current tile
	size_t share_count = 0;
	const JoinRow *tile = nullptr;
	size_t count = 0;
	const double *row_limits = nullptr;
	const bool *done = nullptr;
};

} // namespace vibespatial
