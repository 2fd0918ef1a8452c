//===----------------------------------------------------------------------===//
// vibe/curve.h
//
// Promise: the same codes to the bit on both engines. Where boxes lie on a Hilbert curve, to order them by.
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

} // namespace vibe
