//===----------------------------------------------------------------------===//
// polygon_predicates
//
// Promise: exact (vibe/relate.h). Relations of pairs of shapes of any kind. The threads of the grid take pairs in turn,
// each with a slab of `arena_bytes` (a multiple of 8) of its own; a pair that needs more stays open for the CPU.
//===----------------------------------------------------------------------===//
#include "vibe/arena.h"
#include "vibe/thread.h"

//! predicate(left, right) as vibe::PairResult. With vibe::PREDICATE_RELATE the whole matrices, if not null, and results
//! that tell whether they are there (vibe::PAIR_TRUE) or open; one entry point: each would have all of relate once more.
extern "C" __global__ void relate_pairs(const vibe::ShapeView *left, const vibe::ShapeView *right,
                                        const vibe::i32 *left_ids, const vibe::i32 *right_ids, vibe::u64 count,
                                        vibe::u32 predicate, vibe::u8 *arena, vibe::u64 arena_bytes,
                                        vibe::Matrix *matrices, vibe::u8 *results) {
	const auto asked = (vibe::Predicate)predicate;
	const bool whole = asked == vibe::PREDICATE_RELATE;
	vibe::u8 *slab = arena + vibe::ThreadIndex() * arena_bytes;
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		const vibe::ShapeView &a = left[left_ids[i]], &b = right[right_ids[i]];
		vibe::Matrix matrix = 0;
		bool answer = true, open = false;
		if (whole || !vibe::BoxesDecide(asked, a, b, answer)) {
			const auto target = vibe::TargetOf(asked, a.dimension, b.dimension);
			open = !vibe::RelateWithin(a, b, target, slab, arena_bytes, matrix);
			answer = whole || vibe::Holds(asked, matrix, a.dimension, b.dimension);
		}
		if (whole && matrices) {
			matrices[i] = open ? 0 : matrix;
		}
		results[i] = open ? vibe::PAIR_OPEN : answer ? vibe::PAIR_TRUE : vibe::PAIR_FALSE;
	}
}
