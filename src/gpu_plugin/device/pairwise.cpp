// Functions of two geometries, row by row: both sides go up, the kernels of a join's refinement run over the pairs (i, i), or
// (i, 0) where one geometry is for all rows, one answer a row comes back.
#include "gpu_plugin/device/bulk.hpp"
#include "gpu_plugin/device/shapes.hpp"
#include "vibe/pairs.h"

#include <cstring>

namespace vibespatial {

namespace {

//! Pinned memory of a stream, by number; from the last one on that of the shapes, left and right in turn
enum : size_t { PINNED_RESULTS, PINNED_DISTANCES, PINNED_SHAPES };

class DevicePairwise : public DeviceBulk {
public:
	DevicePairwise(CudaEngine &engine, const BulkTask &task)
	    : DeviceBulk(engine, task), left_shapes(engine, stream, *memory, "pairwise left", PINNED_SHAPES, 2),
	      right_shapes(engine, stream, *memory, "pairwise right", PINNED_SHAPES + 1, 2) {
	}

	uint8_t *Block(bool left, size_t number) override {
		engine.UseDevice();
		return (left ? left_shapes : right_shapes).Block(number);
	}

	void Begin(const BulkInput &input) override {
		Start(input);
		auto left = Upload(*input.left, input, input.left_is_constant, left_shapes, "pairwise points left");
		auto right = Upload(*input.right, input, input.right_is_constant, right_shapes, "pairwise points right");
		const double *limits = nullptr;
		if (input.limits) {
			auto *to = Memory<double>("pairwise limits", count);
			Copy(to, input.limits + input.first, count);
			limits = to;
		}
		const auto pairs = Number(input);
		Record(COPIED);
		Decode(left_shapes, left);
		Decode(right_shapes, right);
		// By the side whose row is that of the pair
		const bool by_right = input.left_is_constant, by_left = !by_right;
		has_points = input.left->Shapes().HasPoints() || input.right->Shapes().HasPoints();
		has_large =
		    !left.points && !right.points && (input.left->Shapes().HasLarge() || input.right->Shapes().HasLarge());
		Run(left, right, vibe::LimitView {0, by_left ? limits : nullptr, by_right ? limits : nullptr, false, false},
		    pairs);
		Record(COMPUTED);
		result.results = Read(PINNED_RESULTS, pairs.results, count);
		if (distances) {
			result.numbers = Read(PINNED_DISTANCES, distances, count);
		}
		Record(READ);
	}

private:
	vibe::SideView Upload(const BulkSide &side, const BulkInput &input, bool is_constant, DeviceShapes &shapes,
	                      const char *name) {
		const size_t first = is_constant ? 0 : input.first, size = is_constant ? 1 : count;
		if (side.IsPoints()) {
			auto *points = Memory<vibe::Vec2>(name, size);
			Copy(points, side.Points().data() + first, size);
			return vibe::SideView {nullptr, points};
		}
		shapes.Upload(side.Shapes(), first, size, result.times);
		return vibe::SideView {nullptr, nullptr};
	}
	//! Rows that are not known stay open
	static void Decode(DeviceShapes &shapes, vibe::SideView &side) {
		if (!side.points) {
			side.shapes = shapes.Decode(false, nullptr, nullptr);
		}
	}

	//! The pairs, none of them known
	vibe::PairList Number(const BulkInput &input) {
		// How many in the first two words
		numbers.resize(2 + count);
		const uint64_t total = count;
		std::memcpy(numbers.data(), &total, sizeof(total));
		for (size_t i = 0; i < count; i++) {
			numbers[2 + i] = static_cast<uint32_t>(i);
		}
		auto *to = Memory<uint32_t>("pairwise numbers", numbers.size());
		Copy(to, numbers.data(), numbers.size());
		auto *results = Zeros<vibe::u8>("pairwise results", count);
		auto rows_of = [&](bool is_constant, const char *name) {
			return is_constant ? Zeros<uint32_t>(name, count) : to + 2;
		};
		return vibe::PairList {rows_of(input.left_is_constant, "pairwise rows left"),
		                       rows_of(input.right_is_constant, "pairwise rows right"), results,
		                       reinterpret_cast<vibe::u64 *>(to), count};
	}

	void Run(const vibe::SideView &left, const vibe::SideView &right, const vibe::LimitView &limits,
	         const vibe::PairList &pairs) {
		const uint64_t threads = std::min<uint64_t>(LOOPING_THREADS, count);
		const auto predicate = static_cast<uint32_t>(task.predicate);
		distances = nullptr;
		if (task.kind == BulkTask::DISTANCE) {
			distances = Memory<double>("pairwise distances", count);
		}
		const auto measure = [&](const vibe::LimitView &within, bool of_large) {
			Launch("segment_distance", "shape_distances", of_large ? LOOPING_THREADS : threads, left, right, pairs,
			       within, uint32_t(0), static_cast<uint32_t>(of_large), has_large ? RELATE_VERTICES : ANY_VERTICES,
			       distances);
		};
		if (task.kind == BulkTask::WITHIN && left.points && right.points) {
			Launch("point_distance", "points_within", threads, left, right, pairs, limits);
		} else if (task.kind != BulkTask::RELATE) {
			measure(limits, false);
			if (has_large) {
				measure(limits, true);
			}
		} else if (left.points || right.points) {
			Launch("point_binary_relations", "point_relations", threads, left, right, pairs, predicate,
			       static_cast<uint32_t>(left.points != nullptr));
		} else {
			if (has_points) {
				Launch("multipoint_binary_relations", "multipoint_relations", threads, left, right, pairs, predicate,
				       RELATE_VERTICES);
			}
			const bool by_distance = has_large && task.predicate == vibe::PREDICATE_INTERSECTS;
			if (by_distance) {
				measure(vibe::LimitView {0, nullptr, nullptr, false, false}, true);
			}
			const uint64_t walkers = RelateThreads(count, memory->Limit());
			// A slab for every thread that is launched
			auto *arena = Memory<vibe::u8>("relate arena", walkers * RELATE_SLAB);
			Launch("polygon_predicates", "relate_pairs", walkers, left, right, pairs, predicate, RELATE_VERTICES, arena,
			       RELATE_SLAB, static_cast<uint32_t>(has_points), static_cast<uint32_t>(by_distance),
			       static_cast<vibe::Matrix *>(nullptr));
		}
	}

	DeviceShapes left_shapes;
	DeviceShapes right_shapes;
	//! Some shapes are points, or large
	bool has_points = false;
	bool has_large = false;
	double *distances = nullptr;
	std::vector<uint32_t> numbers;
};

} // namespace

std::unique_ptr<GpuBulk> MakePairwise(CudaEngine &engine, const BulkTask &task) {
	return std::make_unique<DevicePairwise>(engine, task);
}

} // namespace vibespatial
