//===----------------------------------------------------------------------===//
// vibe/shape_build.h
//
// How a shape is made, for both engines: the pieces that Shape (engine/shape/shape.hpp) is put together from, and a whole shape
// from WKB by one thread of a device, in memory of the exact size. The latter leaves to the CPU what is seldom: bytes that
// are malformed or of no use, collections, rings without area and lines without length.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"
#include "vibe/sort.h"
#include "vibe/wkb.h"

namespace vibe {

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//
//! Vertices of a ring in columns, or in WKB
struct ColumnVertices {
	const double *x;
	const double *y;

	VIBE_HD Vec2 At(u32 i) const {
		return Vec2 {x[i], y[i]};
	}
};
struct WkbVertices {
	const u8 *coords;
	u64 stride;

	VIBE_HD Vec2 At(u32 i) const {
		return Vec2 {LoadDouble(coords + i * stride), LoadDouble(coords + i * stride + 8)};
	}
};

//! At least one vertex, from `begin` on, but for those that repeat the one before: where they end. Adds to the box.
template <class VERTICES>
VIBE_HD u32 CopyVertices(const VERTICES &from, u32 count, double *x, double *y, u32 begin, Box &box) {
	Vec2 last = from.At(0);
	u32 end = begin;
	for (u32 i = 0; i < count; i++) {
		const Vec2 v = from.At(i);
		if (i > 0 && v == last) {
			continue;
		}
		x[end] = v.x;
		y[end++] = v.y;
		box.Add(v.x, v.y);
		last = v;
	}
	return end;
}

//! Vertices that a ring of an area, or a line, has at least when repeated ones are dropped
VIBE_HD u32 LeastVertices(bool is_area) {
	return is_area ? 4 : 2;
}

//! Is a closed ring, without repeated vertices, counter-clockwise? Its lowest leftmost vertex turns as the ring does.
VIBE_HD bool IsCounterClockwise(const double *x, const double *y, u32 begin, u32 end, double min_x) {
	u32 corner = begin;
	while (corner + 2 < end && x[corner] != min_x) {
		corner++;
	}
	for (u32 i = corner + 1; i + 1 < end; i++) {
		if (x[i] == min_x && y[i] < y[corner]) {
			corner = i;
		}
	}
	const u32 before = corner == begin ? end - 2 : corner - 1;
	return Orient2d(x[before], y[before], x[corner], y[corner], x[corner + 1], y[corner + 1]) > 0;
}

//! The boundary of lines by the mod-2 rule: of their ends, sorted, those that are there an odd number of times
VIBE_HD u32 KeepOdd(Vec2 *ends, u32 count) {
	u32 kept = 0;
	for (u32 i = 0; i < count;) {
		const Vec2 end = ends[i];
		u32 k = i;
		while (k < count && ends[k] == end) {
			k++;
		}
		if ((k - i) % 2 == 1) {
			ends[kept++] = end;
		}
		i = k;
	}
	return kept;
}

//! No boxes for fewer vertices: looking at each is as quick
constexpr u32 MIN_VERTICES_FOR_BOXES = 4 * ShapeView::FANOUT;

//! The boxes over so many vertices, of all levels
VIBE_HD u32 BoxCount(u32 vertex_count) {
	if (vertex_count <= MIN_VERTICES_FOR_BOXES) {
		return 0;
	}
	u32 level = (vertex_count - 1) / ShapeView::FANOUT + 1, total = level;
	while (level > ShapeView::FANOUT) {
		level = (level - 1) / ShapeView::FANOUT + 1;
		total += level;
	}
	return total;
}

//! Of a run of edges: its last one ends at the first vertex of the next run
VIBE_HD Box RunBox(const ShapeView &view, u32 first) {
	Box box = Box::Empty();
	for (u32 i = first; i <= first + ShapeView::FANOUT && i < view.vertex_count; i++) {
		box.Add(view.x[i], view.y[i]);
	}
	return box;
}

//! Of a view with all its vertices: `boxes` has room for BoxCount(). `run_box` is RunBox() or quicker
template <class RUN_BOX>
VIBE_HD void AddBoxes(ShapeView &view, Box *boxes, const RUN_BOX &run_box) {
	view.boxes = boxes;
	view.level_count = 0;
	const u32 vertices = view.vertex_count;
	if (vertices <= MIN_VERTICES_FOR_BOXES) {
		return;
	}
	u32 begin = 0, end = 0;
	for (u32 first = 0; first < vertices; first += ShapeView::FANOUT) {
		boxes[end++] = run_box(view, first);
	}
	view.level_begin[0] = 0;
	view.level_begin[++view.level_count] = end;
	while (end - begin > ShapeView::FANOUT) {
		const u32 last = end;
		for (u32 first = begin; first < last; first += ShapeView::FANOUT) {
			Box box = Box::Empty();
			for (u32 i = first; i < first + ShapeView::FANOUT && i < last; i++) {
				box.Add(boxes[i]);
			}
			boxes[end++] = box;
		}
		begin = last;
		view.level_begin[++view.level_count] = end;
	}
}

//===----------------------------------------------------------------------===//
// From WKB
//===----------------------------------------------------------------------===//
//! What a row's shape is made of. Not `usable`: the counts alone tell that the CPU has to look at it.
struct ShapeCounts {
	u32 vertices;
	u32 rings;
	u32 points;
	u32 ends;
	bool has_area;
	bool usable;
	Family family;
	bool has_shell;
	bool is_first;

