//===----------------------------------------------------------------------===//
// vibe/views.h
//
// How the geometry core sees one geometry: its leaf parts, flattened. A multi
// geometry or a (nested) collection is the list of the points, lines and
// polygons in it. All arrays belong to someone else (a GeometryBatch, or device
// memory of the same layout).
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

//! What a part is; the value is its topological dimension
enum Family : u8 { FAMILY_POINT = 0, FAMILY_LINE = 1, FAMILY_POLYGON = 2 };

struct Vec2 {
	double x;
	double y;
};

VIBE_HD bool operator==(const Vec2 &a, const Vec2 &b) {
	return a.x == b.x && a.y == b.y;
}
VIBE_HD bool operator!=(const Vec2 &a, const Vec2 &b) {
	return !(a == b);
}

//! Axis-aligned box; empty when min > max
struct Box {
	double min_x;
	double min_y;
	double max_x;
	double max_y;

	VIBE_HD static Box Empty() {
		return Box {Infinity(), Infinity(), -Infinity(), -Infinity()};
	}
	VIBE_HD bool IsEmpty() const {
		return !(min_x <= max_x);
	}
	VIBE_HD void Add(double x, double y) {
		min_x = Min(min_x, x);
		min_y = Min(min_y, y);
		max_x = Max(max_x, x);
		max_y = Max(max_y, y);
	}
	VIBE_HD void Add(const Box &o) {
		min_x = Min(min_x, o.min_x);
		min_y = Min(min_y, o.min_y);
		max_x = Max(max_x, o.max_x);
		max_y = Max(max_y, o.max_y);
	}
	VIBE_HD bool Intersects(const Box &o) const {
		return min_x <= o.max_x && o.min_x <= max_x && min_y <= o.max_y && o.min_y <= max_y;
	}
	//! o lies inside, borders included
	VIBE_HD bool Covers(const Box &o) const {
		return min_x <= o.min_x && o.max_x <= max_x && min_y <= o.min_y && o.max_y <= max_y;
	}
	VIBE_HD bool Covers(double x, double y) const {
		return min_x <= x && x <= max_x && min_y <= y && y <= max_y;
	}
};

//! Everything within `distance` of a box, by the distances that are computed
VIBE_HD Box Grow(const Box &box, double distance) {
	const double by = distance * (1 + 1e-9);
	return Box {NextDown(box.min_x - by), NextDown(box.min_y - by), NextUp(box.max_x + by), NextUp(box.max_y + by)};
}

//! A limit as it is compared with a distance: what is not at most this far apart is not near; negative is never.
//! `compared`: as SQL compares a number with it, NaN being above all; `strict`: less than the limit
VIBE_HD double EffectiveLimit(double value, bool compared, bool strict) {
	if (value != value) {
		return compared ? Infinity() : -1;
	}
	return strict ? NextDown(value) : value;
}

//! One geometry. Part p has rings [part_ring[p], part_ring[p + 1]), ring r has vertices
//! [ring_start[r], ring_start[r + 1]). A point has one ring of one vertex, a line one ring, a polygon
//! its shell and then its holes, closed. An EMPTY part has no rings or rings without vertices.
struct GeometryView {
	const double *x;
	const double *y;
	const u32 *ring_start;
	const u32 *part_ring;
	const u8 *part_family;
	u32 part_begin;
	u32 part_end;
	//! The parts came out of a GEOMETRYCOLLECTION: they may overlap or differ in dimension
	bool collection;

	VIBE_HD Vec2 Vertex(u32 i) const {
		return Vec2 {x[i], y[i]};
	}
};

//! Rows of geometries in the layout of a GeometryBatch: row i has the nodes [row_node[i], row_node[i + 1]) in preorder and
//! the parts [row_part[i], row_part[i + 1]), one for each leaf node; NULL has neither
struct RowsView {
	const u32 *row_node;
	const u32 *row_part;
	const u8 *node_type; // by their WKB codes
	const u32 *node_children;
	const u8 *part_family;
	const u32 *part_ring;
	const u32 *ring_start;
	const double *x;
	const double *y;

	VIBE_HD GeometryView Row(u64 row) const {
		constexpr u8 COLLECTION = 7;
		const bool collection = row_node[row] < row_node[row + 1] && node_type[row_node[row]] == COLLECTION;
		return GeometryView {x, y, ring_start, part_ring, part_family, row_part[row], row_part[row + 1], collection};
	}
};

//! What a kernel says of a pair
enum PairResult : u8 {
	PAIR_FALSE = 0,
	PAIR_TRUE = 1,
	//! Out of this kernel's reach: another one, or the CPU engine, has to look at it
	PAIR_OPEN = 2
};

} // namespace vibe
