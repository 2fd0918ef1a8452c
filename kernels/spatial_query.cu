//===----------------------------------------------------------------------===//
// spatial_query
//
// Promise: no pair whose boxes meet is missed, and none comes twice. Candidates of a join from a packed tree of boxes
// (vibe/box_node.h), and what becomes of them when they have been refined. One thread a query, or many where it meets much;
// one thread a pair. Pairs come in no order.
//===----------------------------------------------------------------------===//
#include "vibe/box_node.h"
#include "vibe/pairs.h"
#include "vibe/thread.h"

//! Is an item of the tree a candidate of the query? `row` is its row. A row is found by the first of its parts that meets the query.
VIBE_HD bool IsCandidate(const vibe::TreeView &tree, const vibe::Box &query, vibe::u32 item, vibe::u32 &row) {
	const vibe::u32 id = (vibe::u32)tree.ids[item];
	row = id;
	if (!tree.boxes[id].Intersects(query)) {
		return false;
	}
	if (id >= tree.rows) {
		const vibe::u32 part = id - tree.rows;
		row = tree.part_row[part];
		for (vibe::u32 before = part; before-- > 0 && tree.part_row[before] == row;) {
			if (tree.boxes[tree.rows + before].Intersects(query)) {
				return false;
			}
		}
	}
	return true;
}

struct VisitCandidates {
	//! Most queries have few: these are kept from the first visit
	static constexpr vibe::u32 KEPT = 4;

	const vibe::TreeView &tree;
	const vibe::Box &query;
	//! Items that are looked at, at most
	vibe::u32 max_visits;
	// null: only count
	const vibe::PairList *pairs;
	vibe::u32 query_id;
	vibe::u64 at;
	vibe::u32 found;
	vibe::u32 visits;
	vibe::u32 kept[KEPT];

	VIBE_HD bool operator()(vibe::u32 item) {
		if (visits++ == max_visits) {
			return true;
		}
		vibe::u32 row;
		if (!IsCandidate(tree, query, item, row)) {
			return false;
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

//! What a row of the queries looks for; limits.left: what the queries bring to a distance. Rows that bring a negative limit look for
//! nothing where `skip_negative` says so.
VIBE_HD vibe::Box QueryBox(const vibe::SideView &queries, vibe::u32 row, const vibe::LimitView &limits,
                           vibe::u32 skip_negative) {
	const vibe::Box box = queries.BoxOf(row);
	if (!box.IsEmpty()) {
		const double limit = limits.OfLeft(row);
		if (limit > 0) {
			return vibe::Grow(box, limit);
		}
		if (!(limit >= 0) && skip_negative != 0) {
			return vibe::Box::Empty();
		}
	}
	return box;
}

//! The rows of the tree that each row of `queries` may meet. Queries that meet more items than one thread should look at become rows of
//! `wide`; without it there are none.
extern "C" __global__ void tree_pairs(vibe::TreeView tree, vibe::SideView queries, vibe::u32 count,
                                      vibe::LimitView limits, vibe::u32 skip_negative, vibe::WideRows wide,
                                      vibe::PairList pairs) {
	const vibe::u32 i = (vibe::u32)vibe::ThreadIndex();
	const vibe::Box query = i < count ? QueryBox(queries, i, limits, skip_negative) : vibe::Box::Empty();
	const auto levels = vibe::NodeLevels::Of(tree.items);
	const vibe::u32 max_visits = wide.rows ? wide.max_visits : ~0u;
	VisitCandidates visit {tree, query, max_visits, nullptr, i, 0, 0, 0, {}};
	if (!query.IsEmpty()) {
		vibe::VisitNodes(tree.nodes, levels, vibe::NodeBox::Of(query), visit);
	}
	const bool is_wide = visit.visits > max_visits;
	if (wide.rows) {
		const vibe::u64 wide_at = vibe::Reserve(wide.count, is_wide ? 1 : 0);
		if (is_wide) {
			wide.rows[wide_at] = i;
		}
	}
	const vibe::u32 found = is_wide ? 0 : visit.found;
	visit.at = vibe::Reserve(pairs.total, found);
	if (found <= VisitCandidates::KEPT) {
		for (vibe::u32 k = 0; k < found; k++) {
			pairs.Write(visit.at + k, i, visit.kept[k]);
		}
		return;
	}
	visit.found = 0;
	visit.visits = 0;
	visit.pairs = &pairs;
	vibe::VisitNodes(tree.nodes, levels, vibe::NodeBox::Of(query), visit);
}

//! The same for the rows of `wide`, which tree_pairs has left out. A warp takes a query and a part of the tree, each of its threads
//! a few of the lowest nodes there.
extern "C" __global__ void wide_pairs(vibe::TreeView tree, vibe::SideView queries, vibe::LimitView limits,
                                      vibe::u32 skip_negative, vibe::WideRows wide, vibe::PairList pairs) {
	constexpr vibe::u32 FANOUT = vibe::NODE_FANOUT;
	//! A part is what lies below one node of the third level from below
	constexpr vibe::u32 PART_LEAVES = FANOUT * FANOUT;
	const auto levels = vibe::NodeLevels::Of(tree.items);
	const vibe::u32 leaves = levels.count > 0 ? levels.begin[1] : 0;
	const vibe::u64 parts = (leaves + PART_LEAVES - 1) / PART_LEAVES, units = *wide.count * parts;
	const vibe::u32 lane = threadIdx.x % vibe::WARP;
	auto meets = [&](const vibe::NodeBox &query, vibe::u32 level, vibe::u32 node) {
		return level >= levels.count ||
		       query.Meets(tree.nodes + (vibe::u64)(levels.begin[level] + node / FANOUT) * vibe::NODE_FLOATS,
		                   node % FANOUT);
	};
	for (vibe::u64 unit = vibe::ThreadIndex() / vibe::WARP; unit < units; unit += vibe::ThreadCount() / vibe::WARP) {
		const vibe::u32 row = wide.rows[unit / parts], part = (vibe::u32)(unit % parts);
		const vibe::Box query = QueryBox(queries, row, limits, skip_negative);
		const auto box = vibe::NodeBox::Of(query);
		if (!meets(box, 3, part)) {
			continue;
		}
		for (vibe::u32 first = part * PART_LEAVES; first < leaves && first < (part + 1) * PART_LEAVES;
		     first += vibe::WARP) {
			const vibe::u32 leaf = first + lane;
			vibe::u32 found = 0, rows[FANOUT];
			if (leaf < leaves && meets(box, 1, leaf)) {
				for (vibe::u32 k = 0; k < FANOUT; k++) {
					if (meets(box, 0, leaf * FANOUT + k) && IsCandidate(tree, query, leaf * FANOUT + k, rows[found])) {
						found++;
					}
				}
			}
			const vibe::u64 at = vibe::Reserve(pairs.total, found);
			for (vibe::u32 k = 0; k < found; k++) {
				pairs.Write(at + k, row, rows[k]);
			}
		}
	}
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
