//===----------------------------------------------------------------------===//
// point_distance
//
// Promise: bounded (vibe/distance.h), the CPU's bits. Distances of pairs of points, and the nearest of many: one thread a
// pair, or a point that is searched for.
//===----------------------------------------------------------------------===//
#include "vibe/distance.h"
#include "vibe/nearest.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

//! Is the distance at most the limit? Both sides are points.
extern "C" __global__ void points_within(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                         vibe::LimitView limits) {
	const vibe::u64 count = pairs.Count();
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		const vibe::u32 l = pairs.left[i], r = pairs.right[i];
		if (vibe::PointDistance(left.points[l], right.points[r]) <= limits.Of(l, r)) {
			pairs.Merge(i, vibe::PAIR_TRUE);
		}
	}
}

//! The k points of a packed tree that come first by (distance, row), none of them farther than `most`: number n of query i is
//! at [n * count + i]. `found`: how many there are. The levels are an argument because NVRTC 13.0 puts an array of the search
//! where they would lie as a local variable, and both are still in use.
extern "C" __global__ void knn_points(const float *nodes, vibe::NodeLevels levels, const double *leaves,
                                      const vibe::u32 *ids, vibe::u32 items, const vibe::Vec2 *queries, vibe::u32 count,
                                      vibe::u32 k, double most, vibe::u32 *found, vibe::u32 *rows, double *distances) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::NearestList list {distances + i, rows + i, count, k, most, 0};
		vibe::FindNearestPoints(nodes, levels, leaves, ids, items, queries[i], list);
		found[i] = list.count;
	}
}
