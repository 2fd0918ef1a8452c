//===----------------------------------------------------------------------===//
// vibe/nearest.h
//
// Promise: exact. The k rows that come first by (distance, row), whatever the order in which they are looked at: a box is
// passed over only where every distance into it is larger, by the formulas of distance.h, than the last of k.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/box_node.h"
#include "vibe/distance.h"
#include "vibe/pairs.h"
#include "vibe/pinned.h"

namespace vibe {

//! Boxes whose SquareTo() is above this hold nothing that is at most so far away. The margins are above the error of the
//! distance and that of the floats.
VIBE_HD float ReachOf(double distance) {
	double square = distance * distance * (1.0 + 2e-6);
	// Below, floats lose digits
	return square < 1e38 ? RoundUp(Max(square, 1e-36)) : (float)Infinity();
}

//! The same for squares of doubles between points
VIBE_HD double PointReachOf(double distance) {
	double square = distance * distance * (1.0 + 1e-11);
	return square < SquareMetric::MAX ? Max(square, SquareMetric::MIN) : Infinity();
}

//! PointDistance, where points that are too far apart for a double are infinitely far
VIBE_HD double NearDistance(const Vec2 &p, const Vec2 &q) {
	double distance = PointDistance(p, q);
	return distance == distance ? distance : Infinity();
}

//! Does the first come before the second?
VIBE_HD bool IsNearer(double distance, u32 row, double other_distance, u32 other_row) {
	return distance < other_distance || (distance == other_distance && row < other_row);
}

//! Which of two rows at the same distance comes first
struct RowOrder {
	//! Of pinned rows: the column with their places in the table, by segment. Null: the numbers of the rows tell.
	const i32 *const *segments;
	//! The lowest bits of a number are the row in its segment
	u32 row_bits;

	VIBE_HD bool IsBefore(u32 a, u32 b) const {
		return segments ? PlaceOf(a) < PlaceOf(b) : a < b;
	}

private:
	VIBE_HD i32 PlaceOf(u32 row) const {
		return segments[row >> row_bits][row & ((1u << row_bits) - 1)];
	}
};

//! The first k so far, in memory of the caller: number i is at [i * stride]. Up to MAX_ORDERED of them are in order; more are a heap
//! with the last of them at the top, until Sort().
struct NearestList {
	static constexpr u32 MAX_ORDERED = 32;

	double *distances;
	u32 *rows;
	u64 stride;
	u32 k;
	//! Farther ones are not taken
	double most;
	u32 count;
	RowOrder order {nullptr, 0};

