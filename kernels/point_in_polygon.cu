//===----------------------------------------------------------------------===//
// point_in_polygon
//
// Promise: exact. Where points lie in polygons (vibe::Location): by the columns of rows as they were decoded, or by shapes
// with boxes over their edges, for polygons of many, one thread a pair of point and polygon; or in all polygons of an index
// of cells, one thread a point.
//===----------------------------------------------------------------------===//
#include "vibe/cells.h"
#include "vibe/pairs.h"
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

//! Bit l of `answers`: a point at the location l of an area makes a pair with it
struct CollectHits {
	static constexpr vibe::u32 KEPT = 4;

	vibe::u32 answers;
	bool first_only;
	// null: only count
	const vibe::PairList *pairs;
	vibe::u32 point;
	vibe::u64 at;
	vibe::u32 found;
	vibe::u32 kept[KEPT];

	VIBE_HD bool operator()(vibe::u32 area, vibe::Location location) {
		if ((answers >> location & 1) == 0) {
			return false;
		}
		if (pairs) {
			pairs->Write(at + found, point, area);
		} else if (found < KEPT) {
			kept[found] = area;
		}
		found++;
		return first_only;
	}
};

//! The areas that each point makes a pair with
extern "C" __global__ void cell_pairs(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::PairList pairs) {
	const vibe::u32 i = (vibe::u32)vibe::ThreadIndex();
	const vibe::Vec2 p = i < count ? points[i] : vibe::Vec2 {0, 0};
	CollectHits hit {answers, false, nullptr, i, 0, 0, {}};
	if (i < count) {
		cells.Locate(p, hit);
	}
	const vibe::u32 found = hit.found;
	hit.at = vibe::Reserve(pairs.total, found);
	if (found <= CollectHits::KEPT) {
		for (vibe::u32 k = 0; k < found; k++) {
			pairs.Write(hit.at + k, i, hit.kept[k]);
		}
		return;
	}
	hit.found = 0;
	hit.pairs = &pairs;
	cells.Locate(p, hit);
}

//! Only whether there is one
extern "C" __global__ void cell_found(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                      vibe::u32 answers, vibe::u8 *found) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		CollectHits hit {answers, true, nullptr, (vibe::u32)i, 0, 0, {}};
		cells.Locate(points[i], hit);
		found[i] = hit.found > 0 ? 1 : 0;
	}
}

struct CountHits {
	vibe::u32 answers;
	vibe::u32 *counts;

	__device__ bool operator()(vibe::u32 area, vibe::Location location) {
		if (answers >> location & 1) {
			vibe::CountOne(counts, area);
		}
		return false;
	}
};

//! Only how many points each area has
extern "C" __global__ void cell_counts(vibe::CellsView cells, const vibe::Vec2 *points, vibe::u32 count,
                                       vibe::u32 answers, vibe::u32 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		CountHits hit {answers, counts};
		cells.Locate(points[i], hit);
	}
}
