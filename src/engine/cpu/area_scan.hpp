//===----------------------------------------------------------------------===//
// engine/cpu/area_scan.hpp
//
// Promise: exact, the answer of vibe::LocateInElement for every area and every point. Which of many areas hold a point,
// asked of their WKB as it is: for points that are too few to pay for cells (cell_index.hpp). Reading an area once tells
// the range of every eight edges; a point looks at the edges whose range its ray can meet. A grid of the areas' boxes
// tells which areas to ask.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/parallel.hpp"
#include "engine/cpu/point_grid.hpp"
#include "engine/uninitialized.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace vibespatial {

struct JoinRow;

class AreaScan {
	struct Candidate;
	struct Open;

public:
	//! The rows' bytes stay where they are; rows without data are left out. Null where a row is anything but a POLYGON or
	//! MULTIPOLYGON in XY with closed rings, finite vertices and none that repeats the one before, and where boxes overlap
	//! so much that a tree serves better.
	static std::unique_ptr<AreaScan> Build(const std::vector<JoinRow> &rows, Parallel &parallel);
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
		//! Numbers of things, and of what they are for
		struct Pairs {
			UninitializedVector<uint32_t> things;
			UninitializedVector<uint32_t> owners;
			size_t count = 0;

			void Fit(size_t most);
		};
		size_t candidate_count = 0;
		UninitializedVector<Candidate> candidates;
		//! Boxes for points, runs to compare and edges to look at for candidates
		Pairs boxes;
		Pairs runs;
		Pairs looks;
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
	//! Of eight runs, or eight blocks of them: min_y, -max_x and -max_y, rounded outward, which is what a ray towards +x can meet.
	//! Those that are not used are met by none.
	struct Ranges {
		static constexpr size_t COLUMNS = 3;
		float least[COLUMNS][RUNS_AT_ONCE];
	};
	//! Eight runs: consecutive edges of a ring
	struct Block {
		Ranges ranges;
		uint32_t place[RUNS_AT_ONCE];
		//! What may spare a look at the edges: min_x, rounded down, and y of the first vertex and of the last
		float min_x[RUNS_AT_ONCE];
		float first_y[RUNS_AT_ONCE];
		float last_y[RUNS_AT_ONCE];
	};
	//! A polygon: a row, or a part of one
	struct Item {
		const uint8_t *wkb;
		const Block *blocks;
		const Ranges *groups; // of eight blocks each, where there are many
		uint32_t first_block;
		uint32_t block_count;
		uint32_t row;
		//! Those of the first block that are its own, a bit for each: small items share one
		uint32_t lanes;
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
	//! The box of an item in a cell: min_x, min_y, -max_x and -max_y, rounded outward
	struct Entry {
		float least[4];
		uint32_t item;
	};
	//! A point in the box of an item
	struct Candidate {
		const Item *item;
		uint32_t point;
		bool odd;      // so many crossings
		bool on;       // the boundary
		float most[4]; // x, y, -x and -y, rounded up
	};
	//! Edges that have to be asked one by one: bit 2i for edge i
	struct Open {
		const uint8_t *edges;
		uint32_t candidate;
		uint32_t bits;
	};

	AreaScan();
	bool SetGrid();
	struct Narrow;
	struct Wide;
	template <class LANES>
	void FindCandidates(Lookup &lookup, const double *x, const double *y, uint32_t begin, uint32_t end) const;
	template <class LANES>
	static void FindRuns(Lookup &lookup);
	template <class LANES>
	static void FindLooks(Lookup &lookup, const double *y);
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
	PointGrid grid {};
	//! One bit for each cell that has entries: most points may fall where there are none
	std::vector<uint64_t> used_cells;
	//! Entries of cell c are [cell_begin[c], cell_begin[c + 1])
	std::vector<uint32_t> cell_begin;
	UninitializedVector<Entry> entries;
};

} // namespace vibespatial
