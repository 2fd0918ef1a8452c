//===----------------------------------------------------------------------===//
// vibe/measure.h
//
// Area, length and centroid of rings: the one formula behind every measure, on
// either engine.
//
// Promise: bounded, and the same bits everywhere. No term is fused or reordered,
// so the order of operations below is part of the contract. With u = 2^-53 and n
// vertices, barring overflow and underflow:
//   area      |error| <= (n/4 + 6) u * sum |x_i - x_0| |y_i+1 - y_i-1| / 2
//   length    relative error <= (n + 3) u
//   centroid  of a ring: as the area, against its distance from the first vertex
// Integer coordinates give exact areas while the sums stay below 2^53. NaN and infinite coordinates propagate.
//
// A ring is anything with X(i) and Y(i); its last vertex is taken to be its first.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

namespace vibe {

//! Vertices in two arrays
struct ColumnRing {
	const double *x;
	const double *y;

	VIBE_HD double X(u64 i) const {
		return x[i];
	}
	VIBE_HD double Y(u64 i) const {
		return y[i];
	}
};

//! Vertices in WKB: unaligned, little-endian, STRIDE bytes each; the machine is little-endian too
template <u32 STRIDE>
struct WkbRing {
	const u8 *coords;

	VIBE_HD double Ordinate(u64 i, u32 offset) const {
		return LoadDouble(coords + i * STRIDE + offset);
	}
	VIBE_HD double X(u64 i) const {
		return Ordinate(i, 0);
	}
	VIBE_HD double Y(u64 i) const {
		return Ordinate(i, 8);
	}
};

//! Twice the signed area of a closed ring, positive when counter-clockwise. The x of vertex i, taken from the first
//! vertex, times the y its neighbours span. The terms i = 1, 2, .. n - 2 go to four sums in turn, s0 s1 s2 s3,
//! and the result is (s0 + s1) + (s2 + s3).
template <class RING>
VIBE_HD double RingArea2(const RING &ring, u32 n) {
	if (n < 3) {
		return 0;
	}
	const double x0 = ring.X(0);
	double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
	u64 i = 1;
	for (; i + 4 < n; i += 4) {
		s0 += (ring.X(i) - x0) * (ring.Y(i + 1) - ring.Y(i - 1));
		s1 += (ring.X(i + 1) - x0) * (ring.Y(i + 2) - ring.Y(i));
		s2 += (ring.X(i + 2) - x0) * (ring.Y(i + 3) - ring.Y(i + 1));
		s3 += (ring.X(i + 3) - x0) * (ring.Y(i + 4) - ring.Y(i + 2));
	}
	if (i + 1 < n) {
		s0 += (ring.X(i) - x0) * (ring.Y(i + 1) - ring.Y(i - 1));
	}
	if (i + 2 < n) {
		s1 += (ring.X(i + 1) - x0) * (ring.Y(i + 2) - ring.Y(i));
	}
	if (i + 3 < n) {
		s2 += (ring.X(i + 2) - x0) * (ring.Y(i + 3) - ring.Y(i + 1));
	}
	return (s0 + s1) + (s2 + s3);
}

//! sqrt(dx^2 + dy^2), unscaled: it overflows for segments beyond 1e154
VIBE_HD double SegmentLength(double ax, double ay, double bx, double by) {
	const double dx = bx - ax;
	const double dy = by - ay;
	return Sqrt(dx * dx + dy * dy);
}

//! Length of a chain, summed from its first segment to its last
template <class RING>
VIBE_HD double ChainLength(const RING &ring, u32 n) {
	double length = 0;
	for (u64 i = 1; i < n; i++) {
		length += SegmentLength(ring.X(i - 1), ring.Y(i - 1), ring.X(i), ring.Y(i));
	}
	return length;
}

//! A weight and its first moment, taken from the vertex `base`
struct Moments {
	double weight;
	double x;
	double y;
};

//! Twice the signed area, and six times its moment from the first vertex; summed in the order of the edges
template <class RING>
VIBE_HD Moments RingMoments(const RING &ring, u32 n) {
	Moments sum {0, 0, 0};
	if (n < 3) {
		return sum;
	}
	const double x0 = ring.X(0);
	const double y0 = ring.Y(0);
	double ax = ring.X(1) - x0;
	double ay = ring.Y(1) - y0;
	for (u64 i = 2; i < n; i++) {
		const double bx = ring.X(i) - x0;
		const double by = ring.Y(i) - y0;
		const double cross = ax * by - bx * ay;
		sum.weight += cross;
		sum.x += cross * (ax + bx);
		sum.y += cross * (ay + by);
		ax = bx;
		ay = by;
	}
	return sum;
}

//! The length, and twice its moment from the first vertex; summed in the order of the segments
template <class RING>
VIBE_HD Moments ChainMoments(const RING &ring, u32 n) {
	Moments sum {0, 0, 0};
	if (n < 2) {
		return sum;
	}
	const double x0 = ring.X(0);
	const double y0 = ring.Y(0);
	double ax = 0;
	double ay = 0;
	for (u64 i = 1; i < n; i++) {
		const double bx = ring.X(i) - x0;
		const double by = ring.Y(i) - y0;
		const double length = SegmentLength(ax, ay, bx, by);
		sum.weight += length;
		sum.x += length * (ax + bx);
		sum.y += length * (ay + by);
		ax = bx;
		ay = by;
	}
	return sum;
}

//! The centroid of all parts of the highest dimension that is there: area, length or the number of points is the weight.
//! FindCentroid() decides what to do when that weight is zero. Add the rings in order. The moments of a ring are taken from its first vertex and moved to `base`, the first vertex
//! of the first ring, which costs nothing when there is one ring.
struct CentroidSum {
	int dimension;
	Vec2 base;
	Moments sum;

