//===----------------------------------------------------------------------===//
// vibe/rough.h
//
// Promise: exact. A filter in front of the tests of an index of cells, for devices that are slow in double precision: float coordinates
// relative to the middle of the index decide most edges, and the doubles the others. What the filter decides is what CrossesWay() decides.
//
// Let u = 2^-24, and M at least the largest |v - c| of a coordinate v of the index and its middle c. A rough coordinate is
// v' = float(v - c), and |v' - (v - c)| <= e = M (u + 2^-53 + u 2^-53): the difference is rounded to a double, and that to a float. `tolerance`
// is t >= 2.1 e.
//
// Comparisons. For v > w: d = float(v' - w') has the sign of v' - w' and |d| >= (1 - u) |v' - w'|, while v - w differs from v' - w' by at most
// 2 e. So |d| > t decides, and equal coordinates are never decided.
//
// Sides. Each of the differences d that Orient2d() begins with has an error of at most 2 e + u |d|. In l = d1 d2 and r = d3 d4 that
// comes to at most 2 e (1 + u) S + 8 e^2 + (2 u + u^2) (|l| + |r|), S being the sum of the |d|; rounding both products and their
// difference adds at most 2 u (1 + u) (|l| + |r|). So |l - r| > t S + 2 t^2 + 8 u (|l| + |r|) decides: the slack of 5 % and of 4 u covers the
// rounding of this bound. M is from 1e-10 to 1e18 (RoughFrame), so nothing overflows, and what underflows is below t S: a product that does has
// an error of at most 2^-149, while t S is larger than 1e-36 wherever a side could be decided, which needs S > t.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/cells.h"

namespace vibe {

//! A vertex as floats, relative to the middle of a frame
struct RoughVec {
	float x;
	float y;
};

VIBE_HD float RoughAbs(float value) {
	return value < 0 ? -value : value;
}

//! Where rough coordinates count from, and what they may be wrong by
struct RoughFrame {
	Vec2 middle;
	//! 2.1 times the error of a coordinate; infinite where the box is too large or too small for floats, and nothing is decided then
	float tolerance;

