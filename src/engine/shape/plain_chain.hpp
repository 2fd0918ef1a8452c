//===----------------------------------------------------------------------===//
// engine/shape/plain_chain.hpp
//
// A quick yes for the many rings and lines that nothing is wrong with. It takes time
// in proportion to their length. A no says nothing; the sweep decides then.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/shape/segment_sweep.hpp"

namespace vibespatial {

namespace plain_chain_detail {

inline bool BothOnOneSide(const vibe::Vec2 &a, const vibe::Vec2 &b, const vibe::Vec2 &c, const vibe::Vec2 &d) {
	return vibe::Orient2d(a, b, c) * vibe::Orient2d(a, b, d) > 0;
}

//! The chain does not turn back in q
inline bool GoesOn(const vibe::Vec2 &p, const vibe::Vec2 &q, const vibe::Vec2 &r) {
	return vibe::Orient2d(p, q, r) != 0 || SweepBefore(p, q) == SweepBefore(q, r);
}

} // namespace plain_chain_detail

//! Whether vertices [begin, end), of which the last is the first, turn left everywhere, or right, and only once around
inline bool IsConvexRing(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
	if (end - begin < 4) {
		return false;
	}
	auto p = view.Vertex(end - 2), q = view.Vertex(begin);
	const int turn = vibe::Orient2d(p, q, view.Vertex(begin + 1));
	bool forward = SweepBefore(p, q);
	uint32_t reversals = 0;
	for (auto i = begin + 1; i < end; i++) {
		const auto r = view.Vertex(i);
		if (turn == 0 || vibe::Orient2d(p, q, r) != turn) {
			return false;
		}
		reversals += SweepBefore(q, r) != forward;
		forward = SweepBefore(q, r);
		p = q;
		q = r;
	}
	return reversals == 2;
}

//! A chain as a tree of boxes over runs of its segments. Runs that go one way meet neither themselves nor a neighbour that goes
//! the same way, and runs with boxes apart do not meet: most of a chain that nothing is wrong with is passed over by that.
//! VERTEX returns a vertex by its number. MEETING is asked of each pair of segments that meet elsewhere than in the vertex between them:
//! meeting(i, j), i < j, returns whether to go on.
template <class VERTEX, class MEETING>
class PlainChain {
public:
	PlainChain(const VERTEX &vertex, uint32_t count, MEETING meeting)
	    : vertex(vertex), meeting(meeting), segments(count - 1), closed(vertex(0) == vertex(count - 1)),
	      left(WORK_PER_SEGMENT * size_t(segments) + LEAST_WORK) {
	}

	bool Check() {
		using namespace plain_chain_detail;
		const auto leaves = (segments + LEAF - 1) / LEAF;
		first_leaf = 1;
		while (first_leaf < leaves) {
			first_leaf *= 2;
		}
		Run few[FEW];
		CountedVector<Run> many;
		runs = few;
		if (2 * first_leaf > FEW) {
			many.resize(2 * first_leaf);
			runs = many.data();
		}
		if (!FillLeaves() || (closed && (segments < 3 || !GoesOn(vertex(segments - 1), vertex(0), vertex(1))))) {
			return false;
		}
		for (auto leaf = first_leaf + leaves; leaf < 2 * first_leaf; leaf++) {
			runs[leaf] = Run {vibe::Box::Empty(), ALL_WAYS};
		}
		for (auto node = first_leaf - 1; node > 0; node--) {
			runs[node] = runs[2 * node];
			runs[node].box.Add(runs[2 * node + 1].box);
			runs[node].ways &= runs[2 * node + 1].ways;
		}
		return Alone(1);
	}

private:
	//! Segments in a leaf
	static constexpr uint32_t LEAF = 8;
	//! Runs that take no memory from the heap: those of 512 segments
	static constexpr uint32_t FEW = 2 * 512 / LEAF;
	//! Pairs that are looked at before the chain is left to the sweep
	static constexpr size_t WORK_PER_SEGMENT = 64;
	static constexpr size_t LEAST_WORK = 4096;

	enum Way : uint8_t { RIGHT = 1, LEFT = 2, UP = 4, DOWN = 8, ALL_WAYS = 15 };

	struct Run {
		vibe::Box box;
		//! All segments go there
		uint8_t ways;
	};

	//! False where a vertex repeats or the chain turns back
	bool FillLeaves() {
		using namespace plain_chain_detail;
		auto before = vertex(0), a = before;
		uint8_t before_ways = ALL_WAYS;
		for (uint32_t first = 0, leaf = first_leaf; first < segments; first += LEAF, leaf++) {
			poll(LEAF);
			auto &run = runs[leaf];
			run = Run {vibe::Box {a.x, a.y, a.x, a.y}, ALL_WAYS};
			for (auto i = first; i < std::min(first + LEAF, segments); i++) {
				const auto b = vertex(i + 1);
				const auto ways = static_cast<uint8_t>((b.x > a.x ? RIGHT : 0) | (b.x < a.x ? LEFT : 0) |
				                                       (b.y > a.y ? UP : 0) | (b.y < a.y ? DOWN : 0));
				if (ways == 0 || (!(ways & before_ways) && !GoesOn(before, a, b))) {
					return false;
				}
				run.ways &= ways;
				run.box.Add(b.x, b.y);
				before_ways = ways;
				before = a;
				a = b;
			}
		}
		return true;
	}

