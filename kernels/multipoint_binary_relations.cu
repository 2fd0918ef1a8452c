//===----------------------------------------------------------------------===//
// multipoint_binary_relations
//
// Promise: exact. Relations of shapes of points alone with shapes of any kind (vibe/points.h); pairs with a mixed
// collection stay open. One thread a pair; results are vibe::PairResult.
//===----------------------------------------------------------------------===//
#include "vibe/points.h"
#include "vibe/thread.h"

//! predicate(points, shape), or predicate(shape, points) where the points are not left
extern "C" __global__ void multipoint_relations(const vibe::ShapeView *points, const vibe::i32 *point_ids,
                                                const vibe::ShapeView *shapes, const vibe::i32 *shape_ids,
                                                vibe::u64 count, vibe::u32 predicate, vibe::u32 points_are_left,
                                                vibe::u8 *results) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		results[i] = vibe::PointsHold((vibe::Predicate)predicate, points[point_ids[i]], shapes[shape_ids[i]],
		                              points_are_left != 0);
	}
}

//! The whole matrices of points and shapes; 0 for those that stay open: a mixed collection, or EMPTY
extern "C" __global__ void multipoint_matrices(const vibe::ShapeView *points, const vibe::i32 *point_ids,
                                               const vibe::ShapeView *shapes, const vibe::i32 *shape_ids,
                                               vibe::u64 count, vibe::Matrix *matrices) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const vibe::ShapeView &a = points[point_ids[i]], &b = shapes[shape_ids[i]];
		const bool open = b.mixed || a.dimension < 0 || b.dimension < 0;
		matrices[i] = open ? 0 : vibe::PointsMatrix(a, b);
	}
}