	VIBE_HD static RoughFrame Of(const Box &box) {
		const Vec2 middle {box.min_x + (box.max_x - box.min_x) * 0.5, box.min_y + (box.max_y - box.min_y) * 0.5};
		// A little more than the half of it, for rounding and for references, which are computed
		const double reach =
		    Max(Max(box.max_x - middle.x, middle.x - box.min_x), Max(box.max_y - middle.y, middle.y - box.min_y)) *
		    1.001;
		const bool fits = reach > 1e-10 && reach < 1e18;
		// 2.1 * 2^-24, and some for the terms beside it
		return RoughFrame {middle, fits ? (float)(reach * 1.26e-7) : (float)Infinity()};
	}
	VIBE_HD RoughVec Of(const Vec2 &v) const {
		return RoughVec {(float)(v.x - middle.x), (float)(v.y - middle.y)};
	}
};

//! What floats say: no, yes, or that doubles have to tell
enum RoughAnswer : u32 { ROUGH_NO, ROUGH_YES, ROUGH_OPEN };

VIBE_HD RoughAnswer RoughIs(bool yes) {
	return yes ? ROUGH_YES : ROUGH_NO;
}

//! The side of ab on which p lies, if it is certain: then it is not 0. ROUGH_YES: left
VIBE_HD RoughAnswer RoughLeft(const RoughVec &a, const RoughVec &b, const RoughVec &p, float tolerance) {
	constexpr float ROUNDING = 8.0f / 16777216.0f;
	const float ax = a.x - p.x, ay = a.y - p.y, bx = b.x - p.x, by = b.y - p.y;
	const float l = ax * by, r = ay * bx, det = l - r;
	const float sum = RoughAbs(ax) + RoughAbs(ay) + RoughAbs(bx) + RoughAbs(by);
	const float bound = tolerance * sum + 2 * tolerance * tolerance + ROUNDING * (RoughAbs(l) + RoughAbs(r));
	// NaN, where an infinite tolerance meets 0, decides nothing
	return RoughAbs(det) > bound ? RoughIs(det > 0) : ROUGH_OPEN;
}

//! CrossesWay(), if it is certain: then p does not lie on the edge
VIBE_HD RoughAnswer RoughCrossesWay(const RoughVec &a, const RoughVec &b, const RoughVec &p, const RoughVec &reference,
                                    float tolerance) {
	const float a_up = a.y - p.y, b_up = b.y - p.y, a_right = a.x - reference.x, b_right = b.x - reference.x;
	// Not by Min(), which is of doubles
	if (!(RoughAbs(a_up) > tolerance && RoughAbs(b_up) > tolerance && RoughAbs(a_right) > tolerance &&
	      RoughAbs(b_right) > tolerance)) {
		return ROUGH_OPEN;
	}
	const bool a_above = a_up > 0, across = a_above != (b_up > 0);
	const bool a_beyond = a_right > 0, along = a_beyond != (b_right > 0);
	if (across) {
		if (!along) {
			const float a_past = a.x - p.x, b_past = b.x - p.x;
			if (a_past < -tolerance && b_past < -tolerance) {
				return RoughIs(a_beyond);
			}
			if (a_past > tolerance && b_past > tolerance) {
				return RoughIs(!a_beyond);
			}
		}
		const RoughAnswer left = RoughLeft(a, b, p, tolerance);
		if (left == ROUGH_OPEN) {
			return ROUGH_OPEN;
		}
		if (!along) {
			return RoughIs(((left == ROUGH_YES) != (b_up > 0)) == a_beyond);
		}
		const RoughAnswer of_reference = RoughLeft(a, b, reference, tolerance);
		return of_reference == ROUGH_OPEN ? ROUGH_OPEN : RoughIs(left != of_reference);
	}
	if (!along) {
		return ROUGH_NO;
	}
	const float a_high = a.y - reference.y, b_high = b.y - reference.y;
	if (!(RoughAbs(a_high) > tolerance && RoughAbs(b_high) > tolerance)) {
		return ROUGH_OPEN;
	}
	if ((a_high > 0) == (b_high > 0)) {
		return RoughIs((a_high > 0) != a_above);
	}
	const RoughAnswer left = RoughLeft(a, b, reference, tolerance);
	return left == ROUGH_OPEN ? ROUGH_OPEN : RoughIs(((left == ROUGH_YES) == (b_right > 0)) == a_above);
}

//! The vertices of an index of cells once more, rough
struct RoughEdges {
	const RoughVec *vertices;
	RoughFrame frame;

	//! As ExactEdges
	struct Way {
		const RoughEdges &edges;
		const Vec2 &p, &reference;
		RoughVec rough_p, rough_reference;

		VIBE_HD Way(const RoughEdges &edges, const Vec2 &p, const Vec2 &reference)
		    : edges(edges), p(p), reference(reference), rough_p(edges.frame.Of(p)),
		      rough_reference(edges.frame.Of(reference)) {
		}
		VIBE_HD bool IsCrossed(const Vec2 *exact, u32 begin, u32 count, bool &on) const {
			bool odd = false;
			RoughVec a = edges.vertices[begin];
			VIBE_LOOP
			for (u32 i = begin + 1; i <= begin + count; i++) {
				const RoughVec b = edges.vertices[i];
				const RoughAnswer answer = RoughCrossesWay(a, b, rough_p, rough_reference, edges.frame.tolerance);
				odd ^= answer == ROUGH_OPEN ? CrossesWay(CellEdge {exact[i - 1], exact[i]}, p, reference, on)
				                            : answer == ROUGH_YES;
				a = b;
			}
			return odd;
		}
	};
};

} // namespace vibe
