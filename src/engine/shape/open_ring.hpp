//===----------------------------------------------------------------------===//
// engine/shape/open_ring.hpp
//
// A line or ring as the constructive operations take it: without repeated vertices, a ring without its last vertex.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/orient2d.h"
#include "vibe/views.h"

#include <cstdint>
#include <vector>

namespace vibespatial {

//! By X, then by Y
inline bool LexicographicallyLess(const vibe::Vec2 &a, const vibe::Vec2 &b) {
	return a.x < b.x || (a.x == b.x && a.y < b.y);
}

inline void AppendDistinct(CountedVector<vibe::Vec2> &chain, const vibe::Vec2 &p) {
	if (chain.empty() || chain.back() != p) {
		chain.push_back(p);
	}
}

//! Drops what repeats the first vertex at the end; one vertex stays
inline void OpenRing(CountedVector<vibe::Vec2> &chain) {
	while (chain.size() > 1 && chain.back() == chain.front()) {
		chain.pop_back();
	}
}

//! By the area where that is certain, else by the turn in the least vertex, which is exact where the ring is simple
inline bool IsCounterClockwise(const CountedVector<vibe::Vec2> &ring) {
	double area = 0;
	double size = 0;
	size_t least = 0;
	const auto base = ring[0];
	const auto last = ring.size() - 1;
	for (size_t i = 1; i < last; i++) {
		const double product = (ring[i].x - base.x) * (ring[i + 1].y - base.y);
		const double other = (ring[i + 1].x - base.x) * (ring[i].y - base.y);
		area += product - other;
		size += vibe::Abs(product) + vibe::Abs(other);
	}
	constexpr double CERTAIN = 1e-9;
	if (vibe::Abs(area) > CERTAIN * size) {
		return area > 0;
	}
	for (size_t i = 1; i <= last; i++) {
		if (LexicographicallyLess(ring[i], ring[least])) {
			least = i;
		}
	}
	return vibe::Orient2d(ring[least > 0 ? least - 1 : last], ring[least], ring[least < last ? least + 1 : 0]) > 0;
}

} // namespace vibespatial
