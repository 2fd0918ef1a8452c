//===----------------------------------------------------------------------===//
// vibe/net.h
//
// The edges of many overlays at once, each overlay a part of the whole: what threads of a device need to find those that meet,
// to split them and to tell what lies on both sides. A part is cut into strips of equal width; an edge has an entry in
// every strip that it passes, and entries are sorted by strip and by their lower end.
//
// Promise: exact, but for the coordinates of a crossing. Which edges meet and how deep it is depends on no order.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/overlay.h"

namespace vibe {

struct NetEdge {
	static constexpr u32 NO_POLYGON = 0xffffffffu;
	//! The part of an edge that is a single point, which is none
	static constexpr u32 NO_PART = 0xffffffffu;

	//! a before b
	Vec2 a;
	Vec2 b;
	//! By how much it is deeper above than below (NetRule)
	i32 rise;
	//! The polygon that has it for an edge, if it is only one
	u32 polygon;
	u32 part;

	//! It runs from its tail to its head with the deeper side on its left
	VIBE_HD Vec2 Tail() const {
		return rise > 0 ? a : b;
	}
	VIBE_HD Vec2 Head() const {
		return rise > 0 ? b : a;
	}
};

//! What the parts of a net are, and what is inside of them
struct NetRule {
	enum Kind : u32 {
		//! Unions of any number of polygons. Rises and depths are numbers, and what is 1 or deeper is inside.
		MANY,
		//! Overlays of two geometries, which their rings fill by parity. Rises and depths have a bit for each side. A rise: on one side of
		//! the edge only is the point in that geometry. A depth: it is.
		INTERSECTION,
		UNION,
		DIFFERENCE,
		SYM_DIFFERENCE
	};
	static constexpr i32 LEFT = 1;
	static constexpr i32 RIGHT = 2;
	static constexpr i32 BOTH = LEFT | RIGHT;

	Kind kind;
	//! Lines and points in which the geometries of an intersection touch are no part of it
	u32 areas_only;

	VIBE_HD bool IsOfPairs() const {
		return kind != MANY;
	}
	VIBE_HD bool HasLines() const {
		return kind == INTERSECTION && !areas_only;
	}
	//! Of two edges in the same place, or of a depth and the edge above
	VIBE_HD i32 Sum(i32 a, i32 b) const {
		return IsOfPairs() ? a ^ b : a + b;
	}
	//! Of an edge that is turned around
	VIBE_HD i32 Turned(i32 rise) const {
		return IsOfPairs() ? rise : -rise;
	}
	VIBE_HD bool Inside(i32 depth) const {
		switch (kind) {
		case INTERSECTION:
			return depth == BOTH;
		case UNION:
			return depth != 0;
		case DIFFERENCE:
			return depth == LEFT;
		case SYM_DIFFERENCE:
			return depth == LEFT || depth == RIGHT;
		default:
			return depth >= 1;
		}
	}
};

//! Of an edge of an intersection: the sides that it is in or bounds, and whether the same is true of the result
struct NetLabel {
	static constexpr u8 COVERED = 4;

	VIBE_HD static u8 Of(i32 below, i32 above) {
		const bool covered = below == NetRule::BOTH || above == NetRule::BOTH;
		return (u8)(below | above | (covered ? COVERED : 0));
	}
	//! Of an edge, or of all edges that end in a point: it is in both sides, and no area of the result covers it
	VIBE_HD static bool Touches(u8 label) {
		return label == NetRule::BOTH;
	}
};

//! A ring of a polygon: vertices up to the start of the next ring, the first not repeated
struct NetRing {
	u32 start;
	u32 part;
	u32 polygon;
	//! 1: what lies to its left is one deeper, -1: one less deep. Of pairs: the side that it belongs to.
	i32 weight;
};

//! How a part is cut into strips, numbered through all parts. Heights are y in 2^32 steps.
struct NetPart {
	double low_x;
	double low_y;
	//! Strips to a unit, units to a strip, heights to a unit
	double scale;
	double step;
	double height_scale;
	u32 first_strip;
	u32 strips; // at least 1

