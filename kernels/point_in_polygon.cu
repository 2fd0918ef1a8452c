//===----------------------------------------------------------------------===//
// point_in_polygon
//
// Promise: exact. Where points lie in polygons (vibe::Location): by the columns of rows as they were decoded, or by shapes
// with boxes over their edges, for polygons of many. One thread a pair of point and polygon.
//===----------------------------------------------------------------------===//
#include "vibe/points.h"
#include "vibe/thread.h"

//! Rows that are POLYGON or MULTIPOLYGON, with shells that have an area
extern "C" __global__ void locate_in_rows(const double *x, const double *y, const vibe::i32 *point_ids,
                                          vibe::RowsView rows, const vibe::i32 *row_ids, vibe::u64 count,
                                          vibe::u8 *locations) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const vibe::i32 point = point_ids[i];
		locations[i] = vibe::LocateInRings(rows.Row(row_ids[i]), vibe::Vec2 {x[point], y[point]});
	}
}

//! Shapes that are not mixed; EMPTY ones have points outside only
extern "C" __global__ void locate_in_shapes(const double *x, const double *y, const vibe::i32 *point_ids,
                                            const vibe::ShapeView *shapes, const vibe::i32 *shape_ids, vibe::u64 count,
                                            vibe::u8 *locations) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const vibe::i32 point = point_ids[i];
		const vibe::ShapeView &shape = shapes[shape_ids[i]];
		locations[i] = shape.box.Covers(x[point], y[point])
		                   ? vibe::LocateInShape(shape, vibe::Vec2 {x[point], y[point]})
		                   : vibe::LOC_EXTERIOR;
	}
}
