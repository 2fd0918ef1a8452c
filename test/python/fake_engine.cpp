// A GPU plug-in without a GPU: it packs trees and finds neighbours on the CPU, runs the kernels of joins and unions on the host, and fails as FAKE_GPU says.
// For tests of what is around the engine.
#include "host_cuda.hpp"

#include "engine/relate/relate.hpp"
#include "engine/index/box_tree.hpp"
#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/interface/join.hpp"
#include "engine/gpu/interface/bulk.hpp"
#include "vibe/arena.h"
#include "vibe/box_node.h"
#include "vibe/cells.h"
#include "vibe/distance.h"
#include "vibe/measure.h"
#include "vibe/nearest.h"
#include "vibe/pairs.h"
#include "vibe/points.h"
#include "vibe/shape_build.h"
#include "vibe/thread.h"
#include "vibe/wkb.h"

#include "host_machine.hpp"

namespace multipoint_binary_relations_unit {
#include "kernels/multipoint_binary_relations.cu"
}
namespace point_binary_relations_unit {
#include "kernels/point_binary_relations.cu"
}
namespace point_constructive_unit {
#include "kernels/point_constructive.cu"
}
namespace point_distance_unit {
#include "kernels/point_distance.cu"
}
namespace point_in_polygon_unit {
#include "kernels/point_in_polygon.cu"
}
namespace polygon_predicates_unit {
#include "kernels/polygon_predicates.cu"
}
namespace segment_distance_unit {
#include "kernels/segment_distance.cu"
}
namespace spatial_query_unit {
#include "kernels/spatial_query.cu"
}
namespace wkb_encode_unit {
#include "kernels/wkb_encode.cu"
}

#include "engine/relate/relate.hpp"
#include "host_shapes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

using namespace vibespatial;

//! So few that some pairs of the tests are large
static constexpr uint32_t MAX_VERTICES = 100;

static bool Wants(const char *what) {
	auto fault = std::getenv("FAKE_GPU");
	return fault && std::string(fault) == what;
}

//! As a device that is lost says it, from its first answer on
static constexpr const char *LOST = "the device was lost: it is a fake; restart the process to use it again";
static std::atomic<bool> is_lost {false};

static void LoseDevice() {
	if (Wants("lost for good")) {
		is_lost = true;
		throw GpuError(LOST);
	}
}

static PackedBoxes Pack(const vibe::Box *boxes, size_t count, GpuTimes &times) {
	if (Wants("failure")) {
		throw GpuError("the fake device fell off");
	}
	Serial serial;
	BoxTree tree(boxes, count, serial);
	times.bytes_to_device = count * sizeof(vibe::Box);
	times.kernel_ms = 1;
	PackedBoxes packed;
	packed.ids = tree.Ids();
	if (Wants("nonsense")) {
		packed.ids.push_back(0);
		return packed;
	}
	packed.nodes.resize(tree.NodeCount());
	std::memcpy(packed.nodes.data(), tree.Nodes(), tree.NodeCount() * sizeof(vibe::PackedNode));
	return packed;
}

class FakeBuild : public GpuBuild {
public:
	bool HasRows() const override {
		return has_rows;
	}
	bool HasCells() const override {
		return has_cells;
	}
	uint64_t Bytes() const override {
		return 1000;
	}
	void SetRows(const GpuRows &rows, Parallel &, GpuTimes &tree_times) override {
		if (Wants("failed rows")) {
			throw GpuError("the fake device takes no rows");
		}
		std::unique_ptr<BoxTree> made;
		if (!rows.tree) {
			auto packed = Pack(rows.boxes->data(), rows.boxes->size(), tree_times);
			try {
				made = std::make_unique<BoxTree>(BoxTree::FromParts(std::move(packed.ids), std::move(packed.nodes)));
			} catch (const std::exception &error) {
				throw GpuError(error.what());
			}
		}
		const BoxTree &tree = made ? *made : *rows.tree;
		nodes.assign(tree.Nodes(), tree.Nodes() + tree.NodeCount() * vibe::NODE_FLOATS);
		ids.assign(tree.Ids().begin(), tree.Ids().end());
		boxes.assign(rows.boxes->begin(), rows.boxes->end());
		part_row = *rows.part_row;
		if (rows.points) {
			points.assign(rows.points, rows.points + rows.count);
		} else {
			shapes.Make(rows);
		}
		if (rows.limits) {
			limits.assign(rows.limits, rows.limits + rows.count);
		}
		count = rows.count;
		has_rows = true;
	}
	void SetCells(const CellIndex::Pieces &pieces, size_t rows, Parallel &) override {
		if (Wants("failed cells")) {
			throw GpuMemoryError("the fake device has no room");
		}
		for (auto *chunk : pieces.chunks) {
			auto *bytes = static_cast<const uint8_t *>(chunk);
			pool.insert(pool.end(), bytes, bytes + CellIndex::CHUNK_BYTES);
		}
		words.assign(pieces.top_words, pieces.top_words + pieces.top_word_count);
		vertices.assign(pieces.vertices, pieces.vertices + pieces.vertex_count);
		cells = pieces.view;
		cells.pool = pool.data();
		cells.top_words = words.data();
		cells.vertices = vertices.data();
		count = rows;
		has_cells = true;
	}

