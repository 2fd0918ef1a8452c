//===----------------------------------------------------------------------===//
// vibe/cell_hits.h
//
// Promise: exact. What becomes of the areas that points find in an index of cells: pairs, counts, or whether there is one.
// One thread a point.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/cells.h"
#include "vibe/pairs.h"
#include "vibe/rough.h"
#include "vibe/thread.h"

namespace vibe {

//! What is looked for: the areas that a point lies in
struct CellsAround {
	const CellsView &cells;

	template <class HIT>
	VIBE_HD void Find(const Vec2 &p, HIT &hit) const {
		cells.Locate(p, hit);
	}
};

//! The same with a filter in front
struct CellsRoughlyAround {
	const CellsView &cells;
	const RoughEdges &edges;

	template <class HIT>
	VIBE_HD void Find(const Vec2 &p, HIT &hit) const {
		cells.Locate(p, hit, edges);
	}
};

//! The areas and lines that a point is near, in an index with a reach
struct CellsNear {
	const CellsView &cells;

	template <class HIT>
	VIBE_HD void Find(const Vec2 &p, HIT &hit) const {
		cells.FindNear(p, hit);
	}
};

//! Bit l of `answers`: a point at the location l of an area makes a pair with it
struct CollectHits {
	static constexpr u32 KEPT = 4;

	u32 answers;
	bool first_only;
	// null: only count
	const PairList *pairs;
	u32 point;
	u64 at;
	u32 found;
	u32 kept[KEPT];

	VIBE_HD bool operator()(u32 area, Location location) {
		if ((answers >> location & 1) == 0) {
			return false;
		}
		if (pairs) {
			pairs->Write(at + found, point, area);
		} else if (found < KEPT) {
			kept[found] = area;
		}
		found++;
		return first_only;
	}
};

struct CountHits {
	u32 answers;
	u32 *counts;

	__device__ bool operator()(u32 area, Location location) {
		if (answers >> location & 1) {
			CountOne(counts, area);
		}
		return false;
	}
};

//! The areas that each point makes a pair with
template <class LOOK>
__device__ void CellPairs(const LOOK &look, const Vec2 *points, u32 count, u32 answers, const PairList &pairs) {
	const u32 i = (u32)ThreadIndex();
	const Vec2 p = i < count ? points[i] : Vec2 {0, 0};
	CollectHits hit {answers, false, nullptr, i, 0, 0, {}};
	if (i < count) {
		look.Find(p, hit);
	}
	const u32 found = hit.found;
	hit.at = Reserve(pairs.total, found);
	if (found <= CollectHits::KEPT) {
		for (u32 k = 0; k < found; k++) {
			pairs.Write(hit.at + k, i, hit.kept[k]);
		}
		return;
	}
	hit.found = 0;
	hit.pairs = &pairs;
	look.Find(p, hit);
}

//! Only whether there is one
template <class LOOK>
__device__ void CellFound(const LOOK &look, const Vec2 *points, u32 count, u32 answers, u8 *found) {
	const u64 i = ThreadIndex();
	if (i < count) {
		CollectHits hit {answers, true, nullptr, (u32)i, 0, 0, {}};
		look.Find(points[i], hit);
		found[i] = hit.found > 0 ? 1 : 0;
	}
}

//! Only how many points each area has
template <class LOOK>
__device__ void CellCounts(const LOOK &look, const Vec2 *points, u32 count, u32 answers, u32 *counts) {
	const u64 i = ThreadIndex();
	if (i < count) {
		CountHits hit {answers, counts};
		look.Find(points[i], hit);
	}
}

} // namespace vibe
