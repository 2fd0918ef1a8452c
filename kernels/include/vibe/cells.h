//===----------------------------------------------------------------------===//
// vibe/cells.h
//
// Promise: exact. What an index of cells is made of (engine/index/cell_index.hpp says why it is right and builds it), and how
// one point is looked up in it. Columns and rows of cells; a word for each says what is in it; lists and finer grids lie in
// a pool of units of eight bytes. An index either tells in which areas a point lies, or, with a CellReach, which areas and
// lines are near it: its lists then have the edges that can be near a point of the cell, and areas "fill" a cell all of whose
// points are near them.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/distance.h"
#include "vibe/shape.h"

namespace vibe {

//! A word says what is in a cell: its kind in the two highest bits, then an area or a place in the pool
enum CellKind : u32 { CELL_NOTHING = 0, CELL_FULL = 1, CELL_LIST = 2, CELL_GRID = 3 };
constexpr u32 CELL_KIND_SHIFT = 30;
constexpr u32 CELL_MAX_VALUE = (1u << CELL_KIND_SHIFT) - 1;
constexpr u32 CELL_UNIT_BYTES = 8;

//! Columns and rows of cells; in the pool the words follow
struct CellGrid {
	double min_x, min_y;
	double columns_per_x, rows_per_y;
	double width, height;
	u32 last_column, last_row;
	u32 *words; // row after row; an address of the host that built it

	VIBE_HD static u32 Place(double at, u32 last) {
		// NaN becomes 0
		const double most = (i32)last;
		at = at > 0 ? at : 0;
		return (u32)(i32)(at < most ? at : most);
	}
	VIBE_HD u32 Column(double x) const {
		return Place((x - min_x) * columns_per_x, last_column);
	}
	VIBE_HD u32 Row(double y) const {
		return Place((y - min_y) * rows_per_y, last_row);
	}
	VIBE_HD u64 CellOf(u32 column, u32 row) const {
		return (u64)row * ((u64)last_column + 1) + column;
	}
	//! Lies in its cell with much room for rounding
	VIBE_HD Vec2 Reference(u32 column, u32 row) const {
		return Vec2 {min_x + (column + 0.5) * width, min_y + (row + 0.5) * height};
	}
};

//! Head of a list in the pool: then its CellPartials, and the areas that fill the cell
struct CellList {
	u32 partial_count;
	u32 full_count;
};

//! A box in a cell, by 256 columns and rows: they are monotone in x and y, so what is apart by them is apart
struct CellExtent {
	u8 min_x, min_y, max_x, max_y;

	VIBE_HD bool Meets(const CellExtent &other) const {
		return (min_x <= other.max_x) & (max_x >= other.min_x) & (min_y <= other.max_y) & (max_y >= other.min_y);
	}
};

//! The frame of these boxes in one cell
struct CellFrame {
	const CellGrid &grid;
	double column, row;