	//! What is farther is not taken any more
	VIBE_HD double Reach() const {
		return count < k ? most : distances[LastPlace() * stride];
	}
	//! Returns whether it was taken
	VIBE_HD bool Offer(double distance, u32 row) {
		const u64 last = LastPlace() * stride;
		if (distance > most || (count == k && !IsFirst(distance, row, distances[last], rows[last]))) {
			return false;
		}
		if (k > MAX_ORDERED) {
			if (count < k) {
				SiftUp(distance, row);
			} else {
				SiftDown(k, distance, row);
			}
			return true;
		}
		u32 at = count < k ? count++ : k - 1;
		for (; at > 0 && IsFirst(distance, row, distances[(at - 1) * stride], rows[(at - 1) * stride]); at--) {
			Move(at - 1, at);
		}
		Put(at, distance, row);
		return true;
	}
	VIBE_HD bool Has(u32 row) const {
		for (u32 i = 0; i < count; i++) {
			if (rows[i * stride] == row) {
				return true;
			}
		}
		return false;
	}
	//! Brings them in order; nothing may be offered after that
	VIBE_HD void Sort() {
		for (u32 last = k > MAX_ORDERED ? count : 0; last > 1; last--) {
			const u64 at = (last - 1) * stride;
			const double distance = distances[at];
			const u32 row = rows[at];
			Move(0, last - 1);
			SiftDown(last - 1, distance, row);
		}
	}

private:
	//! Does the first come before the second?
	VIBE_HD bool IsFirst(double distance, u32 row, double other_distance, u32 other_row) const {
		return distance < other_distance || (distance == other_distance && order.IsBefore(row, other_row));
	}
	VIBE_HD u64 LastPlace() const {
		return k > MAX_ORDERED ? 0 : k - 1;
	}
	VIBE_HD void Put(u32 at, double distance, u32 row) {
		distances[at * stride] = distance;
		rows[at * stride] = row;
	}
	VIBE_HD void Move(u32 from, u32 to) {
		Put(to, distances[from * stride], rows[from * stride]);
	}
	//! One more
	VIBE_HD void SiftUp(double distance, u32 row) {
		u32 at = count++;
		while (at > 0) {
			const u32 above = (at - 1) / 2;
			if (!IsFirst(distances[above * stride], rows[above * stride], distance, row)) {
				break;
			}
			Move(above, at);
			at = above;
		}
		Put(at, distance, row);
	}
	//! In place of the top, among the first `size`
	VIBE_HD void SiftDown(u32 size, double distance, u32 row) {
		u32 at = 0;
		while (2 * at + 1 < size) {
			u32 below = 2 * at + 1;
			if (below + 1 < size && IsFirst(distances[below * stride], rows[below * stride],
			                                distances[(below + 1) * stride], rows[(below + 1) * stride])) {
				below++;
			}
			if (!IsFirst(distance, row, distances[below * stride], rows[below * stride])) {
				break;
			}
			Move(below, at);
			at = below;
		}
		Put(at, distance, row);
	}
};

//! Points in the order of a packed tree: of each lowest node the sixteen X, then the sixteen Y
constexpr u32 LEAF_DOUBLES = 2 * NODE_FANOUT;

//! A bit for each child that a node has, the items of the lowest ones included. Boxes of children that are not there are NaN, but
//! compilers for GPUs make maxima of comparisons, which NaN does not survive.
VIBE_HD u32 ChildrenOf(const NodeLevels &levels, u32 items, u32 level, u32 node) {
	const u32 below = level == 0 ? items : levels.begin[level] - levels.begin[level - 1], begin = node * NODE_FANOUT;
	return below - begin >= NODE_FANOUT ? 0xffff : (1u << (below - begin)) - 1;
}

//! Depth first, the nearest child first, over a packed tree: what is within `reach`, a bound as ReachOf() says, is given to the search. A lowest node is given as a whole, or item by item where `BY_ITEM`; visit(number, reach) lowers the reach.
template <bool BY_ITEM, class VISIT>
VIBE_HD void VisitNearest(const float *nodes, const NodeLevels &levels, u32 items, const NodeBox &query, float reach,
                          VISIT &visit) {
	if (levels.count == 0) {
		return;
	}
	// The node of each level on the way down, and its children still to visit
	u32 at[NodeLevels::MAX_LEVELS];
	u32 left[NodeLevels::MAX_LEVELS];
	u32 level = levels.count - 1;
	at[level] = 0;
	left[level] = ChildrenOf(levels, items, level, 0);
	while (true) {
		if (!BY_ITEM && level == 0) {
			visit(at[0], reach);
			left[0] = 0;
		}
		// The nearest child of the lowest node that has any left
		u32 nearest = NODE_FANOUT;
		while (level < levels.count) {
			const float *node = nodes + (levels.begin[level] + (u64)at[level]) * NODE_FLOATS;
			float least = reach;
			u32 keep = 0;
			for (u32 k = 0; k < NODE_FANOUT; k++) {
				const float square = query.SquareTo(node, k);
				if ((left[level] >> k & 1) == 0 || !(square <= reach)) {
					continue;
				}
				keep |= 1u << k;
				if (nearest == NODE_FANOUT || square < least) {
					nearest = k;
					least = square;
				}
			}
			left[level] = keep;
			if (nearest != NODE_FANOUT) {
				break;
			}
			level++;
		}
		if (level == levels.count) {
			return;
		}
		left[level] &= ~(1u << nearest);
		const u32 child = at[level] * NODE_FANOUT + nearest;
		if (BY_ITEM && level == 0) {
			visit(child, reach);
			continue;
		}
		level--;
		at[level] = child;
		left[level] = ChildrenOf(levels, items, level, child);
	}
}

//! A point among the points of a lowest node
struct LeafSearch {
	const double *leaves;
	const u32 *ids;
	u32 items;
	Vec2 p;
	NearestList &list;

	VIBE_HD void operator()(u32 node, float &reach) {
		const double *leaf = leaves + (u64)node * LEAF_DOUBLES;
		const u32 begin = node * NODE_FANOUT;
		const u32 count = items - begin < NODE_FANOUT ? items - begin : NODE_FANOUT;
		const double point_reach = PointReachOf(list.Reach());
		bool taken = false;
		for (u32 k = 0; k < count; k++) {
			const Vec2 q {leaf[k], leaf[NODE_FANOUT + k]};
			if (SquareMetric::Length(p.x - q.x, p.y - q.y) > point_reach) {
				continue;
			}
			taken = list.Offer(NearDistance(p, q), ids[begin + k]) || taken;
		}
		if (taken) {
			reach = ReachOf(list.Reach());
		}
	}
};

//! Fills the list from a packed tree of points; ids: their rows, in the order of the tree
VIBE_HD void FindNearestPoints(const float *nodes, const NodeLevels &levels, const double *leaves, const u32 *ids,
                               u32 items, const Vec2 &p, NearestList &list) {
	LeafSearch search {leaves, ids, items, p, list};
	VisitNearest<false>(nodes, levels, items, NodeBox::Of(Box {p.x, p.y, p.x, p.y}), ReachOf(list.Reach()), search);
	list.Sort();
}

//! In place of the number of neighbours: the CPU has to search
constexpr u32 NEAREST_OPEN = 0xffffffffu;

//! What is searched among: a tree of rows or of their parts, and the geometries of the rows
struct NearestItems {
	TreeView tree;
	//! In the order of the tree, where all rows are points
	const double *leaves;
	//! By row, where they are not
	const ShapeView *shapes;
};

//! How far a point is, where it is at most `bound`
struct PointQuery {
	Vec2 p;

