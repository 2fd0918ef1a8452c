#include "engine/gpu/machine/neighbours.hpp"

#include "engine/gpu/machine/block_pool.hpp"
#include "engine/gpu/machine/shapes.hpp"

namespace vibespatial {

using vibe::NodeLevels;
using vibe::Vec2;

namespace {

//! Numbers of pinned memory. The results are in the first ones of each stride from PINNED_RESULTS on, the shapes take the last.
enum : size_t { PINNED_POINTS, PINNED_FOUND, PINNED_RESULTS };
//! Of a block of results: distances, rows, then two for each column
constexpr size_t RESULT_ARRAYS = 2;

//! Events of the machine
enum : size_t { BEGUN, COPIED, COMPUTED, READ };

class MachineSearch : public GpuSearch {
public:
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
		FindPoints(points, static_cast<uint32_t>(count));
		Read(count);
	}

	void BeginShapes(const ShapeRows &rows) override {
		const size_t count = rows.Count();
		Start(count);
		shapes.Upload(rows, 0, count);
		machine.Record(COPIED);
		FindShapes(shapes.Decode(false, nullptr, nullptr), static_cast<uint32_t>(count));
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

protected:
	//! Bytes of a value; with or without flags that say which are NULL
	struct Column {
		size_t width;
		bool has_nulls;
		uint8_t *values = nullptr;
		uint8_t *nulls = nullptr;
	};

	MachineSearch(std::unique_ptr<Machine> machine_p, uint32_t k, double most, std::vector<Column> columns)
	    : k(k), most(most), made(std::move(machine_p)), machine(*made), columns(std::move(columns)),
	      stride(RESULT_ARRAYS + 2 * this->columns.size() + 1),
	      shapes(machine, "knn", PINNED_RESULTS + stride - 1, stride) {
		if (k == 0 || k > MAX_K) {
			throw GpuError("the device finds 1 to " + std::to_string(MAX_K) + " neighbours");
		}
	}

	//! Queue the kernels, which fill `found`, `neighbours`, `distances` and the arrays of the columns
	virtual void FindPoints(const Vec2 *points, uint32_t count) = 0;
	virtual void FindShapes(const vibe::ShapeView *views, uint32_t count) = 0;

	const uint32_t k;
	const double most;
	const std::unique_ptr<Machine> made;
	Machine &machine;
	std::vector<Column> columns;
	vibe::u32 *found = nullptr;
	vibe::u32 *neighbours = nullptr;
	double *distances = nullptr;

private:
	void Start(size_t count) {
		machine.Use();
		result = GpuNeighbours {};
		machine.Record(BEGUN);
		found = machine.Temporary<vibe::u32>("neighbour counts", count);
		neighbours = machine.Temporary<vibe::u32>("neighbour rows", count * k);
		distances = machine.Temporary<double>("neighbour distances", count * k);
		for (size_t i = 0; i < columns.size(); i++) {
			const auto name = "neighbour column " + std::to_string(i);
			columns[i].values = machine.Temporary<uint8_t>(name, count * k * columns[i].width);
			if (columns[i].has_nulls) {
				columns[i].nulls = machine.Temporary<uint8_t>(name + " nulls", count * k);
			}
		}
	}

	//! Starts to read the results into blocks of the size that the pool of pinned memory keeps
	void Read(size_t count) {
		machine.Record(COMPUTED);
		result.count = count;
		auto *counts = static_cast<uint32_t *>(machine.Pinned(PINNED_FOUND, count * sizeof(uint32_t)));
		machine.GetPinned(counts, found, count * sizeof(uint32_t));
		result.found = counts;
		size_t widest = sizeof(double);
		for (const auto &column : columns) {
			widest = std::max(widest, column.width);
		}
		result.ranks = std::max<size_t>(1, BlockPool::LARGEST / (std::max<size_t>(count, 1) * widest));
		for (size_t first = 0, number = PINNED_RESULTS; first < k; first += result.ranks, number += stride) {
			const size_t items = std::min<size_t>(result.ranks, k - first) * count;
			size_t next = number;
			auto get = [&](const void *from, size_t width) {
				auto *to = machine.Pinned(next++, items * width);
				machine.GetPinned(to, static_cast<const uint8_t *>(from) + first * count * width, items * width);
				return to;
			};
			GpuNeighbours::Block block;
			block.distances = static_cast<double *>(get(distances, sizeof(double)));
			block.rows = static_cast<uint32_t *>(get(neighbours, sizeof(uint32_t)));
			for (const auto &column : columns) {
				auto *values = static_cast<uint8_t *>(get(column.values, column.width));
				auto *nulls = column.has_nulls ? static_cast<uint8_t *>(get(column.nulls, 1)) : nullptr;
				block.columns.push_back(GpuNeighbours::Column {values, nulls});
			}
			result.blocks.push_back(std::move(block));
		}
		machine.Record(READ);
	}

	const size_t stride;
	MachineShapes shapes;
	GpuNeighbours result;
};

//! Among a build side
class BuildSearch : public MachineSearch {
public:
	BuildSearch(std::unique_ptr<Machine> machine_p, const std::shared_ptr<MachineBuild> &build_p, uint32_t k,
	            double most)
	    : MachineSearch(std::move(machine_p), k, most, {}), held(build_p), build(*held) {
		if (!build.HasRows() || build.tree.items == 0) {
			throw GpuError("there is nothing on the device to search among");
		}
	}

protected:
	void FindPoints(const Vec2 *points, uint32_t count) override {
		if (build.leaves) {
			machine.Launch("point_distance", "knn_points", count, build.tree.nodes, levels, build.leaves,
			               reinterpret_cast<const vibe::u32 *>(build.tree.ids), build.tree.items, points, count, k,
			               most, found, neighbours, distances);
		} else {
			machine.Launch("shape_neighbours", "knn_of_points", count, Items(), levels, points, count, k, most, found,
			               neighbours, distances);
		}
	}
	void FindShapes(const vibe::ShapeView *views, uint32_t count) override {
		machine.Launch("shape_neighbours", "knn_of_shapes", count, Items(), levels, views, count, k, most, found,
		               neighbours, distances);
	}

private:
	vibe::NearestItems Items() const {
		return vibe::NearestItems {build.tree, build.leaves, build.side.shapes};
	}