	std::atomic<bool> has_rows {false}, has_cells {false};
	std::vector<float> nodes;
	std::vector<vibe::i32> ids;
	std::vector<vibe::Box> boxes;
	std::vector<uint32_t> part_row;
	HostShapes shapes;
	std::vector<vibe::Vec2> points;
	std::vector<double> limits;
	std::vector<uint8_t> pool;
	std::vector<uint32_t> words;
	std::vector<vibe::Vec2> vertices;
	vibe::CellsView cells {};
	size_t count = 0;
};

//! Pairs, as a device has them
struct FakePairs {
	explicit FakePairs(size_t capacity)
	    : left(capacity), right(capacity),
	      results(capacity), list {left.data(), right.data(), results.data(), &total, capacity} {
	}
	std::vector<uint32_t> left, right;
	std::vector<uint8_t> results;
	vibe::u64 total = 0;
	vibe::PairList list;
};

class FakeTile : public GpuTile {
public:
	FakeTile(std::shared_ptr<GpuBuild> build_p, const JoinCondition &condition)
	    : held(std::move(build_p)), build(static_cast<FakeBuild &>(*held)), condition(condition) {
	}
	vibe::Vec2 *Points(size_t capacity) override {
		points.resize(capacity);
		return points.data();
	}
	uint8_t *Block(size_t number) override {
		if (blocks.size() <= number) {
			blocks.resize(number + 1);
		}
		blocks[number].resize(ShapeRows::BLOCK_BYTES);
		return blocks[number].data();
	}
	uint64_t HostBytes() const override {
		if (Wants("large host memory")) {
			return uint64_t(1) << 40;
		}
		return points.size() * sizeof(vibe::Vec2) + blocks.size() * ShapeRows::BLOCK_BYTES;
	}
	void Begin(const GpuTileInput &input_p) override {
		if (Wants("failed launch")) {
			throw GpuError("the fake device does not start");
		}
		if (Wants("no room") && input_p.count > 3) {
			throw GpuMemoryError("the fake device has no room");
		}
		if (!(input_p.use_cells ? build.HasCells() : build.HasRows())) {
			throw GpuError("the build side is not on the device");
		}
		input = input_p;
	}
	const GpuTileResult &Finish() override {
		LoseDevice();
		static std::atomic<int> finished {0};
		if (Wants("lost") && ++finished > 1) {
			throw GpuError("the fake device was lost");
		}
		if (Wants("late no room") && input.count > 3) {
			throw GpuMemoryError("the fake device has no room");
		}
		using host_cuda::Launch;
		constexpr uint64_t THREADS = 64;
		result = GpuTileResult {};
		result.times.bytes_to_device = input.count;
		const auto count = static_cast<uint32_t>(input.count);
		shapes.left.clear();
		if (input.shapes) {
			shapes.Make(*input.shapes, input.first, input.count, input.leave_empty);
		}
		vibe::SideView probe {input.shapes ? shapes.views.data() : nullptr, points.data() + input.first};
		vibe::SideView side {build.points.empty() ? build.shapes.views.data() : nullptr, build.points.data()};
		counts.assign(build.count, 0);
		found.assign(input.count, 0);
		FakePairs candidates(capacity);
		kept = std::make_unique<FakePairs>(capacity);
		open = std::make_unique<FakePairs>(capacity);
		if (input.use_cells) {
			uint32_t answers = 0;
			for (auto &term : condition.any_of) {
				for (auto location : {vibe::LOC_INTERIOR, vibe::LOC_BOUNDARY}) {
					answers |= PointInArea(term.predicate, true).answer[location] ? 1u << location : 0;
				}
			}
			Launch(point_in_polygon_unit::cell_pairs, count, true, build.cells, probe.points, count, answers,
			       kept->list);
			Launch(point_in_polygon_unit::cell_counts, count, true, build.cells, probe.points, count, answers,
			       counts.data());
			Launch(point_in_polygon_unit::cell_found, count, true, build.cells, probe.points, count, answers,
			       found.data());
		} else {
			const vibe::TreeView tree {build.nodes.data(),
			                           build.ids.data(),
			                           static_cast<uint32_t>(build.ids.size()),
			                           build.boxes.data(),
			                           static_cast<uint32_t>(build.count),
			                           build.part_row.data()};
			const auto from = condition.limit_from;
			vibe::LimitView limits {from == JoinLimit::NONE ? 0 : condition.limit, nullptr, nullptr,
			                        from != JoinLimit::NONE && condition.compared,
			                        from != JoinLimit::NONE && condition.strict};
			limits.left = from == JoinLimit::PROBE || from == JoinLimit::SUM ? input.limits + input.first : nullptr;
			limits.right = from == JoinLimit::BUILD || from == JoinLimit::SUM ? build.limits.data() : nullptr;
			const bool skip = from != JoinLimit::NONE && condition.any_of.size() == 1 && from != JoinLimit::SUM;
			Launch(spatial_query_unit::tree_pairs, count, true, tree, probe, count, limits, skip ? 1u : 0u,
			       candidates.list);
			for (auto &term : condition.any_of) {
				const auto predicate = static_cast<uint32_t>(term.predicate);
				if (term.kind == JoinTerm::BOXES) {
					Launch(spatial_query_unit::box_pairs, THREADS, true, probe, side, candidates.list);
				} else if (term.kind == JoinTerm::DISTANCE && !probe.shapes && !side.shapes) {
					Launch(point_distance_unit::points_within, THREADS, true, probe, side, candidates.list, limits);
				} else if (term.kind == JoinTerm::DISTANCE) {
					for (auto of_large : {0u, 1u}) {
						Launch(segment_distance_unit::shape_distances, THREADS, true, probe, side, candidates.list,
						       limits, term.empty_is_near ? 1u : 0u, of_large, MAX_VERTICES,
						       static_cast<double *>(nullptr));
					}
				} else if (!probe.shapes || !side.shapes) {
					Launch(point_binary_relations_unit::point_relations, THREADS, true, probe, side, candidates.list,
					       predicate, probe.shapes ? 0u : 1u);
				} else {
					const bool points = build.shapes.has_points || input.shapes->HasPoints();
					if (points) {
						Launch(multipoint_binary_relations_unit::multipoint_relations, THREADS, true, probe, side,
						       candidates.list, predicate, MAX_VERTICES);
					}
					const bool by_distance = term.predicate == vibe::PREDICATE_INTERSECTS &&
					                         (build.shapes.has_large || input.shapes->HasLarge());
					if (by_distance) {
						Launch(segment_distance_unit::shape_distances, THREADS, true, probe, side, candidates.list,
						       vibe::LimitView {0, nullptr, nullptr, false, false}, 0u, 1u, MAX_VERTICES,
						       static_cast<double *>(nullptr));
					}
					// Little memory, so that some pairs stay open
					constexpr uint64_t SLAB = 16 << 10;
					std::vector<uint64_t> arena(THREADS * SLAB / 8);
					Launch(polygon_predicates_unit::relate_pairs, THREADS, true, probe, side, candidates.list,
					       predicate, MAX_VERTICES, reinterpret_cast<vibe::u8 *>(arena.data()), SLAB, points ? 1u : 0u,
					       by_distance ? 1u : 0u, static_cast<vibe::Matrix *>(nullptr));
				}
			}
			Launch(spatial_query_unit::keep_pairs, THREADS, true, candidates.list, static_cast<uint32_t>(input.output),
			       kept->list, counts.data(), found.data(), open->list);
		}
		const auto most = std::max({candidates.total, kept->total, open->total});
		if (most > capacity) {
			capacity = most;
			return Finish();
		}
		for (auto *list : {kept.get(), open.get()}) {
			for (auto &row : list->left) {
				row += static_cast<uint32_t>(input.first);
			}
		}
		for (auto &row : shapes.left) {
			row += static_cast<uint32_t>(input.first);
		}
		result.left = shapes.left.data();
		result.left_count = shapes.left.size();
		result.candidates = candidates.total;
		result.open = open->total;
		result.open_probe = open->left.data();
		result.open_build = open->right.data();
		if (input.output == GpuOutput::PAIRS) {
			result.pairs = kept->total;
			result.probe = kept->left.data();
			result.build = kept->right.data();
		} else if (input.output == GpuOutput::COUNTS) {
			result.counts = counts.data();
		} else {
			result.found = found.data();
		}
		return result;
	}

private:
	std::shared_ptr<GpuBuild> held;
	FakeBuild &build;
	const JoinCondition condition;
	std::vector<vibe::Vec2> points;
	std::vector<std::vector<uint8_t>> blocks;
	HostShapes shapes;
	GpuTileInput input;
	GpuTileResult result;
	std::vector<uint32_t> counts;
	std::vector<uint8_t> found;
	std::unique_ptr<FakePairs> kept, open;
	size_t capacity = 1000;
};

