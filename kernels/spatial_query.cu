//===----------------------------------------------------------------------===//
// spatial_query
//
// Promise: no item whose box meets the query's is missed; without the items' own boxes a few that only nearly meet it
// may be reported. Candidates from a packed tree of boxes (vibe/box_node.h), in two passes: count, then write. One thread
// a query; a query's items come in the order of the tree.
//===----------------------------------------------------------------------===//
#include "vibe/box_node.h"
#include "vibe/thread.h"

struct VisitCandidates {
	const vibe::i32 *ids;
	const vibe::Box *boxes; // null: what the tree says is enough
	vibe::Box query;
	vibe::i32 query_id;
	// null: only count
	vibe::i32 *query_ids;
	vibe::i32 *item_ids;
	vibe::i64 found;

	VIBE_HD bool operator()(vibe::u32 item) {
		const vibe::i32 id = ids[item];
		if (boxes && !boxes[id].Intersects(query)) {
			return false;
		}
		if (item_ids) {
			query_ids[found] = query_id;
			item_ids[found] = id;
		}
		found++;
		return false;
	}
};

//! The candidates of each query; `items` are the items of the tree, `boxes` their boxes by id, or null
extern "C" __global__ void tree_count(const float *nodes, const vibe::i32 *ids, vibe::u32 items, const vibe::Box *boxes,
                                      const vibe::Box *queries, vibe::u32 count, vibe::i64 *counts) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count) {
		return;
	}
	VisitCandidates visit {ids, boxes, queries[i], 0, nullptr, nullptr, 0};
	if (!queries[i].IsEmpty()) {
		vibe::VisitNodes(nodes, vibe::NodeLevels::Of(items), vibe::NodeBox::Of(queries[i]), visit);
	}
	counts[i] = visit.found;
}

//! The pairs of each query at position[i] on: position is the exclusive scan of tree_count's counts
extern "C" __global__ void tree_write(const float *nodes, const vibe::i32 *ids, vibe::u32 items, const vibe::Box *boxes,
                                      const vibe::Box *queries, vibe::u32 count, const vibe::i64 *position,
                                      vibe::i32 *query_ids, vibe::i32 *item_ids) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i >= count || queries[i].IsEmpty()) {
		return;
	}
	VisitCandidates visit {ids, boxes, queries[i], (vibe::i32)i, query_ids + position[i], item_ids + position[i], 0};
	vibe::VisitNodes(nodes, vibe::NodeLevels::Of(items), vibe::NodeBox::Of(queries[i]), visit);
}

//! Everything within a distance of the boxes; EMPTY boxes stay so
extern "C" __global__ void grow_boxes(const vibe::Box *boxes, vibe::u32 count, double distance, vibe::Box *grown) {
	const vibe::u64 i = vibe::ThreadIndex();
	if (i < count) {
		grown[i] = boxes[i].IsEmpty() ? boxes[i] : vibe::Grow(boxes[i], distance);
	}
}
