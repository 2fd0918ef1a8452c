//===----------------------------------------------------------------------===//
// engine/shape/plain_chain.hpp
//
// A quick yes for the many short rings and lines that nothing is wrong with: all
// pairs of segments, without any memory. A no says nothing; the sweep decides then.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/shape/segment_sweep.hpp"

namespace vibespatial {

constexpr uint32_t PLAIN_CHAIN_MAX_VERTICES = 64;

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

//! Whether vertices [begin, end) make a short chain of distinct neighbours that nowhere meets itself, but for the last
//! vertex, which may be the first. Coordinates must be finite.
inline bool IsPlainChain(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
	using namespace plain_chain_detail;
	const auto n = end - begin;
	if (n < 2 || n > PLAIN_CHAIN_MAX_VERTICES) {
		return false;
	}
	vibe::Box boxes[PLAIN_CHAIN_MAX_VERTICES];
	const auto segments = n - 1;
	for (uint32_t i = 0; i < segments; i++) {
		const auto a = view.Vertex(begin + i), b = view.Vertex(begin + i + 1);
		if (a == b || (i > 0 && !GoesOn(view.Vertex(begin + i - 1), a, b))) {
			return false;
		}
		boxes[i] = vibe::Box {vibe::Min(a.x, b.x), vibe::Min(a.y, b.y), vibe::Max(a.x, b.x), vibe::Max(a.y, b.y)};
	}
	const bool closed = view.Vertex(begin) == view.Vertex(end - 1);
	if (closed && (segments < 3 || !GoesOn(view.Vertex(end - 2), view.Vertex(begin), view.Vertex(begin + 1)))) {
		return false;
	}
	for (uint32_t i = 0; i + 2 < segments; i++) {
		const auto box = boxes[i];
		const auto last = closed && i == 0 ? segments - 1 : segments;
		for (auto j = i + 2; j < last; j++) {
			if (!box.Intersects(boxes[j])) {
				continue;
			}
			const auto a = view.Vertex(begin + i), b = view.Vertex(begin + i + 1);
			const auto c = view.Vertex(begin + j), d = view.Vertex(begin + j + 1);
			if (!BothOnOneSide(a, b, c, d) && !BothOnOneSide(c, d, a, b)) {
				return false;
			}
		}
	}
	return true;
}

} // namespace vibespatial