class FakePoints : public GpuPoints {
public:
	FakePoints(const float *nodes, const UninitializedVector<uint32_t> &ids, const UninitializedVector<double> &leaves)
	    : nodes(nodes), ids(ids), leaves(leaves) {
	}
	void Find(const vibe::Vec2 *points, size_t count, uint32_t k, double most, PackedNeighbours &neighbours,
	          GpuTimes &times) override {
		if (Wants("late failure")) {
			throw GpuError("the fake device fell off");
		}
		neighbours.count = count;
		neighbours.found.resize(count);
		neighbours.rows.resize(count * k);
		neighbours.distances.resize(count * k);
		for (size_t i = 0; i < count; i++) {
			vibe::NearestList list {neighbours.distances.data() + i, neighbours.rows.data() + i, count, k, most, 0};
			vibe::FindNearestPoints(nodes, vibe::NodeLevels::Of(ids.size()), leaves.data(), ids.data(),
			                        static_cast<uint32_t>(ids.size()), points[i], list);
			neighbours.found[i] = list.count;
		}
		times.bytes_to_device += count * sizeof(vibe::Vec2);
		times.kernel_ms += 1;
	}

private:
	const float *nodes;
	const UninitializedVector<uint32_t> &ids;
	const UninitializedVector<double> &leaves;
};

