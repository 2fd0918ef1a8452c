//===----------------------------------------------------------------------===//
// point_binary_relations
//
// Promise: exact. Relations of single points with points and with shapes of any kind (vibe/points.h); pairs with a mixed
// collection stay open. The threads of the grid take pairs in turn.
//===----------------------------------------------------------------------===//
#include "vibe/pairs.h"
#include "vibe/points.h"
#include "vibe/thread.h"

//! predicate(left, right), where the side that `points_are_left` tells has single points, or shapes of points alone
extern "C" __global__ void point_relations(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                           vibe::u32 predicate, vibe::u32 points_are_left) {
	const vibe::u64 count = pairs.Count();
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		const bool points_left = points_are_left != 0;
		pairs.Merge(i, vibe::PointsHold((vibe::Predicate)predicate, points_left ? l.view : r.view,
		                                points_left ? r.view : l.view, points_left));
	}
}
