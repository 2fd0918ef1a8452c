//===----------------------------------------------------------------------===//
// segment_distance
//
// Promise: bounded, 0 exactly when the geometries meet (vibe/distance.h). Distances of pairs of shapes of any kind; the
// CPU's bits. One thread a pair.
//===----------------------------------------------------------------------===//
#include "vibe/distance.h"
#include "vibe/thread.h"

//! Distances, with the limit of vibe::ShapeDistance (-1: none), NaN where one is EMPTY; and whether they are at most the
//! limit (vibe::PairResult). Either may be null. One entry point: each would have the whole search once more.
extern "C" __global__ void shape_distances(const vibe::ShapeView *left, const vibe::ShapeView *right,
                                           const vibe::i32 *left_ids, const vibe::i32 *right_ids, vibe::u64 count,
                                           double limit, double *distances, vibe::u8 *results) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::ShapeView &a = left[left_ids[i]], &b = right[right_ids[i]];
	const bool empty = a.dimension < 0 || b.dimension < 0;
	const double distance = empty ? vibe::Infinity() - vibe::Infinity() : vibe::ShapeDistance(a, b, limit);
	if (distances) {
		distances[i] = distance;
	}
	if (results) {
		results[i] = distance <= limit ? vibe::PAIR_TRUE : vibe::PAIR_FALSE;
	}
}
