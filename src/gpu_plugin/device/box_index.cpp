// The packed tree over boxes, on the device: the kernels of bounds.cu, morton_range.cu and indexing.cu with
// CCCL's scan, reduction and sort between them. The tree is the one of engine/index/box_tree.cpp, bit by bit.
#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"
#include "gpu_plugin/device/launch.hpp"
#include "engine/dispatch/operation.hpp"
#include "vibe/box_node.h"

#include <limits>

namespace vibespatial {

using vibe::Box;

namespace {

using Clock = std::chrono::steady_clock;

//! Threads that look for the extent of all boxes
constexpr uint32_t EXTENT_THREADS = 32768;

template <class T>
T *At(rmm::device_buffer &buffer) {
	return static_cast<T *>(buffer.data());
}

} // namespace

CudaEngine::DeviceTree CudaEngine::PackTree(const Box *boxes, size_t count, DeviceStream &stream, DeviceMemory &held,
                                            Parallel &parallel, GpuTimes &times) {
	DeviceTree tree;
	if (count == 0) {
		return tree;
	}
	// Positions and row numbers are i32 in the primitives
	if (count >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
		throw GpuError("more boxes than 31 bits can number");
	}
	auto rows = static_cast<uint32_t>(count);

	auto begin = Clock::now();
	tree.boxes = held.Allocate(count * sizeof(Box), stream.View());
	stream.CopyToDevice(tree.boxes.data(), boxes, count * sizeof(Box), parallel);
	times.bytes_to_device = count * sizeof(Box);
	stream.Synchronize();
	times.to_device_ms = EndStep("query", "to device", begin);

	begin = Clock::now();
	void *all = tree.boxes.data();
	int32_t kept = 0;
	auto positions = held.Allocate(count * sizeof(int32_t), stream.View());
	{
		auto flags = held.Allocate(count * sizeof(int32_t), stream.View());
		void *flag = flags.data();
		void *arguments[] = {Address(all), Address(rows), Address(flag)};
		Launch("bounds", "box_nonempty", count, stream, arguments);
		const int32_t zero = 0;
		primitives.ExclusiveScan("exclusive_scan_i32", flags.data(), positions.data(), count, &zero, stream, held);
		int32_t last[2];
		stream.CopyFromDevice(&last[0], At<int32_t>(positions) + (count - 1), sizeof(int32_t));
		stream.CopyFromDevice(&last[1], At<int32_t>(flags) + (count - 1), sizeof(int32_t));
		kept = last[0] + last[1];
	}
	if (kept == 0) {
		times.kernel_ms = EndStep("query", "kernels", begin);
		return tree;
	}

	// The extent: each thread's, then the least and largest of those
	auto partial = held.Allocate(4 * EXTENT_THREADS * sizeof(double), stream.View());
	auto extent = held.Allocate(4 * sizeof(double), stream.View());
	{
		void *to = partial.data();
		void *arguments[] = {Address(all), Address(rows), Address(to)};
		Launch("bounds", "box_extent", EXTENT_THREADS, stream, arguments);
		constexpr auto SEGMENT = static_cast<int32_t>(EXTENT_THREADS);
		const int32_t bounds[] = {0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT};
		auto segments = held.Allocate(sizeof(bounds), stream.View());
		stream.CopyToDevice(segments.data(), bounds, sizeof(bounds));
		auto *segment = At<int32_t>(segments);
		const double infinity = std::numeric_limits<double>::infinity();
		primitives.SegmentedReduce("segmented_reduce_min_f64", At<double>(partial), At<double>(extent), 2, segment,
		                           segment + 1, infinity, stream, held);
		primitives.SegmentedReduce("segmented_reduce_max_f64", At<double>(partial), At<double>(extent) + 2, 2,
		                           segment + 2, segment + 3, -infinity, stream, held);
		// The buffer of bounds is freed in the order of the stream
	}

	const auto levels = vibe::NodeLevels::Of(static_cast<vibe::u32>(kept));
	tree.items = static_cast<size_t>(kept);
	tree.node_count = levels.begin[levels.count];
	tree.ids = held.Allocate(static_cast<size_t>(kept) * sizeof(int32_t), stream.View());
	{
		auto keys = held.Allocate(static_cast<size_t>(kept) * sizeof(uint64_t), stream.View());
		auto sorted_keys = held.Allocate(static_cast<size_t>(kept) * sizeof(uint64_t), stream.View());
		auto unsorted = held.Allocate(static_cast<size_t>(kept) * sizeof(int32_t), stream.View());
		void *key = keys.data(), *id = unsorted.data(), *place = positions.data(), *around = extent.data();
		void *arguments[] = {Address(all), Address(rows), Address(around), Address(place), Address(key), Address(id)};
		Launch("morton_range", "curve_codes", count, stream, arguments);
		constexpr int CODE_BITS = 32;
		primitives.RadixSort("radix_sort_u64_i32", keys.data(), sorted_keys.data(), At<int32_t>(unsorted),
		                     At<int32_t>(tree.ids), static_cast<uint64_t>(kept), CODE_BITS, stream, held);
	}
	tree.nodes = held.Allocate(tree.node_count * vibe::NODE_FLOATS * sizeof(float), stream.View());
	{
		void *id = tree.ids.data(), *to = tree.nodes.data();
		auto items = static_cast<uint32_t>(kept);
		uint32_t leaves = levels.begin[1];
		void *arguments[] = {Address(all), Address(id), Address(items), Address(leaves), Address(to)};
		Launch("indexing", "pack_leaves", uint64_t(leaves) * vibe::NODE_FANOUT, stream, arguments);
		for (uint32_t level = 1; level < levels.count; level++) {
			uint32_t below = levels.begin[level - 1], here = levels.begin[level];
			uint32_t below_count = here - below, here_count = levels.begin[level + 1] - here;
			void *level_arguments[] = {Address(to), Address(below), Address(below_count), Address(here),
			                           Address(here_count)};
			Launch("indexing", "pack_level", uint64_t(here_count) * vibe::NODE_FANOUT, stream, level_arguments);
		}
	}
	stream.Synchronize();
	times.kernel_ms = EndStep("query", "kernels", begin);
	return tree;
}

PackedBoxes CudaEngine::PackBoxes(const Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) {
	PackedBoxes packed;
	if (count == 0) {
		return packed;
	}
	Need(KernelNeeds(KernelSet::BOX_INDEX), "box_index", times);
	auto held = CurrentMemory();
	auto lease = streams->Take();
	const auto tree = PackTree(boxes, count, *lease, *held, parallel, times);
	const auto begin = Clock::now();
	packed.ids.resize(tree.items);
	packed.nodes.resize(tree.node_count);
	const size_t id_bytes = tree.items * sizeof(uint32_t), node_bytes = tree.node_count * sizeof(vibe::PackedNode);
	lease->CopyFromDevice(packed.ids.data(), tree.ids.data(), id_bytes, parallel);
	lease->CopyFromDevice(packed.nodes.data(), tree.nodes.data(), node_bytes, parallel);
	times.bytes_from_device = id_bytes + node_bytes;
	times.from_device_ms = EndStep("query", "from device", begin);
	return packed;
}

} // namespace vibespatial
