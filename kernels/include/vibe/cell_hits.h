//===----------------------------------------------------------------------===//
// vibe/cell_hits.h
//
// Promise: exact. What becomes of the areas that points find in an index of cells: pairs, counts, or whether there is one.
// NEAR: the areas and lines that a point is near, in an index with a reach; else those that it lies in. One thread a point.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/cells.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

namespace vibe {

template <bool NEAR, class HIT>
VIBE_HD void FindInCells(const CellsView &cells, const Vec2 &p, HIT &hit) {
	if (NEAR) {
		cells.FindNear(p, hit);
	} else {
		cells.Locate(p, hit);
	}
}

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
template <bool NEAR>
__device__ void CellPairs(const CellsView &cells, const Vec2 *points, u32 count, u32 answers, const PairList &pairs) {
	const u32 i = (u32)ThreadIndex();
	const Vec2 p = i < count ? points[i] : Vec2 {0, 0};
	CollectHits hit {answers, false, nullptr, i, 0, 0, {}};
	if (i < count) {
		FindInCells<NEAR>(cells, p, hit);
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
	FindInCells<NEAR>(cells, p, hit);
}

//! Only whether there is one
template <bool NEAR>
__device__ void CellFound(const CellsView &cells, const Vec2 *points, u32 count, u32 answers, u8 *found) {
	const u64 i = ThreadIndex();
	if (i < count) {
		CollectHits hit {answers, true, nullptr, (u32)i, 0, 0, {}};
		FindInCells<NEAR>(cells, points[i], hit);
		found[i] = hit.found > 0 ? 1 : 0;
	}
}

//! Only how many points each area has
template <bool NEAR>
__device__ void CellCounts(const CellsView &cells, const Vec2 *points, u32 count, u32 answers, u32 *counts) {
	const u64 i = ThreadIndex();
	if (i < count) {
		CountHits hit {answers, counts};
		FindInCells<NEAR>(cells, points[i], hit);
	}
}

} // namespace vibe
