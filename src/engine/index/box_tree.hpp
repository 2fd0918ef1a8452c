//===----------------------------------------------------------------------===//
// engine/index/box_tree.hpp
//
// Promise: no box that meets the query is missed; a few that only nearly meet it may be reported. A packed tree of boxes,
// built once: items in the order of a Hilbert curve, sixteen to a node. Boxes are floats rounded outward, half the bytes
// of doubles; a node holds its sixteen boxes side by side by coordinate, so one test is four comparisons of vectors.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/uninitialized.hpp"
#include "vibe/box_node.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace vibespatial {

class BoxTree {
public:
	//! Items are known by their position in `boxes` (at most 2^32 - 1 of them); EMPTY boxes are left out
	BoxTree(const vibe::Box *boxes, size_t count, Parallel &parallel);
	//! A tree that was packed elsewhere: items in the order of the lowest nodes' boxes, and the nodes of
	//! vibe::NodeLevels::Of(ids.size()). Throws when there are more or fewer nodes.
	static BoxTree FromParts(UninitializedVector<uint32_t> ids, UninitializedVector<vibe::PackedNode> nodes);

	//! Bytes that a tree of `count` items holds, and the most that building it needs at one time
	static size_t EstimateMemory(size_t count);
	static size_t EstimateBuildMemory(size_t count);

	size_t MemoryUsage() const;
	//! Items in the tree
	size_t Count() const {
		return ids.size();
	}

	// The parts, as FromParts() takes them
	const UninitializedVector<uint32_t> &Ids() const {
		return ids;
	}
	size_t NodeCount() const {
		return nodes.size();
	}
	const float *Nodes() const {
		return nodes.empty() ? nullptr : nodes.data()->children;
	}

	//! Calls visit(id) for every item whose box meets the query, each once, until it returns true
	template <class VISIT>
	void Visit(const vibe::Box &query, VISIT &&visit) const {
		if (nodes.empty() || query.IsEmpty()) {
			return;
		}
		const Query q(query);
		uint32_t level = levels.count - 1;
		uint32_t at[MAX_LEVELS];   // the node on the way down, of each level
		uint32_t left[MAX_LEVELS]; // its children still to visit
		at[level] = 0;
		left[level] = q.Meets(nodes[levels.begin[level]]);
		while (true) {
			if (left[level] == 0) {
				if (++level == levels.count) {
					return;
				}
				continue;
			}
			const uint32_t child = at[level] * FANOUT + static_cast<uint32_t>(__builtin_ctz(left[level]));
			left[level] &= left[level] - 1;
			if (level == 0) {
				if (visit(ids[child])) {
					return;
				}
				continue;
			}
			level--;
			at[level] = child;
			left[level] = q.Meets(nodes[levels.begin[level] + child]);
		}
	}

private:
	static constexpr uint32_t FANOUT = vibe::NODE_FANOUT;
	static constexpr uint32_t MAX_LEVELS = vibe::NodeLevels::MAX_LEVELS;

	typedef float Floats __attribute__((vector_size(16)));
	typedef int32_t Masks __attribute__((vector_size(16)));

	using Node = vibe::PackedNode;
	//! Four children of one coordinate
	static Floats Load(const Node &node, uint32_t coordinate, int four) {
		Floats floats;
		std::memcpy(&floats, node.children + coordinate * FANOUT + four * 4, sizeof(floats));
		return floats;
	}
	struct Query {
		Floats min_x, min_y, max_x, max_y;

		explicit Query(const vibe::Box &box);
		//! One bit for each child
		uint32_t Meets(const Node &node) const {
			Masks bits {0, 0, 0, 0};
			Masks place {1, 2, 4, 8};
			for (int i = 0; i < 4; i++) {
				bits |= (Load(node, 0, i) <= max_x) & (Load(node, 2, i) >= min_x) & (Load(node, 1, i) <= max_y) &
				        (Load(node, 3, i) >= min_y) & place;
				place <<= 4;
			}
			return static_cast<uint32_t>(bits[0] | bits[1] | bits[2] | bits[3]);
		}
	};

	BoxTree() = default;
	void Sort(const vibe::Box *boxes, size_t count, Parallel &parallel);

	UninitializedVector<uint32_t> ids; // in the order of the lowest nodes' boxes
	UninitializedVector<Node> nodes;   // level after level, lowest first
	vibe::NodeLevels levels {};
};

} // namespace vibespatial
