//===----------------------------------------------------------------------===//
// segment_distance
//
// Promise: bounded, 0 exactly when the geometries meet (vibe/distance.h). Distances of pairs of shapes of any kind; the
// CPU's bits. The threads of the grid take pairs in turn.
//===----------------------------------------------------------------------===//
#include "vibe/distance.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

//! Where `distances` is not null, the distances, NaN where one is EMPTY; else whether they are at most the limit, with
//! `empty_is_near` for those of an EMPTY one. One entry point: each would have the whole search once more.
extern "C" __global__ void shape_distances(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                           vibe::LimitView limits, vibe::u32 empty_is_near, double *distances) {
	const vibe::u64 count = pairs.Count();
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		const bool empty = l.view.dimension < 0 || r.view.dimension < 0;
		const double limit = distances ? -1 : limits.Of(pairs.left[i], pairs.right[i]);
		double distance = vibe::Infinity() - vibe::Infinity();
		if (!empty && (distances || limit >= 0)) {
			distance = vibe::ShapeDistance(l.view, r.view, limit);
		}
		if (distances) {
			distances[i] = distance;
		} else if (empty ? empty_is_near != 0 && limit >= 0 : distance <= limit) {
			pairs.Merge(i, vibe::PAIR_TRUE);
		}
	}
}
