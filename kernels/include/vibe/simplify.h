//===----------------------------------------------------------------------===//
// vibe/simplify.h
//
// Fewer vertices (Douglas & Peucker 1973), for both engines: which vertices of a ring or a line stay.
// Promise: the same bits everywhere. No term is fused or reordered.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/measure.h"
#include "vibe/poll.h"
#include "vibe/wkb.h"

namespace vibe {

//===----------------------------------------------------------------------===//
// Of one ring or line
//===----------------------------------------------------------------------===//
VIBE_HD double DistanceToSegment(const Vec2 &p, const Vec2 &a, const Vec2 &b) {
	const double abx = b.x - a.x, aby = b.y - a.y;
	const double apx = p.x - a.x, apy = p.y - a.y;
	const double along = apx * abx + apy * aby;
	const double square = abx * abx + aby * aby;
	// written so that a segment without length falls to its first end
	if (!(along > 0)) {
		return SegmentLength(a.x, a.y, p.x, p.y);
	}
	if (along >= square) {
		return SegmentLength(b.x, b.y, p.x, p.y);
	}
	return Abs(apx * aby - apy * abx) / square * Sqrt(square);
}

//! Keeps both ends of the vertices [begin, end), at least one, and between them the farthest vertex beyond the tolerance, again and again:
//! how many there are. `kept` has room for all. Calls poll() for each vertex that is looked at.
template <class VERTICES, class POLL>
VIBE_HD u32 KeepFarthest(const VERTICES &at, u32 begin, u32 end, double tolerance, u32 *kept, POLL &poll) {
	const u32 room = end - begin, last = end - 1;
	u32 count = 0, from = begin;
	kept[count++] = from;
	if (from == last) {
		return count;
	}
	// The ends of sections that are not done lie behind, the next of them first. What is kept is not behind `from`, and they are: both
	// have room.
	u32 next = room - 1;
	kept[next] = last;
	while (next < room) {
		const u32 to = kept[next];
		const Vec2 a = at.Vertex(from), b = at.Vertex(to);
		double farthest = -1;
		u32 split = from;
		VIBE_LOOP
		for (u32 i = from + 1; i < to; i++) {
			poll();
			const double distance = DistanceToSegment(at.Vertex(i), a, b);
			if (distance > farthest) {
				farthest = distance;
				split = i;
			}
		}
		if (farthest > tolerance) {
			kept[--next] = split;
			continue;
		}
		next++;
		kept[count++] = to;
		from = to;
	}
	return count;
}

//! Vertices of a ring that is left; a line or a point has at least one
VIBE_HD u32 LeastKept(bool is_ring) {
	return is_ring ? 4 : 1;
}

//! What stays of a ring, a line or a point: the vertices as KeepFarthest() has them, or none where too few are left. The first vertex of a
//! ring goes too when it is within the tolerance of its neighbours' segment.
template <class VERTICES, class POLL>
VIBE_HD u32 SimplifyRing(const VERTICES &at, u32 begin, u32 end, bool is_ring, double tolerance, u32 *kept,
                         POLL &poll) {
	if (begin == end) {
		return 0;
	}
	u32 count = KeepFarthest(at, begin, end, tolerance, kept, poll);
	if (is_ring && count >= LeastKept(true) &&
	    DistanceToSegment(at.Vertex(kept[0]), at.Vertex(kept[count - 2]), at.Vertex(kept[1])) <= tolerance) {
		count--;
		for (u32 i = 0; i < count; i++) {
			kept[i] = kept[i + 1];
		}
		kept[count - 1] = kept[0];
	}
	return count < LeastKept(is_ring) ? 0 : count;
}

//===----------------------------------------------------------------------===//
// Of one row, by one thread of a device
//===----------------------------------------------------------------------===//
//! Finite vertices, no line of one vertex, closed rings of at least four vertices behind a shell: what the CPU simplifies
VIBE_HD bool CanSimplify(const GeometryView &view) {
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		const u32 shell = view.part_ring[part];
		VIBE_LOOP
		for (u32 ring = shell; ring < view.part_ring[part + 1]; ring++) {
			const u32 begin = view.ring_start[ring], end = view.ring_start[ring + 1];
			if (begin == end) {
				continue;
			}
			if (view.part_family[part] == FAMILY_POLYGON) {
				if (view.ring_start[shell] == view.ring_start[shell + 1] || end - begin < 4 ||
				    view.Vertex(begin) != view.Vertex(end - 1)) {
					return false;
				}
			} else if (view.part_family[part] == FAMILY_LINE && end - begin == 1) {
				return false;
			}
			// v - v is 0 for a finite v and NaN for all others
			double sum = 0;
			for (u32 i = begin; i < end; i++) {
				sum += (view.x[i] - view.x[i]) + (view.y[i] - view.y[i]);
			}
			if (sum != 0) {
				return false;
			}
		}
	}
	return true;
}

