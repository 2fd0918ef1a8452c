#include "engine/gpu/machine/neighbours.hpp"

#include "engine/gpu/machine/block_pool.hpp"
#include "engine/gpu/machine/shapes.hpp"

namespace vibespatial {

using vibe::NodeLevels;
using vibe::Vec2;

namespace {

//! Numbers of pinned memory. The results are in two of each three from the first on, the shapes take the others.
enum : size_t { PINNED_POINTS, PINNED_FOUND, PINNED_RESULTS };
constexpr size_t STRIDE = 3;
constexpr size_t PINNED_SHAPES = PINNED_RESULTS + 2;

//! Events of the machine
enum : size_t { BEGUN, COPIED, COMPUTED, READ };

class MachineSearch : public GpuSearch {
public:
	MachineSearch(std::unique_ptr<Machine> machine_p, const std::shared_ptr<MachineBuild> &build_p, uint32_t k,
	              double most)
	    : held(build_p), build(*held), k(k), most(most), made(std::move(machine_p)), machine(*made),
	      shapes(machine, "knn", PINNED_SHAPES, STRIDE) {
		if (k == 0 || k > MAX_K) {
			throw GpuError("the device finds 1 to " + std::to_string(MAX_K) + " neighbours");
		}
		if (!build.HasRows() || build.tree.items == 0) {
			throw GpuError("there is nothing on the device to search among");
		}
	}

	Vec2 *Points(size_t capacity) override {
		machine.Use();
		return static_cast<Vec2 *>(machine.Pinned(PINNED_POINTS, capacity * sizeof(Vec2)));
	}
	uint8_t *Block(size_t number) override {
		machine.Use();
		return shapes.Block(number);
	}
	uint64_t HostBytes() const override {
		return machine.PinnedBytes();
	}

	void BeginPoints(size_t count) override {
		Start(count);
		auto *points = machine.Temporary<Vec2>("neighbour points", count);
		machine.PutPinned(points, machine.Pinned(PINNED_POINTS, 0), count * sizeof(Vec2));
		machine.Record(COPIED);
		const auto rows = static_cast<uint32_t>(count);
		if (build.leaves) {
			machine.Launch("point_distance", "knn_points", count, build.tree.nodes, levels, build.leaves,
			               reinterpret_cast<const vibe::u32 *>(build.tree.ids), build.tree.items,
			               static_cast<const Vec2 *>(points), rows, k, most, found, neighbours, distances);
		} else {
			machine.Launch("shape_neighbours", "knn_of_points", count, Items(), levels,
			               static_cast<const Vec2 *>(points), rows, k, most, found, neighbours, distances);
		}
		Read(count);
	}

	void BeginShapes(const ShapeRows &rows) override {
		const size_t count = rows.Count();
		Start(count);
		shapes.Upload(rows, 0, count);
		machine.Record(COPIED);
		const auto *views = shapes.Decode(false, nullptr, nullptr);
		machine.Launch("shape_neighbours", "knn_of_shapes", count, Items(), levels, views, static_cast<uint32_t>(count),
		               k, most, found, neighbours, distances);
		Read(count);
	}

	const GpuNeighbours &Finish() override {
		machine.Use();
		machine.Await(READ);
		result.times.to_device_ms = machine.Between(BEGUN, COPIED);
		result.times.kernel_ms = machine.Between(COPIED, COMPUTED);
		result.times.from_device_ms = machine.Between(COMPUTED, READ);
		machine.AddBytes(result.times);
		return result;
	}

private:
	vibe::NearestItems Items() const {
		return vibe::NearestItems {build.tree, build.leaves, build.side.shapes};
	}

	void Start(size_t count) {
		machine.Use();
		result = GpuNeighbours {};
		machine.Record(BEGUN);
		found = machine.Temporary<vibe::u32>("neighbour counts", count);
		neighbours = machine.Temporary<vibe::u32>("neighbour rows", count * k);
		distances = machine.Temporary<double>("neighbour distances", count * k);
	}

	//! Starts to read the results into blocks of the size that the pool of pinned memory keeps
	void Read(size_t count) {
		machine.Record(COMPUTED);
		result.count = count;
		auto *counts = static_cast<uint32_t *>(machine.Pinned(PINNED_FOUND, count * sizeof(uint32_t)));
		machine.GetPinned(counts, found, count * sizeof(uint32_t));
		result.found = counts;
		result.ranks = std::max<size_t>(1, BlockPool::LARGEST / (std::max<size_t>(count, 1) * sizeof(double)));
		for (size_t first = 0, number = PINNED_RESULTS; first < k; first += result.ranks, number += STRIDE) {
			const size_t items = std::min<size_t>(result.ranks, k - first) * count;
			auto *to = static_cast<double *>(machine.Pinned(number, items * sizeof(double)));
			auto *rows = static_cast<uint32_t *>(machine.Pinned(number + 1, items * sizeof(uint32_t)));
			machine.GetPinned(to, distances + first * count, items * sizeof(double));
			machine.GetPinned(rows, neighbours + first * count, items * sizeof(uint32_t));
			result.blocks.push_back(GpuNeighbours::Block {to, rows});
		}
		machine.Record(READ);
	}

	const std::shared_ptr<MachineBuild> held;
	const MachineBuild &build;
	const uint32_t k;
	const double most;
	const std::unique_ptr<Machine> made;
	Machine &machine;
	MachineShapes shapes;
	const NodeLevels levels = NodeLevels::Of(build.tree.items);
	vibe::u32 *found = nullptr;
	vibe::u32 *neighbours = nullptr;
	double *distances = nullptr;
	GpuNeighbours result;
};

} // namespace

std::unique_ptr<GpuSearch> MakeSearch(std::unique_ptr<Machine> machine, const std::shared_ptr<MachineBuild> &build,
                                      uint32_t k, double most) {
	return std::make_unique<MachineSearch>(std::move(machine), build, k, most);
}

} // namespace vibespatial
