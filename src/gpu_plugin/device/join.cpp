// A spatial join on the device: the build side, and tiles of the probe side. A tile is one chain of kernels on a stream of
// its own: candidates from the tree, refined by what the condition asks, kept or counted; or everything from the cells at
// once. Nothing in the chain waits for the host, which reads one small head at the end.
#include "engine/relate/relate.hpp"
#include "engine/gpu/interface/join.hpp"

#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"
#include "gpu_plugin/compile/faults.hpp"
#include "gpu_plugin/device/launch.hpp"
#include "gpu_plugin/device/shapes.hpp"
#include "vibe/pairs.h"

#include <algorithm>
#include <cstring>

namespace vibespatial {

using vibe::Box;
using vibe::PairList;
using vibe::SideView;
using vibe::Vec2;

namespace {

using Clock = std::chrono::steady_clock;

//! Candidates that a tile has room for at first, for each of its rows
constexpr uint64_t CANDIDATES_PER_ROW = 4;
constexpr uint64_t LEAST_PAIRS = 16 << 10;
//! Candidates that are refined before somebody asks whether they are still wanted: some tenths of a second at most
constexpr uint64_t MOST_AT_ONCE = 4 << 20;

//! What a tile's counters say, in this order
struct Head {
	uint64_t candidates;
	uint64_t kept;
	uint64_t open;
	uint64_t left;
};

//! Pinned memory of a stream, by number; from the last one on that of the shapes
enum : size_t { PINNED_POINTS, PINNED_HEAD, PINNED_RESULT, PINNED_OPEN, PINNED_LEFT, PINNED_SHAPES };

template <class T>
T *At(rmm::device_buffer &buffer) {
	return static_cast<T *>(buffer.data());
}

class DeviceBuild : public GpuBuild {
public:
	explicit DeviceBuild(CudaEngine &engine) : engine(engine), memory(engine.CurrentMemory()) {
	}

	bool HasRows() const override {
		return has_rows.load(std::memory_order_acquire);
	}
	bool HasCells() const override {
		return has_cells.load(std::memory_order_acquire);
	}
	uint64_t Bytes() const override {
		return bytes;
	}

	void SetRows(const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) override {
		std::lock_guard<std::mutex> guard(lock);
		if (has_rows) {
			return;
		}
		engine.UseDevice();
		auto lease = engine.Streams().Take();
		stream = &*lease;
		tree = vibe::TreeView {};
		tree.rows = static_cast<uint32_t>(rows.count);
		if (rows.tree) {
			const auto &source = *rows.tree;
			tree.items = static_cast<uint32_t>(source.Count());
			tree.nodes = Copy(source.Nodes(), source.NodeCount() * vibe::NODE_FLOATS, parallel);
			tree.ids = reinterpret_cast<const vibe::i32 *>(Copy(source.Ids().data(), source.Count(), parallel));
			tree.boxes = Copy(rows.boxes->data(), rows.boxes->size(), parallel);
		} else {
			auto made = engine.PackTree(rows.boxes->data(), rows.boxes->size(), *stream, *memory, parallel, tree_times);
			tree.items = static_cast<uint32_t>(made.items);
			tree.nodes = Keep<float>(std::move(made.nodes));
			tree.ids = Keep<vibe::i32>(std::move(made.ids));
			tree.boxes = Keep<Box>(std::move(made.boxes));
		}
		tree.part_row = Copy(rows.part_row->data(), rows.part_row->size(), parallel);
		limits = rows.limits ? Copy(rows.limits, rows.count, parallel) : nullptr;
		if (rows.points) {
			side = SideView {nullptr, Copy(rows.points, rows.count, parallel)};
		} else {
			auto allocate = [&](size_t size) { return Allocate(size); };
			side = SideView {MakeShapes(engine, *stream, *memory, rows, parallel, allocate, has_points, has_large),
			                 nullptr};
		}
		stream->Synchronize();
		row_count = rows.count;
		has_rows.store(true, std::memory_order_release);
	}

