//===----------------------------------------------------------------------===//
// spatial_query
//
// Promise: no pair whose boxes meet is missed, and none comes twice. Candidates of a join from a packed tree of boxes
// (vibe/box_node.h), and what becomes of them when they have been refined. One thread a query, or a pair; pairs come in no
// order.
//===----------------------------------------------------------------------===//
#include "vibe/box_node.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

struct VisitCandidates {
	//! Most queries have few: these are kept from the first visit
	static constexpr vibe::u32 KEPT = 4;

	const vibe::TreeView &tree;
	const vibe::Box &query;
	// null: only count
	const vibe::PairList *pairs;
	vibe::u32 query_id;
	vibe::u64 at;
	vibe::u32 found;
	vibe::u32 kept[KEPT];

	VIBE_HD bool operator()(vibe::u32 item) {
		const vibe::u32 id = (vibe::u32)tree.ids[item];
		if (!tree.boxes[id].Intersects(query)) {
			return false;
		}
		vibe::u32 row = id;
		if (id >= tree.rows) {
			// A row is found by the first of its parts that meets the query
			const vibe::u32 part = id - tree.rows;
			row = tree.part_row[part];
			for (vibe::u32 before = part; before-- > 0 && tree.part_row[before] == row;) {
				if (tree.boxes[tree.rows + before].Intersects(query)) {
					return false;
				}
			}
		}
		if (pairs) {
			pairs->Write(at + found, query_id, row);
		} else if (found < KEPT) {
			kept[found] = row;
		}
		found++;
		return false;
	}
};

//! The rows of the tree that each row of `queries` may meet; limits.left: what the queries bring to a distance. Rows that
//! bring a negative limit meet nothing where `skip_negative` says so.
extern "C" __global__ void tree_pairs(vibe::TreeView tree, vibe::SideView queries, vibe::u32 count,
                                      vibe::LimitView limits, vibe::u32 skip_negative, vibe::PairList pairs) {
	const vibe::u32 i = (vibe::u32)vibe::ThreadIndex();
	vibe::Box query = i < count ? queries.BoxOf(i) : vibe::Box::Empty();
	if (!query.IsEmpty()) {
		const double limit = limits.OfLeft(i);
		if (limit > 0) {
			query = vibe::Grow(query, limit);
		} else if (!(limit >= 0) && skip_negative != 0) {
			query = vibe::Box::Empty();
		}
	}
	const auto levels = vibe::NodeLevels::Of(tree.items);
	VisitCandidates visit {tree, query, nullptr, i, 0, 0, {}};
	if (!query.IsEmpty()) {
		vibe::VisitNodes(tree.nodes, levels, vibe::NodeBox::Of(query), visit);
	}
	const vibe::u32 found = visit.found;
	visit.at = vibe::Reserve(pairs.total, found);
	if (found <= VisitCandidates::KEPT) {
		for (vibe::u32 k = 0; k < found; k++) {
			pairs.Write(visit.at + k, i, visit.kept[k]);
		}
		return;
	}
	visit.found = 0;
	visit.pairs = &pairs;
	vibe::VisitNodes(tree.nodes, levels, vibe::NodeBox::Of(query), visit);
}

//! What boxes alone decide: the boxes of the two rows meet
extern "C" __global__ void box_pairs(vibe::SideView left, vibe::SideView right, vibe::PairList pairs) {
	const vibe::u64 count = pairs.Count();
	for (vibe::u64 i = vibe::ThreadIndex(); i < count; i += vibe::ThreadCount()) {
		if (left.BoxOf(pairs.left[i]).Intersects(right.BoxOf(pairs.right[i]))) {
			pairs.Merge(i, vibe::PAIR_TRUE);
		}
	}
}

//! Refined pairs: those that are true as `output` (vibe::PairOutput) says, those that stay open as pairs in any case
extern "C" __global__ void keep_pairs(vibe::PairList pairs, vibe::u32 output, vibe::PairList kept, vibe::u32 *counts,
                                      vibe::u8 *found, vibe::PairList open) {
	const vibe::u64 count = pairs.Count(), lane = threadIdx.x % vibe::WARP;
	for (vibe::u64 base = vibe::ThreadIndex() - lane; base < count; base += vibe::ThreadCount()) {
		const vibe::u64 i = base + lane;
		const vibe::u32 result = i < count ? pairs.results[i] : (vibe::u32)vibe::PAIR_FALSE;
		const bool is_true = result == vibe::PAIR_TRUE, is_open = result == vibe::PAIR_OPEN;
		const vibe::u32 left = i < count ? pairs.left[i] : 0, right = i < count ? pairs.right[i] : 0;
		const vibe::u64 open_at = vibe::Reserve(open.total, is_open ? 1 : 0);
		if (is_open) {
			open.Write(open_at, left, right);
		}
		if (output == vibe::OUTPUT_PAIRS) {
			const vibe::u64 kept_at = vibe::Reserve(kept.total, is_true ? 1 : 0);
			if (is_true) {
				kept.Write(kept_at, left, right);
			}
		} else if (is_true && output == vibe::OUTPUT_COUNTS) {
			vibe::CountOne(counts, right);
		} else if (is_true) {
			found[left] = 1;
		}
	}
}