	VIBE_HD void Row(const WkbKind &) {
	}
	VIBE_HD void Node(WkbType, u32) {
	}
	VIBE_HD void Part(Family part_family) {
		family = part_family;
		is_first = true;
	}
	VIBE_HD void Ring(u32 count, const u8 *, u64) {
		if (family == FAMILY_POINT) {
			points++;
			return;
		}
		const bool is_area = family == FAMILY_POLYGON;
		has_shell = is_first ? count > 0 : has_shell;
		is_first = false;
		if (count == 0) {
			return;
		}
		usable = usable && count >= LeastVertices(is_area) && (has_shell || !is_area);
		vertices += count;
		rings++;
		ends += is_area ? 0 : 2;
		has_area = has_area || is_area;
	}

	//! Of the arrays, one behind the other
	VIBE_HD u64 Bytes() const {
		return (u64)vertices * 2 * sizeof(double) + ElementBytes() + rings * sizeof(ShapeRing) +
		       ((u64)points + ends) * sizeof(Vec2) + BoxCount(vertices) * sizeof(Box) + NumberBytes();
	}
	VIBE_HD u32 ElementBytes() const {
		return has_area ? sizeof(Box) : 0;
	}
	//! Of vertex_ring and element_begin, in whole words
	VIBE_HD u64 NumberBytes() const {
		return ((u64)vertices + 3) / 2 * 2 * sizeof(u32);
	}
};

//! Writes the arrays; `usable` as it is in ShapeCounts
struct ShapeFiller {
	double *x;
	double *y;
	u32 *vertex_ring;
	ShapeRing *rings;
	Vec2 *points;
	Vec2 *ends;
	u32 vertex_count;
	u32 ring_count;
	u32 point_count;
	u32 end_count;
	Box box;
	bool usable;
	Family family;
	bool is_shell;

	VIBE_HD void Row(const WkbKind &) {
	}
	VIBE_HD void Node(WkbType, u32) {
	}
	VIBE_HD void Part(Family part_family) {
		family = part_family;
		is_shell = true;
	}
	VIBE_HD void Ring(u32 count, const u8 *coords, u64 stride) {
		const WkbVertices from {coords, stride};
		if (count == 0 || !usable) {
			return;
		}
		if (family == FAMILY_POINT) {
			const Vec2 p = from.At(0);
			points[point_count++] = p;
			box.Add(p.x, p.y);
			usable = IsFinite(p.x) && IsFinite(p.y);
			return;
		}
		const bool is_area = family == FAMILY_POLYGON;
		const u32 begin = vertex_count;
		Box ring_box = Box::Empty();
		const u32 end = CopyVertices(from, count, x, y, begin, ring_box);
		const Vec2 first = from.At(0), last = from.At(count - 1);
		// v - v is 0 for a finite v and NaN for all others
		double sum = 0;
		for (u32 i = begin; i < end; i++) {
			vertex_ring[i] = ring_count;
			sum += (x[i] - x[i]) + (y[i] - y[i]);
		}
		usable = sum == 0 && end - begin >= LeastVertices(is_area) && (!is_area || first == last);
		if (!usable) {
			return;
		}
		const bool left = is_area && IsCounterClockwise(x, y, begin, end, ring_box.min_x) == is_shell;
		rings[ring_count++] = ShapeRing {begin, end, 0, is_area, left, ring_box};
		if (!is_area) {
			ends[end_count++] = first;
			ends[end_count++] = last;
		}
		box.Add(ring_box);
		vertex_count = end;
		is_shell = false;
	}
};

//! A row on its way to a device: its WKB, or one of the sizes that say where the shape comes from
struct WkbRow {
	//! The shape that the CPU has packed; `begin` is its number
	static constexpr u32 PACKED = 0xffffffffu;
	//! The shape that is there already
	static constexpr u32 PRESENT = 0xfffffffeu;

