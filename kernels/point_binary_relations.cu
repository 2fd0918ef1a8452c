//===----------------------------------------------------------------------===//
// point_binary_relations
//
// Promise: exact. Relations of single points with points and with shapes of any kind (vibe/points.h); pairs with a mixed
// collection stay open. One thread a pair; results are vibe::PairResult.
//===----------------------------------------------------------------------===//
#include "vibe/points.h"
#include "vibe/thread.h"

//! predicate(left point, right point)
extern "C" __global__ void point_point_relations(const double *left_x, const double *left_y, const double *right_x,
                                                 const double *right_y, const vibe::i32 *left_ids,
                                                 const vibe::i32 *right_ids, vibe::u64 count, vibe::u32 predicate,
                                                 vibe::u8 *results) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::i32 left = left_ids[i], right = right_ids[i];
	const vibe::Vec2 a {left_x[left], left_y[left]}, b {right_x[right], right_y[right]};
	const vibe::u32 zero = 0;
	results[i] = vibe::PointsHold((vibe::Predicate)predicate, vibe::ShapeOfPoint(&a, &zero),
	                              vibe::ShapeOfPoint(&b, &zero), true);
}

//! predicate(point, shape), or predicate(shape, point) where the point is not left
extern "C" __global__ void point_shape_relations(const double *x, const double *y, const vibe::i32 *point_ids,
                                                 const vibe::ShapeView *shapes, const vibe::i32 *shape_ids,
                                                 vibe::u64 count, vibe::u32 predicate, vibe::u32 point_is_left,
                                                 vibe::u8 *results) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::Vec2 point {x[point_ids[i]], y[point_ids[i]]};
	const vibe::u32 zero = 0;
	results[i] = vibe::PointsHold((vibe::Predicate)predicate, vibe::ShapeOfPoint(&point, &zero), shapes[shape_ids[i]],
	                              point_is_left != 0);
}
