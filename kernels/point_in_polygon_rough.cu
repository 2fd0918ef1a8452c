//===----------------------------------------------------------------------===//
// point_in_polygon_rough
//
// Promise: exact. What point_in_polygon does, for devices that are slow in double precision: floats decide most edges (vibe/rough.h), and
// doubles the others. One thread a point.
//===----------------------------------------------------------------------===//
#include "vibe/cell_hits.h"

extern "C" __global__ void rough_pairs(vibe::CellsView cells, vibe::RoughEdges edges, const vibe::Vec2 *points,
                                       vibe::u32 count, vibe::u32 answers, vibe::PairList pairs) {
	vibe::CellPairs(vibe::CellsRoughlyAround {cells, edges}, points, count, answers, pairs);
}

extern "C" __global__ void rough_found(vibe::CellsView cells, vibe::RoughEdges edges, const vibe::Vec2 *points,
                                       vibe::u32 count, vibe::u32 answers, vibe::u8 *found) {
	vibe::CellFound(vibe::CellsRoughlyAround {cells, edges}, points, count, answers, found);
}

extern "C" __global__ void rough_counts(vibe::CellsView cells, vibe::RoughEdges edges, const vibe::Vec2 *points,
                                        vibe::u32 count, vibe::u32 answers, vibe::u32 *counts) {
	vibe::CellCounts(vibe::CellsRoughlyAround {cells, edges}, points, count, answers, counts);
}
