//===----------------------------------------------------------------------===//
// vibe/shape.h
//
// One geometry made ready for exact work on its edges: repeated vertices dropped, polygon rings first, the interior's
// side of every ring known, the boundary of its lines listed, and boxes over runs of consecutive edges as an index.
// Consecutive edges lie close together, so the boxes need no sorting: building one is a single pass.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/matrix.h"
#include "vibe/segment.h"

namespace vibe {

//! A ring of a polygon, or a line
struct ShapeRing {
	u32 begin; // vertices [begin, end); edge i runs from vertex i to i + 1
	u32 end;
	u32 element; // which element of the shape, for polygon rings
	bool is_area;
	bool interior_left; // polygon rings: the interior lies left of the edges
	Box box;
};

struct ShapeView {
	//! Edges under one box of the lowest level, boxes under one box of the next
	static constexpr u32 FANOUT = 16;
	static constexpr u32 MAX_LEVELS = 8;

	const double *x;
	const double *y;
	const u32 *vertex_ring;
	u32 vertex_count;
	const ShapeRing *rings; // polygon rings first
	u32 ring_count;
	//! An element is a region with a boundary of its own: the whole of a (MULTI)POLYGON, or each polygon of a collection.
	//! Its vertices are [element_begin[k], element_begin[k + 1]).
	const u32 *element_begin;
	const Box *element_box;
	u32 element_count;
	const Vec2 *points; // sorted by (x, y), no repeats
	u32 point_count;
	const Vec2 *ends; // boundary of the lines by the mod-2 rule, sorted by (x, y)
	u32 end_count;
	const Box *boxes; // level after level, lowest first
	u32 level_begin[MAX_LEVELS + 1];
	u32 level_count;
	Box box;
	int dimension; // -1 when empty
	//! Members may overlap, or differ in dimension: locations need all of them
	bool mixed;

	VIBE_HD Vec2 Vertex(u32 i) const {
		return Vec2 {x[i], y[i]};
	}
	VIBE_HD bool IsEdge(u32 i) const {
		return i + 1 < vertex_count && vertex_ring[i] == vertex_ring[i + 1];
	}
	VIBE_HD u32 AreaVertexEnd() const {
		return element_begin[element_count];
	}
};

//! A single point, at an address that outlives the view
VIBE_HD ShapeView ShapeOfPoint(const Vec2 *point, const u32 *zero) {
	ShapeView view {};
	view.element_begin = zero;
	view.points = point;
	view.point_count = 1;
	view.box = Box {point->x, point->y, point->x, point->y};
	view.dimension = 0;
	return view;
}

//! Calls visit(i) for the edges in [begin, end) under boxes that pass `test`, until it returns true; returns whether it did
template <class TEST, class VISIT>
VIBE_HD bool VisitEdges(const ShapeView &s, u32 begin, u32 end, const TEST &test, VISIT &visit) {
	if (begin >= end) {
		return false;
	}
	if (s.level_count == 0) {
		for (u32 i = begin; i < end; i++) {
			if (s.IsEdge(i) && visit(i)) {
				return true;
			}
		}
		return false;
	}
	// A box of level k at index j covers the vertices [j * 16^(k+1), (j + 1) * 16^(k+1))
	u32 top = s.level_count - 1;
	u32 width[ShapeView::MAX_LEVELS];
	u64 w = 1;
	for (u32 k = 0; k <= top; k++) {
		w *= ShapeView::FANOUT;
		width[k] = (u32)(w > 0xffffffffULL ? 0xffffffffULL : w);
	}
	u32 next[ShapeView::MAX_LEVELS];
	u32 last[ShapeView::MAX_LEVELS];
	u32 level = top;
	next[top] = begin / width[top];
	last[top] = (end - 1) / width[top] + 1;
	while (true) {
		if (next[level] >= last[level]) {
			if (level == top) {
				return false;
			}
			level++;
			continue;
		}
		u32 j = next[level]++;
		if (!test(s.boxes[s.level_begin[level] + j])) {
			continue;
		}
		u64 from = (u64)j * width[level];
		u64 to = from + width[level];
		u32 lo = from < begin ? begin : (u32)from;
		u32 hi = to > end ? end : (u32)to;
		if (level == 0) {
			for (u32 i = lo; i < hi; i++) {
				if (s.IsEdge(i) && visit(i)) {
					return true;
				}
			}
		} else {
			level--;
			next[level] = lo / width[level];
			last[level] = (hi - 1) / width[level] + 1;
		}
	}
}

struct TestBox {
	Box box;
	VIBE_HD bool operator()(const Box &b) const {
		return b.Intersects(box);
	}
};

//! Boxes that a ray from p towards +x can meet
struct TestRay {
	Vec2 p;
	VIBE_HD bool operator()(const Box &b) const {
		return b.min_y <= p.y && p.y <= b.max_y && b.max_x >= p.x;
	}
};

//! Crossings of the ray from p towards +x with edges, half-open in y; `on` when p lies on an edge
struct RayCounter {
	Vec2 p;
	bool odd;
	bool on;

