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

//! Calls `one(i, left, right, lane)` for every pair of this launch whose shapes are known. A launch is for the pairs of more than
//! `max_vertices` (`large`), a warp to each, or for all others.
template <class ONE>
__device__ inline void ForPairs(const vibe::SideView &left, const vibe::SideView &right, const vibe::PairList &pairs,
                                bool large, vibe::u32 max_vertices, const ONE &one) {
	const vibe::u64 count = pairs.Count();
	const vibe::u32 lanes = large ? vibe::WARP : 1;
	const vibe::Lane lane {(vibe::u32)(vibe::ThreadIndex() % lanes), lanes};
	for (vibe::u64 i = vibe::ThreadIndex() / lanes; i < count; i += vibe::ThreadCount() / lanes) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (vibe::AreLarge(l.view, r.view, max_vertices) != large) {
			continue;
		}
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		one(i, l.view, r.view, lane);
	}
}

//! Where `distances` is not null, the distances, NaN where one is EMPTY; else whether they are at most the limit, with
//! `empty_is_near` for those of an EMPTY one. One entry point: each would have the whole search once more.
extern "C" __global__ void shape_distances(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                           vibe::LimitView limits, vibe::u32 empty_is_near, vibe::u32 large,
                                           vibe::u32 max_vertices, double *distances) {
	ForPairs(left, right, pairs, large != 0, max_vertices,
	         [&](vibe::u64 i, const vibe::ShapeView &l, const vibe::ShapeView &r, const vibe::Lane &lane) {
		         const bool empty = l.dimension < 0 || r.dimension < 0;
		         const double limit = distances ? -1 : limits.Of(pairs.left[i], pairs.right[i]);
		         double distance = vibe::Infinity() - vibe::Infinity();
		         if (!empty && (distances || limit >= 0)) {
			         auto search = vibe::SearchDistance(l, r, limit, lane);
			         search.best = lane.Least(search.best);
			         search.touching = lane.Any(search.touching);
			         if (lane.number == 0) {
				         distance = vibe::FinishDistance(search, l, r);
			         }
		         }
		         if (lane.number > 0) {
			         return;
		         }
		         if (distances) {
			         distances[i] = distance;
		         } else if (empty ? empty_is_near != 0 && limit >= 0 : distance <= limit) {
			         pairs.Merge(i, vibe::PAIR_TRUE);
		         }
	         });
}

//! Hausdorff distances, NaN where one is EMPTY
extern "C" __global__ void hausdorff_distances(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                               vibe::u32 large, vibe::u32 max_vertices, double *distances) {
	ForPairs(left, right, pairs, large != 0, max_vertices,
	         [&](vibe::u64 i, const vibe::ShapeView &l, const vibe::ShapeView &r, const vibe::Lane &lane) {
		         double distance = vibe::Infinity() - vibe::Infinity();
		         if (l.dimension >= 0 && r.dimension >= 0) {
			         auto search = vibe::SearchHausdorff(l, r, lane);
			         search.far = -lane.Least(-search.far);
			         if (lane.number == 0) {
				         distance = vibe::FinishHausdorff(search, l, r);
			         }
		         }
		         if (lane.number == 0) {
			         distances[i] = distance;
		         }
	         });
}