	void SetCells(const CellIndex::Pieces &pieces, size_t rows, Parallel &parallel) override {
		std::lock_guard<std::mutex> guard(lock);
		if (has_cells) {
			return;
		}
		engine.UseDevice();
		auto lease = engine.Streams().Take();
		stream = &*lease;
		cells = pieces.view;
		cells.top_words = Copy(pieces.top_words, pieces.top_word_count, parallel);
		cells.vertices = Copy(pieces.vertices, pieces.vertex_count, parallel);
		auto *pool = static_cast<uint8_t *>(Allocate(pieces.chunks.size() * CellIndex::CHUNK_BYTES));
		parallel.For(pieces.chunks.size(), [&](size_t i) {
			engine.UseDevice();
			stream->CopyToDevice(pool + i * CellIndex::CHUNK_BYTES, pieces.chunks[i], CellIndex::CHUNK_BYTES);
		});
		cells.pool = pool;
		stream->Synchronize();
		row_count = rows;
		has_cells.store(true, std::memory_order_release);
	}

	// Once they are there
	vibe::TreeView tree {};
	SideView side {};
	//! Some shapes are points, or large
	bool has_points = false;
	bool has_large = false;
	const double *limits = nullptr;
	vibe::CellsView cells {};
	std::atomic<size_t> row_count {0};

private:
	void *Allocate(size_t size) {
		buffers.push_back(memory->Allocate(std::max<size_t>(size, 8), stream->View()));
		bytes += buffers.back().size();
		return buffers.back().data();
	}
	template <class T>
	const T *Keep(rmm::device_buffer buffer) {
		bytes += buffer.size();
		buffers.push_back(std::move(buffer));
		return At<T>(buffers.back());
	}
	template <class T>
	const T *Copy(const T *from, size_t count, Parallel &parallel) {
		auto *to = static_cast<T *>(Allocate(count * sizeof(T)));
		if (count > 0) {
			stream->CopyToDevice(to, from, count * sizeof(T), parallel);
		}
		return to;
	}
	CudaEngine &engine;
	std::shared_ptr<DeviceMemory> memory;
	std::mutex lock;
	DeviceStream *stream = nullptr;
	std::vector<rmm::device_buffer> buffers;
	std::atomic<uint64_t> bytes {0};
	std::atomic<bool> has_rows {false};
	std::atomic<bool> has_cells {false};
};

class DeviceTile : public GpuTile {
public:
	DeviceTile(CudaEngine &engine, std::shared_ptr<GpuBuild> build_p, const JoinCondition &condition)
	    : engine(engine), held(std::move(build_p)), build(static_cast<DeviceBuild &>(*held)), condition(condition),
	      memory(engine.CurrentMemory()), lease(engine.Streams().Take()), stream(*lease),
	      shapes(engine, stream, *memory, "join", PINNED_SHAPES) {
		for (auto &event : events) {
			CheckCuda(cudaEventCreate(&event), "an event");
		}
		for (auto &term : condition.any_of) {
			if (term.kind == JoinTerm::RELATE) {
				for (auto location : {vibe::LOC_INTERIOR, vibe::LOC_BOUNDARY}) {
					answers |= PointInArea(term.predicate, true).answer[location] ? 1u << location : 0;
				}
			}
		}
	}
	~DeviceTile() override {
		// What was begun uses memory that the next one gets
		cudaStreamSynchronize(stream.Handle());
		for (auto &event : events) {
			cudaEventDestroy(event);
		}
	}
	DeviceTile(const DeviceTile &) = delete;
	DeviceTile &operator=(const DeviceTile &) = delete;

	Vec2 *Points(size_t capacity) override {
		engine.UseDevice();
		return static_cast<Vec2 *>(stream.Pinned(PINNED_POINTS, capacity * sizeof(Vec2)));
	}
	uint8_t *Block(size_t number) override {
		engine.UseDevice();
		return shapes.Block(number);
	}

