//===----------------------------------------------------------------------===//
// point_in_polygon
//
// Promise: exact. Where points lie in the polygons of an index of cells (vibe::Location). One thread a point.
//===----------------------------------------------------------------------===//
#include "vibe/cell_hits.h"

extern "C" __global__ void cell_pairs(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::PairList pairs) {
	vibe::CellPairs(vibe::CellsAround {cells}, points, count, answers, pairs);
}

extern "C" __global__ void cell_found(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::u8 *found) {
	vibe::CellFound(vibe::CellsAround {cells}, points, count, answers, found);
}

extern "C" __global__ void cell_counts(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                       vibe::u32 answers, vibe::u32 *counts) {
	vibe::CellCounts(vibe::CellsAround {cells}, points, count, answers, counts);
}
