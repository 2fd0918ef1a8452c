//===----------------------------------------------------------------------===//
// host_machine.hpp
//
// The machine of the chains (engine/gpu/machine/machine.hpp) on the host: kernels run at once, one thread after the other.
//===----------------------------------------------------------------------===//
#pragma once

#include "host_units.hpp"

#include "engine/gpu/machine/machine.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace host_cuda {

using vibespatial::MachineLimits;
using vibespatial::Parallel;

//! A kernel with its arguments as CUDA takes them
struct HostKernel {
	void (*run)(uint64_t threads, bool backwards, void **arguments);
	std::vector<size_t> sizes;
};

template <auto KERNEL, class... PARAMETERS, size_t... INDEX>
void RunKernel(uint64_t threads, bool backwards, void **arguments, void (*)(PARAMETERS...),
               std::index_sequence<INDEX...>) {
	Launch(KERNEL, threads, backwards, *static_cast<PARAMETERS *>(arguments[INDEX])...);
}

template <auto KERNEL, class... PARAMETERS>
HostKernel KernelOf(void (*)(PARAMETERS...)) {
	return HostKernel {[](uint64_t threads, bool backwards, void **arguments) {
		                   RunKernel<KERNEL>(threads, backwards, arguments, KERNEL,
		                                     std::index_sequence_for<PARAMETERS...>());
	                   },
	                   {sizeof(PARAMETERS)...}}; // NOLINT(bugprone-sizeof-expression): pointers are meant
}

