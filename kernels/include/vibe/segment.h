//===----------------------------------------------------------------------===//
// vibe/segment.h
//
// Promise: exact. How two segments meet, told by input vertices alone: a point where they meet is either an input vertex
// or the crossing of both interiors, and a crossing is never computed.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/orient2d.h"

namespace vibe {

enum ContactKind : u8 {
	CONTACT_NONE = 0,
	//! The interiors cross in one point that is no vertex of either
	CONTACT_CROSS = 1,
	//! One common point, a vertex of at least one of the two: `first`
	CONTACT_TOUCH = 2,
	//! Collinear with a common piece of positive length, from `first` to `second` along the first segment
	CONTACT_OVERLAP = 3
};

struct SegmentContact {
	ContactKind kind;
	Vec2 first;
	Vec2 second;
};

//! Is a before b on the way from p to q? All four on one line
VIBE_HD bool IsBefore(const Vec2 &p, const Vec2 &q, const Vec2 &a, const Vec2 &b) {
	if (p.x != q.x) {
		return p.x < q.x ? a.x < b.x : a.x > b.x;
	}
	return p.y < q.y ? a.y < b.y : a.y > b.y;
}

VIBE_HD bool BoxCovers(const Vec2 &p, const Vec2 &q, const Vec2 &v) {
	return Min(p.x, q.x) <= v.x && v.x <= Max(p.x, q.x) && Min(p.y, q.y) <= v.y && v.y <= Max(p.y, q.y);
}

VIBE_HD_NOINLINE bool OnSegment(const Vec2 &p, const Vec2 &q, const Vec2 &v) {
	return BoxCovers(p, q, v) && Orient2d(p, q, v) == 0;
}

//! Contact of segments pq and rs, both of positive length
VIBE_HD_NOINLINE SegmentContact Contact(const Vec2 &p, const Vec2 &q, const Vec2 &r, const Vec2 &s) {
	SegmentContact none {CONTACT_NONE, p, p};
	// Neighbours on a line and common borders share vertices: those are on both segments without any arithmetic
	bool r_common = r == p || r == q, s_common = s == p || s == q;
	if (r_common && s_common) {
		return SegmentContact {CONTACT_OVERLAP, p, q};
	}
	int r_side = r_common ? 0 : Orient2d(p, q, r);
	int s_side = s_common ? 0 : Orient2d(p, q, s);
	if ((r_common || s_common) && r_side != s_side) {
		return SegmentContact {CONTACT_TOUCH, r_common ? r : s, r_common ? r : s};
	}
	if (r_side * s_side > 0) {
		return none;
	}
	if (r_side == 0 && s_side == 0) {
		bool same_way = IsBefore(p, q, r, s);
		const Vec2 &near = same_way ? r : s;
		const Vec2 &far = same_way ? s : r;
		Vec2 first = IsBefore(p, q, p, near) ? near : p;
		Vec2 last = IsBefore(p, q, far, q) ? far : q;
		if (first == last) {
			return SegmentContact {CONTACT_TOUCH, first, first};
		}
		return IsBefore(p, q, first, last) ? SegmentContact {CONTACT_OVERLAP, first, last} : none;
	}
	int p_side = Orient2d(r, s, p);
	int q_side = Orient2d(r, s, q);
	if (p_side * q_side > 0) {
		return none;
	}
	if (r_side == 0) {
		return SegmentContact {CONTACT_TOUCH, r, r};
	}
	if (s_side == 0) {
		return SegmentContact {CONTACT_TOUCH, s, s};
	}
	if (p_side == 0) {
		return SegmentContact {CONTACT_TOUCH, p, p};
	}
	if (q_side == 0) {
		return SegmentContact {CONTACT_TOUCH, q, q};
	}
	return SegmentContact {CONTACT_CROSS, p, p};
}

//! |orient2d(a, b, c)| as an expansion, for products of such values
VIBE_HD int OrientMagnitude(const Vec2 &a, const Vec2 &b, const Vec2 &c, double out[16]) {
	int n = OrientExpansion(a.x, a.y, b.x, b.y, c.x, c.y, out);
	if (out[n - 1] < 0.0) {
		for (int i = 0; i < n; i++) {
			out[i] = -out[i];
		}
	}
	return n;
}

//! out = e * f; `scratch` and `out` hold 2 * elen * flen each. Returns the length.
VIBE_HD_NOINLINE int ExpansionProduct(const double *e, int elen, const double *f, int flen, double *scratch,
                                      double *out) {
	double scaled[32];
	int n = ExpansionScale(e, elen, f[0], out);
	for (int i = 1; i < flen; i++) {
		int m = ExpansionScale(e, elen, f[i], scaled);
		int length = ExpansionSum(out, n, scaled, m, scratch);
		for (int k = 0; k < length; k++) {
			out[k] = scratch[k];
		}
		n = length;
	}
	return n;
}

//! Which crossing comes first on the way from p to q: the one with f1f2 (-1), the one with g1g2 (+1), or both at one
//! point (0)? Both segments cross pq in their interiors. With a = |orient(f, p)|, b = |orient(f, q)|, c and d likewise
//! for g, the crossings lie at a / (a + b) and c / (c + d), so the answer is the sign of a d - c b. Exact while the
//! coordinates' differences lie between 1e-70 and 1e70.
VIBE_HD_NOINLINE int CompareCrossings(const Vec2 &p, const Vec2 &q, const Vec2 &f1, const Vec2 &f2, const Vec2 &g1,
                                      const Vec2 &g2) {
	double a[16], b[16], c[16], d[16];
	int an = OrientMagnitude(f1, f2, p, a);
	int bn = OrientMagnitude(f1, f2, q, b);
	int cn = OrientMagnitude(g1, g2, p, c);
	int dn = OrientMagnitude(g1, g2, q, d);
	// The largest term is within an ulp of the value
	double l = a[an - 1] * d[dn - 1];
	double r = c[cn - 1] * b[bn - 1];
	if (Abs(l - r) > 1e-14 * (l + r)) {
		return l < r ? -1 : 1;
	}
	double ad[512], cb[512], scratch[1024];
	int adn = ExpansionProduct(a, an, d, dn, scratch, ad);
	int cbn = ExpansionProduct(c, cn, b, bn, scratch, cb);
	for (int i = 0; i < cbn; i++) {
		cb[i] = -cb[i];
	}
	int n = ExpansionSum(ad, adn, cb, cbn, scratch);
	return ExpansionSign(scratch, n);
}

} // namespace vibe
