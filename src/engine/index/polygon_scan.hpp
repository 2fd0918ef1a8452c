//===----------------------------------------------------------------------===//
// engine/index/polygon_scan.hpp
//
// Promise: exact, the answer of vibe::LocateInElement for every polygon and every point. Finds the polygons that contain a
// point, and reads their edges from the WKB: for points that are too few to pay for cells (cell_index.hpp). Building reads
// every polygon once and stores the range of each run of eight edges. A look-up finds the polygons by a grid of their boxes
// and counts the crossings of a ray from the point towards +x with the runs that the ray can meet.
// docs/decisions/0004-cells-when-they-pay.md has the measurements.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/uninitialized.hpp"
#include "engine/index/point_grid.hpp"
#include "engine/input/row.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vibespatial {

class PolygonScan {
	struct Block;
	struct Candidate;
	struct OpenEdges;

public:
	//! The bytes of the rows must outlive the scan; rows without data are skipped. Null where a row is anything but a POLYGON
	//! or MULTIPOLYGON in XY with closed rings that a Shape can be built of, and where the boxes overlap so much that a tree
	//! serves better.
	static std::unique_ptr<PolygonScan> Build(const JoinRows &rows, Parallel &parallel);
	~PolygonScan();

	//! Row and box of each polygon, in the order of the rows; the box of an EMPTY polygon is empty
	struct Polygons {
		std::vector<uint32_t> rows;
		std::vector<vibe::Box> boxes;
		uint64_t vertices = 0;
	};
	//! What Build() has read; moves it out
	Polygons TakePolygons() {
		return std::move(polygons);
	}

	struct Found {
		uint32_t point;
		uint32_t row;
		vibe::Location location;
	};
	typedef UninitializedVector<Found> FoundRows;
	//! Memory and counters of the look-ups of one thread. `nanoseconds` is an estimate of their cost.
	class Lookup {
	public:
		uint64_t tests = 0;
		uint64_t nanoseconds = 0;

		size_t MemoryUsage() const {
			return box_hits.capacity() * sizeof(BoxHit) + candidates.capacity() * sizeof(Candidate) +
			       blocks.capacity() * sizeof(BlockTest) + runs.capacity() * sizeof(RunTest) +
			       open.capacity() * sizeof(OpenEdges);
		}

	private:
		friend class PolygonScan;
		//! A point in the box of an item
		struct BoxHit {
			uint32_t item;
			uint32_t point;
		};
		//! A block of a large item that the ray of a candidate may meet
		struct BlockTest {
			const Block *block;
			uint32_t candidate;
		};
		//! A run whose edges have to be tested against a candidate
		struct RunTest {
			uint32_t place;
			uint32_t candidate;
		};
		size_t candidate_count = 0;
		size_t run_count = 0;
		UninitializedVector<BoxHit> box_hits;
		UninitializedVector<Candidate> candidates;
		UninitializedVector<BlockTest> blocks;
		UninitializedVector<RunTest> runs;
		UninitializedVector<OpenEdges> open;
	};
	//! Replaces `found` by the rows in which each point is interior or on the boundary, in the order of the points
	void Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;

	size_t MemoryUsage() const;
	//! Cells of the grid
	size_t CellCount() const {
		return cell_begin.size() - 1;
	}

private:
	friend class PolygonScanBuilder;

	//! Lanes of a register: runs of a block, blocks of a group, items of an Entries
	static constexpr uint32_t RUNS_AT_ONCE = 8;
	static constexpr uint32_t ITEMS_AT_ONCE = 8;

	//! A coordinate in 65,534 steps across the box of its item, rounded. Rounding is monotone: less in steps is less, equal in
	//! steps is undecided.
	typedef int16_t Step;
	//! Ranges of eight runs, or of eight blocks. Unused lanes are met by no ray, or masked out by Item::lanes.
	struct alignas(64) Ranges {
		Step min_y[RUNS_AT_ONCE];
		Step max_y[RUNS_AT_ONCE];
		Step max_x[RUNS_AT_ONCE];
		Step min_x[RUNS_AT_ONCE];
	};
	//! Eight runs, each of consecutive edges of a ring
	struct Block {
		Ranges ranges;
		//! y of the first and of the last vertex
		Step first_y[RUNS_AT_ONCE];
		Step last_y[RUNS_AT_ONCE];
		uint32_t place[RUNS_AT_ONCE];
	};
	//! A polygon: a row, or a member of one
	struct alignas(64) Item {
		//! Least x and y of its box, and steps per unit
		double least[2];
		double steps[2];
		const uint8_t *wkb;
		const Block *blocks;
		const Ranges *groups; // of eight blocks each; null where there are few blocks
		uint32_t row;
		uint32_t block_count : 24;
		//! The lanes of the first block that belong to this item, a bit for each: small items share a block
		uint32_t lanes : 8;
	};
	//! Where the first vertex of a run is in the bytes of the row, and the number of edges, in one word
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
	//! Blocks of the items of some rows; Item::blocks and Item::groups point into it
	struct Storage {
		UninitializedVector<Block> blocks;
		std::vector<Ranges> groups;
	};
	//! Eight items of a cell: x and y of their boxes alternating, in steps of the cell. No point is in an unused lane.
	struct alignas(64) Entries {
		uint8_t least[2 * ITEMS_AT_ONCE];
		uint8_t most[2 * ITEMS_AT_ONCE];
		uint32_t items[ITEMS_AT_ONCE];
	};
	//! A point in the box of an item
	struct Candidate {
		const Item *item;
		uint32_t point;
		//! The parity of its bits is the parity of the crossings
		uint16_t crossings;
		bool on_boundary;
		//! The point, in steps of the item
		Step x;
		Step y;
	};
	//! Edges that need an exact test: bit 2i for edge i
	struct OpenEdges {
		const uint8_t *edges;
		uint32_t candidate;
		uint32_t bits;
	};

	PolygonScan();

	// The steps of a look-up. KERNELS: one of those in polygon_scan_simd.hpp
	template <class KERNELS>
	void FindBoxHits(Lookup &lookup, const double *x, const double *y, uint32_t begin, uint32_t end) const;
	void SetCandidates(Lookup &lookup, const double *x, const double *y) const;
	static size_t TakeCandidates(Lookup &lookup, size_t first);
	static void CompareRanges(Lookup &lookup, size_t first_candidate, size_t end_candidate);
	template <class KERNELS>
	static void TestRuns(Lookup &lookup, const double *x, const double *y);
	static void AddFound(const Lookup &lookup, FoundRows &found);
	static size_t MergeMembers(Found *found, size_t count);
	template <class KERNELS>
	void LocateAll(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;
	void LocateWide(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;

	std::vector<Storage> storage;
	std::vector<Item> items;
	Polygons polygons;
	//! Its columns and rows are steps, 256 for each column and row of cells
	PointGrid grid {};
	uint32_t columns = 0; // of cells
	//! A bit for each cell that has entries: most points may fall into cells without
	std::vector<uint64_t> used_cells;
	//! The items whose box meets cell c are in entries [cell_begin[c], cell_begin[c + 1])
	std::vector<uint32_t> cell_begin;
	UninitializedVector<Entries> entries;
};

} // namespace vibespatial
