//===----------------------------------------------------------------------===//
// host_machine.hpp
//
// The work of a union on a device, on the host: the units' kernels, one thread after the other. Include host_cuda.hpp first.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/machine/overlay.hpp"
#include "vibe/net.h"
#include "vibe/thread.h"

namespace overlay_split_unit {
#include "kernels/overlay_split.cu"
}
namespace overlay_rings_unit {
#include "kernels/overlay_rings.cu"
}
namespace segment_intersection_unit {
#include "kernels/segment_intersection.cu"
}

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace host_cuda {

class Machine : public vibespatial::OverlayMachine {
public:
	explicit Machine(bool backwards = false) : backwards(backwards) {
		Add("overlay_split ring_edges", overlay_split_unit::ring_edges);
		Add("overlay_split edge_keys", overlay_split_unit::edge_keys);
		Add("overlay_split unite_edges", overlay_split_unit::unite_edges);
		Add("overlay_split gather_edges", overlay_split_unit::gather_edges);
		Add("overlay_split place_cuts", overlay_split_unit::place_cuts);
		Add("overlay_split count_pieces", overlay_split_unit::count_pieces);
		Add("overlay_split write_pieces", overlay_split_unit::write_pieces);
		Add("overlay_rings join_parts", overlay_rings_unit::join_parts);
		Add("overlay_rings end_keys", overlay_rings_unit::end_keys);
		Add("overlay_rings link_edges", overlay_rings_unit::link_edges);
		Add("overlay_rings first_hops", overlay_rings_unit::first_hops);
		Add("overlay_rings least_hops", overlay_rings_unit::least_hops);
		Add("overlay_rings ring_hops", overlay_rings_unit::ring_hops);
		Add("overlay_rings far_hops", overlay_rings_unit::far_hops);
		Add("overlay_rings chain_depths", overlay_rings_unit::chain_depths);
		Add("overlay_rings start_y_keys", overlay_rings_unit::start_y_keys);
		Add("overlay_rings start_x_keys", overlay_rings_unit::start_x_keys);
		Add("overlay_rings sort_edges", overlay_rings_unit::sort_edges);
		Add("overlay_rings count_rings", overlay_rings_unit::count_rings);
		Add("overlay_rings write_rings", overlay_rings_unit::write_rings);
		Add("overlay_rings ring_polygons", overlay_rings_unit::ring_polygons);
		Add("overlay_rings rings_under", overlay_rings_unit::rings_under);
		Add("overlay_rings link_crowded", overlay_rings_unit::link_crowded);
		Add("overlay_rings edges_under", overlay_rings_unit::edges_under);
		Add("segment_intersection strip_counts", segment_intersection_unit::strip_counts);
		Add("segment_intersection strip_entries", segment_intersection_unit::strip_entries);
		Add("segment_intersection find_cuts", segment_intersection_unit::find_cuts);
		Add("segment_intersection find_meetings", segment_intersection_unit::find_meetings);
		Add("segment_intersection find_doubtful", segment_intersection_unit::find_doubtful);
		Add("segment_intersection part_counts", segment_intersection_unit::part_counts);
		Add("segment_intersection depths_below", segment_intersection_unit::depths_below);
		Add("segment_intersection union_boundary", segment_intersection_unit::union_boundary);
	}

	std::shared_ptr<void> Allocate(size_t bytes) override {
		// What nobody wrote must not look like something
		auto memory = std::make_shared<std::vector<uint64_t>>(bytes / 8 + 1, 0xcdcdcdcdcdcdcdcdull);
		return std::shared_ptr<void>(memory, memory->data());
	}
	void Zero(void *at, size_t bytes) override {
		std::memset(at, 0, bytes);
	}
	void Put(void *to, const void *from, size_t bytes) override {
		std::memcpy(to, from, bytes);
	}
	void Write(void *to, size_t bytes, const std::function<void(void *)> &write) override {
		std::vector<uint64_t> piece(bytes / 8 + 1, 0xcdcdcdcdcdcdcdcdull);
		write(piece.data());
		std::memcpy(to, piece.data(), bytes);
	}
	void Get(void *to, const void *from, size_t bytes) override {
		std::memcpy(to, from, bytes);
	}
	void Launch(const char *unit, const char *entry_point, uint64_t threads, void **arguments) override {
		const auto found = kernels.find(std::string(unit) + " " + entry_point);
		if (found == kernels.end()) {
			throw std::logic_error(std::string("no kernel ") + entry_point);
		}
		found->second(threads, arguments);
	}
	void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) override {
		vibe::i32 sum = 0;
		for (uint64_t i = 0; i < count; i++) {
			out[i] = sum;
			sum += in[i];
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
	double EndStep(const char *, std::chrono::steady_clock::time_point) override {
		return 0;
	}

private:
	template <class... ARGUMENTS>
	void Add(const char *name, void (*kernel)(ARGUMENTS...)) {
		kernels[name] = [this, kernel](uint64_t threads, void **arguments) {
			Run(kernel, threads, arguments, std::index_sequence_for<ARGUMENTS...>());
		};
	}
	template <class... ARGUMENTS, size_t... INDEX>
	void Run(void (*kernel)(ARGUMENTS...), uint64_t threads, void **arguments, std::index_sequence<INDEX...>) {
		host_cuda::Launch(kernel, threads, backwards, *static_cast<ARGUMENTS *>(arguments[INDEX])...);
	}

	const bool backwards;
	std::map<std::string, std::function<void(uint64_t, void **)>> kernels;
};

} // namespace host_cuda
