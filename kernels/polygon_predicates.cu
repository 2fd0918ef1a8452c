//===----------------------------------------------------------------------===//
// polygon_predicates
//
// Promise: exact (vibe/relate.h). Relations of pairs of shapes of any kind. In a first launch the threads of the grid take pairs in
// turn, each with a slab of `arena_bytes` (a multiple of 8) of its own. What takes a thread more than `max_steps`, or more memory, is for
// a second launch (`together`), in which warps take pairs, with the slabs of all their threads. A pair that needs still more stays
// open for the CPU. What other kernels have looked at before is passed over: pairs with points (`max_points` is not 0:
// multipoint_relations), and those of more than `done_above` vertices (shape_distances, since those at distance 0 intersect).
//===----------------------------------------------------------------------===//
#include "vibe/arena.h"
#include "vibe/pairs.h"
#include "vibe/points.h"
#include "vibe/thread.h"

//! The next pair of a warp; the end of the list where there is none
__device__ inline vibe::u64 TakeLong(const vibe::LongPairs &rest) {
	vibe::u64 at = threadIdx.x % vibe::WARP == 0 ? vibe::AtomicAdd(rest.taken, (vibe::u64)1) : 0;
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
	at = __shfl_sync(0xffffffffu, at, 0);
#endif
	return at;
}

//! predicate(left, right). With vibe::PREDICATE_RELATE the whole matrices, if not null, and results that tell whether they
//! are there (vibe::PAIR_TRUE) or open; one entry point: each would have all of relate once more.
extern "C" __global__ void relate_pairs(vibe::SideView left, vibe::SideView right, vibe::PairList pairs,
                                        vibe::u32 predicate, vibe::u32 max_points, vibe::u8 *arena,
                                        vibe::u64 arena_bytes, vibe::u32 done_above, vibe::LongPairs rest,
                                        vibe::u32 together, vibe::u32 max_steps, vibe::Matrix *matrices) {
	const auto asked = (vibe::Predicate)predicate;
	const bool whole = asked == vibe::PREDICATE_RELATE;
	const vibe::u32 lanes = together != 0 ? vibe::WARP : 1;
	const vibe::Lane lane {(vibe::u32)(vibe::ThreadIndex() % lanes), lanes};
	vibe::u8 *slab = arena + vibe::ThreadIndex() / lanes * lanes * arena_bytes;
	const vibe::u64 count = together != 0 ? *rest.count : pairs.Count();
	vibe::u64 next = together != 0 ? TakeLong(rest) : vibe::ThreadIndex();
	while (next < count) {
		const vibe::u64 i = together != 0 ? rest.list[next] : next;
		next = together != 0 ? TakeLong(rest) : next + vibe::ThreadCount();
		const vibe::SideRow l(left, pairs.left[i]), r(right, pairs.right[i]);
		if (l.IsUnknown() || r.IsUnknown()) {
			pairs.Merge(i, vibe::PAIR_OPEN);
			continue;
		}
		const vibe::ShapeView &a = l.view, &b = r.view;
		if ((max_points > 0 && vibe::PointsDecide(a, b, max_points)) || vibe::AreLarge(a, b, done_above)) {
			continue;
		}
		vibe::Matrix matrix = 0;
		bool answer = true, open = false;
		if (whole || !vibe::BoxesDecide(asked, a, b, answer)) {
			const auto target = vibe::TargetOf(asked, a.dimension, b.dimension);
			open = !vibe::RelateWithin(a, b, target, slab, arena_bytes * lanes, lane, max_steps, matrix);
			answer = whole || vibe::Holds(asked, matrix, a.dimension, b.dimension);
		}
		if (open && together == 0 && rest.list && !a.mixed && !b.mixed) {
			rest.list[vibe::AtomicAdd(rest.count, (vibe::u64)1)] = (vibe::u32)i;
			continue;
		}
		if (lane.number > 0) {
			continue;
		}
		if (whole && matrices) {
			matrices[i] = open ? 0 : matrix;
		}
		pairs.Merge(i, open ? vibe::PAIR_OPEN : answer ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
	}
}