//! The part of it that fails as FAKE_GPU says
class FakeBulk : public GpuBulk {
public:
	explicit FakeBulk(const BulkTask &task) : task(task) {
	}
	uint8_t *Block(bool, size_t) override {
		return nullptr;
	}
	uint64_t HostBytes() const override {
		if (Wants("large host memory")) {
			return uint64_t(1) << 40;
		}
		return results.size() + numbers.size() * sizeof(double);
	}
	void Begin(const BulkInput &input_p) override {
		if (Wants("failed launch")) {
			throw GpuError("the fake device does not start");
		}
		if (Wants("no room") && input_p.count > 3) {
			throw GpuMemoryError("the fake device has no room");
		}
		input = input_p;
	}
	const BulkResult &Finish() override {
		LoseDevice();
		static std::atomic<int> finished {0};
		if (Wants("lost") && ++finished > 1) {
			throw GpuError("the fake device was lost");
		}
		if ((Wants("late no room") && input.count > 3) || Wants("never room")) {
			throw GpuMemoryError("the fake device has no room");
		}
		result = BulkResult {};
		result.times.bytes_to_device = input.left->Bytes() + (input.right ? input.right->Bytes() : 0);
		Run();
		return result;
	}

protected:
	virtual void Run() = 0;

	const BulkTask task;
	BulkInput input;
	BulkResult result;
	std::vector<uint8_t> results;
	std::vector<double> numbers;
};

