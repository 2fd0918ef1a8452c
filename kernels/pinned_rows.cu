//===----------------------------------------------------------------------===//
// pinned_rows
//
// Promise: exact. The rows of a table that stays on the device. Points are put in the order of a Hilbert curve once, so that threads of a
// warp look at the same cells; points and shapes are filtered by each query. One thread a row.
//===----------------------------------------------------------------------===//
#include "vibe/curve.h"
#include "vibe/pinned.h"
#include "vibe/shape.h"
#include "vibe/thread.h"

//! Rows without a point come last: no other has their code, in the 32 bits by which they are sorted
extern "C" __global__ void point_codes(const vibe::Vec2 *points, vibe::u32 count, vibe::Box extent, vibe::u64 *keys,
                                       vibe::i32 *rows) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::Vec2 p = points[i];
	const auto grid = vibe::CurveGrid<16>::Over(extent);
	constexpr vibe::u32 NO_POINT = 0xffffffffu;
	const vibe::u32 code = p.x != p.x ? NO_POINT : vibe::HilbertCodeOf(grid, vibe::Box {p.x, p.y, p.x, p.y});
	keys[i] = p.x == p.x && code == NO_POINT ? code - 1 : code;
	rows[i] = (vibe::i32)i;
}

extern "C" __global__ void gather_points(const vibe::Vec2 *from, const vibe::i32 *rows, vibe::u32 count,
                                         vibe::Vec2 *to) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		to[i] = from[rows[i]];
	}
}

//! `width`: bytes of a value
extern "C" __global__ void gather_values(const vibe::u8 *from, vibe::u32 width, const vibe::i32 *rows, vibe::u32 count,
                                         vibe::u8 *to) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::u64 row = (vibe::u64)rows[i];
	switch (width) {
	case 1:
		to[i] = from[row];
		break;
	case 2:
		reinterpret_cast<short *>(to)[i] = reinterpret_cast<const short *>(from)[row];
		break;
	case 4:
		reinterpret_cast<vibe::i32 *>(to)[i] = reinterpret_cast<const vibe::i32 *>(from)[row];
		break;
	default:
		reinterpret_cast<vibe::i64 *>(to)[i] = reinterpret_cast<const vibe::i64 *>(from)[row];
		break;
	}
}

//! 1 for the rows of a segment that pass
extern "C" __global__ void passing_rows(vibe::PinnedFilter filter, vibe::u32 count, vibe::u8 *passes) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		passes[i] = vibe::PassesFilter(filter, i) ? 1 : 0;
	}
}

//! Rows [first, first + count): the points that pass, and NaN, which meets nothing, for the others
extern "C" __global__ void mask_points(const vibe::Vec2 *points, vibe::u32 first, vibe::u32 count,
                                       vibe::PinnedFilter filter, vibe::Vec2 *to) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		const vibe::u64 row = (vibe::u64)first + i;
		const double nothing = vibe::NoCoordinate();
		to[i] = vibe::PassesFilter(filter, row) ? points[row] : vibe::Vec2 {nothing, nothing};
	}
}

//! Rows [first, first + count): the shapes that pass, and empty ones, which meet nothing, for the others
extern "C" __global__ void mask_shapes(const vibe::ShapeView *shapes, vibe::u32 first, vibe::u32 count,
                                       vibe::PinnedFilter filter, vibe::ShapeView *to) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::u64 row = (vibe::u64)first + i;
	if (vibe::PassesFilter(filter, row)) {
		to[i] = shapes[row];
		return;
	}
	to[i] = vibe::ShapeView {};
	to[i].box = vibe::Box::Empty();
	to[i].dimension = -1;
}
