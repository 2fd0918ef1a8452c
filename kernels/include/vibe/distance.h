//===----------------------------------------------------------------------===//
// vibe/distance.h
//
// Promise: bounded. The distance is 0 exactly when the geometries intersect (decided exactly), and otherwise within a
// relative error of 1e-12 of the true distance, for distances between 1e-140 and 1e150 (best effort outside). It is
// the least of the distances between parts, each computed by one fixed formula, so it does not depend on the order in
// which parts are looked at.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/lane.h"
#include "vibe/shape.h"

namespace vibe {

//! Distances are compared as squares: no root but the last
struct SquareMetric {
	//! Squares outside these have lost digits, or all of them
	static constexpr double MIN = 1e-280;
	static constexpr double MAX = 1e300;
	//! Below this share of its terms a difference of products gets its first-order tails
	static constexpr double CANCELLATION = 0.5;
	//! Below this one it is computed exactly
	static constexpr double DEEP_CANCELLATION = 1e-9;

	VIBE_HD static double Length(double dx, double dy) {
		return dx * dx + dy * dy;
	}
	VIBE_HD static double Distance(double measure) {
		return Sqrt(measure);
	}

	//! Point and segment: the least of the distances to its ends and, where p projects into it, to its line
	VIBE_HD_ONCE static double PointSegment(const Vec2 &p, const Vec2 &a, const Vec2 &b) {
		double to_ends = Min(Length(p.x - a.x, p.y - a.y), Length(p.x - b.x, p.y - b.y));
		return Min(to_ends, PointLine(p, a, b));
	}

	//! Distance to the line through a and b; infinite where p does not project into the segment
	VIBE_HD_ONCE static double PointLine(const Vec2 &p, const Vec2 &a, const Vec2 &b) {
		double dx = b.x - a.x, dy = b.y - a.y;
		double px = p.x - a.x, py = p.y - a.y;
		// The far end seen from b: what that loses is small against |p - b|, which it is not in along < length2
		if (!(px * dx + py * dy > 0.0 && (p.x - b.x) * dx + (p.y - b.y) * dy < 0.0)) {
			return Infinity();
		}
		double l = px * dy, r = py * dx;
		double cross = l - r;
		if (Abs(cross) <= CANCELLATION * (Abs(l) + Abs(r))) {
			cross = CarefulCross(p, a, b);
		}
		return (cross / (dx * dx + dy * dy)) * cross;
	}

	//! (p - a) x (b - a) with nearly all its digits: the tails as in orient2d's stage C, else the whole expansion
	VIBE_HD_NOINLINE static double CarefulCross(const Vec2 &p, const Vec2 &a, const Vec2 &b) {
		double dx, dy, px, py, dx_tail, dy_tail, px_tail, py_tail;
		TwoDiff(b.x, a.x, dx, dx_tail);
		TwoDiff(b.y, a.y, dy, dy_tail);
		TwoDiff(p.x, a.x, px, px_tail);
		TwoDiff(p.y, a.y, py, py_tail);
		double l, l_tail, r, r_tail, cross, cross_tail;
		TwoProduct(px, dy, l, l_tail);
		TwoProduct(py, dx, r, r_tail);
		TwoDiff(l, r, cross, cross_tail);
		cross += (cross_tail + (l_tail - r_tail)) + ((px * dy_tail + px_tail * dy) - (py * dx_tail + py_tail * dx));
		return Abs(cross) > DEEP_CANCELLATION * (Abs(l) + Abs(r)) ? cross : ExactCross(a, b, p);
	}

	//! orient2d's determinant with nearly all its digits, up to its sign
	VIBE_HD_NOINLINE static double ExactCross(const Vec2 &a, const Vec2 &b, const Vec2 &p) {
		double terms[16];
		int n = OrientExpansion(a.x, a.y, b.x, b.y, p.x, p.y, terms);
		double sum = 0.0;
		for (int i = 0; i < n; i++) {
			sum += terms[i];
		}
		return sum;
	}
};

//! Distances themselves, for those whose squares over- or underflow
struct LinearMetric {
	static constexpr double MIN = 1e-290;