class FakePairwise : public FakeBulk {
public:
	using FakeBulk::FakeBulk;

private:
	void Run() override {
		using host_cuda::Launch;
		constexpr uint64_t THREADS = 64;
		const auto count = input.count;
		FakePairs pairs(count);
		for (size_t i = 0; i < count; i++) {
			const auto row = static_cast<uint32_t>(i);
			pairs.list.Write(pairs.total++, input.left_is_constant ? 0 : row, input.right_is_constant ? 0 : row);
		}
		HostShapes shapes[2];
		vibe::SideView sides[2];
		for (auto side : {0, 1}) {
			auto &from = side == 0 ? *input.left : *input.right;
			const bool is_constant = side == 0 ? input.left_is_constant : input.right_is_constant;
			const size_t first = is_constant ? 0 : input.first;
			if (!from.IsPoints()) {
				shapes[side].Make(from.Shapes(), first, is_constant ? 1 : count, false);
			}
			sides[side] =
			    vibe::SideView {from.IsPoints() ? nullptr : shapes[side].views.data(), from.Points().data() + first};
		}
		const auto *of_rows = input.limits ? input.limits + input.first : nullptr;
		const vibe::LimitView limits {0, input.left_is_constant ? nullptr : of_rows,
		                              input.left_is_constant ? of_rows : nullptr, false, false};
		numbers.resize(count);
		const auto &left = sides[0], &right = sides[1];
		if (task.kind == BulkTask::WITHIN && !left.shapes && !right.shapes) {
			Launch(point_distance_unit::points_within, THREADS, true, left, right, pairs.list, limits);
		} else if (task.kind != BulkTask::RELATE) {
			for (auto of_large : {0u, 1u}) {
				Launch(segment_distance_unit::shape_distances, THREADS, true, left, right, pairs.list, limits, 0u,
				       of_large, MAX_VERTICES, task.kind == BulkTask::DISTANCE ? numbers.data() : nullptr);
			}
		} else if (!left.shapes || !right.shapes) {
			Launch(point_binary_relations_unit::point_relations, THREADS, true, left, right, pairs.list,
			       static_cast<uint32_t>(task.predicate), left.shapes ? 0u : 1u);
		} else {
			const bool points = input.left->Shapes().HasPoints() || input.right->Shapes().HasPoints();
			if (points) {
				Launch(multipoint_binary_relations_unit::multipoint_relations, THREADS, true, left, right, pairs.list,
				       static_cast<uint32_t>(task.predicate), MAX_VERTICES);
			}
			const bool by_distance = task.predicate == vibe::PREDICATE_INTERSECTS &&
			                         (input.left->Shapes().HasLarge() || input.right->Shapes().HasLarge());
			if (by_distance) {
				Launch(segment_distance_unit::shape_distances, THREADS, true, left, right, pairs.list,
				       vibe::LimitView {0, nullptr, nullptr, false, false}, 0u, 1u, MAX_VERTICES,
				       static_cast<double *>(nullptr));
			}
			// Little memory, so that some rows stay open
			constexpr uint64_t SLAB = 16 << 10;
			std::vector<uint64_t> arena(THREADS * SLAB / 8);
			Launch(polygon_predicates_unit::relate_pairs, THREADS, true, left, right, pairs.list,
			       static_cast<uint32_t>(task.predicate), MAX_VERTICES, reinterpret_cast<vibe::u8 *>(arena.data()),
			       SLAB, points ? 1u : 0u, by_distance ? 1u : 0u, static_cast<vibe::Matrix *>(nullptr));
		}
		results = pairs.results;
		result.results = results.data();
		result.numbers = task.kind == BulkTask::DISTANCE ? numbers.data() : nullptr;
	}
};

