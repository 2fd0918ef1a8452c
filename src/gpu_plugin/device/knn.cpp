// The nearest points, on the device: the kernel knn_points of point_distance.cu over the tree of engine/join/knn.cpp. What it finds
// is what the CPU finds, bit by bit: it is the core's search.
#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"
#include "gpu_plugin/device/launch.hpp"
#include "engine/dispatch/operation.hpp"
#include "vibe/nearest.h"

#include <algorithm>
#include <limits>

namespace vibespatial {

using vibe::Vec2;

namespace {

using Clock = std::chrono::steady_clock;

//! Points that one launch searches for: results of a launch take at most 50 MB
constexpr size_t TILE = 131072;

} // namespace

class DevicePoints : public GpuPoints {
public:
	DevicePoints(CudaEngine &engine, std::shared_ptr<DeviceMemory> memory, uint32_t items)
	    : engine(engine), memory(std::move(memory)), items(items) {
	}
	~DevicePoints() override {
		// The buffers are freed by the thread that comes last, which may not have used the device
		cudaSetDevice(engine.options.device);
	}

	void Find(const Vec2 *points, size_t count, uint32_t k, double most, PackedNeighbours &neighbours,
	          GpuTimes &times) override;

	CudaEngine &engine;
	//! Before the buffers, which are its own
	const std::shared_ptr<DeviceMemory> memory;
	const uint32_t items;
	rmm::device_buffer nodes;
	rmm::device_buffer ids;
	rmm::device_buffer leaves;

private:
	void FindTile(const Vec2 *points, size_t first, size_t tile, uint32_t k, double most, PackedNeighbours &neighbours,
	              GpuTimes &times);
};

std::unique_ptr<GpuPoints> CudaEngine::KnnPoints(const float *nodes, const UninitializedVector<uint32_t> &ids,
                                                 const UninitializedVector<double> &leaves, Parallel &parallel,
                                                 GpuTimes &times) {
	if (ids.empty() || ids.size() >= std::numeric_limits<uint32_t>::max()) {
		throw GpuError("a tree of no points, or of more than 32 bits can number");
	}
	Need(KernelNeeds(KernelSet::KNN), "knn", times);
	const size_t node_bytes = size_t(vibe::NodeLevels::Of(ids.size()).NodeCount()) * sizeof(vibe::PackedNode);
	auto made = std::make_unique<DevicePoints>(*this, CurrentMemory(), static_cast<uint32_t>(ids.size()));
	auto lease = streams->Take();
	auto &stream = *lease;
	const auto begin = Clock::now();
	auto put = [&](rmm::device_buffer &buffer, const void *from, size_t bytes) {
		buffer = made->memory->Allocate(bytes, stream.View());
		stream.CopyToDevice(buffer.data(), from, bytes, parallel);
		times.bytes_to_device += bytes;
	};
	put(made->nodes, nodes, node_bytes);
	put(made->ids, ids.data(), ids.size() * sizeof(uint32_t));
	put(made->leaves, leaves.data(), leaves.size() * sizeof(double));
	// Other streams will read it
	stream.Synchronize();
	times.to_device_ms += EndStep("query", "to device", begin);
	return made;
}

void DevicePoints::Find(const Vec2 *points, size_t count, uint32_t k, double most, PackedNeighbours &neighbours,
                        GpuTimes &times) {
	if (k == 0 || k > MAX_K) {
		throw GpuError("the device finds 1 to 32 neighbours");
	}
	neighbours.count = count;
	neighbours.found.resize(count);
	neighbours.rows.resize(count * k);
	neighbours.distances.resize(count * k);
	GpuTimes waited;
	engine.Need(KernelNeeds(KernelSet::KNN), "knn", waited);
	times.wait_ms += waited.wait_ms;
	for (size_t first = 0; first < count; first += TILE) {
		FindTile(points, first, std::min(TILE, count - first), k, most, neighbours, times);
	}
}

void DevicePoints::FindTile(const Vec2 *points, size_t first, size_t tile, uint32_t k, double most,
                            PackedNeighbours &neighbours, GpuTimes &times) {
	auto lease = engine.streams->Take();
	auto &stream = *lease;
	auto begin = Clock::now();
	auto queries = memory->Allocate(tile * sizeof(Vec2), stream.View());
	auto found = memory->Allocate(tile * sizeof(uint32_t), stream.View());
	auto rows = memory->Allocate(tile * k * sizeof(uint32_t), stream.View());
	auto distances = memory->Allocate(tile * k * sizeof(double), stream.View());
	stream.CopyToDevice(queries.data(), points + first, tile * sizeof(Vec2));
	stream.Synchronize();
	times.bytes_to_device += tile * sizeof(Vec2);
	times.to_device_ms += engine.EndStep("query", "to device", begin);

	begin = Clock::now();
	void *tree = nodes.data(), *places = leaves.data(), *id = ids.data(), *from = queries.data();
	void *counts = found.data(), *to_rows = rows.data(), *to_distances = distances.data();
	uint32_t item_count = items, query_count = static_cast<uint32_t>(tile);
	auto levels = vibe::NodeLevels::Of(items);
	void *arguments[] = {Address(tree),       Address(levels), Address(places),      Address(id),
	                     Address(item_count), Address(from),   Address(query_count), Address(k),
	                     Address(most),       Address(counts), Address(to_rows),     Address(to_distances)};
	engine.Launch("point_distance", "knn_points", tile, stream, arguments);
	stream.Synchronize();
	times.kernel_ms += engine.EndStep("query", "kernels", begin);

	begin = Clock::now();
	stream.CopyFromDevice(neighbours.found.data() + first, found.data(), tile * sizeof(uint32_t));
	// Number n of a tile's points lie together, and so they do in the result
	for (size_t n = 0; n < k; n++) {
		stream.CopyFromDevice(neighbours.rows.data() + n * neighbours.count + first,
		                      static_cast<uint32_t *>(rows.data()) + n * tile, tile * sizeof(uint32_t));
		stream.CopyFromDevice(neighbours.distances.data() + n * neighbours.count + first,
		                      static_cast<double *>(distances.data()) + n * tile, tile * sizeof(double));
	}
	times.bytes_from_device += tile * (sizeof(uint32_t) + k * (sizeof(uint32_t) + sizeof(double)));
	times.from_device_ms += engine.EndStep("query", "from device", begin);
}

} // namespace vibespatial