	bool Spend(size_t work) {
		poll(work);
		if (work > left) {
			return false;
		}
		left -= work;
		return true;
	}

	//! Whether the segments of a run meet nowhere but at the vertices between them
	bool Alone(uint32_t node) {
		if (runs[node].ways != 0) {
			return true;
		}
		if (node >= first_leaf) {
			const auto first = (node - first_leaf) * LEAF, last = std::min(first + LEAF, segments);
			for (auto i = first; i + 2 < last; i++) {
				if (!Apart(i, i + 2, last)) {
					return false;
				}
			}
			return true;
		}
		return Alone(2 * node) && Alone(2 * node + 1) && Apart(2 * node, 2 * node + 1);
	}

	//! Likewise of two runs of one size, the first before the other
	bool Apart(uint32_t a, uint32_t b) {
		if (!runs[a].box.Intersects(runs[b].box) || (a + 1 == b && (runs[a].ways & runs[b].ways))) {
			return true;
		}
		if (!Spend(1)) {
			return false;
		}
		if (a < first_leaf) {
			return Apart(2 * a + 1, 2 * b) && Apart(2 * a, 2 * b) && Apart(2 * a, 2 * b + 1) &&
			       Apart(2 * a + 1, 2 * b + 1);
		}
		const auto first = (b - first_leaf) * LEAF, last = std::min(first + LEAF, segments);
		const auto end = (a - first_leaf + 1) * LEAF;
		for (auto i = end - LEAF; i < end; i++) {
			if (SegmentBox(i).Intersects(runs[b].box) && !Apart(i, std::max(first, i + 2), last)) {
				return false;
			}
		}
		return true;
	}

	//! Likewise of a segment and those of [from, to)
	bool Apart(uint32_t i, uint32_t from, uint32_t to) {
		using namespace plain_chain_detail;
		if (!Spend(LEAF)) {
			return false;
		}
		const auto box = SegmentBox(i);
		for (auto j = from; j < to; j++) {
			if (!box.Intersects(SegmentBox(j)) || (closed && i == 0 && j + 1 == segments)) {
				continue;
			}
			const auto a = vertex(i), b = vertex(i + 1), c = vertex(j), d = vertex(j + 1);
			if (!BothOnOneSide(a, b, c, d) && !BothOnOneSide(c, d, a, b) && !meeting(i, j)) {
				return false;
			}
		}
		return true;
	}

	vibe::Box SegmentBox(uint32_t i) const {
		const auto a = vertex(i), b = vertex(i + 1);
		return vibe::Box {vibe::Min(a.x, b.x), vibe::Min(a.y, b.y), vibe::Max(a.x, b.x), vibe::Max(a.y, b.y)};
	}

	const VERTEX &vertex;
	MEETING meeting;
	const uint32_t segments;
	const bool closed;
	size_t left;
	//! Node n has the nodes 2n and 2n + 1 below it; the leaves come last
	uint32_t first_leaf = 0;
	Run *runs = nullptr;
	Poll poll;
};

//! Likewise of vertices 0 to count - 1, of which vertex(i) returns one
template <class VERTEX, class MEETING>
bool VisitMeetings(const VERTEX &vertex, uint32_t count, MEETING meeting) {
	return PlainChain<VERTEX, MEETING>(vertex, count, meeting).Check();
}
template <class VERTEX>
bool MeetsNowhere(const VERTEX &vertex, uint32_t count) {
	return VisitMeetings(vertex, count, [](uint32_t, uint32_t) { return false; });
}

//! Whether vertices make a chain of distinct neighbours that nowhere meets itself, but for the last vertex, which may be the
//! first. Coordinates must be finite.
inline bool IsPlainChain(const vibe::Vec2 *vertices, size_t count) {
	return count >= 2 && count < UINT32_MAX && MeetsNowhere([&](uint32_t i) { return vertices[i]; }, uint32_t(count));
}
//! The same of a ring that is given without the vertex that closes it
inline bool IsPlainRing(const vibe::Vec2 *vertices, size_t count) {
	return count >= 3 && count < UINT32_MAX - 1 &&
	       MeetsNowhere([&](uint32_t i) { return vertices[i == count ? 0 : i]; }, uint32_t(count) + 1);
}
//! The same of vertices [begin, end)
inline bool IsPlainChain(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
	return end - begin >= 2 && MeetsNowhere([&](uint32_t i) { return view.Vertex(begin + i); }, end - begin);
}

} // namespace vibespatial