class FakeRowwise : public FakeBulk {
public:
	using FakeBulk::FakeBulk;

private:
	void Run() override {
		using host_cuda::Launch;
		const auto count = static_cast<uint32_t>(input.count);
		std::vector<uint8_t> bytes;
		std::vector<vibe::WkbRow> rows;
		for (size_t i = input.first; i < input.first + count; i++) {
			const auto size = input.left->Shapes().Rows()[i].size;
			rows.push_back(vibe::WkbRow {static_cast<uint32_t>(bytes.size()), size});
			const auto *from = input.left->Shapes().Wkb(i);
			bytes.insert(bytes.end(), from, from + size);
		}
		results.assign(count, 9);
		std::vector<vibe::i32> begins[4];
		for (auto &begin : begins) {
			begin.assign(count + 1, 0);
		}
		Launch(wkb_encode_unit::wkb_counts, count, true, bytes.data(), rows.data(), count, begins[0].data(),
		       begins[1].data(), begins[2].data(), begins[3].data(), results.data());
		for (auto &begin : begins) {
			Scan(begin);
		}
		std::vector<uint8_t> types(begins[0][count]), families(begins[1][count]);
		std::vector<uint32_t> children(begins[0][count]), parts(begins[1][count] + 1), rings(begins[2][count] + 1);
		std::vector<double> x(begins[3][count]), y(begins[3][count]);
		Launch(wkb_encode_unit::wkb_decode, count, false, bytes.data(), rows.data(), count, results.data(),
		       begins[0].data(), begins[1].data(), begins[2].data(), begins[3].data(),
		       vibe::WkbColumns {types.data(), children.data(), families.data(), parts.data(), rings.data(), x.data(),
		                         y.data()});
		vibe::RowsView view {reinterpret_cast<const uint32_t *>(begins[0].data()),
		                     reinterpret_cast<const uint32_t *>(begins[1].data()),
		                     types.data(),
		                     children.data(),
		                     families.data(),
		                     parts.data(),
		                     rings.data(),
		                     x.data(),
		                     y.data()};
		numbers.resize(2 * size_t(count));
		wkb_begin.assign(count + 1, 0);
		if (task.kind == BulkTask::CENTROID) {
			auto *centroid_y = numbers.data() + count;
			wkb.resize(21 * size_t(count));
			Launch(point_constructive_unit::row_centroids, count, true, view, count, numbers.data(), centroid_y);
			Launch(wkb_encode_unit::encode_points, count, true, numbers.data(), centroid_y, count, wkb.data());
			for (size_t i = 0; i <= count; i++) {
				wkb_begin[i] = static_cast<vibe::i64>(21 * i);
			}
		} else if (task.kind == BulkTask::FLIP) {
			std::swap(view.x, view.y);
			Launch(wkb_encode_unit::wkb_sizes, count, true, view, count, wkb_begin.data());
			Scan(wkb_begin);
			wkb.resize(wkb_begin[count]);
			Launch(wkb_encode_unit::wkb_rows, count, true, view, count, wkb_begin.data(), wkb.data());
		} else if (task.kind == BulkTask::AREA) {
			Launch(point_constructive_unit::row_areas, count, true, view, count, numbers.data());
		} else {
			const auto family = task.kind == BulkTask::LENGTH ? vibe::FAMILY_LINE : vibe::FAMILY_POLYGON;
			Launch(point_constructive_unit::row_lengths, count, true, view, count, vibe::u32(family), numbers.data());
		}
		result.results = results.data();
		result.numbers = numbers.data();
		result.wkb = wkb.data();
		result.wkb_begin = reinterpret_cast<const int64_t *>(wkb_begin.data());
	}

	template <class T>
	static void Scan(std::vector<T> &values) {
		T total = 0;
		for (auto &value : values) {
			const auto here = value;
			value = total;
			total += here;
		}
	}

	std::vector<uint8_t> wkb;
	std::vector<vibe::i64> wkb_begin;
};

