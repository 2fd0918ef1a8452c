//===----------------------------------------------------------------------===//
// vibe/points.h
//
// Promise: exact. Points against geometries without walking any edges: where each point lies is the whole matrix. Not for
// collections whose members overlap or differ in dimension (ShapeView::mixed): those need vibe/relate.h.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/relate.h"

namespace vibe {

//! Where a point lies in a shape that is not mixed
VIBE_HD Location LocateInShape(const ShapeView &s, const Vec2 &p) {
	return s.element_count > 0 ? LocateInElement(s, 0, p) : LocateBesideAreas(s, p);
}

//! The matrix of points (a shape of nothing else) and a shape that is not mixed, neither of them EMPTY
VIBE_HD Matrix PointsMatrix(const ShapeView &points, const ShapeView &s) {
	Matrix matrix = Cell(LOC_EXTERIOR, LOC_EXTERIOR, 2);
	for (u32 i = 0; i < points.point_count; i++) {
		const Vec2 &p = points.points[i];
		const Location location = s.box.Covers(p.x, p.y) ? LocateInShape(s, p) : LOC_EXTERIOR;
		matrix |= Cell(LOC_INTERIOR, location, 0);
	}
	// Points cover no area and no line
	if (s.dimension > 0) {
		matrix |= Cell(LOC_EXTERIOR, LOC_INTERIOR, s.dimension);
	}
	if (s.dimension == 2) {
		return matrix | Cell(LOC_EXTERIOR, LOC_BOUNDARY, 1);
	}
	const Vec2 *rest = s.dimension == 1 ? s.ends : s.points;
	const u32 rest_count = s.dimension == 1 ? s.end_count : s.point_count;
	for (u32 i = 0; i < rest_count; i++) {
		if (!ListHas(points.points, points.point_count, rest[i])) {
			return matrix | Cell(LOC_EXTERIOR, s.dimension == 1 ? LOC_BOUNDARY : LOC_INTERIOR, 0);
		}
	}
	return matrix;
}

//! Nothing but points, and not more than so many
VIBE_HD bool ArePoints(const ShapeView &s, u32 most) {
	return s.dimension == 0 && s.vertex_count == 0 && !s.mixed && s.point_count <= most;
}

//! Does PointsHold() decide about two shapes, one of which is points?
VIBE_HD bool PointsDecide(const ShapeView &a, const ShapeView &b, u32 max_points) {
	return (ArePoints(a, max_points) && !b.mixed) || (ArePoints(b, max_points) && !a.mixed);
}

//! predicate(points, s), or predicate(s, points); open for a mixed shape
VIBE_HD PairResult PointsHold(Predicate predicate, const ShapeView &points, const ShapeView &s, bool points_are_left) {
	const ShapeView &left = points_are_left ? points : s;
	const ShapeView &right = points_are_left ? s : points;
	bool answer;
	if (!BoxesDecide(predicate, left, right, answer)) {
		if (s.mixed) {
			return PAIR_OPEN;
		}
		const Matrix matrix = PointsMatrix(points, s);
		answer = Holds(predicate, points_are_left ? matrix : Transpose(matrix), left.dimension, right.dimension);
	}
	return answer ? PAIR_TRUE : PAIR_FALSE;
}

} // namespace vibe
