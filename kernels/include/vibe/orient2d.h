//===----------------------------------------------------------------------===//
// vibe/orient2d.h
//
// Promise: exact on every finite input. The sign of
//     | ax - cx   ay - cy |
//     | bx - cx   by - cy |
// +1 when a, b, c turn counter-clockwise, -1 clockwise, 0 collinear.
//
// Stages A to D of Shewchuk's adaptive predicate (1997, section 4.2, with his error bounds); A and B inline, C and D out
// of line. His analysis holds while no product over- or underflows: outside that range, and only there, the sign comes
// from ExactSum.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/expansion.h"
#include "vibe/views.h"

namespace vibe {

//! The determinant itself as an expansion of at most 16 terms; exact while no product over- or underflows
VIBE_HD_NOINLINE int OrientExpansion(double ax, double ay, double bx, double by, double cx, double cy, double out[16]) {
	double acx, acx_tail, bcx, bcx_tail, acy, acy_tail, bcy, bcy_tail;
	TwoDiff(ax, cx, acx, acx_tail);
	TwoDiff(bx, cx, bcx, bcx_tail);
	TwoDiff(ay, cy, acy, acy_tail);
	TwoDiff(by, cy, bcy, bcy_tail);
	double s1, s0, t1, t0, b[4], u[4], sum1[8], sum2[12];
	TwoProduct(acx, bcy, s1, s0);
	TwoProduct(acy, bcx, t1, t0);
	TwoTwoDiff(s1, s0, t1, t0, b);
	TwoProduct(acx_tail, bcy, s1, s0);
	TwoProduct(acy_tail, bcx, t1, t0);
	TwoTwoDiff(s1, s0, t1, t0, u);
	int n = ExpansionSum(b, 4, u, 4, sum1);
	TwoProduct(acx, bcy_tail, s1, s0);
	TwoProduct(acy, bcx_tail, t1, t0);
	TwoTwoDiff(s1, s0, t1, t0, u);
	n = ExpansionSum(sum1, n, u, 4, sum2);
	TwoProduct(acx_tail, bcy_tail, s1, s0);
	TwoProduct(acy_tail, bcx_tail, t1, t0);
	TwoTwoDiff(s1, s0, t1, t0, u);
	return ExpansionSum(sum2, n, u, 4, out);
}

namespace orient2d_detail {

constexpr double EPSILON = 1.1102230246251565e-16; // 2^-53
constexpr double BOUND_A = (3.0 + 16.0 * EPSILON) * EPSILON;
constexpr double BOUND_B = (2.0 + 12.0 * EPSILON) * EPSILON;
constexpr double BOUND_C = (9.0 + 64.0 * EPSILON) * EPSILON * EPSILON;
constexpr double BOUND_RESULT = (3.0 + 8.0 * EPSILON) * EPSILON;
// |l| + |r| between these: the error terms of stages A to C neither underflow nor overflow
constexpr double SAFE_MIN = 1e-270;
constexpr double SAFE_MAX = 1e300;
// A product above this splits exactly
constexpr double PRODUCT_MIN = 1e-290;

//! Exact on every finite input: l - r expanded, c * c cancelled
VIBE_HD_NOINLINE int SignByExactSum(double ax, double ay, double bx, double by, double cx, double cy) {
	ExactSum sum;
	sum.AddProduct(ax, by, false);
	sum.AddProduct(ax, cy, true);
	sum.AddProduct(cx, by, true);
	sum.AddProduct(ay, bx, true);
	sum.AddProduct(ay, cx, false);
	sum.AddProduct(cy, bx, false);
	return sum.Sign();
}

VIBE_HD bool ProductSplits(double a, double b) {
	return a == 0.0 || b == 0.0 || Abs(a * b) > PRODUCT_MIN;
}

//! Stages C and D, from what stage B computed
VIBE_HD_NOINLINE int SignByTails(double ax, double ay, double bx, double by, double cx, double cy, double det,
                                 double sum) {
	double acx = ax - cx, bcx = bx - cx, acy = ay - cy, bcy = by - cy;
	double acx_tail = TwoDiffTail(ax, cx, acx);
	double bcx_tail = TwoDiffTail(bx, cx, bcx);
	double acy_tail = TwoDiffTail(ay, cy, acy);
	double bcy_tail = TwoDiffTail(by, cy, bcy);
	if (acx_tail == 0.0 && bcx_tail == 0.0 && acy_tail == 0.0 && bcy_tail == 0.0) {
		return Sign(det);
	}
	double bound = BOUND_C * sum + BOUND_RESULT * Abs(det);
	det += (acx * bcy_tail + bcy * acx_tail) - (acy * bcx_tail + bcx * acy_tail);
	if (Abs(det) >= bound) {
		return Sign(det);
	}
	if (!ProductSplits(acx_tail, bcy) || !ProductSplits(acy_tail, bcx) || !ProductSplits(acx, bcy_tail) ||
	    !ProductSplits(acy, bcx_tail) || !ProductSplits(acx_tail, bcy_tail) || !ProductSplits(acy_tail, bcx_tail)) {
		return SignByExactSum(ax, ay, bx, by, cx, cy);
	}
	double terms[16];
	return ExpansionSign(terms, OrientExpansion(ax, ay, bx, by, cx, cy, terms));
}

} // namespace orient2d_detail

VIBE_HD_ONCE int Orient2d(double ax, double ay, double bx, double by, double cx, double cy) {
	using namespace orient2d_detail;
	double acx = ax - cx, bcx = bx - cx, acy = ay - cy, bcy = by - cy;
	double l = acx * bcy;
	double r = acy * bcx;
	double det = l - r;
	double sum = Abs(l) + Abs(r);
	if (sum > SAFE_MIN && sum < SAFE_MAX) {
		if (Abs(det) > BOUND_A * sum) {
			return Sign(det);
		}
		double l1, l0, r1, r0, b[4];
		TwoProduct(acx, bcy, l1, l0);
		TwoProduct(acy, bcx, r1, r0);
		TwoTwoDiff(l1, l0, r1, r0, b);
		det = ((b[0] + b[1]) + b[2]) + b[3];
		if (Abs(det) >= BOUND_B * sum) {
			return Sign(det);
		}
		return SignByTails(ax, ay, bx, by, cx, cy, det, sum);
	}
	// A difference is zero only when its operands are equal, so these products are zero in truth
	if ((acx == 0.0 || bcy == 0.0) && (acy == 0.0 || bcx == 0.0)) {
		return 0;
	}
	return SignByExactSum(ax, ay, bx, by, cx, cy);
}

VIBE_HD int Orient2d(const Vec2 &a, const Vec2 &b, const Vec2 &c) {
	return Orient2d(a.x, a.y, b.x, b.y, c.x, c.y);
}

//! The sign of (b - a) x (d - c): exact on every finite input
VIBE_HD_ONCE int CrossSign(const Vec2 &a, const Vec2 &b, const Vec2 &c, const Vec2 &d) {
	using namespace orient2d_detail;
	double l = (b.x - a.x) * (d.y - c.y);
	double r = (b.y - a.y) * (d.x - c.x);
	double det = l - r;
	double sum = Abs(l) + Abs(r);
	// Four differences round instead of stage A's four, with the same bound
	if (sum > SAFE_MIN && sum < SAFE_MAX && Abs(det) > BOUND_A * sum) {
		return Sign(det);
	}
	ExactSum exact;
	exact.AddProduct(b.x, d.y, false);
	exact.AddProduct(b.x, c.y, true);
	exact.AddProduct(a.x, d.y, true);
	exact.AddProduct(a.x, c.y, false);
	exact.AddProduct(b.y, d.x, true);
	exact.AddProduct(b.y, c.x, false);
	exact.AddProduct(a.y, d.x, false);
	exact.AddProduct(a.y, c.x, true);
	return exact.Sign();
}

} // namespace vibe
