//===----------------------------------------------------------------------===//
// vibe/hull.h
//
// The convex hull of vertices in columns, for both engines: which vertices are its corners, and in which order.
// Promise: exact, so corners do not depend on who sorts the vertices, nor on which of those inside the hull are left out before.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/orient2d.h"
#include "vibe/poll.h"
#include "vibe/sort.h"
#include "vibe/wkb.h"

namespace vibe {

//===----------------------------------------------------------------------===//
// Of vertices by their numbers
//===----------------------------------------------------------------------===//
//! From the lowest vertex up, at the same height from the left; of equal ones the first comes first
struct HullOrder {
	const double *x;
	const double *y;

	VIBE_HD Vec2 At(u32 i) const {
		return Vec2 {x[i], y[i]};
	}
	VIBE_HD bool AreSame(u32 a, u32 b) const {
		return At(a) == At(b);
	}
	VIBE_HD bool IsLower(u32 a, u32 b) const {
		return y[a] < y[b] || (y[a] == y[b] && x[a] < x[b]);
	}
	VIBE_HD bool operator()(u32 a, u32 b) const {
		return AreSame(a, b) ? a < b : IsLower(a, b);
	}
};

//! Of vertices in order the first of equal ones: how many there are
VIBE_HD u32 KeepFirst(const HullOrder &order, u32 *vertices, u32 count) {
	u32 kept = 0;
	for (u32 i = 0; i < count; i++) {
		if (kept == 0 || !order.AreSame(vertices[kept - 1], vertices[i])) {
			vertices[kept++] = vertices[i];
		}
	}
	return kept;
}

//! Adds the next vertex to `size` corners, of which those after the first `keep` stay that turn right: how many there are
VIBE_HD u32 AddCorner(const HullOrder &order, u32 *corners, u32 size, u32 keep, u32 vertex) {
	const Vec2 p = order.At(vertex);
	while (size > keep && Orient2d(order.At(corners[size - 2]), order.At(corners[size - 1]), p) >= 0) {
		size--;
	}
	corners[size] = vertex;
	return size + 1;
}

//! The corners of distinct vertices in order: how many there are. None for no vertex, the vertex, the two ends, or a closed ring
//! clockwise from the lowest; HullType() tells them apart. Two vertices come by their numbers, unless `are_all` says that there were more of
//! them. `corners` has room for one more than there are vertices. Calls poll() for each vertex.
template <class POLL>
VIBE_HD u32 FindHull(const HullOrder &order, const u32 *vertices, u32 count, bool are_all, u32 *corners, POLL &poll) {
	if (count < 2) {
		corners[0] = count > 0 ? vertices[0] : 0;
		return count;
	}
	const u32 low = vertices[0], high = vertices[count - 1];
	if (count == 2 && are_all) {
		corners[0] = low < high ? low : high;
		corners[1] = low < high ? high : low;
		return 2;
	}
	// Up the left side
	u32 size = 0;
	VIBE_LOOP
	for (u32 i = 0; i < count; i++) {
		poll();
		size = AddCorner(order, corners, size, 1, vertices[i]);
	}
	if (size == 2) {
		// It has shown that no vertex lies to the left of the line between the ends
		bool is_line = true;
		for (u32 i = 1; i + 1 < count && is_line; i++) {
			is_line = Orient2d(order.At(low), order.At(high), order.At(vertices[i])) == 0;
		}
		if (is_line) {
			return 2;
		}
	}
	// Down the right side
	const u32 top = size;
	VIBE_LOOP
	for (u32 i = count - 1; i-- > 0;) {
		poll();
		size = AddCorner(order, corners, size, top, vertices[i]);
	}
	return size;
}

VIBE_HD WkbType HullType(u32 corners) {
	return corners == 0 ? WKB_COLLECTION : corners == 1 ? WKB_POINT : corners == 2 ? WKB_LINESTRING : WKB_POLYGON;
}

//===----------------------------------------------------------------------===//
// Vertices that need not be sorted
//===----------------------------------------------------------------------===//
//! A box inside the hull of the vertices that it is given: each of its places has one of four vertices in each quadrant
//! around it, so no line has all of them on one side. Comparisons alone, hence exact.
struct InnerBox {
	// The farthest to the lower left, lower right, upper right, upper left, and how far. Rounded: any four will do.
	Vec2 corner[4];
	double most[4];

