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

//! Where a point lies in the area of a POLYGON or MULTIPOLYGON whose shells have an area, straight from its rings
VIBE_HD Location LocateInRings(const GeometryView &view, const Vec2 &p) {
	RayCounter counter {p, false, false};
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		if (view.part_family[part] != FAMILY_POLYGON) {
			continue;
		}
		for (u32 ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			for (u32 i = view.ring_start[ring]; i + 1 < view.ring_start[ring + 1]; i++) {
				if (counter.Add(view.Vertex(i), view.Vertex(i + 1))) {
					return LOC_BOUNDARY;
				}
			}
		}
	}
	return counter.odd ? LOC_INTERIOR : LOC_EXTERIOR;
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
