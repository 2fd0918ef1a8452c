//===----------------------------------------------------------------------===//
// vibe/split.h
//
// Where segments that meet have to be split. Promise: which points there are, and on which segments, is exact. The
// coordinates of a crossing are bounded: within a few units in the last place of the segments' extent, the same bits in
// whatever order the segments and their ends come, and never outside the box of either segment. It may round to an end.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"

namespace vibe {

namespace split_detail {

//! |orient2d(a, b, c)| with nearly all its digits
VIBE_HD_NOINLINE double Magnitude(const Vec2 &a, const Vec2 &b, const Vec2 &c) {
	double acx, bcx, acy, bcy, tails[4];
	TwoDiff(a.x, c.x, acx, tails[0]);
	TwoDiff(b.x, c.x, bcx, tails[1]);
	TwoDiff(a.y, c.y, acy, tails[2]);
	TwoDiff(b.y, c.y, bcy, tails[3]);
	if (tails[0] == 0.0 && tails[1] == 0.0 && tails[2] == 0.0 && tails[3] == 0.0) {
		// The differences are exact, as they are for points that are close to each other
		double s1, s0, t1, t0, b4[4];
		TwoProduct(acx, bcy, s1, s0);
		TwoProduct(acy, bcx, t1, t0);
		TwoTwoDiff(s1, s0, t1, t0, b4);
		return Abs(((b4[0] + b4[1]) + b4[2]) + b4[3]);
	}
	double terms[16];
	const int n = OrientMagnitude(a, b, c, terms);
	double sum = 0.0;
	for (int i = 0; i < n; i++) {
		sum += terms[i];
	}
	return sum;
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
	const double a = Magnitude(r, s, p), b = Magnitude(r, s, q);
	// From the nearer end: what is added is the smaller part
	const bool near_p = a <= b;
	const double share = (near_p ? a : b) / (a + b);
	const Vec2 from = near_p ? p : q, to = near_p ? q : p;
	return Vec2 {Clamp(from.x + share * (to.x - from.x), p.x, q.x, r.x, s.x),
	             Clamp(from.y + share * (to.y - from.y), p.y, q.y, r.y, s.y)};
}

//! Calls visit(point) for each point at which a contact splits the segment pq, one of the two that meet
template <class VISIT>
VIBE_HD void VisitSplits(const SegmentContact &contact, const Vec2 &p, const Vec2 &q, const Vec2 &crossing,
                         VISIT &visit) {
	if (contact.kind == CONTACT_CROSS) {
		visit(crossing);
		return;
	}
	if (contact.kind != CONTACT_NONE && contact.first != p && contact.first != q) {
		visit(contact.first);
	}
	if (contact.kind == CONTACT_OVERLAP && contact.second != p && contact.second != q) {
		visit(contact.second);
	}
}

//! A number that grows on the way from p to q, at points of the segment; it may stand still between points that are
//! neighbours on an axis
VIBE_HD u64 SplitKey(const Vec2 &p, const Vec2 &q, const Vec2 &v) {
	const double along = Abs(q.x - p.x) >= Abs(q.y - p.y) ? Abs(v.x - p.x) : Abs(v.y - p.y);
	return Bits(along);
}

} // namespace vibe