class FakeEngine : public GpuEngine {
public:
	explicit FakeEngine(const GpuOptions &options) : options(options) {
	}
	bool WaitForDevice(double timeout, std::string &error) override {
		if (Wants("late device")) {
			// Comes up when somebody waits for it, for every join again
			std::this_thread::sleep_for(std::chrono::milliseconds(timeout > 0 ? 20 : 0));
			is_up = is_up || timeout > 0;
			return is_up;
		}
		if (Wants("slow device")) {
			std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
			return false;
		}
		error = Device().error;
		return error.empty();
	}
	GpuDevice Device() override {
		GpuDevice device;
		device.present = !Wants("no device") && options.device < 2;
		device.name = "Fake";
		device.capability = 90;
		device.error = device.present       ? ""
		               : options.device < 2 ? "the fake device is not there"
		                                    : "vibe_gpu_device is " + std::to_string(options.device);
		if (is_lost) {
			device.present = false;
			device.error = LOST;
		}
		return device;
	}
	std::vector<GpuComponent> Components() override {
		GpuComponent component;
		component.name = "options";
		component.found = true;
		component.detail = std::to_string(options.memory_limit) + " " + options.cache_dir + " " +
		                   std::to_string(options.kernel_timeout_seconds);
		return {component};
	}
	void Configure(const GpuOptions &changed) override {
		options = changed;
	}
	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool) override {
		std::lock_guard<std::mutex> guard(lock);
		if (Wants("no device")) {
			return;
		}
		for (auto &name : names) {
			bool known = false;
			for (auto &status : all) {
				known |= status.name == name;
			}
			if (!known) {
				KernelStatus status;
				status.name = name;
				status.kind = "unit";
				status.requested_by = requested_by;
				status.state = Wants("cold") ? KernelState::COMPILING : KernelState::READY;
				if (Wants("failed kernel")) {
					status.state = KernelState::FAILED;
					status.error = "the fake compiler gave up";
				}
				status.begin_ms = 1;
				status.end_ms = 2;
				all.push_back(status);
			}
		}
	}
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout) override {
		if (Wants("failed kernel")) {
			return names;
		}
		if (!Wants("cold")) {
			return {};
		}
		std::this_thread::sleep_for(std::chrono::duration<double>(timeout));
		return names;
	}
	std::vector<KernelStatus> Status() override {
		std::lock_guard<std::mutex> guard(lock);
		return all;
	}
	std::vector<GpuMemoryRow> Memory() override {
		return {GpuMemoryRow {"pool", "fake", 1, 2, 3}};
	}
	uint64_t MemoryLimit() override {
		return options.memory_limit;
	}
	void Quiesce(double) override {
	}
	std::vector<GpuStep> Steps() override {
		return {};
	}
	void AddStep(const GpuStep &) override {
	}
	void ReadShapes(const ShapeRows &, PackedShapes &, std::vector<uint32_t> &) override {
		throw GpuError("not here");
	}
	PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &, GpuTimes &times) override {
		return Pack(boxes, count, times);
	}
	std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) override {
		std::lock_guard<std::mutex> guard(lock);
		is_up = false;
		auto found = builds.find(key);
		return found == builds.end() ? nullptr : found->second;
	}
	std::shared_ptr<GpuBuild> NewBuild() override {
		return std::make_shared<FakeBuild>();
	}
	void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) override {
		std::lock_guard<std::mutex> guard(lock);
		if (options.resident_limit > 0) {
			builds[key] = build;
		}
	}
	std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &build, const JoinCondition &condition) override {
		return std::make_unique<FakeTile>(build, condition);
	}
	std::unique_ptr<GpuPoints> KnnPoints(const float *nodes, const UninitializedVector<uint32_t> &ids,
	                                     const UninitializedVector<double> &leaves, Parallel &, GpuTimes &) override {
		if (Wants("failure")) {
			throw GpuError("the fake device fell off");
		}
		return std::make_unique<FakePoints>(nodes, ids, leaves);
	}
	std::unique_ptr<GpuBulk> NewBulk(const BulkTask &task) override {
		if (task.IsOfPairs()) {
			return std::make_unique<FakePairwise>(task);
		}
		return std::make_unique<FakeRowwise>(task);
	}
	void UniteNet(const OverlayNet &net, Parallel &parallel, UnitedNet &united, GpuTimes &times) override {
		if (Wants("failure")) {
			throw GpuError("the fake device fell off");
		}
		if (Wants("no room")) {
			throw GpuMemoryError("the fake device has no room");
		}
		host_cuda::Machine machine(true);
		GpuOverlay(machine).Run(net, parallel, united, times);
		if (Wants("late failure")) {
			throw GpuError("the fake device fell off");
		}
		times.bytes_to_device = net.vertex_count * sizeof(vibe::Vec2);
		times.kernel_ms = 1;
	}
	std::vector<std::string> SelfTest() override {
		return {};
	}

private:
	GpuOptions options;
	std::atomic<bool> is_up {false};
	std::mutex lock;
	std::map<BuildKey, std::shared_ptr<GpuBuild>> builds;
	std::vector<KernelStatus> all;
};

extern "C" __attribute__((visibility("default"))) GpuEngine *
vibespatial_open_engine(const char *interface_version, const GpuOptions *options, const char **error) {
	if (Wants("slow")) {
		std::this_thread::sleep_for(std::chrono::seconds(2));
	}
	if (Wants("refusal") || std::string(interface_version) != VIBESPATIAL_ENGINE_INTERFACE) {
		*error = "the plug-in is for another interface";
		return nullptr;
	}
	return new FakeEngine(*options);
}