	uint64_t HostBytes() const override {
		return stream.PinnedBytes();
	}

	void Begin(const GpuTileInput &input_p) override {
		engine.UseDevice();
		if (!(input_p.use_cells ? build.HasCells() : build.HasRows())) {
			throw GpuError("the build side is not on the device");
		}
		input = input_p;
		result = GpuTileResult {};
		begun = Clock::now();
		CheckCuda(cudaEventRecord(events[0], stream.Handle()), "an event");
		Upload();
		CheckCuda(cudaEventRecord(events[1], stream.Handle()), "an event");
		candidate_capacity = std::max(candidate_capacity, std::max(LEAST_PAIRS, CANDIDATES_PER_ROW * input.count));
		kept_capacity = std::max(kept_capacity, std::max(LEAST_PAIRS, uint64_t(input.count)));
		open_capacity = std::max(open_capacity, LEAST_PAIRS);
		Run();
	}

	const GpuTileResult &Finish() override {
		engine.UseDevice();
		auto &head = *static_cast<Head *>(stream.Pinned(PINNED_HEAD, sizeof(Head)));
		while (true) {
			Faults::Get().Check(Fault::WAIT);
			CheckCuda(cudaEventSynchronize(events[3]), "the device");
			AddTimes();
			if (head.candidates <= candidate_capacity && head.kept <= kept_capacity && head.open <= open_capacity) {
				break;
			}
			// Once more with as much room as there are pairs
			candidate_capacity = std::max<uint64_t>(candidate_capacity, head.candidates);
			kept_capacity = std::max<uint64_t>(kept_capacity, head.kept);
			open_capacity = std::max<uint64_t>(open_capacity, head.open);
			CheckCuda(cudaEventRecord(events[0], stream.Handle()), "an event");
			CheckCuda(cudaEventRecord(events[1], stream.Handle()), "an event");
			Run();
		}
		result.candidates = head.candidates;
		result.open = head.open;
		if (input.output == GpuOutput::PAIRS) {
			result.pairs = head.kept;
			Fetch(kept, head.kept, copied_pairs, PINNED_RESULT, result.probe, result.build);
		} else if (input.output == GpuOutput::COUNTS) {
			result.counts = static_cast<const uint32_t *>(stream.Pinned(PINNED_RESULT, 0));
		} else {
			result.found = static_cast<const uint8_t *>(stream.Pinned(PINNED_RESULT, 0));
		}
		Fetch(open, head.open, 0, PINNED_OPEN, result.open_probe, result.open_build);
		FetchLeft(head.left);
		return result;
	}

private:
	//! A list of pairs in temporary storage of the stream
	PairList List(const char *name, uint64_t capacity, uint64_t *total, bool with_results) {
		const uint64_t bytes = capacity * (2 * sizeof(uint32_t) + (with_results ? 1 : 0));
		auto *at = static_cast<uint32_t *>(stream.Temporary(name, bytes, *memory));
		return PairList {at, at + capacity, with_results ? reinterpret_cast<vibe::u8 *>(at + 2 * capacity) : nullptr,
		                 reinterpret_cast<vibe::u64 *>(total), capacity};
	}

	void Upload() {
		const size_t end = input.first + input.count;
		if (input.shapes) {
			shapes.Upload(*input.shapes, input.first, input.count, result.times);
		} else {
			auto *points = static_cast<Vec2 *>(stream.Temporary("join points", end * sizeof(Vec2), *memory));
			const auto *from = static_cast<const Vec2 *>(stream.Pinned(PINNED_POINTS, 0));
			CheckCuda(cudaMemcpyAsync(points + input.first, from + input.first, input.count * sizeof(Vec2),
			                          cudaMemcpyHostToDevice, stream.Handle()),
			          "a copy to the device");
			probe = SideView {nullptr, points + input.first};
			result.times.bytes_to_device += input.count * sizeof(Vec2);
		}
		probe_limits = nullptr;
		if (input.limits) {
			auto *to = static_cast<double *>(stream.Temporary("join limits", input.count * sizeof(double), *memory));
			stream.CopyToDevice(to, input.limits + input.first, input.count * sizeof(double));
			probe_limits = to;
			result.times.bytes_to_device += input.count * sizeof(double);
		}
	}

