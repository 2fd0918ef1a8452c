//===----------------------------------------------------------------------===//
// point_in_polygon
//
// Promise: exact. Where points lie in the polygons of an index of cells (vibe::Location). One thread a point.
//===----------------------------------------------------------------------===//
#include "vibe/cells.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

//! Bit l of `answers`: a point at the location l of an area makes a pair with it
struct CollectHits {
	static constexpr vibe::u32 KEPT = 4;

	vibe::u32 answers;
	bool first_only;
	// null: only count
	const vibe::PairList *pairs;
	vibe::u32 point;
	vibe::u64 at;
	vibe::u32 found;
	vibe::u32 kept[KEPT];

	VIBE_HD bool operator()(vibe::u32 area, vibe::Location location) {
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

//! The areas that each point makes a pair with
extern "C" __global__ void cell_pairs(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::PairList pairs) {
	const vibe::u32 i = (vibe::u32)vibe::ThreadIndex();
	const vibe::Vec2 p = i < count ? points[i] : vibe::Vec2 {0, 0};
	CollectHits hit {answers, false, nullptr, i, 0, 0, {}};
	if (i < count) {
		cells.Locate(p, hit);
	}
	const vibe::u32 found = hit.found;
	hit.at = vibe::Reserve(pairs.total, found);
	if (found <= CollectHits::KEPT) {
		for (vibe::u32 k = 0; k < found; k++) {
			pairs.Write(hit.at + k, i, hit.kept[k]);
		}
		return;
	}
	hit.found = 0;
	hit.pairs = &pairs;
	cells.Locate(p, hit);
}

//! Only whether there is one
extern "C" __global__ void cell_found(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::u8 *found) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		CollectHits hit {answers, true, nullptr, (vibe::u32)i, 0, 0, {}};
		cells.Locate(points[i], hit);
		found[i] = hit.found > 0 ? 1 : 0;
	}
}

struct CountHits {
	vibe::u32 answers;
	vibe::u32 *counts;

	__device__ bool operator()(vibe::u32 area, vibe::Location location) {
		if (answers >> location & 1) {
			vibe::CountOne(counts, area);
		}
		return false;
	}
};

//! Only how many points each area has
extern "C" __global__ void cell_counts(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                       vibe::u32 answers, vibe::u32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		CountHits hit {answers, counts};
		cells.Locate(points[i], hit);
	}
}
