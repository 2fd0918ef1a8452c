//===----------------------------------------------------------------------===//
// point_near_cells
//
// Promise: the pairs of vibe::ShapeDistance() <= limit. The areas and lines of an index of cells with a reach that points are
// near. One thread a point.
//===----------------------------------------------------------------------===//
#include "vibe/cell_hits.h"

extern "C" __global__ void near_pairs(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::PairList pairs) {
	vibe::CellPairs(vibe::CellsNear {cells}, points, count, answers, pairs);
}

extern "C" __global__ void near_found(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::u8 *found) {
	vibe::CellFound(vibe::CellsNear {cells}, points, count, answers, found);
}

extern "C" __global__ void near_counts(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                       vibe::u32 answers, vibe::u32 *counts) {
	vibe::CellCounts(vibe::CellsNear {cells}, points, count, answers, counts);
}
