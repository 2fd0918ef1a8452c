//===----------------------------------------------------------------------===//
// vibe/box_node.h
//
// Promise: the box of a node holds the boxes below it, and the same floats on both engines. A node of a packed tree of
// boxes has sixteen children and is 64 floats: min_x of all, min_y, max_x, max_y, rounded outward. Children that are not
// there are NaN, which meets nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

namespace vibe {

constexpr u32 NODE_FANOUT = 16;
constexpr u32 NODE_FLOATS = 4 * NODE_FANOUT;

namespace box_node_detail {

VIBE_HD float FromBits(u32 bits) {
	float value;
	CopyBytes(&value, &bits, sizeof(value));
	return value;
}

//! The next float towards zero's other side: up for direction 1, down for -1
VIBE_HD float Next(float value, int direction) {
	u32 bits;
	CopyBytes(&bits, &value, sizeof(bits));
	if (value == 0) {
		return FromBits(direction > 0 ? 1u : 0x80000001u);
	}
	return FromBits((value > 0) == (direction > 0) ? bits + 1 : bits - 1);
}

} // namespace box_node_detail

//! The greatest float that is not above the value
VIBE_HD float RoundDown(double value) {
	float near = (float)value;
	return near > value ? box_node_detail::Next(near, -1) : near;
}

//! The least float that is not below the value
VIBE_HD float RoundUp(double value) {
	float near = (float)value;
	return near < value ? box_node_detail::Next(near, 1) : near;
}

//! A box as a node holds it
struct NodeBox {
	float min_x;
	float min_y;
	float max_x;
	float max_y;

	VIBE_HD static NodeBox Of(const Box &box) {
		return NodeBox {RoundDown(box.min_x), RoundDown(box.min_y), RoundUp(box.max_x), RoundUp(box.max_y)};
	}
	//! A child that is not there
	VIBE_HD static NodeBox Nothing() {
		float nan = box_node_detail::FromBits(0x7fc00000u);
		return NodeBox {nan, nan, nan, nan};
	}
	//! Around all children of a node
	VIBE_HD static NodeBox Around(const float *node) {
		const float *min_x = node, *min_y = node + NODE_FANOUT;
		const float *max_x = node + 2 * NODE_FANOUT, *max_y = node + 3 * NODE_FANOUT;
		// The first of a node's children is always there, and no comparison prefers NaN to it
		NodeBox box {min_x[0], min_y[0], max_x[0], max_y[0]};
		for (u32 k = 1; k < NODE_FANOUT; k++) {
			box.min_x = min_x[k] < box.min_x ? min_x[k] : box.min_x;
			box.min_y = min_y[k] < box.min_y ? min_y[k] : box.min_y;
			box.max_x = max_x[k] > box.max_x ? max_x[k] : box.max_x;
			box.max_y = max_y[k] > box.max_y ? max_y[k] : box.max_y;
		}
		return box;
	}
	//! As child k of a node
	VIBE_HD void Store(float *node, u32 k) const {
		node[k] = min_x;
		node[NODE_FANOUT + k] = min_y;
		node[2 * NODE_FANOUT + k] = max_x;
		node[3 * NODE_FANOUT + k] = max_y;
	}
	//! Does it meet child k of a node?
	VIBE_HD bool Meets(const float *node, u32 k) const {
		return node[k] <= max_x && node[NODE_FANOUT + k] <= max_y && node[2 * NODE_FANOUT + k] >= min_x &&
		       node[3 * NODE_FANOUT + k] >= min_y;
	}
	//! The square of its distance to child k of a node, within 1e-6 of it; NaN for a child that is not there
	VIBE_HD float SquareTo(const float *node, u32 k) const {
		float dx = Gap(node[k] - max_x, min_x - node[2 * NODE_FANOUT + k]);
		float dy = Gap(node[NODE_FANOUT + k] - max_y, min_y - node[3 * NODE_FANOUT + k]);
		return dx * dx + dy * dy;
	}

private:
	//! The one that is positive, else 0
	VIBE_HD static float Gap(float a, float b) {
		float gap = a < b ? b : a;
		return gap < 0 ? 0 : gap;
	}
};

//! Where the levels of a packed tree of so many items begin, in nodes, lowest first
struct NodeLevels {
	static constexpr u32 MAX_LEVELS = 8; // 16^8 = 2^32

	u32 begin[MAX_LEVELS + 1];
	u32 count;

	//! At most 2^32 - 1 items have a place in it
	VIBE_HD static NodeLevels Of(u64 items) {
		NodeLevels levels {};
		u64 total = 0;
		for (u64 level = items; level > 1 || (levels.count == 0 && level > 0);) {
			level = (level + NODE_FANOUT - 1) / NODE_FANOUT;
			total += level;
			levels.begin[++levels.count] = (u32)total;
		}
		return levels;
	}
	VIBE_HD u32 NodeCount() const {
		return begin[count];
	}
};

//! Calls visit(item) for every item of a packed tree under boxes that the query meets, each once and in the order of the
//! items, until it returns true. `nodes` are laid out as `levels` says.
template <class VISIT>
VIBE_HD void VisitNodes(const float *nodes, const NodeLevels &levels, const NodeBox &query, VISIT &visit) {
	if (levels.count == 0) {
		return;
	}
	// Depth first without a stack: the item or node to look at next, and the level whose children it is one of
	u32 level = levels.count - 1;
	u64 child = 0;
	while (true) {
		const float *node = nodes + (levels.begin[level] + child / NODE_FANOUT) * NODE_FLOATS;
		if (query.Meets(node, (u32)(child % NODE_FANOUT))) {
			if (level > 0) {
				level--;
				child *= NODE_FANOUT;
				continue;
			}
			if (visit((u32)child)) {
				return;
			}
		}
		child++;
		while (child % NODE_FANOUT == 0) {
			if (level + 1 == levels.count) {
				return;
			}
			level++;
			child /= NODE_FANOUT;
		}
	}
}

//! A node where it lies in memory
struct alignas(64) PackedNode {
	float children[NODE_FLOATS];
};

} // namespace vibe
