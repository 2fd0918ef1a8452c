//===----------------------------------------------------------------------===//
// vibe/pairs.h
//
// Pairs of rows of two sides, as the kernels of a join hand them on: found in any order by many threads, then refined.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"

namespace vibe {

//! Geometries of one side: shapes, or points where there are no shapes. A point that is NaN, and an EMPTY shape, meet
//! nothing.
struct SideView {
	const ShapeView *shapes;
	const Vec2 *points;

	//! `point` and `zero` are the memory of a shape that is made up
	VIBE_HD const ShapeView &Get(u32 row, ShapeView &made, Vec2 &point, u32 &zero) const {
		if (shapes) {
			return shapes[row];
		}
		point = points[row];
		zero = 0;
		made = ShapeOfPoint(&point, &zero);
		return made;
	}
	VIBE_HD Box BoxOf(u32 row) const {
		if (shapes) {
			return shapes[row].box;
		}
		const Vec2 p = points[row];
		return p.x == p.x ? Box {p.x, p.y, p.x, p.y} : Box::Empty();
	}
};

//! What is made of the pairs that are true: themselves, how many each row of the right side has, or whether a row of the left side has
//! one
enum PairOutput : u32 { OUTPUT_PAIRS, OUTPUT_COUNTS, OUTPUT_FOUND };

//! The dimension of a shape of which only the box is known: a pair that needs more of it stays open
constexpr int DIMENSION_UNKNOWN = 3;

//! Has a pair more vertices than one thread should measure? Of shapes that are known and not EMPTY.
VIBE_HD bool AreLarge(const ShapeView &a, const ShapeView &b, u32 max_vertices) {
	return (u64)a.vertex_count + b.vertex_count > max_vertices && a.dimension >= 0 && b.dimension >= 0 &&
	       a.dimension != DIMENSION_UNKNOWN && b.dimension != DIMENSION_UNKNOWN;
}

//! A row with its shape, wherever that lies
struct SideRow {
	ShapeView made;
	Vec2 point;
	u32 zero;
	const ShapeView &view;

	VIBE_HD SideRow(const SideView &side, u32 row) : view(side.Get(row, made, point, zero)) {
	}
	VIBE_HD bool IsUnknown() const {
		return view.dimension == DIMENSION_UNKNOWN;
	}
};

//! The limits of the distances of pairs: a constant, or what the rows of one side or both bring (-infinity: nothing)
struct LimitView {
	double constant;
	const double *left;
	const double *right;
	bool compared;
	bool strict;

	VIBE_HD double Of(u32 l, u32 r) const {
		if (!left && !right) {
			return EffectiveLimit(constant, compared, strict);
		}
		const double mine = left ? left[l] : 0, theirs = right ? right[r] : 0;
		if (left && right && (mine == -Infinity() || theirs == -Infinity())) {
			return -1;
		}
		return EffectiveLimit(left && right ? mine + theirs : left ? mine : theirs, compared, strict);
	}
	//! How far a row of the left side reaches by what it knows itself
	VIBE_HD double OfLeft(u32 l) const {
		return !left && right ? 0 : EffectiveLimit(left ? left[l] : constant, compared, strict);
	}
};

//! A packed tree (vibe/box_node.h). Its items are rows, and after those the parts of rows that have several: the rows' own
//! boxes are EMPTY then.
struct TreeView {
	const float *nodes;
	const i32 *ids;
	u32 items;
	const Box *boxes; // by id
	u32 rows;
	const u32 *part_row;
};

//! Queries of a tree that meet more items than `max_visits`, which many threads look at together
struct WideRows {
	u32 *rows;
	u64 *count;
	u32 max_visits;
};

//! Pairs of a list that take one thread too long, by number: many threads relate them together. `list` is null where all that one thread
//! leaves is open.
struct LongPairs {
	u32 *list;
	u64 *count;
	u64 *taken;
};

//! Rows left[i] and right[i] are a pair, results[i] what is known of it (PairResult; null where nothing is asked).
//! `total` counts all that were found, also those that had no room, and those before the first of this list.
struct PairList {
	u32 *left;
	u32 *right;
	u8 *results;
	u64 *total;
	u64 capacity;
	u64 before = 0;
	//! Where more than these were found, they are found again with more room: nothing is done with the list
	u64 most = ~(u64)0;

	VIBE_HD u64 Count() const {
		if (*total > most) {
			return 0;
		}
		const u64 count = *total > before ? *total - before : 0;
		return count < capacity ? count : capacity;
	}
	//! So many of them from `begin` on
	VIBE_HD PairList From(u64 begin, u64 count) const {
		return PairList {left + begin, right + begin, results + begin, total, count, before + begin, most};
	}
	VIBE_HD void Write(u64 at, u32 l, u32 r) const {
		if (at < capacity) {
			left[at] = l;
			right[at] = r;
			if (results) {
				results[at] = PAIR_FALSE;
			}
		}
	}
	//! One of several conditions was looked at: any that holds is enough
	VIBE_HD void Merge(u64 at, PairResult result) const {
		if (result == PAIR_TRUE || (result == PAIR_OPEN && results[at] == PAIR_FALSE)) {
			results[at] = result;
		}
	}
};

} // namespace vibe