//! By unit and entry point
inline const std::map<std::string, HostKernel> &HostKernels() {
#define VIBE_KERNEL(unit, name)                                                                                        \
	{ #unit " " #name, KernelOf < unit##_unit::name>(unit##_unit::name) }
	static const std::map<std::string, HostKernel> kernels {
	    VIBE_KERNEL(bounds, box_extent),
	    VIBE_KERNEL(bounds, box_nonempty),
	    VIBE_KERNEL(calibration, edge_sides),
	    VIBE_KERNEL(constructive, hull_corners),
	    VIBE_KERNEL(constructive, hull_rows),
	    VIBE_KERNEL(constructive, simplified_rows),
	    VIBE_KERNEL(constructive, simplify_rings),
	    VIBE_KERNEL(indexing, pack_leaves),
	    VIBE_KERNEL(indexing, pack_level),
	    VIBE_KERNEL(hilbert_codes, curve_codes),
	    VIBE_KERNEL(multipoint_binary_relations, multipoint_relations),
	    VIBE_KERNEL(overlay_rings, chain_depths),
	    VIBE_KERNEL(overlay_rings, count_rings),
	    VIBE_KERNEL(overlay_rings, edges_under),
	    VIBE_KERNEL(overlay_rings, end_keys),
	    VIBE_KERNEL(overlay_rings, far_hops),
	    VIBE_KERNEL(overlay_rings, first_hops),
	    VIBE_KERNEL(overlay_rings, join_parts),
	    VIBE_KERNEL(overlay_rings, least_hops),
	    VIBE_KERNEL(overlay_rings, link_crowded),
	    VIBE_KERNEL(overlay_rings, link_edges),
	    VIBE_KERNEL(overlay_rings, ring_hops),
	    VIBE_KERNEL(overlay_rings, ring_polygons),
	    VIBE_KERNEL(overlay_rings, rings_under),
	    VIBE_KERNEL(overlay_rings, sort_edges),
	    VIBE_KERNEL(overlay_rings, start_x_keys),
	    VIBE_KERNEL(overlay_rings, part_keys),
	    VIBE_KERNEL(overlay_rings, crowded_parts),
	    VIBE_KERNEL(overlay_rings, count_unmarked),
	    VIBE_KERNEL(overlay_rings, split_marked),
	    VIBE_KERNEL(overlay_rings, start_y_keys),
	    VIBE_KERNEL(overlay_rings, touching_parts),
	    VIBE_KERNEL(overlay_rings, write_rings),
	    VIBE_KERNEL(overlay_split, count_pieces),
	    VIBE_KERNEL(overlay_split, edge_keys),
	    VIBE_KERNEL(overlay_split, gather_edges),
	    VIBE_KERNEL(overlay_split, place_cuts),
	    VIBE_KERNEL(overlay_split, ring_edges),
	    VIBE_KERNEL(overlay_split, unite_edges),
	    VIBE_KERNEL(overlay_split, write_pieces),
	    VIBE_KERNEL(pinned_neighbours, pinned_leaves),
	    VIBE_KERNEL(pinned_neighbours, pinned_of_points),
	    VIBE_KERNEL(pinned_neighbours, pinned_of_shapes),
	    VIBE_KERNEL(pinned_neighbours, pinned_values),
	    VIBE_KERNEL(pinned_rows, gather_points),
	    VIBE_KERNEL(pinned_rows, gather_values),
	    VIBE_KERNEL(pinned_rows, mask_points),
	    VIBE_KERNEL(pinned_rows, mask_shapes),
	    VIBE_KERNEL(pinned_rows, passing_rows),
	    VIBE_KERNEL(pinned_rows, point_codes),
	    VIBE_KERNEL(point_binary_relations, point_relations),
	    VIBE_KERNEL(measures, row_areas),
	    VIBE_KERNEL(measures, row_centroids),
	    VIBE_KERNEL(measures, row_lengths),
	    VIBE_KERNEL(point_distance, knn_points),
	    VIBE_KERNEL(point_distance, points_within),
	    VIBE_KERNEL(point_in_polygon, cell_counts),
	    VIBE_KERNEL(point_in_polygon, cell_found),
	    VIBE_KERNEL(point_in_polygon, cell_pairs),
	    VIBE_KERNEL(point_in_polygon_rough, rough_counts),
	    VIBE_KERNEL(point_in_polygon_rough, rough_found),
	    VIBE_KERNEL(point_in_polygon_rough, rough_pairs),
	    VIBE_KERNEL(point_near_cells, near_counts),
	    VIBE_KERNEL(point_near_cells, near_found),
	    VIBE_KERNEL(point_near_cells, near_pairs),
	    VIBE_KERNEL(polygon_predicates, relate_pairs),
	    VIBE_KERNEL(segment_distance, hausdorff_distances),
	    VIBE_KERNEL(segment_distance, shape_distances),
	    VIBE_KERNEL(segment_intersection, depths_below),
	    VIBE_KERNEL(segment_intersection, find_cuts),
	    VIBE_KERNEL(segment_intersection, find_doubtful),
	    VIBE_KERNEL(segment_intersection, find_meetings),
	    VIBE_KERNEL(segment_intersection, part_counts),
	    VIBE_KERNEL(segment_intersection, strip_counts),
	    VIBE_KERNEL(segment_intersection, strip_entries),
	    VIBE_KERNEL(segment_intersection, net_boundary),
	    VIBE_KERNEL(shape_neighbours, knn_of_points),
	    VIBE_KERNEL(shape_neighbours, knn_of_shapes),
	    VIBE_KERNEL(spatial_query, box_pairs),
	    VIBE_KERNEL(spatial_query, keep_pairs),
	    VIBE_KERNEL(spatial_query, tree_pairs),
	    VIBE_KERNEL(spatial_query, wide_pairs),
	    VIBE_KERNEL(wkb_codec, encode_points),
	    VIBE_KERNEL(wkb_codec, wkb_counts),
	    VIBE_KERNEL(wkb_codec, wkb_decode),
	    VIBE_KERNEL(wkb_codec, wkb_rows),
	    VIBE_KERNEL(wkb_codec, wkb_shapes),
	    VIBE_KERNEL(wkb_codec, wkb_sizes),
	};
#undef VIBE_KERNEL
	return kernels;
}

//! So small that tests reach what a device does with many pairs, or with large ones: some pairs have too many vertices, some relations
//! run out of memory, tiles run out of room
inline MachineLimits SmallLimits(bool rough_edges = false) {
	MachineLimits limits;
	limits.rough_edges = rough_edges;
	limits.block = 32;
	limits.relate_slab = 16 << 10;
	limits.relate_warp_slab = 16 << 10;
	limits.relate_steps = 24;
	limits.relate_warp_steps = 200;
	limits.relate_points = 100;
	limits.measure_vertices = 60;
	limits.least_pairs = 1000;
	limits.pairs_at_once = 3000;
	limits.wide_visits = 40;
	limits.pinned_rows = 5000;
	return limits;
}

class Machine : public vibespatial::Machine {
public:
	//! A device of so many multiprocessors, of which each runs one block at once
	explicit Machine(bool backwards = false, uint64_t processors = 2, bool rough_edges = false)
	    : vibespatial::Machine(SmallLimits(rough_edges)), backwards(backwards), processors(processors) {
	}

	void Use() override {
	}
	std::shared_ptr<void> Allocate(size_t bytes) override {
		auto memory = std::make_shared<Memory>(New(bytes));
		return std::shared_ptr<void>(memory, memory->data());
	}
	std::shared_ptr<void> AllocateShared(size_t bytes) override {
		return Allocate(bytes);
	}
	vibespatial::DeviceName Device() const override {
		return vibespatial::DeviceName();
	}
	uint64_t MemoryLimit() const override {
		return uint64_t(1) << 40;
	}
	void *Pinned(size_t number, size_t bytes) override {
		return Grow(pinned[number], bytes);
	}
	uint64_t PinnedBytes() const override {
		uint64_t bytes = 0;
		for (auto &memory : pinned) {
			bytes += memory.second.size() * sizeof(uint64_t);
		}
		return bytes;
	}
	uint64_t PinnedSize(size_t number) const override {
		const auto found = pinned.find(number);
		return found == pinned.end() ? 0 : found->second.size() * sizeof(uint64_t);
	}
	uint64_t ThreadsAtOnce(const char *, const char *) override {
		return processors * limits.block;
	}
	void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) override {
		ScanAny(in, out, count);
	}
	void Scan(const vibe::i64 *in, vibe::i64 *out, uint64_t count) override {
		ScanAny(in, out, count);
	}
	void SegmentedReduce(Reduction reduction, const double *in, double *out, uint64_t segments, const vibe::i32 *begin,
	                     const vibe::i32 *end) override {
		const bool is_min = reduction == Reduction::MIN;
		for (uint64_t segment = 0; segment < segments; segment++) {
			double all = is_min ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
			for (auto i = begin[segment]; i < end[segment]; i++) {
				all = is_min ? std::min(all, in[i]) : std::max(all, in[i]);
			}
			out[segment] = all;
		}
	}
	void Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
	          uint64_t count, int bits) override {
		std::vector<uint64_t> order(count);
		std::iota(order.begin(), order.end(), 0);
		const auto mask = bits < 64 ? (vibe::u64(1) << bits) - 1 : ~vibe::u64(0);
		std::stable_sort(order.begin(), order.end(),
		                 [&](uint64_t l, uint64_t r) { return (keys[l] & mask) < (keys[r] & mask); });
		for (uint64_t i = 0; i < count; i++) {
			keys_out[i] = keys[order[i]];
			values_out[i] = values[order[i]];
		}
	}
	void Record(size_t) override {
	}
	void Await(size_t) override {
	}
	double Between(size_t, size_t) override {
		return 1;
	}
	void Synchronize() override {
	}