	VIBE_HD CellFrame(const CellGrid &grid, u32 column, u32 row) : grid(grid), column((i32)column), row((i32)row) {
	}
	VIBE_HD CellExtent Of(const Box &box) const {
		return CellExtent {X(box.min_x), Y(box.min_y), X(box.max_x), Y(box.max_y)};
	}
	//! Of the way between two points, along the axes
	VIBE_HD CellExtent Between(const Vec2 &p, const Vec2 &q) const {
		return Of(Box {Min(p.x, q.x), Min(p.y, q.y), Max(p.x, q.x), Max(p.y, q.y)});
	}
	VIBE_HD u8 X(double x) const {
		return (u8)CellGrid::Place(((x - grid.min_x) * grid.columns_per_x - column) * 256, 255);
	}
	VIBE_HD u8 Y(double y) const {
		return (u8)CellGrid::Place(((y - grid.min_y) * grid.rows_per_y - row) * 256, 255);
	}
};

//! Consecutive edges of one area that meet the cell: edge i runs from vertex i to i + 1
struct CellPartial {
	u32 begin;
	u32 area;
	CellExtent extent;
	u8 edges;     // at most CELL_MAX_EDGES
	bool inside;  // the reference point is
	bool more;    // the next one has more edges of the same area
	bool is_line; // not an area but a line: nothing is inside
};
constexpr u32 CELL_MAX_EDGES = 16;
//! Lists with fewer have the whole cell for their extents: looking at the edges costs no more
constexpr u32 CELL_PARTIALS_WITH_EXTENT = 4;

struct CellEdge {
	Vec2 a;
	Vec2 b;
};

//! The side of ab on which q lies after a move by an infinitely small (e, e^2): never 0
VIBE_HD int MovedSide(const CellEdge &edge, const Vec2 &q) {
	const int side = Orient2d(edge.a, edge.b, q);
	if (side != 0) {
		return side;
	}
	if (edge.a.y != edge.b.y) {
		return edge.a.y > edge.b.y ? 1 : -1;
	}
	return edge.b.x > edge.a.x ? 1 : -1;
}

//! Does the edge pass left of q, of those that cross y = q.y?
VIBE_HD bool PassesLeft(const CellEdge &edge, const Vec2 &q) {
	return (MovedSide(edge, q) > 0) != (edge.b.y > q.y);
}

//! Does the edge pass below q, of those that cross x = q.x?
VIBE_HD bool PassesBelow(const CellEdge &edge, const Vec2 &q) {
	return (MovedSide(edge, q) > 0) == (edge.b.x > q.x);
}

//! Does the way from p along y = p.y to x = reference.x, and along that to the reference point, cross the edge an odd number
//! of times? `on` when p lies on the edge.
VIBE_HD bool CrossesWay(const CellEdge &edge, const Vec2 &p, const Vec2 &reference, bool &on) {
	const Vec2 &a = edge.a, &b = edge.b;
	const bool a_above = a.y > p.y, across = a_above != (b.y > p.y);
	const bool a_beyond = a.x > reference.x, along = a_beyond != (b.x > reference.x);
	if ((a.y == p.y && (a.x == p.x || (b.y == p.y && (a.x > p.x) != (b.x > p.x)))) || (b.y == p.y && b.x == p.x)) {
		on = true;
	}
	if (across) {
		const bool passes_left = a.x < p.x && b.x < p.x;
		if (!along && (passes_left || (a.x > p.x && b.x > p.x))) {
			return passes_left == a_beyond;
		}
		const int side = Orient2d(a, b, p);
		on = on || side == 0;
		return along ? side != MovedSide(edge, reference) : ((side > 0) != (b.y > p.y)) == a_beyond;
	}
	if (!along) {
		return false;
	}
	const bool a_over = a.y > reference.y;
	return a_over == (b.y > reference.y) ? a_over != a_above : PassesBelow(edge, reference) == a_above;
}

//! How far a point is near, in an index of what is near. For limits that are 0, or at least SMALLEST and no less than
//! SMALLEST_SHARE of the largest coordinate, while those are at most LARGEST: then one edge after the other gives the answer
//! that ShapeDistance() gives for all of them. It measures again where squares underflow, and that comes to at most the
//! limit as well; nothing overflows.
struct CellReach {
	static constexpr double SMALLEST = 1e-130;
	static constexpr double SMALLEST_SHARE = 1e-12;
	static constexpr double LARGEST = 1e70;

	double limit;  // negative: an index of what contains a point
	double square; // the largest number whose root is at most the limit
	double outer;  // beyond this from an edge no distance is computed to be at most the limit; within `inner` all are
	double inner;

	static VIBE_HD CellReach None() {
		return CellReach {-1, -1, 0, 0};
	}
	//! Is p near the edge, by the distance that ShapeDistance() computes?
	VIBE_HD bool Has(const Vec2 &p, const Vec2 &a, const Vec2 &b) const {
		const double measure = SquareMetric::PointSegment(p, a, b);
		if (measure < SquareMetric::MIN) {
			return OnSegment(a, b, p) || (limit > 0 && LinearMetric::PointSegment(p, a, b) <= limit);
		}
		return measure <= square;
	}
	//! All within reach of p, by the coordinates of its box
	VIBE_HD Box Around(const Vec2 &p) const {
		return Box {p.x - outer, p.y - outer, p.x + outer, p.y + outer};
	}
};

//! How the edges of a list are looked at: each of them by its coordinates. vibe/rough.h has another way.
struct ExactEdges {
	//! From a point to the reference point of its cell
	struct Way {
		const Vec2 &p, &reference;

		VIBE_HD Way(const ExactEdges &, const Vec2 &p, const Vec2 &reference) : p(p), reference(reference) {
		}
		//! Do the edges from vertex `begin` on cross it an odd number of times? `on` when p lies on one of them.
		VIBE_HD bool IsCrossed(const Vec2 *vertices, u32 begin, u32 count, bool &on) const {
			bool odd = false;
			Vec2 a = vertices[begin];
			VIBE_LOOP
			for (u32 i = 1; i <= count; i++) {
				const Vec2 b = vertices[begin + i];
				odd ^= CrossesWay(CellEdge {a, b}, p, reference, on);
				a = b;
			}
			return odd;
		}
	};
};

//! An index, wherever it lies
struct CellsView {
	Box box;
	CellGrid top;
	const u32 *top_words;
	const u8 *pool;
	const Vec2 *vertices;
	CellReach reach;

