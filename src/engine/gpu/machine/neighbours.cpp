#include "engine/gpu/machine/neighbours.hpp"

#include "vibe/nearest.h"

#include <limits>

namespace vibespatial {

using vibe::Vec2;

namespace {

using Clock = std::chrono::steady_clock;

//! Points that one launch searches for: results of a launch take at most 50 MB
constexpr size_t TILE = 131072;

class MachinePoints : public GpuPoints {
public:
	MachinePoints(MachineFactory machines_p, std::function<void(GpuTimes &)> ready_p, uint32_t items)
	    : machines(std::move(machines_p)), ready(std::move(ready_p)), items(items) {
	}

	void Upload(const float *from_nodes, const UninitializedVector<uint32_t> &from_ids,
	            const UninitializedVector<double> &from_leaves, Parallel &parallel, GpuTimes &times) {
		const auto machine = machines();
		const auto begin = Clock::now();
		auto put = [&](auto &array, const auto *from, size_t count) {
			array = machine->New<std::remove_cv_t<std::remove_pointer_t<decltype(from)>>>(count);
			machine->Put(array.at, from, count * sizeof(*from), parallel);
		};
		put(nodes, from_nodes, size_t(vibe::NodeLevels::Of(items).NodeCount()) * vibe::NODE_FLOATS);
		put(ids, from_ids.data(), from_ids.size());
		put(leaves, from_leaves.data(), from_leaves.size());
		// Waits, because other machines will read it
		times.to_device_ms += machine->EndStep("to device", begin);
		machine->AddBytes(times);
	}

	void Find(const Vec2 *points, size_t count, uint32_t k, double most, PackedNeighbours &neighbours,
	          GpuTimes &times) override {
		if (k == 0 || k > MAX_K) {
			throw GpuError("the device finds 1 to 32 neighbours");
		}
		neighbours.count = count;
		neighbours.found.resize(count);
		neighbours.rows.resize(count * k);
		neighbours.distances.resize(count * k);
		ready(times);
		for (size_t first = 0; first < count; first += TILE) {
			FindTile(points, first, std::min(TILE, count - first), k, most, neighbours, times);
		}
	}

private:
	void FindTile(const Vec2 *points, size_t first, size_t tile, uint32_t k, double most, PackedNeighbours &neighbours,
	              GpuTimes &times) const {
		const auto machine = machines();
		auto begin = Clock::now();
		const auto queries = machine->New<Vec2>(tile);
		const auto found = machine->New<vibe::u32>(tile), rows = machine->New<vibe::u32>(tile * k);
		const auto distances = machine->New<double>(tile * k);
		machine->Put(queries.at, points + first, tile * sizeof(Vec2));
		times.to_device_ms += machine->EndStep("to device", begin);

		begin = Clock::now();
		machine->Launch("point_distance", "knn_points", tile, nodes.at, vibe::NodeLevels::Of(items), leaves.at, ids.at,
		                items, queries.at, static_cast<uint32_t>(tile), k, most, found.at, rows.at, distances.at);
		times.kernel_ms += machine->EndStep("kernels", begin);

		begin = Clock::now();
		machine->Get(neighbours.found.data() + first, found.at, tile * sizeof(uint32_t));
		// The neighbours number n of all points lie together, in a tile and in the result
		for (size_t n = 0; n < k; n++) {
			machine->Get(neighbours.rows.data() + n * neighbours.count + first, rows.at + n * tile,
			             tile * sizeof(uint32_t));
			machine->Get(neighbours.distances.data() + n * neighbours.count + first, distances.at + n * tile,
			             tile * sizeof(double));
		}
		times.from_device_ms += machine->EndStep("from device", begin);
		machine->AddBytes(times);
	}

	const MachineFactory machines;
	const std::function<void(GpuTimes &)> ready;
	const uint32_t items;
	MachineArray<float> nodes;
	MachineArray<vibe::u32> ids;
	MachineArray<double> leaves;
};

} // namespace

std::unique_ptr<GpuPoints> MakePoints(MachineFactory machines, std::function<void(GpuTimes &)> ready,
                                      const float *nodes, const UninitializedVector<uint32_t> &ids,
                                      const UninitializedVector<double> &leaves, Parallel &parallel, GpuTimes &times) {
	if (ids.empty() || ids.size() >= std::numeric_limits<uint32_t>::max()) {
		throw GpuError("a tree of no points, or of more than 32 bits can number");
	}
	ready(times);
	auto made =
	    std::make_unique<MachinePoints>(std::move(machines), std::move(ready), static_cast<uint32_t>(ids.size()));
	made->Upload(nodes, ids, leaves, parallel, times);
	return made;
}

} // namespace vibespatial
