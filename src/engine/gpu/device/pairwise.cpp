// Functions of two geometries, row by row: both sides go up, the kernels of a join's refinement run over the pairs (i, i), or
// (i, 0) where one geometry is for all rows, one answer a row comes back. All of it is one chain on a stream of its own, which the host waits for once.
#include "engine/gpu_pairwise.hpp"

#include "engine/gpu/device/check.hpp"
#include "engine/gpu/device/device.hpp"
#include "engine/gpu/faults.hpp"
#include "engine/gpu/device/launch.hpp"
#include "engine/gpu/device/shapes.hpp"
#include "vibe/pairs.h"

#include <algorithm>
#include <cstring>

namespace vibespatial {

namespace {

//! Pinned memory of a stream, by number; from the last one on that of the shapes, left and right in turn
enum : size_t { PINNED_RESULTS, PINNED_DISTANCES, PINNED_SHAPES };

class DevicePairwise : public GpuPairwise {
public:
	DevicePairwise(CudaEngine &engine, const PairwiseTask &task)
	    : engine(engine), task(task), memory(engine.CurrentMemory()), lease(engine.Streams().Take()), stream(*lease),
	      left_shapes(engine, stream, *memory, "pairwise left", PINNED_SHAPES, 2),
	      right_shapes(engine, stream, *memory, "pairwise right", PINNED_SHAPES + 1, 2) {
		for (auto &event : events) {
			CheckCuda(cudaEventCreate(&event), "an event");
		}
	}
	~DevicePairwise() override {
		// What was begun uses memory that the next one gets
		cudaStreamSynchronize(stream.Handle());
		for (auto &event : events) {
			cudaEventDestroy(event);
		}
	}
	DevicePairwise(const DevicePairwise &) = delete;
	DevicePairwise &operator=(const DevicePairwise &) = delete;

	uint8_t *Block(bool left, size_t number) override {
		engine.UseDevice();
		return (left ? left_shapes : right_shapes).Block(number);
	}

	void Begin(const PairwiseInput &input) override {
		engine.UseDevice();
		result = PairwiseResult {};
		count = input.count;
		Record(0);
		auto left = Upload(*input.left, left_shapes, "pairwise points left");
		auto right = Upload(*input.right, right_shapes, "pairwise points right");
		const double *limits = nullptr;
		if (input.limits) {
			auto *to = Memory<double>("pairwise limits", count);
			Copy(to, input.limits, count);
			limits = to;
		}
		const auto pairs = Number(input);
		Record(1);
		Decode(left_shapes, left);
		Decode(right_shapes, right);
		// By the side whose row is that of the pair
		const bool by_right = input.left->Count() != count;
		Run(left, right, vibe::LimitView {0, by_right ? nullptr : limits, by_right ? limits : nullptr, false, false},
		    pairs);
		Record(2);
		result.results = static_cast<const uint8_t *>(Read(PINNED_RESULTS, pairs.results, count));
		if (distances) {
			result.distances = static_cast<const double *>(Read(PINNED_DISTANCES, distances, count * sizeof(double)));
		}
		Record(3);
	}

	const PairwiseResult &Finish() override {
		engine.UseDevice();
		Faults::Get().Check(Fault::WAIT);
		CheckCuda(cudaEventSynchronize(events[3]), "the device");
		result.times.to_device_ms = Between(0, 1);
		result.times.kernel_ms = Between(1, 2);
		result.times.from_device_ms = Between(2, 3);
		return result;
	}

private:
	void Record(size_t event) {
		CheckCuda(cudaEventRecord(events[event], stream.Handle()), "an event");
	}
	double Between(size_t begin, size_t end) {
		float milliseconds = 0;
		CheckCuda(cudaEventElapsedTime(&milliseconds, events[begin], events[end]), "an event");
		return static_cast<double>(milliseconds);
	}
	template <class T>
	T *Memory(const std::string &name, size_t items) {
		return static_cast<T *>(stream.Temporary(name, std::max<size_t>(items * sizeof(T), 8), *memory));
	}
	template <class T>
	void Copy(T *to, const T *from, size_t items) {
		if (items > 0) {
			stream.CopyToDevice(to, from, items * sizeof(T));
			result.times.bytes_to_device += items * sizeof(T);
		}
	}
	const void *Read(size_t pinned, const void *from, size_t bytes) {
		auto *to = stream.Pinned(pinned, std::max<size_t>(bytes, 1));
		CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.Handle()), "a copy from the device");
		result.times.bytes_from_device += bytes;
		return to;
	}