	VIBE_HD static CentroidSum Empty() {
		return CentroidSum {-1, Vec2 {0, 0}, Moments {0, 0, 0}};
	}
	//! What the moments have to be divided by: those of a part come as many times too big
	VIBE_HD double Divisor(double weight) const {
		return (dimension + 1) * weight;
	}
	VIBE_HD void AddMoments(const Moments &m, Vec2 first) {
		const double divisor = Divisor(m.weight);
		sum.weight += m.weight;
		sum.x += m.x + divisor * (first.x - base.x);
		sum.y += m.y + divisor * (first.y - base.y);
	}
	//! Starts afresh when a higher dimension shows up; false when the part does not count any more
	VIBE_HD bool Admit(int family, Vec2 first) {
		if (family > dimension) {
			dimension = family;
			base = first;
			sum = Moments {0, 0, 0};
		}
		return family == dimension;
	}
	template <class RING>
	VIBE_HD void AddRing(const RING &ring, u32 n, bool hole) {
		if (n == 0) {
			return;
		}
		const Vec2 first {ring.X(0), ring.Y(0)};
		if (!Admit(FAMILY_POLYGON, first)) {
			return;
		}
		Moments m = RingMoments(ring, n);
		// the direction of a ring means nothing: shells weigh in, holes weigh out
		if (hole ? m.weight > 0 : m.weight < 0) {
			m = Moments {-m.weight, -m.x, -m.y};
		}
		AddMoments(m, first);
	}
	template <class RING>
	VIBE_HD void AddLine(const RING &ring, u32 n) {
		if (n == 0) {
			return;
		}
		const Vec2 first {ring.X(0), ring.Y(0)};
		if (Admit(FAMILY_LINE, first)) {
			AddMoments(ChainMoments(ring, n), first);
		}
	}
	VIBE_HD void AddPoint(double x, double y) {
		const Vec2 first {x, y};
		if (Admit(FAMILY_POINT, first)) {
			AddMoments(Moments {1, 0, 0}, first);
		}
	}
	//! False, and nothing to tell, when there is no part, its measure is zero or not a number
	VIBE_HD bool Finish(Vec2 &centroid) const {
		const double divisor = Divisor(sum.weight);
		if (dimension < 0 || !(divisor < 0 || divisor > 0)) {
			return false;
		}
		centroid = Vec2 {base.x + sum.x / divisor, base.y + sum.y / divisor};
		return !IsNan(centroid.x) && !IsNan(centroid.y);
	}
};

// Sums over a whole geometry: Part(family) for each part, followed by Ring(ring, n) for each of its rings

//! Area of all polygons: |shell| minus the |holes|, parts summed in order
struct AreaSink {
	double area2;
	double part2;
	bool polygon;
	bool shell;