protected:
	void *DoTemporary(const std::string &name, size_t bytes) override {
		return Grow(temporary[name], bytes);
	}
	void DoZero(void *at, size_t bytes) override {
		std::memset(at, 0, bytes);
	}
	void DoPut(void *to, const void *from, size_t bytes, Parallel &) override {
		std::memcpy(to, from, bytes);
	}
	void DoGet(void *to, const void *from, size_t bytes, Parallel &) override {
		std::memcpy(to, from, bytes);
	}
	void DoWrite(void *to, size_t bytes, const std::function<void(void *)> &write) override {
		auto piece = New(bytes);
		write(piece.data());
		std::memcpy(to, piece.data(), bytes);
	}
	void DoPutPinned(void *to, const void *from, size_t bytes) override {
		std::memcpy(to, from, bytes);
	}
	void DoGetPinned(void *to, const void *from, size_t bytes) override {
		std::memcpy(to, from, bytes);
	}
	void DoLaunch(const char *unit, const char *entry_point, uint64_t threads,
	              const LaunchArguments &arguments) override {
		const auto found = HostKernels().find(std::string(unit) + " " + entry_point);
		if (found == HostKernels().end()) {
			throw std::logic_error(std::string("no kernel ") + entry_point);
		}
		const auto &kernel = found->second;
		if (!std::equal(kernel.sizes.begin(), kernel.sizes.end(), arguments.sizes, arguments.sizes + arguments.count)) {
			throw std::logic_error(std::string("arguments of other types than the parameters of ") + entry_point);
		}
		kernel.run(threads, backwards, arguments.addresses);
	}

private:
	using Memory = std::vector<uint64_t>;

	//! Filled with nonsense, for what nobody wrote must not look like something
	static Memory New(size_t bytes) {
		return Memory(bytes / 8 + 1, 0xcdcdcdcdcdcdcdcdull);
	}
	static void *Grow(Memory &memory, size_t bytes) {
		if (memory.size() * sizeof(uint64_t) < bytes) {
			memory = New(bytes);
		}
		return memory.data();
	}
	template <class T>
	static void ScanAny(const T *in, T *out, uint64_t count) {
		T sum = 0;
		for (uint64_t i = 0; i < count; i++) {
			out[i] = sum;
			sum += in[i];
		}
	}

	const bool backwards;
	const uint64_t processors;
	std::map<size_t, Memory> pinned;
	std::map<std::string, Memory> temporary;
};

} // namespace host_cuda
