//===----------------------------------------------------------------------===//
// shape_neighbours
//
// Promise: exact, the CPU's rows and bits (vibe/nearest.h). The nearest of geometries of any kind: one thread a row that is
// searched for. Number n of row i is at [n * count + i]; `found` says how many there are, or that the CPU has to search.
// The levels are an argument, as those of knn_points are.
//===----------------------------------------------------------------------===//
#include "vibe/nearest.h"
#include "vibe/thread.h"

//! Of points
extern "C" __global__ void knn_of_points(vibe::NearestItems items, vibe::NodeLevels levels, const vibe::Vec2 *queries,
                                         vibe::u32 count, vibe::u32 k, double most, vibe::u32 *found, vibe::u32 *rows,
                                         double *distances) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		vibe::NearestList list {distances + i, rows + i, count, k, most, 0};
		const vibe::PointQuery query {queries[i]};
		const vibe::Box box {query.p.x, query.p.y, query.p.x, query.p.y};
		found[i] = vibe::FindNearestItems(items, levels, box, query, list);
	}
}

//! Of shapes. The CPU searches for those that are unknown or EMPTY.
extern "C" __global__ void knn_of_shapes(vibe::NearestItems items, vibe::NodeLevels levels,
                                         const vibe::ShapeView *queries, vibe::u32 count, vibe::u32 k, double most,
                                         vibe::u32 *found, vibe::u32 *rows, double *distances) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	const vibe::ShapeQuery query {queries[i]};
	if (query.view.dimension < 0 || query.view.dimension == vibe::DIMENSION_UNKNOWN) {
		found[i] = vibe::NEAREST_OPEN;
		return;
	}
	vibe::NearestList list {distances + i, rows + i, count, k, most, 0};
	found[i] = vibe::FindNearestItems(items, levels, query.view.box, query, list);
}
