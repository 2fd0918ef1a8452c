//===----------------------------------------------------------------------===//
// segment_distance
//
// Promise: bounded, 0 exactly when the geometries meet (vibe/distance.h). Distances and Hausdorff distances of pairs of
// shapes of any kind; the CPU's bits. The threads of the grid take pairs in turn, or its warps do where shapes are large.
//===----------------------------------------------------------------------===//
#include "vibe/distance.h"
#include "vibe/hausdorff.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

//! Where `distances` is not null, the distances, NaN where one is EMPTY; else whether they are at most the limit, with
//! `empty_is_near` for those of an EMPTY one. A launch is for the pairs of more than `max_vertices` (`large`), a warp to each, or
//! for all others. One entry point: each would have the whole search once more.
extern "C" __global__ void shape_distances(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                           vibe::LimitView limits, vibe::u32 empty_is_near, vibe::u32 large,
                                           vibe::u32 max_vertices, double *distances) {
	const vibe::u64 count = pairs.Count();
	const vibe::u32 lanes = large != 0 ? vibe::WARP : 1, lane = (vibe::u32)(vibe::ThreadIndex() % lanes);
	for (vibe::u64 i = vibe::ThreadIndex() / lanes; i < count; i += vibe::ThreadCount() / lanes) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (vibe::AreLarge(l.view, r.view, max_vertices) != (large != 0)) {
			continue;
		}
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		const bool empty = l.view.dimension < 0 || r.view.dimension < 0;
		const double limit = distances ? -1 : limits.Of(pairs.left[i], pairs.right[i]);
		double distance = vibe::Infinity() - vibe::Infinity();
		if (!empty && (distances || limit >= 0)) {
			auto search = vibe::SearchDistance(l.view, r.view, limit, vibe::Lane {lane, lanes});
			if (lanes > 1) {
				search.best = vibe::WarpMin(search.best);
				search.touching = vibe::WarpAny(search.touching);
			}
			if (lane == 0) {
				distance = vibe::FinishDistance(search, l.view, r.view);
			}
		}
		if (lane > 0) {
			continue;
		}
		if (distances) {
			distances[i] = distance;
		} else if (empty ? empty_is_near != 0 && limit >= 0 : distance <= limit) {
			pairs.Merge(i, vibe::PAIR_TRUE);
		}
	}
}

//! Hausdorff distances, NaN where one is EMPTY. `large` and `max_vertices` as above.
extern "C" __global__ void hausdorff_distances(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                               vibe::u32 large, vibe::u32 max_vertices, double *distances) {
	const vibe::u64 count = pairs.Count();
	const vibe::u32 lanes = large != 0 ? vibe::WARP : 1, lane = (vibe::u32)(vibe::ThreadIndex() % lanes);
	for (vibe::u64 i = vibe::ThreadIndex() / lanes; i < count; i += vibe::ThreadCount() / lanes) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (vibe::AreLarge(l.view, r.view, max_vertices) != (large != 0)) {
			continue;
		}
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		double distance = vibe::Infinity() - vibe::Infinity();
		if (l.view.dimension >= 0 && r.view.dimension >= 0) {
			auto search = vibe::SearchHausdorff(l.view, r.view, vibe::Lane {lane, lanes});
			if (lanes > 1) {
				search.far = -vibe::WarpMin(-search.far);
			}
			if (lane == 0) {
				distance = vibe::FinishHausdorff(search, l.view, r.view);
			}
		}
		if (lane == 0) {
			distances[i] = distance;
		}
	}
}
