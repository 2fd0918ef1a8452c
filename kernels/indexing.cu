//===----------------------------------------------------------------------===//
// indexing
//
// Promise: the CPU's tree, bit for bit. Packs boxes along a curve into the nodes of vibe/box_node.h, level by level. One
// thread a child of a node.
//===----------------------------------------------------------------------===//
#include "vibe/box_node.h"
#include "vibe/thread.h"

//! The lowest nodes: item i of the order `ids` is child i % 16 of node i / 16
extern "C" __global__ void pack_leaves(const vibe::Box *boxes, const vibe::i32 *ids, vibe::u32 count,
                                       vibe::u32 node_count, float *nodes) {
	const vibe::u64 i = vibe::ThreadIndex();
	const vibe::u64 node = i / vibe::NODE_FANOUT;
	if (node >= node_count) {
		return;
	}
	const auto box = i < count ? vibe::NodeBox::Of(boxes[ids[i]]) : vibe::NodeBox::Nothing();
	box.Store(nodes + node * vibe::NODE_FLOATS, (vibe::u32)(i % vibe::NODE_FANOUT));
}

//! The nodes [begin, begin + node_count) over the nodes [below_begin, below_begin + below_count)
extern "C" __global__ void pack_level(float *nodes, vibe::u32 below_begin, vibe::u32 below_count, vibe::u32 begin,
                                      vibe::u32 node_count) {
	const vibe::u64 i = vibe::ThreadIndex();
	const vibe::u64 node = i / vibe::NODE_FANOUT;
	if (node >= node_count) {
		return;
	}
	const auto box = i < below_count ? vibe::NodeBox::Around(nodes + (below_begin + i) * vibe::NODE_FLOATS)
	                                 : vibe::NodeBox::Nothing();
	box.Store(nodes + (begin + node) * vibe::NODE_FLOATS, (vibe::u32)(i % vibe::NODE_FANOUT));
}
