//===----------------------------------------------------------------------===//
// engine/cpu/area_scan.hpp
//
// Promise: exact, the answer of vibe::LocateInElement for every area and every point. Which of many areas hold a point,
// asked of their WKB as it is: for points that are too few to pay for cells (cell_index.hpp). Reading an area once tells
// the range of every sixteen edges; a point looks at the edges whose range its ray can meet. A grid of the areas' boxes
// tells which areas to ask.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/parallel.hpp"
#include "engine/cpu/point_grid.hpp"
#include "engine/uninitialized.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vibespatial {

struct JoinRow;

class AreaScan {
	struct Candidate;
	struct Look;

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
		size_t candidate_count = 0;
		size_t look_count = 0;
		UninitializedVector<Candidate> candidates;
		UninitializedVector<Look> looks;
	};
	//! The rows in which each point is interior or on the boundary, points in order; replaces what was found before
	void Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const;

	size_t MemoryUsage() const;
	//! Of the grid
	size_t CellCount() const {
		return cell_begin.size() - 1;
	}

	//! What building costs, about
	static constexpr double NANOSECONDS_PER_VERTEX = 3;
	static constexpr double NANOSECONDS_PER_ROW = 150;

private:
	typedef float Floats __attribute__((vector_size(16)));

	//! Consecutive edges of a ring, or consecutive runs of them, and what a ray towards +x can meet of them: min_y, -max_y and
	//! -max_x, rounded outward
	struct Range {
		float least[3];
		//! Where the first vertex is in the row's bytes, or the number of the first run; and how many edges, or runs, less one
		uint32_t place;

		static constexpr uint32_t COUNT_BITS = 4;
		static constexpr uint32_t MAX_COUNT = 1u << COUNT_BITS;
		static constexpr uint32_t MAX_BEGIN = 1u << (32 - COUNT_BITS);

		uint32_t Begin() const {
			return place >> COUNT_BITS;
		}
		uint32_t Count() const {
			return place % MAX_COUNT + 1;
		}
	};
	//! A polygon: a row, or a part of one
	struct Item {
		const uint8_t *wkb;
		const Range *ranges;
		const Range *runs; // under `ranges`, where these are of runs; null where they are of edges
		uint32_t range_count;
		uint32_t row;
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
		bool odd; // so many crossings
		bool on;  // the boundary
	};
	//! Edges that a candidate has to look at
	struct Look {
		const Range *run;
		uint32_t candidate;
	};

	AreaScan();
	bool SetGrid();
	void FindCandidates(Lookup &lookup, const double *x, const double *y, uint32_t begin, uint32_t end) const;
	void FindLooks(Lookup &lookup, const double *x, const double *y) const;
	template <class SIDES>
	static void LookAtAll(Lookup &lookup, const double *x, const double *y);
	static void LookAt(Lookup &lookup, const double *x, const double *y);
	static void LookAtWide(Lookup &lookup, const double *x, const double *y);
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
	std::vector<Entry> entries;
};

} // namespace vibespatial
