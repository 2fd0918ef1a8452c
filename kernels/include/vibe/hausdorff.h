//===----------------------------------------------------------------------===//
// vibe/hausdorff.h
//
// The discrete Hausdorff distance: the largest distance of a vertex of one geometry to the nearest point on the points, lines and
// rings of the other, in either direction.
// Promise: bounded, as vibe/distance.h. It does not depend on the order in which vertices are looked at.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/distance.h"

namespace vibe {

//! The farthest vertex so far, in the measure of METRIC
template <class METRIC>
struct HausdorffSearch {
	double far;

	//! A vertex p against t. `hint` is an edge of t that may be near; the nearest one replaces it.
	VIBE_HD_NOINLINE void Add(const Vec2 &p, const ShapeView &t, u32 &hint) {
		// A vertex that is no farther than the farthest so far does not matter
		DistanceSearch<METRIC> search {Infinity(), METRIC::Distance(far), false};
		if (!FindNearest(search, p, t, hint) && search.best > far) {
			far = search.best;
		}
	}

	//! The vertices of s against t, or some of them, where several threads search together
	VIBE_HD_NOINLINE void AddAll(const ShapeView &s, const ShapeView &t, Lane lane) {
		u32 hint = 0;
		for (u32 i = lane.number; i < s.point_count; i += lane.count) {
			Add(s.points[i], t, hint);
		}
		// Runs of vertices: their neighbours have the same edges near them
		constexpr u32 RUN = ShapeView::FANOUT;
		for (u64 begin = (u64)lane.number * RUN; begin < s.vertex_count; begin += (u64)lane.count * RUN) {
			for (u64 i = begin; i < begin + RUN && i < s.vertex_count; i++) {
				Add(s.Vertex((u32)i), t, hint);
			}
		}
	}

private:
	//! True where p is near enough not to matter
	VIBE_HD static bool FindNearest(DistanceSearch<METRIC> &search, const Vec2 &p, const ShapeView &t, u32 &hint) {
		distance_detail::PointVisitor<METRIC> visitor {search, t, p, hint};
		if (t.IsEdge(hint) && visitor(hint)) {
			return true;
		}
		// Points are sorted by x
		const u32 middle = LowerBound(t.points, t.point_count, p);
		for (u32 i = middle; i < t.point_count && !IsBeyond(search, t.points[i].x - p.x); i++) {
			if (search.Points(p, t.points[i])) {
				return true;
			}
		}
		for (u32 i = middle; i > 0 && !IsBeyond(search, p.x - t.points[i - 1].x); i--) {
			if (search.Points(p, t.points[i - 1])) {
				return true;
			}
		}
		const bool found = VisitEdges(t, 0, t.vertex_count,
		                              distance_detail::TestNear<METRIC> {search, Box {p.x, p.y, p.x, p.y}}, visitor);
		hint = visitor.nearest;
		return found;
	}
	VIBE_HD static bool IsBeyond(const DistanceSearch<METRIC> &search, double dx) {
		return METRIC::Length(dx, 0.0) * (1.0 - 1e-11) > search.best;
	}
};

//! HausdorffDistance() by several threads: what one of them finds. With the largest `far` of all of them, FinishHausdorff() is what
//! HausdorffDistance() would be.
VIBE_HD HausdorffSearch<SquareMetric> SearchHausdorff(const ShapeView &a, const ShapeView &b, Lane lane) {
	HausdorffSearch<SquareMetric> search {0.0};
	search.AddAll(a, b, lane);
	search.AddAll(b, a, lane);
	return search;
}

VIBE_HD double FinishHausdorff(const HausdorffSearch<SquareMetric> &search, const ShapeView &a, const ShapeView &b) {
	if (search.far == 0.0 || (search.far > SquareMetric::MIN && search.far < SquareMetric::MAX)) {
		return Sqrt(search.far);
	}
	// The squares over- or underflow
	HausdorffSearch<LinearMetric> again {0.0};
	again.AddAll(a, b, Lane {0, 1});
	again.AddAll(b, a, Lane {0, 1});
	return again.far;
}

//! Of two shapes, both not empty
VIBE_HD double HausdorffDistance(const ShapeView &a, const ShapeView &b) {
	return FinishHausdorff(SearchHausdorff(a, b, Lane {0, 1}), a, b);
}

} // namespace vibe