	VIBE_HD_ONCE static double Length(double dx, double dy) {
		double largest = Max(Abs(dx), Abs(dy));
		if (!(largest > 0.0 && largest < Infinity())) {
			return largest;
		}
		double x = dx / largest, y = dy / largest;
		return largest * Sqrt(x * x + y * y);
	}
	VIBE_HD static double Distance(double measure) {
		return measure;
	}

	VIBE_HD_ONCE static double PointSegment(const Vec2 &p, const Vec2 &a, const Vec2 &b) {
		double farthest = Max(Max(Max(Abs(p.x), Abs(p.y)), Max(Abs(a.x), Abs(a.y))), Max(Abs(b.x), Abs(b.y)));
		// An eighth has no difference that overflows
		double scale = farthest > 1e307 ? 0.125 : 1.0;
		double dx = b.x * scale - a.x * scale, dy = b.y * scale - a.y * scale;
		double px = p.x * scale - a.x * scale, py = p.y * scale - a.y * scale;
		double largest = Max(Abs(dx), Abs(dy));
		dx /= largest;
		dy /= largest;
		double qx = p.x * scale - b.x * scale, qy = p.y * scale - b.y * scale;
		if (!(px * dx + py * dy > 0.0)) {
			return Length(px, py) / scale;
		}
		if (!(qx * dx + qy * dy < 0.0)) {
			return Length(qx, qy) / scale;
		}
		return Abs(px * dy - py * dx) / Sqrt(dx * dx + dy * dy) / scale;
	}
};

//! The least distance so far, in the measure of METRIC
template <class METRIC>
struct DistanceSearch {
	static constexpr double LEAST = 4.9406564584124654e-324;

	double best;
	//! Stop as soon as the distance is known to be at most this (-1: never)
	double limit;
	bool touching;

