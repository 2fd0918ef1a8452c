//===----------------------------------------------------------------------===//
// hilbert_codes
//
// Promise: the CPU's codes, bit for bit. Codes of boxes on a space-filling curve, to sort them by. One thread a box.
// extent: min_x, min_y, max_x, max_y of all boxes.
//===----------------------------------------------------------------------===//
#include "vibe/curve.h"
#include "vibe/thread.h"

//! Boxes that are not EMPTY, packed: position is the exclusive scan of box_nonempty's flags. Hilbert codes of 32 bits.
extern "C" __global__ void curve_codes(const vibe::Box *boxes, vibe::u32 count, const double *extent,
                                       const vibe::i32 *position, vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count || boxes[i].IsEmpty()) {
		return;
	}
	const auto grid = vibe::CurveGrid<16>::Over(vibe::Box {extent[0], extent[1], extent[2], extent[3]});
	keys[position[i]] = vibe::HilbertCodeOf(grid, boxes[i]);
	ids[position[i]] = (vibe::i32)i;
}
