//===----------------------------------------------------------------------===//
// vibe/nearest.h
//
// Promise: exact. The k items that come first by (distance, row), whatever the order in which they are looked at: a box is
// passed over only where every distance into it is larger, by the formulas of distance.h, than the last of k.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/box_node.h"
#include "vibe/distance.h"

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

//! The first k so far, in order, in memory of the caller: number i is at [i * stride]
struct NearestList {
	double *distances;
	u32 *rows;
	u64 stride;
	u32 k;
	//! Farther ones are not taken
	double most;
	u32 count;

	//! What is farther is not taken any more
	VIBE_HD double Reach() const {
		return count < k ? most : distances[(k - 1) * stride];
	}
	//! Returns whether it was taken
	VIBE_HD bool Offer(double distance, u32 row) {
		if (distance > most ||
		    (count == k && !IsNearer(distance, row, distances[(k - 1) * stride], rows[(k - 1) * stride]))) {
			return false;
		}
		u32 at = count < k ? count++ : k - 1;
		for (; at > 0 && IsNearer(distance, row, distances[(at - 1) * stride], rows[(at - 1) * stride]); at--) {
			distances[at * stride] = distances[(at - 1) * stride];
			rows[at * stride] = rows[(at - 1) * stride];
		}
		distances[at * stride] = distance;
		rows[at * stride] = row;
		return true;
	}
};

//! Points in the order of a packed tree: of each lowest node the sixteen X, then the sixteen Y
constexpr u32 LEAF_DOUBLES = 2 * NODE_FANOUT;

//! A bit for each child that a node above the lowest has. Boxes of children that are not there are NaN, but compilers for
//! GPUs make maxima of comparisons, which NaN does not survive.
VIBE_HD u32 ChildrenOf(const NodeLevels &levels, u32 level, u32 node) {
	if (level == 0) {
		return 0;
	}
	const u32 below = levels.begin[level] - levels.begin[level - 1], begin = node * NODE_FANOUT;
	return below - begin >= NODE_FANOUT ? 0xffff : (1u << (below - begin)) - 1;
}

//! Fills the list from a packed tree of points; ids: their rows, in the order of the tree
VIBE_HD void FindNearestPoints(const float *nodes, const NodeLevels &levels, const double *leaves, const u32 *ids,
                               u32 items, const Vec2 &p, NearestList &list) {
	if (levels.count == 0) {
		return;
	}
	const NodeBox query = NodeBox::Of(Box {p.x, p.y, p.x, p.y});
	float reach = ReachOf(list.Reach());
	// Depth first, the nearest child first: the node of each level on the way down, and its children still to visit
	u32 at[NodeLevels::MAX_LEVELS];
	u32 left[NodeLevels::MAX_LEVELS];
	u32 level = levels.count - 1;
	at[level] = 0;
	left[level] = ChildrenOf(levels, level, 0);
	while (true) {
		if (level == 0) {
			const double *leaf = leaves + (u64)at[0] * LEAF_DOUBLES;
			const u32 begin = at[0] * NODE_FANOUT;
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
		level--;
		at[level] = child;
		left[level] = ChildrenOf(levels, level, child);
	}
}

} // namespace vibe