	template <class... ARGUMENTS>
	void Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments) {
		void *pointers[] = {static_cast<void *>(&arguments)...};
		const auto blocks = static_cast<unsigned>((threads + BLOCK - 1) / BLOCK);
		auto &kernel = kernels[entry_point];
		if (!kernel) {
			kernel = engine.Kernel(unit, entry_point);
		}
		Faults::Get().Check(Fault::LAUNCH);
		Faults::Get().Spoil(pointers, sizeof...(arguments));
		CheckCuda(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(blocks), dim3(BLOCK), pointers, 0,
		                           stream.Handle()),
		          entry_point);
	}

	void Run() {
		const auto count = static_cast<uint32_t>(input.count);
		const size_t rows = build.row_count;
		auto *head = static_cast<Head *>(stream.Temporary("join head", sizeof(Head), *memory));
		CheckCuda(cudaMemsetAsync(head, 0, sizeof(Head), stream.Handle()), "memory");
		if (input.shapes) {
			left = static_cast<vibe::u32 *>(stream.Temporary("join left", count * sizeof(uint32_t), *memory));
			probe =
			    SideView {shapes.Decode(input.leave_empty, left, reinterpret_cast<vibe::u64 *>(&head->left)), nullptr};
		}
		uint32_t *counts = nullptr;
		vibe::u8 *found = nullptr;
		if (input.output == GpuOutput::COUNTS) {
			counts = static_cast<uint32_t *>(stream.Temporary("join counts", rows * sizeof(uint32_t) + 8, *memory));
			CheckCuda(cudaMemsetAsync(counts, 0, rows * sizeof(uint32_t), stream.Handle()), "memory");
		} else if (input.output == GpuOutput::FOUND) {
			found = static_cast<vibe::u8 *>(stream.Temporary("join found", input.count, *memory));
			CheckCuda(cudaMemsetAsync(found, 0, input.count, stream.Handle()), "memory");
		}
		const bool pairs = input.output == GpuOutput::PAIRS;
		kept = List("join pairs", pairs ? kept_capacity : 1, &head->kept, false);
		open = List("join open pairs", open_capacity, &head->open, false);
		if (input.use_cells) {
			if (pairs) {
				Launch("point_in_polygon", "cell_pairs", count, build.cells, probe.points, count, answers, kept);
			} else if (counts) {
				Launch("point_in_polygon", "cell_counts", count, build.cells, probe.points, count, answers, counts);
			} else {
				Launch("point_in_polygon", "cell_found", count, build.cells, probe.points, count, answers, found);
			}
		} else {
			auto candidates = List("join candidates", candidate_capacity, &head->candidates, true);
			Refine(candidates, count);
			Launch("spatial_query", "keep_pairs", std::min(LOOPING_THREADS, candidate_capacity), candidates,
			       static_cast<uint32_t>(input.output), kept, counts, found, open);
		}
		CheckCuda(cudaEventRecord(events[2], stream.Handle()), "an event");

		Read(PINNED_HEAD, head, sizeof(Head));
		copied_pairs = 0;
		if (counts) {
			Read(PINNED_RESULT, counts, rows * sizeof(uint32_t));
		} else if (found) {
			Read(PINNED_RESULT, found, input.count);
		} else {
			// Mostly all of them; the host asks for the rest
			copied_pairs = std::min<uint64_t>(kept_capacity, input.count);
			auto *to = static_cast<char *>(stream.Pinned(PINNED_RESULT, 2 * copied_pairs * sizeof(uint32_t)));
			ReadTo(to, kept.left, copied_pairs * sizeof(uint32_t));
			ReadTo(to + copied_pairs * sizeof(uint32_t), kept.right, copied_pairs * sizeof(uint32_t));
		}
		CheckCuda(cudaEventRecord(events[3], stream.Handle()), "an event");
	}

