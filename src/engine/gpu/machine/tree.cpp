#include "engine/gpu/machine/tree.hpp"

#include <limits>

namespace vibespatial {

using vibe::Box;

namespace {

using Clock = std::chrono::steady_clock;

//! Threads that look for the extent of all boxes
constexpr uint32_t EXTENT_THREADS = 32768;
//! Bits of a code on the curve
constexpr int CODE_BITS = 32;

} // namespace

MachineTree PackTree(Machine &machine, const Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) {
	MachineTree tree;
	if (count == 0) {
		return tree;
	}
	// Positions and row numbers are i32 in the algorithms
	if (count >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
		throw GpuError("more boxes than 31 bits can number");
	}
	const auto rows = static_cast<uint32_t>(count);

	auto begin = Clock::now();
	tree.boxes = machine.New<Box>(count);
	const Box *all = tree.boxes.at;
	machine.Put(tree.boxes.at, boxes, count * sizeof(Box), parallel);
	times.to_device_ms = machine.EndStep(begin);

	begin = Clock::now();
	const auto positions = machine.New<vibe::i32>(count);
	uint32_t kept = 0;
	{
		const auto flags = machine.New<vibe::i32>(count);
		machine.Launch("bounds", "box_nonempty", count, all, rows, flags.at);
		machine.Scan(flags.at, positions.at, count);
		kept = static_cast<uint32_t>(machine.Value(positions.at + (count - 1)) + machine.Value(flags.at + (count - 1)));
	}
	if (kept == 0) {
		times.kernel_ms = machine.EndStep(begin);
		machine.AddBytes(times);
		return tree;
	}

	// The extent of each thread's boxes, then that of all
	const auto partial = machine.New<double>(4 * EXTENT_THREADS);
	const auto extent = machine.New<double>(4);
	{
		machine.Launch("bounds", "box_extent", EXTENT_THREADS, all, rows, partial.at);
		constexpr auto SEGMENT = static_cast<vibe::i32>(EXTENT_THREADS);
		const vibe::i32 bounds[] = {0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT};
		const auto segments = machine.New<vibe::i32>(5);
		machine.Put(segments.at, bounds, sizeof(bounds));
		machine.SegmentedReduce(Machine::Reduction::MIN, partial.at, extent.at, 2, segments.at, segments.at + 1);
		machine.SegmentedReduce(Machine::Reduction::MAX, partial.at, extent.at + 2, 2, segments.at + 2,
		                        segments.at + 3);
	}

	const auto levels = vibe::NodeLevels::Of(kept);
	tree.items = kept;
	tree.node_count = levels.NodeCount();
	tree.ids = machine.New<vibe::i32>(kept);
	{
		const auto keys = machine.New<vibe::u64>(kept), sorted_keys = machine.New<vibe::u64>(kept);
		const auto unsorted = machine.New<vibe::i32>(kept);
		machine.Launch("hilbert_codes", "curve_codes", count, all, rows, extent.at, positions.at, keys.at, unsorted.at);
		machine.Sort(keys.at, sorted_keys.at, unsorted.at, tree.ids.at, kept, CODE_BITS);
	}
	tree.nodes = machine.New<float>(tree.node_count * vibe::NODE_FLOATS);
	const uint32_t leaves = levels.begin[1];
	machine.Launch("indexing", "pack_leaves", uint64_t(leaves) * vibe::NODE_FANOUT, all, tree.ids.at, kept, leaves,
	               tree.nodes.at);
	for (uint32_t level = 1; level < levels.count; level++) {
		const uint32_t below = levels.begin[level - 1], here = levels.begin[level];
		const uint32_t below_count = here - below, here_count = levels.begin[level + 1] - here;
		machine.Launch("indexing", "pack_level", uint64_t(here_count) * vibe::NODE_FANOUT, tree.nodes.at, below,
		               below_count, here, here_count);
	}
	times.kernel_ms = machine.EndStep(begin);
	machine.AddBytes(times);
	return tree;
}

PackedBoxes PackBoxes(Machine &machine, const Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) {
	PackedBoxes packed;
	const auto tree = PackTree(machine, boxes, count, parallel, times);
	const auto begin = Clock::now();
	packed.ids.resize(tree.items);
	packed.nodes.resize(tree.node_count);
	machine.Get(packed.ids.data(), tree.ids.at, tree.items * sizeof(uint32_t), parallel);
	machine.Get(packed.nodes.data(), tree.nodes.at, tree.node_count * sizeof(vibe::PackedNode), parallel);
	times.from_device_ms = machine.EndStep(begin);
	machine.AddBytes(times);
	return packed;
}

} // namespace vibespatial