//! What stays of each ring, in the place of its vertices, and how many vertices that are. False for what the CPU has to look at.
VIBE_HD bool SimplifyRow(const GeometryView &view, double tolerance, u32 *kept, u32 *ring_kept) {
	if (!(tolerance >= 0) || !CanSimplify(view)) {
		return false;
	}
	NoPoll poll;
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		const bool is_area = view.part_family[part] == FAMILY_POLYGON;
		const u32 shell = view.part_ring[part];
		VIBE_LOOP
		for (u32 ring = shell; ring < view.part_ring[part + 1]; ring++) {
			const u32 begin = view.ring_start[ring];
			// A polygon goes with its shell
			const bool is_gone = ring > shell && ring_kept[shell] == 0;
			ring_kept[ring] =
			    is_gone ? 0
			            : SimplifyRing(view, begin, view.ring_start[ring + 1], is_area, tolerance, kept + begin, poll);
		}
	}
	return true;
}

//! The rings of a part that SimplifyRow() has left
VIBE_HD u32 LeftRings(const GeometryView &view, u32 part, const u32 *ring_kept) {
	u32 left = 0;
	for (u32 ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
		left += ring_kept[ring] > 0;
	}
	return left;
}

//! A row that SimplifyRow() was given, in XY: members that are EMPTY go, and a multi geometry of one member becomes that member
VIBE_HD void WriteSimplified(const RowsView &rows, u64 row, const u32 *kept, const u32 *ring_kept, WkbWriter &writer) {
	const GeometryView view = rows.Row(row);
	const u32 type = rows.node_type[rows.row_node[row]];
	const bool is_multi = type > WKB_POLYGON;
	const u32 member = is_multi ? type - (WKB_MULTIPOINT - WKB_POINT) : type;
	u32 members = 0;
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		members += LeftRings(view, part, ring_kept) > 0;
	}
	if (is_multi && members != 1) {
		writer.Header(type);
		writer.Count(members);
	}
	for (u32 part = view.part_begin; part < view.part_end; part++) {
		const u32 rings = LeftRings(view, part, ring_kept);
		if (rings == 0 && is_multi) {
			continue;
		}
		writer.Header(member);
		if (member == WKB_POLYGON) {
			writer.Count(rings);
		} else if (rings == 0) {
			if (member == WKB_POINT) {
				writer.EmptyVertex();
			} else {
				writer.Count(0);
			}
		}
		for (u32 ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			const u32 begin = view.ring_start[ring], count = ring_kept[ring];
			if (count == 0) {
				continue;
			}
			if (member != WKB_POINT) {
				writer.Count(count);
			}
			if (!writer.out) {
				writer.size += (u64)count * sizeof(Vec2);
				continue;
			}
			for (u32 i = begin; i < begin + count; i++) {
				writer.Vertex(view.x[kept[i]], view.y[kept[i]]);
			}
		}
	}
}

} // namespace vibe