	//! From 0 on, in this part
	VIBE_HD u32 StripOf(double x) const {
		return Step((x - low_x) * scale, strips - 1);
	}
	VIBE_HD u32 HeightOf(double y) const {
		return Step((y - low_y) * height_scale, 0xffffffffu);
	}
	//! As entries are sorted
	VIBE_HD u64 Key(u32 strip, double y) const {
		return (u64)(first_strip + strip) << 32 | HeightOf(y);
	}

private:
	//! Never falls where `at` rises
	VIBE_HD static u32 Step(double at, u32 last) {
		return !(at > 0) ? 0 : at < (double)last ? (u32)at : last;
	}
};

//! The strips that an edge passes, or comes within `reach` of
struct StripRange {
	u32 first;
	u32 last;

	VIBE_HD StripRange(const NetPart &part, const NetEdge &edge, double reach)
	    : first(part.StripOf(edge.a.x - reach)), last(part.StripOf(edge.b.x + reach)) {
	}
};

//! From where to where an edge reaches in a strip that it passes, or a little farther, and `reach` more
VIBE_HD void RangeInStrip(const NetPart &part, const NetEdge &edge, double reach, u32 strip, double &low,
                          double &high) {
	low = Min(edge.a.y, edge.b.y) - reach;
	high = Max(edge.a.y, edge.b.y) + reach;
	const StripRange range(part, edge, reach);
	if (range.last - range.first < 2) {
		return;
	}
	const double slope = (edge.b.y - edge.a.y) / (edge.b.x - edge.a.x);
	// More than all that is rounded here, and as far as a strip's border may be passed
	const double slack =
	    1e-9 * (high - low) + Abs(slope) * (part.step * 1e-6 + reach) + reach + 1e-15 * (Abs(low) + Abs(high));
	const double from = edge.a.y + (part.low_x + part.step * strip - edge.a.x) * slope;
	const double to = edge.a.y + (part.low_x + part.step * (strip + 1.0) - edge.a.x) * slope;
	low = Max(low, Min(from, to) - slack);
	high = Min(high, Max(from, to) + slack);
}

//! The entries of all strips: keys[i] of NetPart::Key(), and the edge
struct NetEntries {
	const u64 *keys;
	const i32 *edges;
	u64 count;
	//! An edge that has more entries to look at leaves its part to the CPU
	u32 most;

