//===----------------------------------------------------------------------===//
// vibe/curve.h
//
// Promise: the same codes to the bit on both engines. Where boxes lie on space-filling curves: a Hilbert curve to order
// them by, a Morton curve for cells that must be found by their code.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

namespace vibe {

//! Where coordinates lie on an axis of 2^BITS places; monotone
template <u32 BITS>
struct CurveAxis {
	static_assert(BITS >= 1 && BITS <= 32, "a place is 32 bits");
	static constexpr double PLACES = (double)(1ULL << BITS);

	double from;
	double per_unit;

	VIBE_HD static CurveAxis Over(double min, double max) {
		double per_unit = PLACES / (max - min);
		// No extent, or one beyond doubles: all in one place is a poor order, but an order
		return CurveAxis {min, IsFinite(per_unit) ? per_unit : 0.0};
	}
	VIBE_HD u32 Place(double value) const {
		double place = (value - from) * per_unit;
		return place >= PLACES - 1 ? (u32)(PLACES - 1) : place > 0 ? (u32)place : 0;
	}
	//! The place of the middle
	VIBE_HD u32 Place(double min, double max) const {
		return Place(min * 0.5 + max * 0.5);
	}
};

//! Both axes of an extent
template <u32 BITS>
struct CurveGrid {
	CurveAxis<BITS> x;
	CurveAxis<BITS> y;

	VIBE_HD static CurveGrid Over(const Box &extent) {
		return CurveGrid {CurveAxis<BITS>::Over(extent.min_x, extent.max_x),
		                  CurveAxis<BITS>::Over(extent.min_y, extent.max_y)};
	}
};

//! The way down a Hilbert curve. The curve of a square goes through its quarters in an order that its orientation (one
//! of four) decides, and so does the orientation of each quarter.
struct HilbertWalk {
	u32 turn;
	u32 mirror;

	//! The number of the quarter that has bit x of one axis and bit y of the other; goes into it
	VIBE_HD u32 Enter(u32 x, u32 y) {
		x ^= mirror;
		y ^= mirror;
		if (turn) {
			Swap(x, y);
		}
		// The basic curve: up, right, down; its first quarter is turned, its last turned the other way
		u32 quarter = x == 0 ? y : 3 - y;
		if (quarter == 0) {
			turn ^= 1;
		} else if (quarter == 3) {
			turn ^= 1;
			mirror ^= 1;
		}
		return quarter;
	}
};

//! The code of a place on a Hilbert curve of 16 bits an axis
VIBE_HD u32 HilbertCode(u32 x, u32 y) {
	HilbertWalk walk {0, 0};
	u32 code = 0;
	for (int bit = 15; bit >= 0; bit--) {
		code = code << 2 | walk.Enter(x >> bit & 1, y >> bit & 1);
	}
	return code;
}

//! The order of boxes in a packed tree
VIBE_HD u32 HilbertCodeOf(const CurveGrid<16> &grid, const Box &box) {
	return HilbertCode(grid.x.Place(box.min_x, box.max_x), grid.y.Place(box.min_y, box.max_y));
}

namespace curve_detail {

//! The bits of a value on the even places
VIBE_HD u64 Spread(u32 value) {
	u64 v = value;
	v = (v | v << 16) & 0x0000ffff0000ffffULL;
	v = (v | v << 8) & 0x00ff00ff00ff00ffULL;
	v = (v | v << 4) & 0x0f0f0f0f0f0f0f0fULL;
	v = (v | v << 2) & 0x3333333333333333ULL;
	return (v | v << 1) & 0x5555555555555555ULL;
}

VIBE_HD u32 Gather(u64 v) {
	v &= 0x5555555555555555ULL;
	v = (v | v >> 1) & 0x3333333333333333ULL;
	v = (v | v >> 2) & 0x0f0f0f0f0f0f0f0fULL;
	v = (v | v >> 4) & 0x00ff00ff00ff00ffULL;
	v = (v | v >> 8) & 0x0000ffff0000ffffULL;
	return (u32)(v | v >> 16);
}

} // namespace curve_detail

//! Bits of x on the even places, bits of y on the odd ones
VIBE_HD u64 MortonCode(u32 x, u32 y) {
	return curve_detail::Spread(x) | curve_detail::Spread(y) << 1;
}
VIBE_HD u32 MortonX(u64 code) {
	return curve_detail::Gather(code);
}
VIBE_HD u32 MortonY(u64 code) {
	return curve_detail::Gather(code >> 1);
}

VIBE_HD u64 MortonCodeOf(const CurveGrid<32> &grid, const Box &box) {
	return MortonCode(grid.x.Place(box.min_x, box.max_x), grid.y.Place(box.min_y, box.max_y));
}

//! A rectangle of cells, both ends included
struct CellBlock {
	u32 min_x, min_y, max_x, max_y;

	//! The cells of a grid of 2^level a side (level 0 to 31) that a box touches
	VIBE_HD static CellBlock Of(const CurveGrid<32> &grid, const Box &box, u32 level) {
		if (level == 0) {
			return CellBlock {0, 0, 0, 0};
		}
		u32 shift = 32 - level;
		return CellBlock {grid.x.Place(box.min_x) >> shift, grid.y.Place(box.min_y) >> shift,
		                  grid.x.Place(box.max_x) >> shift, grid.y.Place(box.max_y) >> shift};
	}
};

//! Calls visit(first, last) for the runs of consecutive Morton codes, each as long as can be and in ascending order, that
//! together are the cells of the block
template <class VISIT>
VIBE_HD void VisitMortonRanges(const CellBlock &cells, u32 level, VISIT &visit) {
	bool open = false;
	u64 first = 0, last = 0;
	u64 code = 0;
	u32 below = level; // the square at `code` has 2^below cells a side
	while (true) {
		u32 min_x = MortonX(code), min_y = MortonY(code);
		u32 max_x = min_x + ((1u << below) - 1), max_y = min_y + ((1u << below) - 1);
		if (min_x <= cells.max_x && cells.min_x <= max_x && min_y <= cells.max_y && cells.min_y <= max_y) {
			if (!(cells.min_x <= min_x && max_x <= cells.max_x && cells.min_y <= min_y && max_y <= cells.max_y)) {
				below--; // its first quarter has the same code
				continue;
			}
			if (open && last + 1 != code) {
				visit(first, last);
				open = false;
			}
			first = open ? first : code;
			last = code + ((1ULL << 2 * below) - 1);
			open = true;
		}
		code += 1ULL << 2 * below;
		while (below < level && (code >> 2 * below & 3) == 0) {
			below++;
		}
		if (below == level) {
			break;
		}
	}
	if (open) {
		visit(first, last);
	}
}

} // namespace vibe
