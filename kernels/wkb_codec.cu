//===----------------------------------------------------------------------===//
// wkb_codec
//
// Promise: exact. WKB to shapes; to the columns of vibe::RowsView and back: count or measure, then write. Decoding accepts and
// refuses what the CPU does and keeps X and Y; encoding writes XY, byte for byte what DuckDB would store. One thread a row;
// a row without bytes is NULL.
//===----------------------------------------------------------------------===//
#include "vibe/pairs.h"
#include "vibe/shape_build.h"
#include "vibe/thread.h"
#include "vibe/wkb.h"

//! The shape of each row, as the CPU would pack it. Rows that the CPU has to look at (vibe/shape_build.h), and EMPTY ones where
//! `leave_empty` says so, meet nothing and are unknown; where `left` is not null they are listed there, in no order. Without
//! memory (memory.at is null) only what it would take is counted.
extern "C" __global__ void wkb_shapes(const vibe::u8 *bytes, const vibe::WkbRow *rows, vibe::u32 count,
                                      const vibe::ShapeView *packed, vibe::ShapeMemory memory, vibe::u32 leave_empty,
                                      vibe::ShapeView *views, vibe::u32 *left, vibe::u64 *left_count) {
	const vibe::u32 i = (vibe::u32)vibe::ThreadIndex();
	const vibe::WkbRow row = i < count ? rows[i] : vibe::WkbRow {0, vibe::WkbRow::PRESENT};
	const bool is_wkb = row.size != vibe::WkbRow::PACKED && row.size != vibe::WkbRow::PRESENT;
	vibe::ShapeCounts counts {};
	bool known = !is_wkb || row.size == 0 || vibe::CountShape(bytes + row.begin, row.size, counts);
	if (is_wkb && row.size > 0 && leave_empty != 0) {
		known = known && counts.rings + counts.points > 0;
	}
	const vibe::u64 size = is_wkb && known ? counts.Bytes() : 0, at = vibe::Reserve(memory.used, size);
	if (!memory.at) {
		return;
	}
	if (row.size == vibe::WkbRow::PACKED) {
		views[i] = packed[row.begin];
	} else if (is_wkb) {
		known = known && at + size <= memory.capacity &&
		        vibe::FillShape(bytes + row.begin, row.size, counts, memory.at + at, views[i]);
		if (!known) {
			views[i] = vibe::ShapeView {};
			views[i].box = vibe::Box::Empty();
			views[i].dimension = vibe::DIMENSION_UNKNOWN;
		}
	}
	if (left) {
		const vibe::u64 place = vibe::Reserve(left_count, known ? 0 : 1);
		if (!known) {
			left[place] = i;
		}
	}
}

//! How much of each column a row takes. Rows that are malformed take nothing, and their results are open.
extern "C" __global__ void wkb_counts(const vibe::u8 *bytes, const vibe::WkbRow *rows, vibe::u32 count,
                                      vibe::i32 *nodes, vibe::i32 *parts, vibe::i32 *rings, vibe::i32 *vertices,
                                      vibe::u8 *results) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	vibe::WkbCounts counts {0, 0, 0, 0};
	const vibe::WkbRow row = rows[i];
	const bool read = row.size == 0 || vibe::CountWkb(bytes + row.begin, row.size, counts);
	nodes[i] = (vibe::i32)counts.nodes;
	parts[i] = (vibe::i32)counts.parts;
	rings[i] = (vibe::i32)counts.rings;
	vertices[i] = (vibe::i32)counts.vertices;
	results[i] = read ? vibe::PAIR_FALSE : vibe::PAIR_OPEN;
}

//! The columns; where a row begins in them is the exclusive scan of wkb_counts' counts, and those of nodes and parts are
//! row_node and row_part
extern "C" __global__ void wkb_decode(const vibe::u8 *bytes, const vibe::WkbRow *rows, vibe::u32 count,
                                      const vibe::u8 *results, const vibe::i32 *row_node, const vibe::i32 *row_part,
                                      const vibe::i32 *row_ring, const vibe::i32 *row_vertex,
                                      vibe::WkbColumns columns) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	vibe::WkbFiller filler {columns, vibe::WkbCounts {(vibe::u32)row_node[i], (vibe::u32)row_part[i],
	                                                  (vibe::u32)row_ring[i], (vibe::u32)row_vertex[i]}};
	if (results[i] != vibe::PAIR_OPEN && rows[i].size > 0) {
		vibe::WkbReader reader(bytes + rows[i].begin, rows[i].size);
		vibe::WalkWkb(reader, filler);
	}
	// The next row writes the same there
	filler.Finish();
}

//! The size of each row's WKB, 0 for NULL
extern "C" __global__ void wkb_sizes(vibe::RowsView rows, vibe::u32 count, vibe::i64 *sizes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::WkbWriter writer {nullptr, 0};
		writer.Row(rows, i);
		sizes[i] = (vibe::i64)writer.size;
	}
}

//! The WKB of each row at its position: the exclusive scan of wkb_sizes' sizes
extern "C" __global__ void wkb_rows(vibe::RowsView rows, vibe::u32 count, const vibe::i64 *position, vibe::u8 *bytes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::WkbWriter writer {bytes + position[i], 0};
		writer.Row(rows, i);
	}
}

//! Points, 21 bytes each; NaN is EMPTY
extern "C" __global__ void encode_points(const double *x, const double *y, vibe::u32 count, vibe::u8 *bytes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::WkbWriter writer {bytes + i * (vibe::WKB_HEADER_BYTES + 16), 0};
		writer.Header(vibe::WKB_POINT);
		if (vibe::IsNan(x[i])) {
			writer.EmptyVertex();
		} else {
			writer.Vertex(x[i], y[i]);
		}
	}
}
