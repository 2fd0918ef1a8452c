//===----------------------------------------------------------------------===//
// engine/constructive/curve_shell.hpp
//
// What a closed curve winds around, where that is one polygon without holes: the overlay of a single curve, without its sorting and
// sweeping.
//
// Promise: the ring is valid, and it has the vertices that an overlay gives, to the bit, but for units in the last place where rounded
// crossings make edges of an overlay meet again. A no says nothing; the overlay decides then. It takes time in proportion to
// the length of the curve, whatever that looks like.
//
// How it works: all crossings of the curve are found with the boxes of its runs (engine/shape/plain_chain.hpp), exactly. To the right
// of its first vertex is the outside, and every crossing tells by how much the depth on the right changes along the curve: so the
// depths of all its stretches are known without a sweep. The boundary is made of those with 0 on their right, and at each
// crossing it goes over to the other stretch. If one walk meets all of them, there is one ring. Crossings are rounded, so it is looked at
// once more whether that ring meets itself.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "vibe/views.h"

namespace vibespatial {

class CurveShell {
public:
	//! Finds the boundary of what the curve winds around counterclockwise. The curve has no two equal vertices in a row, and does not repeat
	//! its first one.
	bool Find(const vibe::Vec2 *points, size_t count);

	//! The ring that was found: counterclockwise, from its lexicographically least vertex, which is not repeated
	const CountedVector<vibe::Vec2> &Ring() const {
		return ring;
	}

private:
	//! Where the curve arrives at a crossing
	struct Cut {
		uint32_t edge;
		uint32_t crossing;
		vibe::Vec2 point;
		//! The depth on the right of what follows, minus that of what comes before
		int32_t rise;
	};

	bool FindCrossings();
	bool SortCuts();
	bool Walk();
	//! Along the edge that both are on: negative where `a` comes first, 0 where that is not known
	int Compare(const Cut &a, const Cut &b) const;
	const vibe::Vec2 &Next(uint32_t vertex) const {
		return curve[vertex + 1 < size ? vertex + 1 : 0];
	}
	bool IsShell() const;

	const vibe::Vec2 *curve = nullptr;
	uint32_t size = 0;
	//! The lexicographically least vertex of the curve
	uint32_t least = 0;
	//! In the order of the curve. A stretch goes by the cut that it follows.
	CountedVector<Cut> cuts;
	//! Of each cut, the other one of its crossing
	CountedVector<uint32_t> partner;
	CountedVector<int32_t> depth;
	CountedVector<vibe::Vec2> ring;
};

} // namespace vibespatial
