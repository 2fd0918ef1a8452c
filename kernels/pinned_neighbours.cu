//===----------------------------------------------------------------------===//
// pinned_neighbours
//
// Promise: exact, the CPU's rows and bits (vibe/nearest.h). The nearest among points that stay on the device, segment after segment: one
// thread a row that is searched for. Number n of row i is at [n * count + i]; `found` says how many there are, or that the CPU has to search.
// The levels are an argument, as those of knn_points are.
//===----------------------------------------------------------------------===//
#include "vibe/nearest.h"
#include "vibe/thread.h"

//! The lowest nodes of the tree over a segment: child i holds points [16 i, 16 i + 16)
extern "C" __global__ void pinned_leaves(const vibe::Vec2 *points, vibe::u32 count, vibe::u32 node_count,
                                         float *nodes) {
	const vibe::u64 i = vibe::ThreadIndex();
	const vibe::u64 node = i / vibe::NODE_FANOUT;
	if (node >= node_count) {
		return;
	}
	vibe::Box box = vibe::Box::Empty();
	for (vibe::u64 row = i * vibe::NODE_FANOUT; row < (i + 1) * vibe::NODE_FANOUT && row < count; row++) {
		box.Add(points[row].x, points[row].y);
	}
	const auto child = i * vibe::NODE_FANOUT < count ? vibe::NodeBox::Of(box) : vibe::NodeBox::Nothing();
	child.Store(nodes + node * vibe::NODE_FLOATS, (vibe::u32)(i % vibe::NODE_FANOUT));
}

template <class QUERY>
VIBE_HD void SearchSegment(const vibe::PinnedPoints &segment, const vibe::NodeLevels &levels,
                           const vibe::PinnedSearch &search, vibe::u64 i, bool is_last, const vibe::Box &box,
                           const QUERY &query) {
	vibe::NearestList list {search.distances + i, search.rows + i, search.count, search.k,
	                        search.most,          search.found[i], search.order};
	vibe::FindNearestPinned(segment, levels, box, query, list);
	if (is_last) {
		list.Sort();
	}
	search.found[i] = list.count;
}

//! Of points; `found` is 0 at first
extern "C" __global__ void pinned_of_points(vibe::PinnedPoints segment, vibe::NodeLevels levels,
                                            vibe::PinnedSearch search, vibe::u32 is_last, const vibe::Vec2 *queries) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < search.count) {
		const vibe::PointQuery query {queries[i]};
		const vibe::Box box {query.p.x, query.p.y, query.p.x, query.p.y};
		SearchSegment(segment, levels, search, i, is_last != 0, box, query);
	}
}

//! Of shapes. The CPU searches for those that are unknown or EMPTY.
extern "C" __global__ void pinned_of_shapes(vibe::PinnedPoints segment, vibe::NodeLevels levels,
                                            vibe::PinnedSearch search, vibe::u32 is_last,
                                            const vibe::ShapeView *queries) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= search.count) {
		return;
	}
	const vibe::ShapeQuery query {queries[i]};
	if (query.view.dimension < 0 || query.view.dimension == vibe::DIMENSION_UNKNOWN) {
		search.found[i] = vibe::NEAREST_OPEN;
		return;
	}
	SearchSegment(segment, levels, search, i, is_last != 0, query.view.box, query);
}

//! Values of the rows that were found, each of so many bytes: 1, 2, 4, 8, or 16 of a point
extern "C" __global__ void pinned_values(vibe::PinnedSearch search, const vibe::u8 *const *segments, vibe::u32 width,
                                         vibe::u8 *to) {
	const vibe::u64 at = vibe::ThreadIndex();
	const vibe::u32 found = at < (vibe::u64)search.count * search.k ? search.found[at % search.count] : 0;
	if (found == vibe::NEAREST_OPEN || at / search.count >= found) {
		return;
	}
	const vibe::u32 number = search.rows[at];
	const vibe::u8 *from = segments[number >> search.order.row_bits];
	const vibe::u64 row = number & ((1u << search.order.row_bits) - 1);
	if (!from) {
		to[at] = 0; // a segment in which no row is NULL
		return;
	}
	switch (width) {
	case 1:
		to[at] = from[row];
		break;
	case 2:
		reinterpret_cast<short *>(to)[at] = reinterpret_cast<const short *>(from)[row];
		break;
	case 4:
		reinterpret_cast<vibe::i32 *>(to)[at] = reinterpret_cast<const vibe::i32 *>(from)[row];
		break;
	case 8:
		reinterpret_cast<vibe::i64 *>(to)[at] = reinterpret_cast<const vibe::i64 *>(from)[row];
		break;
	default:
		reinterpret_cast<vibe::Vec2 *>(to)[at] = reinterpret_cast<const vibe::Vec2 *>(from)[row];
		break;
	}
}