	//! `reach`: PointReachOf() the bound
	VIBE_HD bool IsBeyond(const Vec2 &q, double reach) const {
		return SquareMetric::Length(p.x - q.x, p.y - q.y) > reach;
	}
	VIBE_HD double DistanceTo(const Vec2 &q, double) const {
		return PointDistance(p, q);
	}
	VIBE_HD double DistanceTo(const ShapeView &shape, double bound) const {
		return PointShapeDistanceWithin(p, shape, bound);
	}
};

//! The same of a shape that is known and not EMPTY
struct ShapeQuery {
	const ShapeView &view;

	VIBE_HD bool IsBeyond(const Vec2 &, double) const {
		return false;
	}
	VIBE_HD double DistanceTo(const Vec2 &q, double bound) const {
		return PointShapeDistanceWithin(q, view, bound);
	}
	VIBE_HD double DistanceTo(const ShapeView &shape, double bound) const {
		return ShapeDistanceWithin(view, shape, bound);
	}
};

//! Measures one item after the other
template <class QUERY>
struct ItemSearch {
	const NearestItems &items;
	const QUERY &query;
	NearestList &list;
	//! A row within reach is unknown: the CPU has to search
	bool open;

	VIBE_HD void operator()(u32 item, float &reach) {
		u32 row = (u32)items.tree.ids[item];
		if (row >= items.tree.rows) {
			row = items.tree.part_row[row - items.tree.rows];
			// The distance is that of the whole row. What was not taken before is not taken now.
			if (list.Has(row)) {
				return;
			}
		}
		double distance;
		if (items.leaves) {
			const double *leaf = items.leaves + (u64)(item / NODE_FANOUT) * LEAF_DOUBLES + item % NODE_FANOUT;
			distance = query.DistanceTo(Vec2 {leaf[0], leaf[NODE_FANOUT]}, list.Reach());
		} else {
			const ShapeView &shape = items.shapes[row];
			if (shape.dimension == DIMENSION_UNKNOWN) {
				open = true;
				return;
			}
			distance = query.DistanceTo(shape, list.Reach());
		}
		// NaN: the distance overflows
		if (list.Offer(distance == distance ? distance : Infinity(), row)) {
			reach = ReachOf(list.Reach());
		}
	}
};

//! Fills the list with rows of any kind; how many there are, or NEAREST_OPEN
template <class QUERY>
VIBE_HD u32 FindNearestItems(const NearestItems &items, const NodeLevels &levels, const Box &box, const QUERY &query,
                             NearestList &list) {
	ItemSearch<QUERY> search {items, query, list, false};
	VisitNearest<true>(items.tree.nodes, levels, items.tree.items, NodeBox::Of(box), ReachOf(list.Reach()), search);
	list.Sort();
	return search.open ? NEAREST_OPEN : list.count;
}

//! A segment of pinned points along a curve, of which those without a point come last: a packed tree whose items are sixteen points each
struct PinnedPoints {
	const float *nodes;
	const Vec2 *points;
	u32 count;
	//! Of its first row among those of all segments
	u32 first;
	PinnedFilter filter;
};

//! What was found so far, and where
struct PinnedSearch {
	RowOrder order;
	u32 count;
	u32 k;
	double most;
	u32 *found;
	u32 *rows;
	double *distances;
};

template <class QUERY>
struct PinnedLeafSearch {
	const PinnedPoints &segment;
	const QUERY &query;
	NearestList &list;

	VIBE_HD void operator()(u32 leaf, float &reach) {
		const u32 begin = leaf * NODE_FANOUT;
		const u32 end = segment.count - begin < NODE_FANOUT ? segment.count : begin + NODE_FANOUT;
		const double point_reach = PointReachOf(list.Reach());
		bool taken = false;
		for (u32 row = begin; row < end; row++) {
			const Vec2 q = segment.points[row];
			if (query.IsBeyond(q, point_reach) || !PassesFilter(segment.filter, row)) {
				continue;
			}
			const double distance = query.DistanceTo(q, list.Reach());
			// NaN: the distance overflows
			taken = list.Offer(distance == distance ? distance : Infinity(), segment.first + row) || taken;
		}
		if (taken) {
			reach = ReachOf(list.Reach());
		}
	}
};

//! Adds what a segment has to a list, which is brought in order after the last one
template <class QUERY>
VIBE_HD void FindNearestPinned(const PinnedPoints &segment, const NodeLevels &levels, const Box &box,
                               const QUERY &query, NearestList &list) {
	PinnedLeafSearch<QUERY> search {segment, query, list};
	const u32 leaves = (segment.count + NODE_FANOUT - 1) / NODE_FANOUT;
	VisitNearest<true>(segment.nodes, levels, leaves, NodeBox::Of(box), ReachOf(list.Reach()), search);
}

} // namespace vibe
