//===----------------------------------------------------------------------===//
// bounds
//
// Promise: exact. The box of many boxes, and which of them are not EMPTY.
//===----------------------------------------------------------------------===//
#include "vibe/thread.h"
#include "vibe/views.h"

//! What each of the T threads of the grid saw, for a reduction to finish: min_x at partial[t], min_y at [T + t], max_x at
//! [2T + t], max_y at [3T + t]
extern "C" __global__ void box_extent(const vibe::Box *boxes, vibe::u32 count, double *partial) {
	const vibe::u64 t = vibe::ThreadIndex(), threads = vibe::ThreadCount();
	vibe::Box all = vibe::Box::Empty();
	for (vibe::u64 i = t; i < count; i += threads) {
		if (!boxes[i].IsEmpty()) {
			all.Add(boxes[i]);
		}
	}
	partial[t] = all.min_x;
	partial[threads + t] = all.min_y;
	partial[2 * threads + t] = all.max_x;
	partial[3 * threads + t] = all.max_y;
}

//! 1 for a box that an index takes
extern "C" __global__ void box_nonempty(const vibe::Box *boxes, vibe::u32 count, vibe::i32 *flags) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		flags[i] = boxes[i].IsEmpty() ? 0 : 1;
	}
}