	VIBE_HD static AreaSink Empty() {
		return AreaSink {0, 0, false, false};
	}
	VIBE_HD void Part(Family family) {
		area2 += part2;
		part2 = 0;
		polygon = family == FAMILY_POLYGON;
		shell = true;
	}
	template <class RING>
	VIBE_HD void Ring(const RING &ring, u32 n) {
		if (!polygon) {
			return;
		}
		const double ring2 = Abs(RingArea2(ring, n));
		part2 = shell ? ring2 : part2 - ring2;
		shell = false;
	}
	VIBE_HD double Finish() const {
		return (area2 + part2) * 0.5;
	}
};

//! Length of all parts of one family
struct LengthSink {
	Family wanted;
	double length;
	bool counts;

	VIBE_HD static LengthSink Of(Family family) {
		return LengthSink {family, 0, false};
	}
	VIBE_HD void Part(Family family) {
		counts = family == wanted;
	}
	template <class RING>
	VIBE_HD void Ring(const RING &ring, u32 n) {
		if (counts) {
			length += ChainLength(ring, n);
		}
	}
};

//! Parts of a higher dimension than `limit` count as parts of that dimension: a polygon as its rings, a line or a ring
//! as its first vertex
struct CentroidSink {
	CentroidSum sum;
	int limit;
	Family family;
	bool shell;

	VIBE_HD static CentroidSink UpTo(int limit) {
		return CentroidSink {CentroidSum::Empty(), limit, FAMILY_POINT, false};
	}
	VIBE_HD void Part(Family part_family) {
		family = part_family > limit ? (Family)limit : part_family;
		shell = true;
	}
	template <class RING>
	VIBE_HD void Ring(const RING &ring, u32 n) {
		switch (family) {
		case FAMILY_POLYGON:
			sum.AddRing(ring, n, !shell);
			shell = false;
			break;
		case FAMILY_LINE:
			sum.AddLine(ring, n);
			break;
		case FAMILY_POINT:
			// an EMPTY point has no ring; a ring of a polygon may have no vertices
			if (n > 0) {
				sum.AddPoint(ring.X(0), ring.Y(0));
			}
			break;
		}
	}
};

//! The centroid of a geometry, as GEOS defines it. visit(sink) shows all rings to a sink. Polygons of no area count as
//! lines, by the length of their rings; if there is no length either, each line and each ring counts as a point, beside
//! the points that there are. Only a weight of exactly zero falls back: one that is not a number stays so.
template <class VISIT>
VIBE_HD CentroidSum FindCentroid(const VISIT &visit) {
	int limit = FAMILY_POLYGON;
	for (;;) {
		CentroidSink sink = CentroidSink::UpTo(limit);
		visit(sink);
		if (sink.sum.dimension <= FAMILY_POINT || sink.sum.sum.weight != 0) {
			return sink.sum;
		}
		limit = sink.sum.dimension - 1;
	}
}

template <class SINK>
VIBE_HD void VisitRings(const GeometryView &view, SINK &sink) {
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		sink.Part((Family)view.part_family[part]);
		for (u32 ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			const u32 begin = view.ring_start[ring];
			sink.Ring(ColumnRing {view.x + begin, view.y + begin}, view.ring_start[ring + 1] - begin);
		}
	}
}

VIBE_HD double ViewArea(const GeometryView &view) {
	AreaSink sink = AreaSink::Empty();
	VisitRings(view, sink);
	return sink.Finish();
}

VIBE_HD double ViewLength(const GeometryView &view, Family family) {
	LengthSink sink = LengthSink::Of(family);
	VisitRings(view, sink);
	return sink.length;
}

struct VisitViewRings {
	const GeometryView &view;

	VIBE_HD void operator()(CentroidSink &sink) const {
		VisitRings(view, sink);
	}
};

VIBE_HD CentroidSum ViewCentroid(const GeometryView &view) {
	return FindCentroid(VisitViewRings {view});
}

} // namespace vibe
