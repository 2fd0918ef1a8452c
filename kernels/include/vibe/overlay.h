//===----------------------------------------------------------------------===//
// vibe/overlay.h
//
// Edges of an overlay: where two of them have to be cut, whether they meet elsewhere than in their ends, and which of them
// lies below. Promise: exact, but for the coordinates of a crossing (vibe/split.h).
//
// An edge, whatever else it has, runs from a to b, and a comes before b by x, then by y. "Above" is left of a to b.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/split.h"

namespace vibe {

//! How many strips of equal width edges are sorted into: so many that an edge is in one and a half of them, on average. `width`: of all
//! edges, `run`: the sum of their widths.
VIBE_HD double StripCount(double edges, double width, double run) {
	// Not a number where both overflow
	const double wanted = width * edges / (2 * run), most = edges / 8, count = wanted < most ? wanted : most;
	return run > 0 && count > 1 ? count : 1;
}

//! Rounded crossings seldom make edges meet anew. Where they do, edges go to ends that are near instead of getting new ones. Both engines
//! do that in the same rounds, so that their edges are the same.
struct NearRounds {
	static constexpr int WITH_ONE_REACH = 8;
	static constexpr int COUNT = 3 * WITH_ONE_REACH;

	//! How near an end is, relative to an edge's coordinates: a few units in the last place, and four times as many in each stage
	VIBE_HD static double Reach(int round) {
		constexpr double LEAST = 1.0 / (1ULL << 51);
		const int stage = round / WITH_ONE_REACH;
		return LEAST * (double)(1ULL << (2 * stage));
	}
	//! So many edges may become of those that were there at first. Coordinates of very different sizes have edges go to ever more ends.
	VIBE_HD static u64 MostEdges(u64 at_first) {
		return at_first * 2 + 256;
	}
};

//! Is p an inner point of an edge on whose line it lies?
template <class EDGE>
VIBE_HD bool LiesInside(const EDGE &edge, const Vec2 &p) {
	return LexicographicLess(edge.a, p) && LexicographicLess(p, edge.b);
}

//! Calls visit.Touch(second, p) for each end of one edge that lies inside of the other (`second`: inside of f), and
//! visit.Cross(p) where both cross
template <class EDGE, class VISIT>
VIBE_HD void VisitCuts(const EDGE &e, const EDGE &f, VISIT &visit) {
	const auto touch = [&](bool second, const Vec2 &p) {
		if (LiesInside(second ? f : e, p)) {
			visit.Touch(second, p);
		}
	};
	// Edges run from a to b in one order: those that share a start or an end meet elsewhere only on one line, and those
	// that follow each other nowhere
	if (e.a == f.a) {
		if (Orient2d(e.a, e.b, f.b) == 0) {
			touch(false, f.b);
			touch(true, e.b);
		}
		return;
	}
	if (e.b == f.b) {
		if (Orient2d(e.a, e.b, f.a) == 0) {
			touch(false, f.a);
			touch(true, e.a);
		}
		return;
	}
	if (e.b == f.a || f.b == e.a) {
		return;
	}
	const int fa = Orient2d(e.a, e.b, f.a), fb = Orient2d(e.a, e.b, f.b);
	if (fa * fb > 0) {
		return;
	}
	if (fa == 0 && fb == 0) {
		touch(false, f.a);
		touch(false, f.b);
		touch(true, e.a);
		touch(true, e.b);
		return;
	}
	const int ea = Orient2d(f.a, f.b, e.a), eb = Orient2d(f.a, f.b, e.b);
	if (ea * eb > 0) {
		return;
	}
	if (fa == 0) {
		touch(false, f.a);
	} else if (fb == 0) {
		touch(false, f.b);
	} else if (ea == 0) {
		touch(true, e.a);
	} else if (eb == 0) {
		touch(true, e.b);
	} else {
		const Vec2 crossing = CrossingPoint(e.a, e.b, f.a, f.b);
		// -0 is 0
		visit.Cross(Vec2 {crossing.x + 0.0, crossing.y + 0.0});
	}
}

//! How far an edge goes to ends of others, where that is said as a part of its largest coordinate
template <class EDGE>
VIBE_HD double ReachOf(const EDGE &edge, double reach) {
	return reach * Max(Max(Abs(edge.a.x), Abs(edge.b.x)), Max(Abs(edge.a.y), Abs(edge.b.y)));
}

//! Is p within `reach` of ab, and nearer to either end than they are to each other? Pieces are shorter than their edge, so that
//! going to ends comes to an end.
VIBE_HD bool IsNear(const Vec2 &a, const Vec2 &b, const Vec2 &p, double reach) {
	const double x = b.x - a.x, y = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
	const double across = x * py - y * px;
	return px * (b.x - p.x) + py * (b.y - p.y) > 0 && across * across <= reach * reach * (x * x + y * y);
}

//! Calls visit.Touch(second, p) for each end of one edge that is within reach of the other; true when there was one
template <class EDGE, class VISIT>
VIBE_HD bool VisitNearEnds(const EDGE &e, const EDGE &f, double reach, VISIT &visit) {
	bool any = false;
	const auto pass = [&](bool second, const Vec2 &p) {
		const EDGE &edge = second ? f : e;
		if (p != edge.a && p != edge.b && IsNear(edge.a, edge.b, p, ReachOf(edge, reach))) {
			visit.Touch(second, p);
			any = true;
		}
	};
	pass(false, f.a);
	pass(false, f.b);
	pass(true, e.a);
	pass(true, e.b);
	return any;
}

//! Do two edges meet elsewhere than in an end of both?
template <class EDGE>
VIBE_HD bool MeetInside(const EDGE &e, const EDGE &f) {
	if (e.b.x < f.a.x || f.b.x < e.a.x) {
		return false;
	}
	if (e.a == f.a) {
		return Orient2d(e.a, e.b, f.b) == 0;
	}
	if (e.b == f.b) {
		return Orient2d(e.a, e.b, f.a) == 0;
	}
	if (e.b == f.a || f.b == e.a) {
		return false;
	}
	if (Max(e.a.y, e.b.y) < Min(f.a.y, f.b.y) || Max(f.a.y, f.b.y) < Min(e.a.y, e.b.y)) {
		return false;
	}
	const int fa = Orient2d(e.a, e.b, f.a), fb = Orient2d(e.a, e.b, f.b);
	if (fa * fb > 0) {
		return false;
	}
	if (fa == 0 && fb == 0) {
		return LexicographicLess(e.a, f.b) && LexicographicLess(f.a, e.b);
	}
	return Orient2d(f.a, f.b, e.a) * Orient2d(f.a, f.b, e.b) <= 0;
}

//! Makes an edge its piece between two points that follow each other along it; false where that is nothing. Rounded points
//! may turn it around.
template <class EDGE>
VIBE_HD bool TakePiece(EDGE &edge, const Vec2 &from, const Vec2 &to, bool &turned) {
	turned = LexicographicLess(to, from);
	edge.a = turned ? to : from;
	edge.b = turned ? from : to;
	return from != to;
}

//! Does l come before r on the way along an edge? On the way from a to b x does not fall, and y goes one way: so do rounded
//! points. Those that are only near the edge are told by the direction in which it is longer.
template <class EDGE>
VIBE_HD bool CutBefore(const EDGE &edge, const Vec2 &l, const Vec2 &r) {
	const bool rises = edge.a.y <= edge.b.y;
	const bool steep = Abs(edge.b.y - edge.a.y) > edge.b.x - edge.a.x;
	if (l.x == r.x || (steep && l.y != r.y)) {
		return rises ? l.y < r.y : l.y > r.y;
	}
	return l.x < r.x;
}

} // namespace vibe
