//===----------------------------------------------------------------------===//
// engine/index/area_scan.hpp
//
// Promise: exact, the answer of vibe::LocateInElement for every area and every point. Which of many areas hold a point,
// asked of their WKB as it is: for points that are too few to pay for cells (cell_index.hpp). Reading an area once tells
// the range of every eight edges; a point looks at the edges whose range its ray can meet. A grid of the areas' boxes
// tells which areas to ask.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/index/point_grid.hpp"
#include "engine/input/row.hpp"
#include "engine/common/uninitialized.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace vibespatial {

class AreaScan {
	struct Block;
	struct Candidate;
	struct Open;

public:
	//! The rows' bytes stay where they are; rows without data are left out. Null where a row is anything but a POLYGON or
	//! MULTIPOLYGON in XY with closed rings that a Shape can be made of, and where boxes overlap so much that a tree serves
	//! better.
	static std::unique_ptr<AreaScan> Build(const JoinRows &rows, Parallel &parallel);
	~AreaScan();

	//! What was read on the way: for each polygon, in the order of the rows, its row and its box (EMPTY: it has no vertices), until
	//! they are taken
	struct Polygons {
		std::vector<uint32_t> rows;
		std::vector<vibe::Box> boxes;
		uint64_t vertices = 0;
	};
	Polygons TakePolygons() {
		return std::move(polygons);
	}

	struct Found {
		uint32_t point;
		uint32_t row;
		vibe::Location location;
	};
	typedef UninitializedVector<Found> FoundRows;
	//! One thread's lookups, and what they came to. `nanoseconds`: about what the tests cost
	class Lookup {
	public:
		uint64_t tests = 0;
		uint64_t nanoseconds = 0;

	private:
		friend class AreaScan;
		//! Edges to look at for candidates
		struct Look {
			uint32_t place;
			uint32_t candidate;
		};
		//! A Block of many whose edges a candidate's ray may meet
		struct OneBlock {
			const Block *block;
			uint32_t candidate;
		};
		//! Items whose box a point is in
		struct Meeting {
			uint32_t item;
			uint32_t point;
		};
		size_t candidate_count = 0;
		size_t look_count = 0;
		UninitializedVector<Meeting> meetings;
		UninitializedVector<Candidate> candidates;
		UninitializedVector<OneBlock> blocks;
		UninitializedVector<Look> looks;
		UninitializedVector<Open> open;
	};
	//! The rows in which each point is interior or on the boundary, points in order; replaces what was found before
	void Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;

	size_t MemoryUsage() const;
	//! Of the grid
	size_t CellCount() const {
		return cell_begin.size() - 1;
	}

	//! Leaves the wide registers alone that a machine may have: for tests
	static std::atomic<bool> only_narrow;

	//! What building costs, about
	static constexpr double NANOSECONDS_PER_VERTEX = 3;
	static constexpr double NANOSECONDS_PER_ROW = 150;

private:
	static constexpr uint32_t RUNS_AT_ONCE = 8;
	static constexpr uint32_t ITEMS_AT_ONCE = 8;
	//! Where something lies in an item's box, in 65,534 steps from its least coordinate to its most, rounded: what is less there is
	//! less, and what is equal may be either
	typedef int16_t Step;
	//! Of eight runs, or eight blocks of them. Those that are not used are met by no ray, or no item's `lanes` has them.
	struct alignas(64) Ranges {
		Step min_y[RUNS_AT_ONCE];
		Step max_y[RUNS_AT_ONCE];
		Step max_x[RUNS_AT_ONCE];
		Step min_x[RUNS_AT_ONCE];
	};
	//! Eight runs: consecutive edges of a ring
	struct Block {
		Ranges ranges;
		//! y of the first vertex and of the last
		Step first_y[RUNS_AT_ONCE];
		Step last_y[RUNS_AT_ONCE];
		uint32_t place[RUNS_AT_ONCE];
	};
	//! A polygon: a row, or a part of one
	struct alignas(64) Item {
		//! Steps are so many for each unit from the least coordinates on
		double least[2];
		double steps[2];
		const uint8_t *wkb;
		const Block *blocks;
		const Ranges *groups; // of eight blocks each, where there are many
		uint32_t row;
		uint32_t block_count : 24;
		//! Those of the first block that are its own, a bit for each: small items share one
		uint32_t lanes : 8;
	};
	//! Where the first vertex of a run is in the row's bytes, and how many edges it has
	struct Place {
		static constexpr uint32_t COUNT_BITS = 4;
		static constexpr size_t MAX_BEGIN = size_t(1) << (32 - COUNT_BITS);

		static uint32_t Of(size_t begin, uint32_t count) {
			return static_cast<uint32_t>(begin) << COUNT_BITS | count;
		}
		static uint32_t Begin(uint32_t place) {
			return place >> COUNT_BITS;
		}
		static uint32_t Count(uint32_t place) {
			return place % (1u << COUNT_BITS);
		}
	};
	//! What one step reads of its rows
	struct Share;
	struct Reader;
	//! Eight of a cell's items: x and y of their boxes in turn, in 256 steps of the cell. Those that are not used are met by no
	//! point.
	struct alignas(64) Entries {
		uint8_t least[2 * ITEMS_AT_ONCE];
		uint8_t most[2 * ITEMS_AT_ONCE];
		uint32_t items[ITEMS_AT_ONCE];
	};
	struct Located;
	//! A point in the box of an item
	struct Candidate {
		const Item *item;
		uint32_t point;
		//! Every crossing flips one bit, whichever: an odd number of bits is an odd number of crossings
		uint16_t crossings;
		bool on; // the boundary
		//! The point
		Step x;
		Step y;
	};
	//! Edges that have to be asked one by one: bit 2i for edge i
	struct Open {
		const uint8_t *edges;
		uint32_t candidate;
		uint32_t bits;
	};

	AreaScan();
	bool SetGrid(Parallel &parallel);
	struct Narrow;
	struct Wide;
	template <class LANES>
	void FindCandidates(Lookup &lookup, const double *x, const double *y, uint32_t begin, uint32_t end) const;
	void SetCandidates(Lookup &lookup, const double *x, const double *y) const;
	static void FindLooks(Lookup &lookup);
	template <class LANES>
	static void LookAt(Lookup &lookup, const double *x, const double *y);
	template <class LANES>
	void LocateAll(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;
	void LocateWide(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;
	static void Find(const Lookup &lookup, FoundRows &found);
	static size_t JoinParts(Found *found, size_t count);

	std::vector<Share> shares;
	std::vector<Item> items;
	Polygons polygons;
	//! Of steps: a cell has 256 columns and rows of them
	PointGrid grid {};
	uint32_t columns = 0; // of cells
	//! One bit for each cell that has entries: most points may fall where there are none
	std::vector<uint64_t> used_cells;
	//! Items whose box meets cell c are those of entries [cell_begin[c], cell_begin[c + 1])
	std::vector<uint32_t> cell_begin;
	UninitializedVector<Entries> entries;
};

} // namespace vibespatial
