//===----------------------------------------------------------------------===//
// vibe/split.h
//
// The point in which two segments cross. Promise: its coordinates are the doubles next to the true ones, but for one crossing
// in many millions that lies half-way between two (computed with 100 bits); the same bits in whatever order the segments and
// their ends come, never outside the box of either segment. It may round to an end.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"

namespace vibe {

namespace split_detail {

//! A number of about 100 bits: hi + lo, hi being what it rounds to
struct Wide {
	double hi;
	double lo;
};

VIBE_HD Wide Sum(const Wide &a, const Wide &b) {
	double hi, lo, sum, error;
	TwoSum(a.hi, b.hi, hi, lo);
	lo += a.lo + b.lo;
	FastTwoSum(hi, lo, sum, error);
	return Wide {sum, error};
}

VIBE_HD Wide Product(const Wide &a, const Wide &b) {
	double hi, lo, sum, error;
	TwoProduct(a.hi, b.hi, hi, lo);
	lo += a.hi * b.lo + a.lo * b.hi;
	FastTwoSum(hi, lo, sum, error);
	return Wide {sum, error};
}

VIBE_HD Wide Quotient(const Wide &a, const Wide &b) {
	const double first = a.hi / b.hi;
	const Wide rest = Sum(a, Product(Wide {-first, 0.0}, b));
	const double second = rest.hi / b.hi;
	const Wide last = Sum(rest, Product(Wide {-second, 0.0}, b));
	return Sum(Sum(Wide {first, 0.0}, Wide {second, 0.0}), Wide {last.hi / b.hi, 0.0});
}

//! |orient2d(a, b, c)|
VIBE_HD_NOINLINE Wide Magnitude(const Vec2 &a, const Vec2 &b, const Vec2 &c) {
	double acx, bcx, acy, bcy, tails[4], terms[16];
	TwoDiff(a.x, c.x, acx, tails[0]);
	TwoDiff(b.x, c.x, bcx, tails[1]);
	TwoDiff(a.y, c.y, acy, tails[2]);
	TwoDiff(b.y, c.y, bcy, tails[3]);
	int n = 4;
	if (tails[0] == 0.0 && tails[1] == 0.0 && tails[2] == 0.0 && tails[3] == 0.0) {
		// The differences are exact, as they are for points that are close to each other
		double s1, s0, t1, t0;
		TwoProduct(acx, bcy, s1, s0);
		TwoProduct(acy, bcx, t1, t0);
		TwoTwoDiff(s1, s0, t1, t0, terms);
	} else {
		n = OrientExpansion(a.x, a.y, b.x, b.y, c.x, c.y, terms);
	}
	Wide value {terms[n - 1], 0.0};
	for (int i = n - 2; i >= 0; i--) {
		double hi, lo;
		TwoSum(value.hi, terms[i], hi, lo);
		value = Wide {hi, value.lo + lo};
	}
	return value.hi < 0.0 ? Wide {-value.hi, -value.lo} : value;
}

//! from + share * (to - from), rounded once
VIBE_HD double Along(double from, double to, const Wide &share) {
	Wide way;
	TwoDiff(to, from, way.hi, way.lo);
	const Wide offset = Product(share, way);
	double sum, error;
	TwoSum(from, offset.hi, sum, error);
	return sum + (error + offset.lo);
}

VIBE_HD double Clamp(double value, double a, double b, double c, double d) {
	return Min(Max(value, Max(Min(a, b), Min(c, d))), Min(Max(a, b), Max(c, d)));
}

} // namespace split_detail

//! The crossing of pq and rs, which is none of their ends
VIBE_HD_NOINLINE Vec2 CrossingPoint(Vec2 p, Vec2 q, Vec2 r, Vec2 s) {
	using namespace split_detail;
	if (LexicographicLess(q, p)) {
		Swap(p, q);
	}
	if (LexicographicLess(s, r)) {
		Swap(r, s);
	}
	if (LexicographicLess(r, p) || (r == p && LexicographicLess(s, q))) {
		Swap(p, r);
		Swap(q, s);
	}
	const Wide a = Magnitude(r, s, p), b = Magnitude(r, s, q);
	// From the nearer end: what is added is the smaller part
	const bool near_p = a.hi <= b.hi;
	const Vec2 from = near_p ? p : q, to = near_p ? q : p;
	Wide share = Quotient(near_p ? a : b, Sum(a, b));
	if (!(share.hi >= 0.0 && share.hi <= 1.0)) {
		// Products of the coordinates are beyond all doubles, or below
		share = Wide {0.0, 0.0};
	}
	return Vec2 {Clamp(Along(from.x, to.x, share), p.x, q.x, r.x, s.x),
	             Clamp(Along(from.y, to.y, share), p.y, q.y, r.y, s.y)};
}

} // namespace vibe
