//===----------------------------------------------------------------------===//
// constructive
//
// Promise: the CPU's bits (vibe/hull.h, vibe/simplify.h). Geometries made of the vertices of rows, as WKB: find the vertices, scan the sizes, write.
// One thread a row. Rows that are open stay so, those that the CPU has to look at become so, and both have no bytes.
//===----------------------------------------------------------------------===//
#include "vibe/hull.h"
#include "vibe/simplify.h"
#include "vibe/thread.h"

//! The corners of each row's hull, from row_vertex[i] + i on, and the size of its WKB, 0 for NULL. `vertices` is for this kernel alone.
extern "C" __global__ void hull_corners(vibe::RowsView rows, vibe::u32 count, const vibe::i32 *row_vertex,
                                        vibe::u8 *results, vibe::u32 *vertices, vibe::u32 *corners,
                                        vibe::u32 *corner_counts, vibe::i64 *sizes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	sizes[i] = 0;
	corner_counts[i] = 0;
	if (results[i] == vibe::PAIR_OPEN || rows.row_node[i] == rows.row_node[i + 1]) {
		return;
	}
	const vibe::u64 first = (vibe::u64)row_vertex[i];
	vibe::u32 corner_count = 0;
	if (!vibe::RowHull(rows.Row(i), vertices + first, corners + first + i, corner_count)) {
		results[i] = vibe::PAIR_OPEN;
		return;
	}
	corner_counts[i] = corner_count;
	sizes[i] = (vibe::i64)vibe::HullBytes(corner_count);
}

//! The WKB of each hull at its position: the exclusive scan of hull_corners' sizes
extern "C" __global__ void hull_rows(vibe::RowsView rows, vibe::u32 count, const vibe::i32 *row_vertex,
                                     const vibe::u32 *corners, const vibe::u32 *corner_counts,
                                     const vibe::i64 *position, vibe::u8 *bytes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count && position[i] < position[i + 1]) {
		vibe::WkbWriter writer {bytes + position[i], 0};
		vibe::WriteHull(vibe::HullOrder {rows.x, rows.y}, corners + row_vertex[i] + i, corner_counts[i], writer);
	}
}

//! What stays of each row's rings, in the places of their vertices, how many vertices each has left, and the size of the row's WKB
extern "C" __global__ void simplify_rings(vibe::RowsView rows, vibe::u32 count, const double *tolerances,
                                          vibe::u8 *results, vibe::u32 *kept, vibe::u32 *ring_kept, vibe::i64 *sizes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	sizes[i] = 0;
	if (results[i] == vibe::PAIR_OPEN || rows.row_node[i] == rows.row_node[i + 1]) {
		return;
	}
	if (!vibe::SimplifyRow(rows.Row(i), tolerances[i], kept, ring_kept)) {
		results[i] = vibe::PAIR_OPEN;
		return;
	}
	vibe::WkbWriter writer {nullptr, 0};
	vibe::WriteSimplified(rows, i, kept, ring_kept, writer);
	sizes[i] = (vibe::i64)writer.size;
}

//! The WKB of each row at its position: the exclusive scan of simplify_rings' sizes
extern "C" __global__ void simplified_rows(vibe::RowsView rows, vibe::u32 count, const vibe::u32 *kept,
                                           const vibe::u32 *ring_kept, const vibe::i64 *position, vibe::u8 *bytes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count && position[i] < position[i + 1]) {
		vibe::WkbWriter writer {bytes + position[i], 0};
		vibe::WriteSimplified(rows, i, kept, ring_kept, writer);
	}
}
