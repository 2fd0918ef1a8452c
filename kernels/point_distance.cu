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

extern "C" __global__ void point_distances(const double *left_x, const double *left_y, const double *right_x,
                                           const double *right_y, const vibe::i32 *left_ids, const vibe::i32 *right_ids,
                                           vibe::u64 count, double *distances) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const vibe::i32 a = left_ids[i], b = right_ids[i];
		distances[i] = vibe::PointDistance(vibe::Vec2 {left_x[a], left_y[a]}, vibe::Vec2 {right_x[b], right_y[b]});
	}
}

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

//! Distances of points and shapes of any kind; NaN where the shape is EMPTY
extern "C" __global__ void point_shape_distances(const double *x, const double *y, const vibe::i32 *point_ids,
                                                 const vibe::ShapeView *shapes, const vibe::i32 *shape_ids,
                                                 vibe::u64 count, double limit, double *distances) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::Vec2 point {x[point_ids[i]], y[point_ids[i]]};
	const vibe::ShapeView &shape = shapes[shape_ids[i]];
	distances[i] =
	    shape.dimension < 0 ? vibe::Infinity() - vibe::Infinity() : vibe::PointShapeDistance(point, shape, limit);
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