	//! The first whose key is not less
	VIBE_HD u64 Find(u64 key) const {
		u64 begin = 0, end = count;
		while (begin < end) {
			const u64 mid = begin + (end - begin) / 2;
			if (keys[mid] < key) {
				begin = mid + 1;
			} else {
				end = mid;
			}
		}
		return begin;
	}
};

//! A point that cuts an edge, the rank-th that was found for it
struct NetCut {
	Vec2 point;
	u32 edge;
	u32 rank;
};

//! Adds a number to a hash
VIBE_HD u64 Hashed(u64 hash, double value) {
	hash = (hash ^ Bits(value)) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

//! 32 bits of a point of a part, or of an edge, the same for equal ones
VIBE_HD u32 HashOf(const Vec2 &p, u32 part) {
	return (u32)Hashed(Hashed(part, p.x), p.y);
}
VIBE_HD u32 HashOf(const NetEdge &edge) {
	return (u32)Hashed(Hashed(Hashed(Hashed(0, edge.a.x), edge.a.y), edge.b.x), edge.b.y);
}

VIBE_HD bool SameEdge(const NetEdge &e, const NetEdge &f) {
	return e.a == f.a && e.b == f.b && e.part == f.part;
}

//! Right after the left end of e: does f pass there, and below e? None of both meets the other but in its ends.
VIBE_HD bool PassesBelow(const NetEdge &f, const NetEdge &e) {
	const Vec2 p = e.a;
	if (f.a == p) {
		return Orient2d(p, e.b, f.b) < 0;
	}
	if (!LexicographicLess(f.a, p) || !LexicographicLess(p, f.b)) {
		return false;
	}
	if (p.y > Max(f.a.y, f.b.y)) {
		return true;
	}
	return p.y >= Min(f.a.y, f.b.y) && Orient2d(f.a, f.b, p) > 0;
}

//! Of two edges that meet in their ends only and pass the same x: does g lie above f?
VIBE_HD bool LiesAbove(const NetEdge &g, const NetEdge &f) {
	if (LexicographicLess(g.a, f.a)) {
		const int side = Orient2d(g.a, g.b, f.a);
		return side != 0 ? side < 0 : Orient2d(g.a, g.b, f.b) < 0;
	}
	const int side = g.a == f.a ? 0 : Orient2d(f.a, f.b, g.a);
	return side != 0 ? side > 0 : Orient2d(f.a, f.b, g.b) > 0;
}

//! Sorts the points of an edge along it, in place (heapsort: one thread, any number, no memory)
VIBE_HD void SortCuts(const NetEdge &edge, Vec2 *points, u32 count) {
	for (u32 heap = count / 2, end = count; end > 1;) {
		if (heap > 0) {
			heap--;
		} else {
			end--;
			Swap(points[0], points[end]);
		}
		// The root of what is a heap but for that sinks
		u32 at = heap;
		while (true) {
			u32 child = 2 * at + 1;
			if (child >= end) {
				break;
			}
			if (child + 1 < end && CutBefore(edge, points[child], points[child + 1])) {
				child++;
			}
			if (!CutBefore(edge, points[at], points[child])) {
				break;
			}
			Swap(points[at], points[child]);
			at = child;
		}
	}
}

//! Calls visit(piece, turned) for each piece of an edge that these points cut, sorted along it; none: the edge itself. `turned`: the rise
//! of the piece is to be turned, too.
template <class VISIT>
VIBE_HD void VisitPieces(const NetEdge &edge, const Vec2 *points, u32 count, VISIT &visit) {
	Vec2 from = edge.a;
	for (u32 i = 0; i <= count; i++) {
		const Vec2 to = i == count ? edge.b : points[i];
		NetEdge piece = edge;
		bool turned;
		if (!TakePiece(piece, from, to, turned)) {
			continue;
		}
		visit(piece, turned);
		from = to;
	}
}

//===----------------------------------------------------------------------===//
// Ways along edges
//===----------------------------------------------------------------------===//
//! Edges that meet in one point: with more, looking at all of them for each would take too long
constexpr u32 NET_MOST_IN_POINT = 1024;

//! Some edges on from an edge, and a value of those in between
struct NetHop {
	static constexpr u32 NONE = 0xffffffffu;
	//! Of the value of an edge that another follows: a way that ends is led by its last edge, a closed one by its least
	static constexpr u32 GOES_ON = 0x80000000u;

	u32 to;
	u32 value;

	VIBE_HD u32 Leader() const {
		return value & ~GOES_ON;
	}
};

//! A ring of an overlay, with the area on its left
struct UnitedRing {
	static constexpr u32 NONE = 0xffffffffu;

	u32 start;
	u32 count;
	//! From `start` on: which vertex is the first by x and y
	u32 first;
	//! Of a hole: the ring of the edge next below its first vertex
	u32 under;
	//! The polygon that has all of it
	u32 polygon;
	u32 part;
	u32 shell;
};

//! Turning clockwise around p from the ray to q, which of two other rays comes first: is it that to g, not that to h?
VIBE_HD bool ClockwiseBefore(const Vec2 &p, const Vec2 &q, const Vec2 &g, const Vec2 &h) {
	const int to_g = Orient2d(p, q, g), to_h = Orient2d(p, q, h);
	return to_g != to_h ? to_g < to_h : Orient2d(p, g, h) < 0;
}

//! Sorted as the number is, which is not -0
VIBE_HD u64 OrderedBits(double value) {
	const u64 bits = Bits(value);
	return bits >> 63 ? ~bits : bits | 1ULL << 63;
}

} // namespace vibe