	u32 begin;
	u32 size; // 0: meets nothing
};

//! Memory that threads take pieces of. `used` counts also what had no room.
struct ShapeMemory {
	u8 *at;
	u64 *used;
	u64 capacity;
};

struct LessByPlace {
	VIBE_HD bool operator()(const Vec2 &a, const Vec2 &b) const {
		return LexicographicLess(a, b);
	}
};

//! No shapes of so many rows take more, lines of two vertices the most
VIBE_HD u64 MostShapeBytes(u64 wkb_bytes, u64 rows) {
	return 3 * wkb_bytes + 64 * rows;
}

//! The first of two steps; false when the CPU has to look at the row
VIBE_HD bool CountShape(const u8 *wkb, u64 size, ShapeCounts &counts) {
	WkbReader reader(wkb, size);
	counts = ShapeCounts {0, 0, 0, 0, false, true, FAMILY_POINT, false, false};
	WalkWkbParts(reader, counts);
	return !reader.Failed() && counts.usable;
}

//! The second, into counts.Bytes() of memory; false as above, with nothing in the view
VIBE_HD bool FillShape(const u8 *wkb, u64 size, const ShapeCounts &counts, u8 *memory, ShapeView &view) {
	ShapeFiller filler {};
	filler.x = (double *)memory;
	filler.y = filler.x + counts.vertices;
	Box *element_box = (Box *)(filler.y + counts.vertices);
	Box *boxes = element_box + (counts.has_area ? 1 : 0);
	filler.rings = (ShapeRing *)(boxes + BoxCount(counts.vertices));
	filler.points = (Vec2 *)(filler.rings + counts.rings);
	filler.ends = filler.points + counts.points;
	filler.vertex_ring = (u32 *)(filler.ends + counts.ends);
	u32 *element_begin = filler.vertex_ring + counts.vertices;
	filler.box = Box::Empty();
	filler.usable = true;
	WkbReader reader(wkb, size);
	WalkWkbParts(reader, filler);
	if (!filler.usable) {
		return false;
	}
	view = ShapeView {};
	view.x = filler.x;
	view.y = filler.y;
	view.vertex_ring = filler.vertex_ring;
	view.vertex_count = filler.vertex_count;
	view.rings = filler.rings;
	view.ring_count = filler.ring_count;
	element_begin[0] = 0;
	view.element_begin = element_begin;
	view.element_box = element_box;
	if (counts.has_area) {
		element_begin[1] = filler.vertex_count;
		*element_box = filler.box;
		view.element_count = 1;
	}
	view.points = filler.points;
	view.ends = filler.ends;
	if (filler.point_count > 0) {
		Sort(filler.points, 0, filler.point_count, LessByPlace());
		for (u32 i = 0; i < filler.point_count; i++) {
			const Vec2 p = filler.points[i];
			if (i == 0 || p != filler.points[view.point_count - 1]) {
				filler.points[view.point_count++] = p;
			}
		}
	}
	if (filler.end_count > 0) {
		Sort(filler.ends, 0, filler.end_count, LessByPlace());
		view.end_count = KeepOdd(filler.ends, filler.end_count);
	}
	AddBoxes(view, boxes, RunBox);
	view.box = filler.box;
	view.dimension = counts.has_area ? 2 : filler.ring_count > 0 ? 1 : filler.point_count > 0 ? 0 : -1;
	return true;
}

} // namespace vibe
