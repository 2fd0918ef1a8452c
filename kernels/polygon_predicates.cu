//===----------------------------------------------------------------------===//
// polygon_predicates
//
// Promise: exact (vibe/relate.h). Relations of pairs of shapes of any kind. The threads of the grid take pairs in turn,
// each with a slab of `arena_bytes` (a multiple of 8) of its own. A pair that needs more, or has more vertices than one
// thread should walk, stays open for the CPU. What other kernels have looked at before is passed over: pairs with points
// (`points_are_done`: multipoint_relations), and those of more than `done_above` vertices (shape_distances, since those at distance 0
// intersect).
//===----------------------------------------------------------------------===//
#include "vibe/arena.h"
#include "vibe/pairs.h"
#include "vibe/points.h"
#include "vibe/thread.h"

//! predicate(left, right). With vibe::PREDICATE_RELATE the whole matrices, if not null, and results that tell whether they
//! are there (vibe::PAIR_TRUE) or open; one entry point: each would have all of relate once more.
extern "C" __global__ void relate_pairs(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                        vibe::u32 predicate, vibe::u32 max_vertices, vibe::u8 *arena,
                                        vibe::u64 arena_bytes, vibe::u32 points_are_done, vibe::u32 done_above,
                                        vibe::Matrix *matrices) {
	const auto asked = (vibe::Predicate)predicate;
	const bool whole = asked == vibe::PREDICATE_RELATE;
	vibe::u8 *slab = arena + vibe::ThreadIndex() * arena_bytes;
	const vibe::u64 count = pairs.Count();
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		const vibe::ShapeView &a = l.view, &b = r.view;
		if ((points_are_done != 0 && vibe::PointsDecide(a, b, max_vertices)) || vibe::AreLarge(a, b, done_above)) {
			continue;
		}
		vibe::Matrix matrix = 0;
		bool answer = true, open = false;
		if (whole || !vibe::BoxesDecide(asked, a, b, answer)) {
			const auto target = vibe::TargetOf(asked, a.dimension, b.dimension);
			open = (vibe::u64)a.vertex_count + b.vertex_count > max_vertices ||
			       !vibe::RelateWithin(a, b, target, slab, arena_bytes, matrix);
			answer = whole || vibe::Holds(asked, matrix, a.dimension, b.dimension);
		}
		if (whole && matrices) {
			matrices[i] = open ? 0 : matrix;
		}
		pairs.Merge(i, open ? vibe::PAIR_OPEN : answer ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
	}
}
