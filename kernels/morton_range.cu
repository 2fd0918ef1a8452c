//===----------------------------------------------------------------------===//
// morton_range
//
// Promise: the CPU's codes, bit for bit; no cell that a box touches is missed. Codes of boxes on space-filling curves, to
// sort them by, and the ranges of cells under a box. One thread a box. extent: min_x, min_y, max_x, max_y of all boxes.
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

//! As curve_codes, with Morton codes of 64 bits
extern "C" __global__ void morton_codes(const vibe::Box *boxes, vibe::u32 count, const double *extent,
                                        const vibe::i32 *position, vibe::u64 *keys, vibe::i32 *ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count || boxes[i].IsEmpty()) {
		return;
	}
	const auto grid = vibe::CurveGrid<32>::Over(vibe::Box {extent[0], extent[1], extent[2], extent[3]});
	keys[position[i]] = vibe::MortonCodeOf(grid, boxes[i]);
	ids[position[i]] = (vibe::i32)i;
}

struct CountRanges {
	vibe::i32 count;

	VIBE_HD void operator()(vibe::u64, vibe::u64) {
		count++;
	}
};

struct WriteRanges {
	vibe::u64 *first;
	vibe::u64 *last;

	VIBE_HD void operator()(vibe::u64 range_first, vibe::u64 range_last) {
		*first++ = range_first;
		*last++ = range_last;
	}
};

//! How many ranges morton_ranges writes for each box; level 0 to 31
extern "C" __global__ void morton_range_counts(const vibe::Box *boxes, vibe::u32 count, const double *extent,
                                               vibe::u32 level, vibe::i32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	CountRanges visit {0};
	if (!boxes[i].IsEmpty()) {
		const auto grid = vibe::CurveGrid<32>::Over(vibe::Box {extent[0], extent[1], extent[2], extent[3]});
		vibe::VisitMortonRanges(vibe::CellBlock::Of(grid, boxes[i], level), level, visit);
	}
	counts[i] = visit.count;
}

//! The Morton codes [first, last] of the cells that box i touches, of a grid of 2^level a side, at its position on
extern "C" __global__ void morton_ranges(const vibe::Box *boxes, vibe::u32 count, const double *extent, vibe::u32 level,
                                         const vibe::i32 *position, vibe::u64 *first, vibe::u64 *last) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count || boxes[i].IsEmpty()) {
		return;
	}
	const auto grid = vibe::CurveGrid<32>::Over(vibe::Box {extent[0], extent[1], extent[2], extent[3]});
	WriteRanges visit {first + position[i], last + position[i]};
	vibe::VisitMortonRanges(vibe::CellBlock::Of(grid, boxes[i], level), level, visit);
}
