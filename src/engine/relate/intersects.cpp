#include "engine/relate/intersects.hpp"

#include "geometry/lanes.hpp"
#include "geometry/work_scope.hpp"

#include <algorithm>
#include <cstdint>

namespace vibespatial {

using vibe::Box;
using vibe::ShapeRing;
using vibe::ShapeView;
using vibe::Vec2;

namespace {

constexpr uint32_t RUN = ShapeView::FANOUT;

//! Calls visit(begin, end) for the runs of edges whose box meets `box`, until it returns true; returns whether it did
template <class VISIT>
bool VisitRuns(const ShapeView &s, const Box &box, const VISIT &visit) {
	if (s.level_count == 0) {
		for (uint32_t begin = 0; begin < s.vertex_count; begin += RUN) {
			if (visit(begin, std::min(begin + RUN, s.vertex_count))) {
				return true;
			}
		}
		return false;
	}
	const Lanes least {box.min_x, box.min_y}, most {box.max_x, box.max_y};
	const uint32_t top = s.level_count - 1;
	uint32_t next[ShapeView::MAX_LEVELS], last[ShapeView::MAX_LEVELS];
	uint32_t level = top;
	next[top] = 0;
	last[top] = s.level_begin[top + 1] - s.level_begin[top];
	while (true) {
		if (next[level] >= last[level]) {
			if (level++ == top) {
				return false;
			}
			continue;
		}
		const uint32_t i = next[level]++;
		const Box &other = s.boxes[s.level_begin[level] + i];
		const auto meets = (LoadLanes(&other.min_x) <= most) & (LoadLanes(&other.max_x) >= least);
		if ((meets[0] & meets[1]) == 0) {
			continue;
		}
		if (level == 0) {
			if (visit(i * RUN, std::min(i * RUN + RUN, s.vertex_count))) {
				return true;
			}
			continue;
		}
		level--;
		next[level] = i * RUN;
		last[level] = std::min(i * RUN + RUN, s.level_begin[level + 1] - s.level_begin[level]);
	}
}

Box BoxOf(const Vec2 &a, const Vec2 &b) {
	return Box {vibe::Min(a.x, b.x), vibe::Min(a.y, b.y), vibe::Max(a.x, b.x), vibe::Max(a.y, b.y)};
}

//! The edges that begin in [begin, end), a run or less, and whose box meets `box`: a bit for each
uint32_t EdgesNear(const ShapeView &s, uint32_t begin, uint32_t end, const Box &box) {
	typedef int64_t Masks __attribute__((vector_size(16)));
	const Lanes min_x {box.min_x, box.min_x}, min_y {box.min_y, box.min_y};
	const Lanes max_x {box.max_x, box.max_x}, max_y {box.max_y, box.max_y};
	end = std::min(end, s.vertex_count - 1);
	Masks bits {1, 2}, near {0, 0};
	uint32_t i = begin;
	for (; i + 1 < end; i += 2, bits <<= 2) {
		const Lanes x = LoadLanes(s.x + i), next_x = LoadLanes(s.x + i + 1);
		const Lanes y = LoadLanes(s.y + i), next_y = LoadLanes(s.y + i + 1);
		near |= ((x >= min_x) | (next_x >= min_x)) & ((x <= max_x) | (next_x <= max_x)) &
		        ((y >= min_y) | (next_y >= min_y)) & ((y <= max_y) | (next_y <= max_y)) & bits;
	}
	auto all = static_cast<uint32_t>(near[0] | near[1]);
	if (i < end && BoxOf(s.Vertex(i), s.Vertex(i + 1)).Intersects(box)) {
		all |= 1u << (i - begin);
	}
	// From one ring to the next there is no edge
	if (all != 0 && s.vertex_ring[begin] != s.vertex_ring[end]) {
		for (i = begin; i < end; i++) {
			all &= ~(static_cast<uint32_t>(!s.IsEdge(i)) << (i - begin));
		}
	}
	return all;
}

//! Do segments whose boxes meet share a point?
bool SegmentsMeet(const Vec2 &p, const Vec2 &q, const Vec2 &r, const Vec2 &s) {
	const int r_side = vibe::Orient2d(p, q, r), s_side = vibe::Orient2d(p, q, s);
	if (r_side * s_side > 0) {
		return false;
	}
	// On one line, the boxes meet where the segments do
	return (r_side == 0 && s_side == 0) || vibe::Orient2d(r, s, p) * vibe::Orient2d(r, s, q) <= 0;
}

//! Does an edge of s meet an edge of t?
bool EdgesMeet(const ShapeView &s, const ShapeView &t) {
	struct Edge {
		Box box;
		Vec2 a, b;
	};
	Poll poll;
	return VisitRuns(s, t.box, [&](uint32_t s_begin, uint32_t s_end) {
		Edge edges[RUN];
		uint32_t count = 0;
		Box all = Box::Empty();
		for (uint32_t bits = EdgesNear(s, s_begin, s_end, t.box); bits != 0; bits &= bits - 1) {
			const uint32_t i = s_begin + static_cast<uint32_t>(__builtin_ctz(bits));
			const Vec2 a = s.Vertex(i), b = s.Vertex(i + 1);
			const Box box = BoxOf(a, b);
			edges[count++] = Edge {box, a, b};
			all.Add(box);
		}
		if (count == 0) {
			return false;
		}
		return VisitRuns(t, all, [&](uint32_t t_begin, uint32_t t_end) {
			poll(RUN);
			for (uint32_t bits = EdgesNear(t, t_begin, t_end, all); bits != 0; bits &= bits - 1) {
				const uint32_t i = t_begin + static_cast<uint32_t>(__builtin_ctz(bits));
				const Vec2 a = t.Vertex(i), b = t.Vertex(i + 1);
				const Box box = BoxOf(a, b);
				for (uint32_t k = 0; k < count; k++) {
					if (edges[k].box.Intersects(box) && SegmentsMeet(edges[k].a, edges[k].b, a, b)) {
						return true;
					}
				}
			}
			return false;
		});
	});
}

//! Is the first vertex of a ring or line of s in the area of t?
bool StartsIn(const ShapeView &s, const ShapeRing &ring, const ShapeView &t) {
	return t.element_count == 1 && vibe::LocateInElement(t, 0, s.Vertex(ring.begin)) != vibe::LOC_EXTERIOR;
}

//! Is a ring or line of s, from number `first` on, inside t? No edges meet, so each is inside altogether or outside
bool OneIsInside(const ShapeView &s, uint32_t first, const ShapeView &t) {
	Poll poll;
	for (uint32_t i = first; i < s.ring_count; i++) {
		poll(RUN);
		if (t.box.Covers(s.rings[i].box) && StartsIn(s, s.rings[i], t)) {
			return true;
		}
	}
	return false;
}

} // namespace

bool Intersect(const ShapeView &a, const ShapeView &b) {
	if (!a.box.Intersects(b.box)) {
		return false;
	}
	const ShapeView &s = a.vertex_count <= b.vertex_count ? a : b;
	const ShapeView &t = a.vertex_count <= b.vertex_count ? b : a;
	// One vertex often decides, and has to be looked at anyway where no edges meet
	return StartsIn(s, s.rings[0], t) || EdgesMeet(s, t) || OneIsInside(s, 1, t) || OneIsInside(t, 0, s);
}

} // namespace vibespatial