	//! Returns true once p is found on the edge ab
	VIBE_HD bool Add(const Vec2 &a, const Vec2 &b) {
		bool a_above = a.y > p.y;
		bool b_above = b.y > p.y;
		if (a_above != b_above) {
			if (a.x < p.x && b.x < p.x) {
				return false;
			}
			if (a.x > p.x && b.x > p.x) {
				odd = !odd;
				return false;
			}
			int side = Orient2d(a, b, p);
			if (side == 0) {
				on = true;
				return true;
			}
			if ((side > 0) == b_above) {
				odd = !odd;
			}
			return false;
		}
		// Both ends on one side of the ray: p can still be the lower vertex, or on a horizontal edge
		if (!a_above && (a.y == p.y || b.y == p.y)) {
			if (a == p || b == p || (a.y == b.y && (a.x > p.x) != (b.x > p.x))) {
				on = true;
				return true;
			}
		}
		return false;
	}
};

struct RayVisitor {
	const ShapeView &s;
	RayCounter counter;
	VIBE_HD bool operator()(u32 i) {
		return counter.Add(s.Vertex(i), s.Vertex(i + 1));
	}
};

//! Where p lies in one element
VIBE_HD_NOINLINE Location LocateInElement(const ShapeView &s, u32 element, const Vec2 &p) {
	if (!s.element_box[element].Covers(p.x, p.y)) {
		return LOC_EXTERIOR;
	}
	RayVisitor visitor {s, RayCounter {p, false, false}};
	VisitEdges(s, s.element_begin[element], s.element_begin[element + 1], TestRay {p}, visitor);
	if (visitor.counter.on) {
		return LOC_BOUNDARY;
	}
	return visitor.counter.odd ? LOC_INTERIOR : LOC_EXTERIOR;
}

VIBE_HD bool LexicographicLess(const Vec2 &a, const Vec2 &b) {
	return a.x < b.x || (a.x == b.x && a.y < b.y);
}

//! First index whose entry is not less than v
VIBE_HD u32 LowerBound(const Vec2 *list, u32 count, const Vec2 &v) {
	u32 lo = 0, hi = count;
	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;
		if (LexicographicLess(list[mid], v)) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

VIBE_HD bool ListHas(const Vec2 *list, u32 count, const Vec2 &v) {
	u32 i = LowerBound(list, count, v);
	return i < count && list[i] == v;
}

struct OnLineVisitor {
	const ShapeView &s;
	Vec2 v;
	VIBE_HD bool operator()(u32 i) {
		return OnSegment(s.Vertex(i), s.Vertex(i + 1), v);
	}
};

//! Where p lies in the lines and points of a shape, in this order
VIBE_HD_NOINLINE Location LocateBesideAreas(const ShapeView &s, const Vec2 &p) {
	OnLineVisitor on_line {s, p};
	TestBox test {Box {p.x, p.y, p.x, p.y}};
	if (s.AreaVertexEnd() < s.vertex_count && VisitEdges(s, s.AreaVertexEnd(), s.vertex_count, test, on_line)) {
		return ListHas(s.ends, s.end_count, p) ? LOC_BOUNDARY : LOC_INTERIOR;
	}
	return ListHas(s.points, s.point_count, p) ? LOC_INTERIOR : LOC_EXTERIOR;
}

//! Is one of the line ends the crossing of pq and rs?
VIBE_HD_NOINLINE bool EndAtCrossing(const ShapeView &s, const Vec2 &p, const Vec2 &q, const Vec2 &r, const Vec2 &t) {
	if (s.end_count == 0) {
		return false;
	}
	double max_x = Min(Max(p.x, q.x), Max(r.x, t.x));
	double min_x = Max(Min(p.x, q.x), Min(r.x, t.x));
	for (u32 i = LowerBound(s.ends, s.end_count, Vec2 {min_x, -Infinity()}); i < s.end_count && s.ends[i].x <= max_x;
	     i++) {
		if (OnSegment(p, q, s.ends[i]) && OnSegment(r, t, s.ends[i])) {
			return true;
		}
	}
	return false;
}

} // namespace vibe
