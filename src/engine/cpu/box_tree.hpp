//===----------------------------------------------------------------------===//
// engine/cpu/box_tree.hpp
//
// Promise: no box that meets the query is missed; a few that only nearly meet it may be reported. A packed tree of boxes,
// built once: items in the order of a Hilbert curve, sixteen to a node. Boxes are floats rounded outward, half the bytes
// of doubles; a node holds its sixteen boxes side by side by coordinate, so one test is four comparisons of vectors.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/parallel.hpp"
#include "vibe/views.h"

#include <cstdint>
#include <vector>

namespace vibespatial {

class BoxTree {
public:
	//! Items are known by their position in `boxes` (at most 2^32 - 1 of them); EMPTY boxes are left out
	BoxTree(const vibe::Box *boxes, size_t count, Parallel &parallel);

	//! Bytes that a tree of `count` items holds, and the most that building it needs at one time
	static size_t EstimateMemory(size_t count);
	static size_t EstimateBuildMemory(size_t count);

	size_t MemoryUsage() const;
	//! Items in the tree
	size_t Count() const {
		return ids.size();
	}

	//! Calls visit(id) for every item whose box meets the query, each once, until it returns true
	template <class VISIT>
	void Visit(const vibe::Box &query, VISIT &&visit) const {
		if (nodes.empty() || query.IsEmpty()) {
			return;
		}
		const Query q(query);
		uint32_t level = level_count - 1;
		uint32_t at[MAX_LEVELS];   // the node on the way down, of each level
		uint32_t left[MAX_LEVELS]; // its children still to visit
		at[level] = 0;
		left[level] = q.Meets(nodes[level_begin[level]]);
		while (true) {
			if (left[level] == 0) {
				if (++level == level_count) {
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
			left[level] = q.Meets(nodes[level_begin[level] + child]);
		}
	}

private:
	static constexpr uint32_t FANOUT = 16;
	static constexpr uint32_t MAX_LEVELS = 8; // 16^8 = 2^32

	typedef float Floats __attribute__((vector_size(16)));
	typedef int32_t Masks __attribute__((vector_size(16)));

	//! Sixteen children; those that are not there are NaN, which meets nothing
	struct alignas(64) Node {
		Floats min_x[4], min_y[4], max_x[4], max_y[4];
	};
	struct Query {
		Floats min_x, min_y, max_x, max_y;

		explicit Query(const vibe::Box &box);
		//! One bit for each child
		uint32_t Meets(const Node &node) const {
			Masks bits {0, 0, 0, 0};
			Masks place {1, 2, 4, 8};
			for (int i = 0; i < 4; i++) {
				bits |= (node.min_x[i] <= max_x) & (node.max_x[i] >= min_x) & (node.min_y[i] <= max_y) &
				        (node.max_y[i] >= min_y) & place;
				place <<= 4;
			}
			return static_cast<uint32_t>(bits[0] | bits[1] | bits[2] | bits[3]);
		}
	};

	void Sort(const vibe::Box *boxes, size_t count, Parallel &parallel);

	std::vector<uint32_t> ids; // in the order of the lowest nodes' boxes
	std::vector<Node> nodes;   // level after level, lowest first
	uint32_t level_begin[MAX_LEVELS + 1] = {};
	uint32_t level_count = 0;
};

} // namespace vibespatial