	VIBE_HD static InnerBox Empty() {
		const double none = -Infinity();
		return InnerBox {{{0, 0}, {0, 0}, {0, 0}, {0, 0}}, {none, none, none, none}};
	}
	VIBE_HD void Add(const Vec2 &p) {
		Update(corner[0], most[0], -p.x - p.y, p);
		Update(corner[1], most[1], p.x - p.y, p);
		Update(corner[2], most[2], p.x + p.y, p);
		Update(corner[3], most[3], p.y - p.x, p);
	}
	VIBE_HD Box Finish() const {
		return Box {Max(corner[0].x, corner[3].x), Max(corner[0].y, corner[1].y), Min(corner[1].x, corner[2].x),
		            Min(corner[2].y, corner[3].y)};
	}
	//! Inside, and not on its border
	VIBE_HD static bool Has(const Box &box, const Vec2 &p) {
		return box.min_x < p.x && p.x < box.max_x && box.min_y < p.y && p.y < box.max_y;
	}

private:
	VIBE_HD static void Update(Vec2 &place, double &far, double along, const Vec2 &p) {
		if (along >= far) {
			far = along;
			place = p;
		}
	}
};

//===----------------------------------------------------------------------===//
// Of one row, by one thread of a device
//===----------------------------------------------------------------------===//
//! The vertices of points, lines and shells: take(i) returns false to stop
template <class TAKE>
VIBE_HD bool ForOuterVertices(const GeometryView &view, TAKE &take) {
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		const u32 ring = view.part_ring[part];
		if (ring == view.part_ring[part + 1]) {
			continue;
		}
		VIBE_LOOP
		for (u32 i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
			if (!take.Vertex(i)) {
				return false;
			}
		}
	}
	return true;
}

struct HullLook {
	HullOrder order;
	InnerBox inner;

	VIBE_HD bool Vertex(u32 i) {
		const Vec2 p = order.At(i);
		inner.Add(p);
		return IsFinite(p.x) && IsFinite(p.y);
	}
};

struct HullTake {
	HullOrder order;
	Box inner;
	u32 *vertices;
	u32 count;

	VIBE_HD bool Vertex(u32 i) {
		if (!InnerBox::Has(inner, order.At(i)) && (count == 0 || !order.AreSame(vertices[count - 1], i))) {
			vertices[count++] = i;
		}
		return true;
	}
};

//! The corners as FindHull() has them; false for coordinates that are not finite. `vertices` has room for those of the row, `corners` for
//! one more.
VIBE_HD bool RowHull(const GeometryView &view, u32 *vertices, u32 *corners, u32 &corner_count) {
	const HullOrder order {view.x, view.y};
	HullLook look {order, InnerBox::Empty()};
	if (!ForOuterVertices(view, look)) {
		return false;
	}
	HullTake take {order, look.inner.Finish(), vertices, 0};
	ForOuterVertices(view, take);
	Sort(vertices, 0, take.count, order);
	NoPoll poll;
	corner_count = FindHull(order, vertices, KeepFirst(order, vertices, take.count), true, corners, poll);
	return true;
}

//! WKB in XY
VIBE_HD u64 HullBytes(u32 corner_count) {
	const WkbType type = HullType(corner_count);
	const u32 counts = type == WKB_POLYGON ? 2 : type == WKB_POINT ? 0 : 1;
	return WKB_HEADER_BYTES + counts * sizeof(u32) + (u64)corner_count * sizeof(Vec2);
}
VIBE_HD void WriteHull(const HullOrder &order, const u32 *corners, u32 corner_count, WkbWriter &writer) {
	const WkbType type = HullType(corner_count);
	writer.Header(type);
	if (type == WKB_POLYGON) {
		writer.Count(1);
	}
	if (type != WKB_POINT) {
		writer.Count(corner_count);
	}
	for (u32 i = 0; i < corner_count; i++) {
		const Vec2 p = order.At(corners[i]);
		writer.Vertex(p.x, p.y);
	}
}

//! No hulls of so many rows take more: a line whose vertices are all corners gets a count of rings and its first vertex once more
VIBE_HD u64 MostHullBytes(u64 wkb_bytes, u64 rows) {
	return wkb_bytes + (sizeof(u32) + sizeof(Vec2)) * rows;
}

} // namespace vibe