	//! Candidates of the tile, and what the condition says of them
	void Refine(const PairList &candidates, uint32_t count) {
		vibe::LimitView limits {condition.limit, nullptr, nullptr, condition.compared, condition.strict};
		bool skip_negative = false;
		if (condition.limit_from == JoinLimit::NONE) {
			limits = vibe::LimitView {0, nullptr, nullptr, false, false};
		} else {
			skip_negative = condition.any_of.size() == 1 && condition.limit_from != JoinLimit::SUM;
			limits.left = condition.limit_from == JoinLimit::PROBE || condition.limit_from == JoinLimit::SUM
			                  ? probe_limits
			                  : nullptr;
			limits.right = condition.limit_from == JoinLimit::BUILD || condition.limit_from == JoinLimit::SUM
			                   ? build.limits
			                   : nullptr;
		}
		Launch("spatial_query", "tree_pairs", count, build.tree, probe, count, limits,
		       static_cast<uint32_t>(skip_negative), candidates);
		for (uint64_t begin = 0; begin < candidates.capacity; begin += MOST_AT_ONCE) {
			if (begin > 0 && input.poll) {
				stream.Synchronize();
				input.poll();
			}
			RefineSome(candidates.From(begin, std::min<uint64_t>(MOST_AT_ONCE, candidates.capacity - begin)), limits);
		}
	}

	void RefineSome(const PairList &candidates, const vibe::LimitView &limits) {
		const uint64_t threads = std::min<uint64_t>(LOOPING_THREADS, candidates.capacity);
		const bool probe_points = probe.points != nullptr, build_points = build.side.points != nullptr;
		const bool shapes_only = !probe_points && !build_points;
		const bool large = shapes_only && (build.has_large || input.shapes->HasLarge());
		const auto distances = [&](const vibe::LimitView &within, bool empty_is_near, bool of_large) {
			Launch("segment_distance", "shape_distances", of_large ? LOOPING_THREADS : threads, probe, build.side,
			       candidates, within, static_cast<uint32_t>(empty_is_near), static_cast<uint32_t>(of_large),
			       large ? RELATE_VERTICES : ANY_VERTICES, static_cast<double *>(nullptr));
		};
		for (auto &term : condition.any_of) {
			if (term.kind == JoinTerm::BOXES) {
				Launch("spatial_query", "box_pairs", threads, probe, build.side, candidates);
			} else if (term.kind == JoinTerm::DISTANCE && probe_points && build_points) {
				Launch("point_distance", "points_within", threads, probe, build.side, candidates, limits);
			} else if (term.kind == JoinTerm::DISTANCE) {
				distances(limits, term.empty_is_near, false);
				if (large) {
					distances(limits, term.empty_is_near, true);
				}
			} else if (probe_points || build_points) {
				Launch("point_binary_relations", "point_relations", threads, probe, build.side, candidates,
				       static_cast<uint32_t>(term.predicate), static_cast<uint32_t>(probe_points));
			} else {
				const bool points = build.has_points || input.shapes->HasPoints();
				const bool by_distance = large && term.predicate == vibe::PREDICATE_INTERSECTS;
				if (by_distance) {
					distances(vibe::LimitView {0, nullptr, nullptr, false, false}, false, true);
				}
				if (points) {
					Launch("multipoint_binary_relations", "multipoint_relations", threads, probe, build.side,
					       candidates, static_cast<uint32_t>(term.predicate), RELATE_VERTICES);
				}
				const uint64_t walkers = RelateThreads(candidates.capacity, memory->Limit());
				auto *arena = static_cast<vibe::u8 *>(stream.Temporary("relate arena", walkers * RELATE_SLAB, *memory));
				Launch("polygon_predicates", "relate_pairs", walkers, probe, build.side, candidates,
				       static_cast<uint32_t>(term.predicate), RELATE_VERTICES, arena, RELATE_SLAB,
				       static_cast<uint32_t>(points), static_cast<uint32_t>(by_distance),
				       static_cast<vibe::Matrix *>(nullptr));
			}
		}
	}