	const std::shared_ptr<MachineBuild> held;
	const MachineBuild &build;
	const NodeLevels levels = NodeLevels::Of(build.tree.items);
};

//! Among the points of a pinned table, segment after segment
class PinnedPointSearch : public MachineSearch {
public:
	PinnedPointSearch(std::unique_ptr<Machine> machine_p, std::shared_ptr<const MachinePinnedRows> rows_p,
	                  const PinnedSearchInput &input)
	    : MachineSearch(std::move(machine_p), input.k, input.most, ColumnsOf(*rows_p, input)), rows(std::move(rows_p)),
	      input(input) {
		if (!PinnedNumbers::Fit(*rows, numbers)) {
			throw GpuError("the table has too many rows to search among");
		}
		machine.Use();
		order =
		    Pointers("neighbour order", [&](const PinnedSegment &segment) { return segment.values[input.order].at; });
		for (auto number : input.columns) {
			const auto name = "neighbour values " + std::to_string(values.size());
			values.push_back(Pointers(name, [&](const PinnedSegment &segment) {
				return number == PinnedSearchInput::POINTS ? reinterpret_cast<const vibe::u8 *>(segment.points.at)
				                                           : segment.values[number].at;
			}));
			nulls.push_back(Pointers(name + " nulls", [&](const PinnedSegment &segment) {
				return number == PinnedSearchInput::POINTS ? nullptr : segment.nulls[number].at;
			}));
		}
	}

protected:
	void FindPoints(const Vec2 *points, uint32_t count) override {
		Find("pinned_of_points", points, count);
	}
	void FindShapes(const vibe::ShapeView *views, uint32_t count) override {
		Find("pinned_of_shapes", views, count);
	}

private:
	static std::vector<Column> ColumnsOf(const MachinePinnedRows &rows, const PinnedSearchInput &input) {
		std::vector<Column> columns;
		for (auto number : input.columns) {
			const bool are_points = number == PinnedSearchInput::POINTS;
			columns.push_back(Column {are_points ? sizeof(Vec2) : rows.widths[number], !are_points});
		}
		return columns;
	}

	//! An array of the device with an address for each segment
	template <class ADDRESS>
	const vibe::u8 *const *Pointers(const std::string &name, const ADDRESS &address) {
		std::vector<const vibe::u8 *> addresses;
		for (const auto &segment : rows->segments) {
			addresses.push_back(address(segment));
		}
		auto *to = machine.Temporary<const vibe::u8 *>(name, addresses.size());
		machine.Put(static_cast<void *>(to), static_cast<const void *>(addresses.data()),
		            addresses.size() * sizeof(const vibe::u8 *));
		return to;
	}

	template <class QUERY>
	void Find(const char *entry_point, const QUERY *queries, uint32_t count) {
		machine.Zero(found, count * sizeof(vibe::u32));
		const vibe::PinnedSearch search {{reinterpret_cast<const vibe::i32 *const *>(order), numbers.row_bits},
		                                 count,
		                                 k,
		                                 most,
		                                 found,
		                                 neighbours,
		                                 distances};
		for (size_t i = 0; i < rows->segments.size(); i++) {
			const auto &segment = rows->segments[i];
			const auto &tree = rows->trees[i];
			const vibe::u32 is_last = i + 1 == rows->segments.size() ? 1 : 0;
			const vibe::PinnedPoints points {tree.nodes.at->children, segment.points.at,
			                                 static_cast<vibe::u32>(segment.present), numbers.First(i),
			                                 rows->Filter(i, input.filter)};
			machine.Launch("pinned_neighbours", entry_point, count, points, tree.levels, search, is_last, queries);
		}
		for (size_t i = 0; i < columns.size(); i++) {
			const auto threads = uint64_t(count) * k;
			const auto width = static_cast<vibe::u32>(columns[i].width);
			machine.Launch("pinned_neighbours", "pinned_values", threads, search, values[i], width, columns[i].values);
			if (columns[i].has_nulls) {
				machine.Launch("pinned_neighbours", "pinned_values", threads, search, nulls[i], vibe::u32(1),
				               columns[i].nulls);
			}
		}
	}

	const std::shared_ptr<const MachinePinnedRows> rows;
	const PinnedSearchInput input;
	PinnedNumbers numbers;
	//! By segment
	const vibe::u8 *const *order = nullptr;
	std::vector<const vibe::u8 *const *> values;
	std::vector<const vibe::u8 *const *> nulls;
};

} // namespace

std::unique_ptr<GpuSearch> MakeSearch(std::unique_ptr<Machine> machine, const std::shared_ptr<MachineBuild> &build,
                                      uint32_t k, double most) {
	return std::make_unique<BuildSearch>(std::move(machine), build, k, most);
}

std::unique_ptr<GpuSearch> MakePinnedSearch(std::unique_ptr<Machine> machine,
                                            std::shared_ptr<const MachinePinnedRows> rows,
                                            const PinnedSearchInput &input) {
	return std::make_unique<PinnedPointSearch>(std::move(machine), std::move(rows), input);
}

} // namespace vibespatial