	vibe::SideView Upload(const PairwiseSide &side, DeviceShapes &shapes, const char *name) {
		if (side.IsPoints()) {
			auto *points = Memory<vibe::Vec2>(name, side.Count());
			Copy(points, side.Points().data(), side.Count());
			return vibe::SideView {nullptr, points};
		}
		shapes.Upload(side.Shapes(), 0, side.Count(), result.times);
		return vibe::SideView {nullptr, nullptr};
	}
	//! Rows that are not known stay open
	static void Decode(DeviceShapes &shapes, vibe::SideView &side) {
		if (!side.points) {
			side.shapes = shapes.Decode(false, nullptr, nullptr);
		}
	}

	//! The pairs, none of them known
	vibe::PairList Number(const PairwiseInput &input) {
		// How many in the first two words
		numbers.resize(2 + count);
		const uint64_t total = count;
		std::memcpy(numbers.data(), &total, sizeof(total));
		for (size_t i = 0; i < count; i++) {
			numbers[2 + i] = static_cast<uint32_t>(i);
		}
		auto *to = Memory<uint32_t>("pairwise numbers", numbers.size());
		Copy(to, numbers.data(), numbers.size());
		auto *results = Memory<vibe::u8>("pairwise results", count);
		CheckCuda(cudaMemsetAsync(results, vibe::PAIR_FALSE, count, stream.Handle()), "memory");
		auto rows_of = [&](const PairwiseSide &side, const char *name) {
			if (side.Count() == count) {
				return to + 2;
			}
			auto *zeros = Memory<uint32_t>(name, count);
			CheckCuda(cudaMemsetAsync(zeros, 0, count * sizeof(uint32_t), stream.Handle()), "memory");
			return zeros;
		};
		return vibe::PairList {rows_of(*input.left, "pairwise rows left"), rows_of(*input.right, "pairwise rows right"),
		                       results, reinterpret_cast<vibe::u64 *>(to), count};
	}

	template <class... ARGUMENTS>
	void Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments) {
		void *pointers[] = {static_cast<void *>(&arguments)...};
		const auto blocks = static_cast<unsigned>((std::max<uint64_t>(threads, 1) + BLOCK - 1) / BLOCK);
		Faults::Get().Check(Fault::LAUNCH);
		Faults::Get().Spoil(pointers, sizeof...(arguments));
		CheckCuda(cudaLaunchKernel(reinterpret_cast<const void *>(engine.Kernel(unit, entry_point)), dim3(blocks),
		                           dim3(BLOCK), pointers, 0, stream.Handle()),
		          entry_point);
	}

	void Run(const vibe::SideView &left, const vibe::SideView &right, const vibe::LimitView &limits,
	         const vibe::PairList &pairs) {
		const uint64_t threads = std::min<uint64_t>(LOOPING_THREADS, count);
		distances = nullptr;
		if (task.kind == PairwiseTask::DISTANCE) {
			distances = Memory<double>("pairwise distances", count);
		}
		if (task.kind == PairwiseTask::WITHIN && left.points && right.points) {
			Launch("point_distance", "points_within", threads, left, right, pairs, limits);
		} else if (task.kind != PairwiseTask::RELATE) {
			Launch("segment_distance", "shape_distances", threads, left, right, pairs, limits, uint32_t(0), distances);
		} else if (left.points || right.points) {
			Launch("point_binary_relations", "point_relations", threads, left, right, pairs,
			       static_cast<uint32_t>(task.predicate), static_cast<uint32_t>(left.points != nullptr));
		} else {
			const uint64_t walkers = RelateThreads(count, memory->Limit());
			// A slab for every thread that is launched
			auto *arena = Memory<vibe::u8>("relate arena", walkers * RELATE_SLAB);
			Launch("polygon_predicates", "relate_pairs", walkers, left, right, pairs,
			       static_cast<uint32_t>(task.predicate), RELATE_VERTICES, arena, RELATE_SLAB,
			       static_cast<vibe::Matrix *>(nullptr));
		}
	}

	CudaEngine &engine;
	const PairwiseTask task;
	std::shared_ptr<DeviceMemory> memory;
	StreamPool::Lease lease;
	DeviceStream &stream;
	DeviceShapes left_shapes;
	DeviceShapes right_shapes;
	//! Begin, copied, computed, read
	cudaEvent_t events[4] = {};
	PairwiseResult result;
	size_t count = 0;
	double *distances = nullptr;
	std::vector<uint32_t> numbers;
};

} // namespace

std::unique_ptr<GpuPairwise> CudaEngine::NewPairwise(const PairwiseTask &task) {
	UseDevice();
	return std::make_unique<DevicePairwise>(*this, task);
}

} // namespace vibespatial