	//! Calls hit(area, location) for every area in which p is interior or on the boundary, until it returns true
	template <class HIT, class EDGES = ExactEdges>
	VIBE_HD void Locate(const Vec2 &p, HIT &hit, const EDGES &edges = EDGES()) const {
		Find<false>(p, hit, edges);
	}
	//! In an index with a reach: calls hit(row, LOC_INTERIOR) for every area and line that p is near, until it returns true
	template <class HIT>
	VIBE_HD void FindNear(const Vec2 &p, HIT &hit) const {
		Find<true>(p, hit, ExactEdges());
	}

private:
	template <bool NEAR, class HIT, class EDGES>
	VIBE_HD void Find(const Vec2 &p, HIT &hit, const EDGES &edges) const {
		if (!box.Covers(p.x, p.y)) {
			return;
		}
		const CellGrid *grid = &top;
		u32 column = grid->Column(p.x), row = grid->Row(p.y);
		u32 word = top_words[grid->CellOf(column, row)];
		while (word >> CELL_KIND_SHIFT == CELL_GRID) {
			grid = (const CellGrid *)(pool + (u64)(word & CELL_MAX_VALUE) * CELL_UNIT_BYTES);
			column = grid->Column(p.x);
			row = grid->Row(p.y);
			word = ((const u32 *)(grid + 1))[grid->CellOf(column, row)];
		}
		const u32 value = word & CELL_MAX_VALUE;
		if (word >> CELL_KIND_SHIFT == CELL_FULL) {
			hit(value, LOC_INTERIOR);
		} else if (word >> CELL_KIND_SHIFT == CELL_LIST) {
			FindInList<NEAR>(*(const CellList *)(pool + (u64)value * CELL_UNIT_BYTES), *grid, column, row, p, hit,
			                 edges);
		}
	}

	template <bool NEAR, class HIT, class EDGES>
	VIBE_HD void FindInList(const CellList &list, const CellGrid &grid, u32 column, u32 row, const Vec2 &p, HIT &hit,
	                        const EDGES &edges) const {
		const CellPartial *partial = (const CellPartial *)(&list + 1);
		const CellPartial *end = partial + list.partial_count;
		const u32 *full = (const u32 *)end;
		for (u32 i = 0; i < list.full_count; i++) {
			if (hit(full[i], LOC_INTERIOR)) {
				return;
			}
		}
		if (partial == end) {
			return;
		}
		const Vec2 reference = grid.Reference(column, row);
		CellExtent way {0, 0, 255, 255}, around {0, 0, 255, 255};
		if (list.partial_count >= CELL_PARTIALS_WITH_EXTENT) {
			const CellFrame frame(grid, column, row);
			way = frame.Between(p, reference);
			if (NEAR) {
				around = frame.Of(reach.Around(p));
			}
		}
		const typename EDGES::Way from_p(edges, p, reference);
		bool inside = false, on = false, first = true;
		for (; partial < end; partial++) {
			if (first) {
				inside = partial->inside;
				on = false;
			}
			if (NEAR && !on && partial->extent.Meets(around)) {
				on = IsNear(*partial, p);
			}
			if (!(NEAR && (on || partial->is_line)) && partial->extent.Meets(way)) {
				inside ^= from_p.IsCrossed(vertices, partial->begin, partial->edges, on);
			}
			first = !partial->more;
			if (first && (on || inside) && hit(partial->area, on && !NEAR ? LOC_BOUNDARY : LOC_INTERIOR)) {
				return;
			}
		}
	}

	VIBE_HD bool IsNear(const CellPartial &partial, const Vec2 &p) const {
		const Box around = reach.Around(p);
		Vec2 a = vertices[partial.begin];
		VIBE_LOOP
		for (u32 i = 1; i <= partial.edges; i++) {
			const Vec2 b = vertices[partial.begin + i];
			if (around.Intersects(Box {Min(a.x, b.x), Min(a.y, b.y), Max(a.x, b.x), Max(a.y, b.y)}) &&
			    reach.Has(p, a, b)) {
				return true;
			}
			a = b;
		}
		return false;
	}
};

} // namespace vibe
