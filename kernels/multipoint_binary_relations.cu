//===----------------------------------------------------------------------===//
// multipoint_binary_relations
//
// Promise: exact. Relations of shapes, where one of a pair is points alone: where these lie is all there is to know
// (vibe/points.h), with no edges to walk and no memory. The threads of the grid take pairs in turn.
//===----------------------------------------------------------------------===//
#include "vibe/pairs.h"
#include "vibe/points.h"
#include "vibe/thread.h"

//! predicate(left, right) of the pairs that vibe::PointsDecide() names; all others are left to relate_pairs
extern "C" __global__ void multipoint_relations(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                                vibe::u32 predicate, vibe::u32 max_points) {
	const vibe::u64 count = pairs.Count();
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		const vibe::ShapeView &a = l.view, &b = r.view;
		if (!l.IsUnknown() && !r.IsUnknown() && vibe::PointsDecide(a, b, max_points)) {
			const bool points_left = vibe::ArePoints(a, max_points) && !b.mixed;
			pairs.Merge(
			    i, vibe::PointsHold((vibe::Predicate)predicate, points_left ? a : b, points_left ? b : a, points_left));
		}
	}
}