	//! A lower bound between boxes must beat the best by more than the formulas' error
	VIBE_HD bool Prunes(const Box &a, const Box &b) const {
		double dx = Max(0.0, Max(a.min_x - b.max_x, b.min_x - a.max_x));
		double dy = Max(0.0, Max(a.min_y - b.max_y, b.min_y - a.max_y));
		return METRIC::Length(dx, dy) * (1.0 - 1e-11) > best;
	}
	//! Of what does not touch: a measure of 0 is one that underflowed, and must not end a search for what touches
	VIBE_HD bool Found(double measure) {
		if (measure < best) {
			best = Max(measure, LEAST);
		}
		return limit >= 0.0 && METRIC::Distance(best) <= limit;
	}
	VIBE_HD bool Touch() {
		touching = true;
		best = 0.0;
		return true;
	}
	VIBE_HD bool Points(const Vec2 &p, const Vec2 &q) {
		return p == q ? Touch() : Found(METRIC::Length(p.x - q.x, p.y - q.y));
	}
};

namespace distance_detail {

VIBE_HD Box BoxOf(const Vec2 &a, const Vec2 &b) {
	return Box {Min(a.x, b.x), Min(a.y, b.y), Max(a.x, b.x), Max(a.y, b.y)};
}

template <class METRIC>
struct TestNear {
	const DistanceSearch<METRIC> &search;
	Box box;
	VIBE_HD bool operator()(const Box &b) const {
		return !search.Prunes(box, b);
	}
};

//! What a search begins with: nothing whose distance could come to at most the limit is pruned, and all that is farther may
//! be. The margin is above the rounding of the root.
VIBE_HD double FirstBound(double limit) {
	if (!(limit >= 0.0)) {
		return Infinity();
	}
	double bound = Max(limit * limit * (1.0 + 1e-14), 1e10 * SquareMetric::MIN);
	return bound < SquareMetric::MAX ? bound : Infinity();
}

//! Products of differences this large may overflow, and a measure made of them may be anything
VIBE_HD bool MayOverflow(const Box &a, const Box &b) {
	constexpr double LARGEST = 1e153;
	return !(Max(a.max_x, b.max_x) - Min(a.min_x, b.min_x) < LARGEST &&
	         Max(a.max_y, b.max_y) - Min(a.min_y, b.min_y) < LARGEST);
}

//! Whether the best of a search, which touched nothing, is the square of the distance
VIBE_HD bool Holds(const DistanceSearch<SquareMetric> &search, const Box &a, const Box &b) {
	return search.best > SquareMetric::MIN && search.best < SquareMetric::MAX && !MayOverflow(a, b);
}

//! A point against edges
template <class METRIC>
struct PointVisitor {
	DistanceSearch<METRIC> &search;
	const ShapeView &s;
	Vec2 p;
	u32 nearest;
	VIBE_HD_ONCE bool operator()(u32 i) {
		Vec2 a = s.Vertex(i), b = s.Vertex(i + 1);
		if (search.Prunes(Box {p.x, p.y, p.x, p.y}, BoxOf(a, b))) {
			return false;
		}
		double measure = METRIC::PointSegment(p, a, b);
		if (measure < METRIC::MIN && OnSegment(a, b, p)) {
			return search.Touch();
		}
		if (measure < search.best) {
			nearest = i;
		}
		return search.Found(measure);
	}
};

//! Edge e against the edges of t
template <class METRIC>
struct EdgeVisitor {
	DistanceSearch<METRIC> &search;
	const ShapeView &t;
	Vec2 p, q;
	Box box;
	VIBE_HD_ONCE bool operator()(u32 i) {
		Vec2 a = t.Vertex(i), b = t.Vertex(i + 1);
		Box other = BoxOf(a, b);
		if (search.Prunes(box, other)) {
			return false;
		}
		if (box.Intersects(other) && Contact(p, q, a, b).kind != CONTACT_NONE) {
			return search.Touch();
		}
		return search.Found(METRIC::PointSegment(p, a, b)) || search.Found(METRIC::PointSegment(q, a, b)) ||
		       search.Found(METRIC::PointSegment(a, p, q)) || search.Found(METRIC::PointSegment(b, p, q));
	}
};

template <class METRIC>
struct EdgesVisitor {
	DistanceSearch<METRIC> &search;
	const ShapeView &s;
	const ShapeView &t;
	VIBE_HD_ONCE bool operator()(u32 e) {
		Vec2 p = s.Vertex(e), q = s.Vertex(e + 1);
		Box box = BoxOf(p, q);
		if (search.Prunes(box, t.box)) {
			return false;
		}
		EdgeVisitor<METRIC> visitor {search, t, p, q, box};
		return VisitEdges(t, 0, t.vertex_count, TestNear<METRIC> {search, box}, visitor);
	}
};

//! Is v in the closed areas of s?
VIBE_HD bool InAreas(const ShapeView &s, const Vec2 &v) {
	for (u32 k = 0; k < s.element_count; k++) {
		if (LocateInElement(s, k, v) != LOC_EXTERIOR) {
			return true;
		}
	}
	return false;
}

//! Points and edges that lie inside an area without meeting its boundary. All threads call it, and get the same answer where they tell
//! each other.
VIBE_HD_NOINLINE bool LiesInside(const ShapeView &s, const ShapeView &t, Lane lane) {
	if (t.element_count == 0) {
		return false;
	}
	for (u64 first = 0; first < s.point_count; first += lane.count) {
		const u64 i = first + lane.number;
		if (lane.Any(i < s.point_count && InAreas(t, s.points[i]))) {
			return true;
		}
	}
	for (u64 first = 0; first < s.ring_count; first += lane.count) {
		const u64 r = first + lane.number;
		if (lane.Any(r < s.ring_count && s.rings[r].box.Intersects(t.box) && InAreas(t, s.Vertex(s.rings[r].begin)))) {
			return true;
		}
	}
	return false;
}

template <class METRIC>
VIBE_HD_NOINLINE bool PointsAgainst(DistanceSearch<METRIC> &search, const ShapeView &s, const ShapeView &t, Lane lane) {
	for (u32 i = lane.number; i < s.point_count; i += lane.count) {
		Vec2 p = s.points[i];
		Box box {p.x, p.y, p.x, p.y};
		if (search.Prunes(box, t.box)) {
			continue;
		}
		PointVisitor<METRIC> visitor {search, t, p, 0};
		if (VisitEdges(t, 0, t.vertex_count, TestNear<METRIC> {search, box}, visitor)) {
			return true;
		}
	}
	return false;
}

template <class METRIC>
VIBE_HD bool PointsAgainstPoints(DistanceSearch<METRIC> &search, const ShapeView &a, const ShapeView &b, Lane lane) {
	for (u32 i = lane.number; i < a.point_count; i += lane.count) {
		for (u32 k = 0; k < b.point_count; k++) {
			if (search.Points(a.points[i], b.points[k])) {
				return true;
			}
		}
	}
	return false;
}

//! A good first bound, by stepping from one shape to the other's nearest edge a few times
template <class METRIC>
VIBE_HD_NOINLINE bool Descend(DistanceSearch<METRIC> &search, const ShapeView &s, const ShapeView &t) {
	const ShapeView *from = &s, *to = &t;
	Vec2 v = from->Vertex(0);
	for (int step = 0; step < 4; step++) {
		PointVisitor<METRIC> visitor {search, *to, v, 0xffffffffu};
		if (VisitEdges(*to, 0, to->vertex_count, TestNear<METRIC> {search, Box {v.x, v.y, v.x, v.y}}, visitor)) {
			return true;
		}
		if (visitor.nearest == 0xffffffffu) {
			return false;
		}
		Vec2 a = to->Vertex(visitor.nearest), b = to->Vertex(visitor.nearest + 1);
		v = METRIC::Length(v.x - a.x, v.y - a.y) < METRIC::Length(v.x - b.x, v.y - b.y) ? a : b;
		const ShapeView *swap = from;
		from = to;
		to = swap;
	}
	return false;
}

template <class METRIC>
VIBE_HD_NOINLINE void Search(DistanceSearch<METRIC> &search, const ShapeView &a, const ShapeView &b, Lane lane) {
	if (a.box.Intersects(b.box) && (LiesInside(a, b, lane) || LiesInside(b, a, lane))) {
		search.Touch();
		return;
	}
	bool done = false;
	if (a.point_count > 0 || b.point_count > 0) {
		done = PointsAgainstPoints(search, a, b, lane) || PointsAgainst(search, a, b, lane) ||
		       PointsAgainst(search, b, a, lane);
		if (lane.Any(done)) {
			return;
		}
	}
	if (a.vertex_count == 0 || b.vertex_count == 0) {
		return;
	}
	// The same for all threads, but for what they found before
	done = Descend(search, a, b);
	if (lane.Any(done)) {
		return;
	}
	const ShapeView &few = a.vertex_count <= b.vertex_count ? a : b;
	const ShapeView &many = a.vertex_count <= b.vertex_count ? b : a;
	EdgesVisitor<METRIC> visitor {search, few, many};
	// One thread takes them all at once, several take runs of them in turn
	const u32 run = lane.count == 1 ? few.vertex_count : ShapeView::FANOUT;
	for (u64 first = 0; first < few.vertex_count; first += (u64)lane.count * run) {
		const u64 begin = first + (u64)lane.number * run;
		if (begin < few.vertex_count) {
			const u64 end = begin + run < few.vertex_count ? begin + run : few.vertex_count;
			done = VisitEdges(few, (u32)begin, (u32)end, TestNear<METRIC> {search, many.box}, visitor);
		}
		if (lane.Any(done)) {
			return;
		}
		search.best = lane.Least(search.best);
	}
}

//! A single point: what Search() makes of its shape
template <class METRIC>
VIBE_HD_NOINLINE void SearchPoint(DistanceSearch<METRIC> &search, const Vec2 &p, const ShapeView &s) {
	if (s.box.Covers(p.x, p.y) && InAreas(s, p)) {
		search.Touch();
		return;
	}
	for (u32 i = 0; i < s.point_count; i++) {
		if (search.Points(p, s.points[i])) {
			return;
		}
	}
	Box box {p.x, p.y, p.x, p.y};
	PointVisitor<METRIC> visitor {search, s, p, 0};
	VisitEdges(s, 0, s.vertex_count, TestNear<METRIC> {search, box}, visitor);
}

VIBE_HD double AtLeast(const DistanceSearch<LinearMetric> &search) {
	// Apart, however little
	return search.touching ? 0.0 : search.best;
}

//! What the squares could not tell
VIBE_HD_NOINLINE double Again(const ShapeView &a, const ShapeView &b, double limit) {
	DistanceSearch<LinearMetric> search {Infinity(), limit, false};
	Search(search, a, b, Lane {0, 1});
	return AtLeast(search);
}

VIBE_HD_NOINLINE double PointAgain(const Vec2 &p, const ShapeView &s) {
	DistanceSearch<LinearMetric> search {Infinity(), -1.0, false};
	SearchPoint(search, p, s);
	return AtLeast(search);
}

} // namespace distance_detail

//! The distance of two points
VIBE_HD double PointDistance(const Vec2 &p, const Vec2 &q) {
	double square = SquareMetric::Length(p.x - q.x, p.y - q.y);
	if (square > SquareMetric::MIN && square < SquareMetric::MAX) {
		return Sqrt(square);
	}
	return LinearMetric::Length(p.x - q.x, p.y - q.y);
}

//! ShapeDistance() by several threads, which all call it: what one of them finds. With the least of all `best` of them, and
//! `touching` where one has it, FinishDistance() is what ShapeDistance() would be.
VIBE_HD DistanceSearch<SquareMetric> SearchDistance(const ShapeView &a, const ShapeView &b, double limit, Lane lane) {
	DistanceSearch<SquareMetric> search {distance_detail::FirstBound(limit), limit, false};
	distance_detail::Search(search, a, b, lane);
	return search;
}

VIBE_HD double FinishDistance(const DistanceSearch<SquareMetric> &search, const ShapeView &a, const ShapeView &b) {
	if (search.touching) {
		return 0.0;
	}
	if (distance_detail::Holds(search, a.box, b.box)) {
		return Sqrt(search.best);
	}
	return distance_detail::Again(a, b, search.limit);
}

//! Distance of two shapes, both not empty. With a limit (-1: none): some value at most the limit when the distance is at most
//! that, and else some value above it.
VIBE_HD double ShapeDistance(const ShapeView &a, const ShapeView &b, double limit) {
	return FinishDistance(SearchDistance(a, b, limit, Lane {0, 1}), a, b);
}

//! Distance of two shapes, both not empty, where it is at most `bound`; else some value above that. What a search for the
//! nearest asks for: parts that are too far to matter are passed over.
VIBE_HD double ShapeDistanceWithin(const ShapeView &a, const ShapeView &b, double bound) {
	DistanceSearch<SquareMetric> search {distance_detail::FirstBound(bound), -1.0, false};
	distance_detail::Search(search, a, b, Lane {0, 1});
	if (search.touching) {
		return 0.0;
	}
	if (distance_detail::Holds(search, a.box, b.box)) {
		return Sqrt(search.best);
	}
	return distance_detail::Again(a, b, -1.0);
}

//! As ShapeDistanceWithin, of a point and a shape that is not empty
VIBE_HD double PointShapeDistanceWithin(const Vec2 &p, const ShapeView &s, double bound) {
	DistanceSearch<SquareMetric> search {distance_detail::FirstBound(bound), -1.0, false};
	distance_detail::SearchPoint(search, p, s);
	if (search.touching) {
		return 0.0;
	}
	if (distance_detail::Holds(search, Box {p.x, p.y, p.x, p.y}, s.box)) {
		return Sqrt(search.best);
	}
	return distance_detail::PointAgain(p, s);
}

} // namespace vibe