	void ReadTo(void *to, const void *from, size_t bytes) {
		if (bytes > 0) {
			CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.Handle()),
			          "a copy from the device");
			result.times.bytes_from_device += bytes;
		}
	}
	void Read(size_t pinned, const void *from, size_t bytes) {
		ReadTo(stream.Pinned(pinned, std::max<size_t>(bytes, 1)), from, bytes);
	}

	//! Pairs of a list, of which some have been copied already
	void Fetch(const PairList &list, uint64_t count, uint64_t copied, size_t pinned, const uint32_t *&probe_rows,
	           const uint32_t *&build_rows) {
		auto *at = static_cast<uint32_t *>(stream.Pinned(pinned, 2 * std::max(count, copied) * sizeof(uint32_t)));
		uint64_t room = copied;
		if (count > copied) {
			ReadTo(at, list.left, count * sizeof(uint32_t));
			ReadTo(at + count, list.right, count * sizeof(uint32_t));
			stream.Synchronize();
			room = count;
		}
		for (uint64_t i = 0; input.first > 0 && i < count; i++) {
			at[i] += static_cast<uint32_t>(input.first);
		}
		probe_rows = at;
		build_rows = at + room;
	}

	void FetchLeft(uint64_t count) {
		if (count == 0) {
			return;
		}
		auto *at = static_cast<uint32_t *>(stream.Pinned(PINNED_LEFT, count * sizeof(uint32_t)));
		ReadTo(at, left, count * sizeof(uint32_t));
		stream.Synchronize();
		for (uint64_t i = 0; i < count; i++) {
			at[i] += static_cast<uint32_t>(input.first);
		}
		result.left = at;
		result.left_count = count;
	}

	void AddTimes() {
		float to_device = 0, kernel = 0, from_device = 0;
		CheckCuda(cudaEventElapsedTime(&to_device, events[0], events[1]), "an event");
		CheckCuda(cudaEventElapsedTime(&kernel, events[1], events[2]), "an event");
		CheckCuda(cudaEventElapsedTime(&from_device, events[2], events[3]), "an event");
		result.times.to_device_ms += static_cast<double>(to_device);
		result.times.kernel_ms += static_cast<double>(kernel);
		result.times.from_device_ms += static_cast<double>(from_device);
	}

	CudaEngine &engine;
	std::shared_ptr<GpuBuild> held;
	DeviceBuild &build;
	const JoinCondition condition;
	std::shared_ptr<DeviceMemory> memory;
	StreamPool::Lease lease;
	DeviceStream &stream;
	DeviceShapes shapes;
	//! Begin, copied, computed, read
	cudaEvent_t events[4] = {};
	std::map<std::string, cudaKernel_t> kernels;
	uint32_t answers = 0;
	GpuTileInput input;
	GpuTileResult result;
	Clock::time_point begun;
	SideView probe {};
	vibe::u32 *left = nullptr;
	const double *probe_limits = nullptr;
	PairList kept {};
	PairList open {};
	uint64_t candidate_capacity = 0;
	uint64_t kept_capacity = 0;
	uint64_t open_capacity = 0;
	uint64_t copied_pairs = 0;
};

} // namespace

std::shared_ptr<GpuBuild> CudaEngine::FindBuild(const BuildKey &key) {
	return resident.Find(key);
}

std::shared_ptr<GpuBuild> CudaEngine::NewBuild() {
	return std::make_shared<DeviceBuild>(*this);
}

void CudaEngine::KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) {
	resident.Keep(key, build);
}

std::unique_ptr<GpuTile> CudaEngine::NewTile(const std::shared_ptr<GpuBuild> &build, const JoinCondition &condition) {
	UseDevice();
	return std::make_unique<DeviceTile>(*this, build, condition);
}

} // namespace vibespatial
