//===----------------------------------------------------------------------===//
// engine/index/cell_items.hpp
//
// What the builder of a CellIndex sorts: runs of edges, and the items that they leave in cells. Used by the builder only.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/tuning.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vibespatial {
namespace cell_build {

//! A small sorted set of areas
class AreaSet {
public:
	void Flip(uint32_t area) {
		auto at = std::lower_bound(areas.begin(), areas.end(), area);
		if (at != areas.end() && *at == area) {
			areas.erase(at);
		} else {
			areas.insert(at, area);
		}
	}

	std::vector<uint32_t> areas;
};

//! From this row on, the first reference point of a row is on the other side of the area's boundary
struct RowFlip {
	uint32_t row;
	uint32_t area;
};

//! Consecutive edges of one area: edge i runs from vertex i to i + 1
struct Run {
	uint32_t begin;
	uint32_t count;
	uint32_t area;
	bool is_line; // of a line, which has no inside
};

//! What edges of one area do to a cell: a run of them is registered in it, or the status of the area changes at its reference
//! point compared with the cell to the left (FLIP), or both. In the order of the edges.
struct Item {
	uint32_t cell;
	uint32_t begin;
	uint32_t count; // number of edges, and the flag FLIP
	uint32_t area;

	static constexpr uint32_t FLIP = 1u << 31;
	uint32_t Count() const {
		return count & ~FLIP;
	}
};

//! A vector whose new items are not initialized
class ItemList {
public:
	void Reserve(size_t more) {
		if (count + more > capacity) {
			Grow(more);
		}
	}
	Item *begin() {
		return items.get();
	}
	Item *end() {
		return items.get() + count;
	}

	size_t count = 0;

private:
	void Grow(size_t more) {
		capacity = std::max(2 * (count + more), size_t(256));
		std::unique_ptr<Item[]> larger(new Item[capacity]);
		std::copy(begin(), end(), larger.get());
		items = std::move(larger);
	}

	std::unique_ptr<Item[]> items;
	size_t capacity = 0;
};

struct ItemSpan {
	const Item *begin;
	const Item *end;
};

//! Divides runs into chunks of about the same number of edges, for parallel steps
class ChunkedRuns {
public:
	explicit ChunkedRuns(const std::vector<Run> &runs) : runs(runs), begin(runs.size() + 1, 0) {
		for (size_t i = 0; i < runs.size(); i++) {
			begin[i + 1] = begin[i] + runs[i].count;
		}
	}
	size_t Edges() const {
		return begin.back();
	}
	size_t Count() const {
		return (Edges() + cell_tuning::CHUNK_EDGES - 1) / cell_tuning::CHUNK_EDGES;
	}
	//! Calls use(number of the run, its part in the chunk) for all runs of a chunk
	template <class USE>
	void Visit(size_t chunk, const USE &use) const {
		const size_t from = chunk * cell_tuning::CHUNK_EDGES, to = from + cell_tuning::CHUNK_EDGES;
		size_t i = std::upper_bound(begin.begin(), begin.end(), from) - begin.begin() - 1;
		for (; i < runs.size() && begin[i] < to; i++) {
			const uint32_t skip = static_cast<uint32_t>(std::max(from, begin[i]) - begin[i]);
			const uint32_t end = static_cast<uint32_t>(std::min(to, begin[i + 1]) - begin[i]);
			if (skip < end) {
				use(i, Run {runs[i].begin + skip, end - skip, runs[i].area, runs[i].is_line});
			}
		}
	}

private:
	const std::vector<Run> &runs;
	std::vector<size_t> begin;
};

} // namespace cell_build
} // namespace vibespatial
