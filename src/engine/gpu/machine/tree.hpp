//===----------------------------------------------------------------------===//
// engine/gpu/machine/tree.hpp
//
// The packed tree over boxes: the kernels of bounds.cu, hilbert_codes.cu and indexing.cu with a scan, a reduction and a sort between
// them. Promise: the tree of engine/index/box_tree.cpp, bit by bit.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/machine/machine.hpp"
#include "vibe/box_node.h"

namespace vibespatial {

//! A tree on the device. EMPTY boxes are not in it.
struct MachineTree {
	size_t items = 0;
	size_t node_count = 0;
	MachineArray<vibe::Box> boxes;
	MachineArray<vibe::i32> ids;
	MachineArray<float> nodes;
};

MachineTree PackTree(Machine &machine, const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times);
//! The same, read back
PackedBoxes PackBoxes(Machine &machine, const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times);

} // namespace vibespatial
