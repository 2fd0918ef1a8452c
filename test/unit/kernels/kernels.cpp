// The GPU's units, run on the host: what they compute is what the CPU engine computes.
#include "host_machine.hpp"

#include "catch.hpp"

#include "engine/index/box_tree.hpp"
#include "engine/index/cell_index.hpp"
#include "engine/join/knn.hpp"
#include "engine/measure/measure.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/relate/relate.hpp"
#include "engine/gpu/interface/scalar.hpp"
#include "engine/gpu/machine/shapes.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "same_shape.hpp"
#include "wkb_bytes.hpp"
#include "wkt_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace vibespatial;
using host_cuda::Launch;
using vibe::Box;

namespace {

//! relate_pairs: one launch alone, in which threads take as long as they need
const vibe::LongPairs NO_REST {nullptr, nullptr, nullptr};
constexpr vibe::u32 ANY_STEPS = ~0u;

//! Rows of WKB as the units read them
struct Column {
	std::vector<uint8_t> bytes;
	std::vector<vibe::u64> offsets {0};

	void Add(const std::string &wkb) {
		bytes.insert(bytes.end(), wkb.begin(), wkb.end());
		offsets.push_back(bytes.size());
	}
	uint32_t Count() const {
		return static_cast<uint32_t>(offsets.size() - 1);
	}
	const uint8_t *Row(size_t i) const {
		return bytes.data() + offsets[i];
	}
	size_t Size(size_t i) const {
		return offsets[i + 1] - offsets[i];
	}
};

//! Shapes that a device makes of rows
struct HostShapes {
	host_cuda::Machine machine {true};
	MachineShapes shapes {machine, "test", 0};
	std::vector<vibe::ShapeView> views;
	std::vector<uint32_t> left;

	void Make(const ShapeRows &from, size_t first, size_t count, bool leave_empty) {
		auto *left_at = machine.Temporary<vibe::u32>("left", count);
		auto *left_count = machine.TemporaryZeros<vibe::u64>("left count", 1);
		shapes.Upload(from, first, count);
		const auto *made = shapes.Decode(leave_empty, left_at, left_count);
		views.assign(made, made + count);
		left.assign(left_at, left_at + *left_count);
	}
};

bool SameBits(const void *a, const void *b, size_t size) {
	return std::memcmp(a, b, size) == 0;
}

template <class T, class OTHERS>
bool SameBits(const std::vector<T> &a, const OTHERS &b) {
	static_assert(sizeof(T) == sizeof(typename OTHERS::value_type), "columns of one type");
	return a.size() == b.size() && (a.empty() || SameBits(a.data(), b.data(), a.size() * sizeof(T)));
}

class RandomWkb {
public:
	explicit RandomWkb(unsigned seed) : random(seed) {
	}

	std::string Geometry(uint8_t vertex_type, uint32_t depth) {
		const auto type = static_cast<GeometryType>(1 + random() % (depth > 0 ? 7 : 6));
		return Body(type, vertex_type, depth);
	}
	std::string Mutated(std::string bytes) {
		for (uint32_t n = 1 + random() % 3; n > 0 && !bytes.empty(); n--) {
			const size_t at = random() % bytes.size();
			switch (random() % 4) {
			case 0:
				bytes[at] = static_cast<char>(random());
				break;
			case 1:
				bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
				break;
			case 2:
				bytes.resize(at);
				break;
			default:
				bytes.insert(at, 1, static_cast<char>(random() % 8));
			}
		}
		return bytes;
	}

	std::mt19937 random;

private:
	double Ordinate() {
		switch (random() % 40) {
		case 0:
			return wkb_test::NaN;
		case 1:
			return -wkb_test::INF;
		case 2:
			return 0.0;
		case 3:
			return -0.0;
		default:
			return std::uniform_real_distribution<double>(-100, 100)(random);
		}
	}
	void Vertices(wkb_test::Wkb &wkb, uint32_t count, uint8_t vertex_type) {
		const bool zeros = random() % 8 == 0;
		for (size_t i = 0; i < count * VertexWidth(vertex_type); i++) {
			wkb.Doubles({zeros ? (random() % 2 ? 0.0 : -0.0) : Ordinate()});
		}
	}
	std::string Body(GeometryType type, uint8_t vertex_type, uint32_t depth) {
		if (random() % 12 == 0) {
			return wkb_test::Empty(type, vertex_type);
		}
		wkb_test::Wkb wkb;
		wkb.Header(type, vertex_type);
		const uint32_t count = random() % 6;
		switch (type) {
		case GeometryType::POINT:
			Vertices(wkb, 1, vertex_type);
			break;
		case GeometryType::LINESTRING:
			wkb.Count(count);
			Vertices(wkb, count, vertex_type);
			break;
		case GeometryType::POLYGON:
			wkb.Count(count);
			for (uint32_t ring = 0; ring < count; ring++) {
				const uint32_t vertices = random() % 9;
				wkb.Count(vertices);
				Vertices(wkb, vertices, vertex_type);
			}
			break;
		case GeometryType::GEOMETRYCOLLECTION:
			wkb.Count(count);
			for (uint32_t i = 0; i < count; i++) {
				wkb.Append(Geometry(vertex_type, depth - 1));
			}
			break;
		default:
			wkb.Count(count);
			for (uint32_t i = 0; i < count; i++) {
				wkb.Append(Body(static_cast<GeometryType>(static_cast<uint8_t>(type) - 3), vertex_type, 0));
			}
		}
		return wkb.bytes;
	}
};

//! Valid, mutated, nested, NULL
Column RandomColumn(unsigned seed, int rows) {
	RandomWkb wkb(seed);
	Column column;
	for (auto type : wkb_test::TYPES) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			column.Add(wkb_test::Sample(type, vertex_type));
			column.Add(wkb_test::Empty(type, vertex_type));
		}
	}
	column.Add("");
	for (uint32_t depth = 0; depth < 20; depth++) {
		column.Add(wkb_test::Nested(depth));
	}
	for (int i = 0; i < rows; i++) {
		const auto row = wkb.Geometry(static_cast<uint8_t>(wkb.random() % 4), wkb.random() % 4);
		column.Add(row);
		column.Add(wkb.Mutated(row));
	}
	return column;
}

std::vector<Box> RandomBoxes(std::mt19937_64 &random, size_t count, double scale) {
	std::uniform_real_distribution<double> place(-scale, scale), size(0, scale / 50);
	std::vector<Box> boxes;
	boxes.reserve(count);
	for (size_t i = 0; i < count; i++) {
		const double x = place(random), y = random() % 16 == 0 ? 0.0 : place(random);
		const Box box {x, y, x + (random() % 3 == 0 ? 0 : size(random)), y + size(random)};
		boxes.push_back(random() % 10 == 0 ? Box::Empty() : random() % 10 == 0 && i > 0 ? boxes[i / 2] : box);
	}
	return boxes;
}

//! The box of all boxes as the pipeline computes it, from the partial boxes of so many threads
Box Extent(const std::vector<Box> &boxes, uint64_t threads) {
	std::vector<double> partial(4 * threads);
	Launch(bounds_unit::box_extent, threads, false, boxes.data(), static_cast<uint32_t>(boxes.size()), partial.data());
	auto at = [&](uint64_t k) { return partial.begin() + static_cast<ptrdiff_t>(k * threads); };
	return Box {*std::min_element(at(0), at(1)), *std::min_element(at(1), at(2)), *std::max_element(at(2), at(3)),
	            *std::max_element(at(3), at(4))};
}

struct Packed {
	std::vector<vibe::u64> keys;
	std::vector<vibe::i32> ids;
	std::vector<float> nodes;

	std::vector<uint32_t> Ids() const {
		return std::vector<uint32_t>(ids.begin(), ids.end());
	}
	size_t NodeCount() const {
		return nodes.size() / vibe::NODE_FLOATS;
	}
};

//! The pipeline of an index of boxes; the scan and the sort are the host's
Packed Pack(const std::vector<Box> &boxes, bool backwards) {
	const auto count = static_cast<uint32_t>(boxes.size());
	std::vector<vibe::i32> flags(count), position(count);
	Launch(bounds_unit::box_nonempty, count, backwards, boxes.data(), count, flags.data());
	vibe::i32 kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		position[i] = kept;
		kept += flags[i];
	}
	const Box all = Extent(boxes, 64);
	const double extent[] = {all.min_x, all.min_y, all.max_x, all.max_y};
	std::vector<vibe::u64> keys(kept);
	std::vector<vibe::i32> ids(kept);
	Launch(hilbert_codes_unit::curve_codes, count, backwards, boxes.data(), count, extent, position.data(), keys.data(),
	       ids.data());
	std::vector<uint32_t> order(kept);
	std::iota(order.begin(), order.end(), 0);
	std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
	Packed packed;
	for (uint32_t i : order) {
		packed.keys.push_back(keys[i]);
		packed.ids.push_back(ids[i]);
	}
	const auto levels = vibe::NodeLevels::Of(kept);
	packed.nodes.resize(levels.NodeCount() * size_t(vibe::NODE_FLOATS));
	if (kept > 0) {
		Launch(indexing_unit::pack_leaves, levels.begin[1] * uint64_t(vibe::NODE_FANOUT), backwards, boxes.data(),
		       packed.ids.data(), static_cast<uint32_t>(kept), levels.begin[1], packed.nodes.data());
	}
	for (uint32_t l = 1; l < levels.count; l++) {
		const uint32_t node_count = levels.begin[l + 1] - levels.begin[l];
		Launch(indexing_unit::pack_level, node_count * uint64_t(vibe::NODE_FANOUT), backwards, packed.nodes.data(),
		       levels.begin[l - 1], levels.begin[l] - levels.begin[l - 1], levels.begin[l], node_count);
	}
	return packed;
}

//! The columns of a batch as the units see them
vibe::RowsView ViewOf(const GeometryBatch &batch) {
	return vibe::RowsView {batch.row_node.data(),
	                       batch.row_part.data(),
	                       reinterpret_cast<const vibe::u8 *>(batch.node_type.data()),
	                       batch.node_children.data(),
	                       batch.part_family.data(),
	                       batch.part_ring.data(),
	                       batch.ring_start.data(),
	                       batch.x.data(),
	                       batch.y.data()};
}

//! Geometries of all types on a small raster, where they meet in every way, and some off it
class Zoo {
public:
	GeometryBatch batch;
	std::vector<std::unique_ptr<Shape>> shapes;
	std::vector<vibe::ShapeView> views;

	Zoo(unsigned seed, int count) : random(seed) {
		for (const char *text : {"POINT EMPTY", "LINESTRING EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY",
		                         "POLYGON ((0 0, 2 2, 0 0, 0 0))", "LINESTRING (1 1, 1 1)"}) {
			Add(text);
		}
		for (int i = 0; i < count; i++) {
			Add(Geometry(i % 8));
		}
	}
	//! Those that `wanted` takes
	template <class WANTED>
	std::vector<vibe::i32> Ids(const WANTED &wanted) const {
		std::vector<vibe::i32> ids;
		for (size_t i = 0; i < views.size(); i++) {
			if (wanted(i)) {
				ids.push_back(static_cast<vibe::i32>(i));
			}
		}
		return ids;
	}

	std::mt19937 random;

private:
	void Add(const std::string &text) {
		wkt_test::ReadWkt(text, batch);
		shapes.push_back(std::make_unique<Shape>());
		shapes.back()->Build(batch.View(batch.RowCount() - 1));
		views.push_back(shapes.back()->View());
	}
	std::string Place() {
		std::uniform_int_distribution<int> raster(0, 6);
		if (random() % 9 == 0) {
			std::uniform_real_distribution<double> anywhere(0, 6);
			return std::to_string(anywhere(random)) + " " + std::to_string(anywhere(random));
		}
		return std::to_string(raster(random)) + " " + std::to_string(raster(random));
	}
	std::string Places(unsigned count) {
		std::string text;
		for (unsigned i = 0; i < count; i++) {
			text += (i > 0 ? ", " : "") + Place();
		}
		return "(" + text + ")";
	}
	std::string Square(int x, int y, int size, bool hole) {
		auto at = [](int px, int py) { return std::to_string(px) + " " + std::to_string(py); };
		std::string text = "((" + at(x, y) + ", " + at(x + size, y) + ", " + at(x + size, y + size) + ", " +
		                   at(x, y + size) + ", " + at(x, y) + ")";
		if (hole) {
			text +=
			    ", (" + at(x + 1, y) + ", " + at(x + 1, y + 1) + ", " + at(x + 2, y + 1) + ", " + at(x + 1, y) + ")";
		}
		return text + ")";
	}
	std::string Star() {
		std::uniform_real_distribution<double> radius(0.5, 3);
		const int corners = 3 + static_cast<int>(random() % 120);
		std::string first, text;
		for (int i = 0; i < corners; i++) {
			const double angle = 2 * M_PI * i / corners, r = radius(random);
			const std::string vertex =
			    std::to_string(3 + r * std::cos(angle)) + " " + std::to_string(3 + r * std::sin(angle));
			first = i == 0 ? vertex : first;
			text += vertex + ", ";
		}
		return "((" + text + first + "))";
	}
	std::string Geometry(int kind) {
		const int x = static_cast<int>(random() % 4), y = static_cast<int>(random() % 4);
		switch (kind) {
		case 0:
			return "POINT (" + Place() + ")";
		case 1:
			return "MULTIPOINT " + Places(1 + random() % 5);
		case 2:
			return "LINESTRING " + Places(2 + random() % (random() % 4 == 0 ? 60 : 5));
		case 3:
			return "MULTILINESTRING (" + Places(2) + ", " + Places(3) + ")";
		case 4:
			return "POLYGON " + Square(x, y, 3, random() % 2 == 0);
		case 5:
			return "MULTIPOLYGON (" + Square(x, y, 1, false) + ", " + Square(x + 1, y + 1, 2, false) + ")";
		case 6:
			return "POLYGON " + Star();
		default:
			return "GEOMETRYCOLLECTION (" + Geometry(static_cast<int>(random() % 7)) + ", " +
			       Geometry(static_cast<int>(random() % 7)) + ")";
		}
	}
};

//! All pairs of two lists
struct Pairs {
	std::vector<vibe::i32> left, right;

	Pairs(const std::vector<vibe::i32> &a, const std::vector<vibe::i32> &b) {
		for (auto i : a) {
			for (auto k : b) {
				left.push_back(i);
				right.push_back(k);
			}
		}
	}
	uint64_t Count() const {
		return left.size();
	}
};

//! A list of pairs where kernels see it
struct DevicePairs {
	std::vector<vibe::u32> left, right;
	std::vector<vibe::u8> results;
	vibe::u64 total = 0;
	vibe::PairList list;

	explicit DevicePairs(size_t capacity)
	    : left(capacity), right(capacity),
	      results(capacity), list {left.data(), right.data(), results.data(), &total, capacity} {
	}
	explicit DevicePairs(const Pairs &pairs) : DevicePairs(pairs.Count()) {
		std::copy(pairs.left.begin(), pairs.left.end(), left.begin());
		std::copy(pairs.right.begin(), pairs.right.end(), right.begin());
		total = pairs.Count();
	}
	DevicePairs(const DevicePairs &) = delete;
	DevicePairs &operator=(const DevicePairs &) = delete;
};

//! Points on the raster, on vertices and on edges, and anywhere
struct PointColumns {
	std::vector<double> x, y;

	explicit PointColumns(std::mt19937 &random, int count = 150) {
		std::uniform_real_distribution<double> anywhere(-0.5, 6.5);
		for (int i = 0; i < count; i++) {
			const bool raster = i % 3 > 0;
			x.push_back(raster ? static_cast<double>(random() % 13) / 2 : anywhere(random));
			y.push_back(raster ? static_cast<double>(random() % 13) / 2 : anywhere(random));
		}
	}
	vibe::Vec2 At(vibe::i32 i) const {
		return vibe::Vec2 {x[static_cast<size_t>(i)], y[static_cast<size_t>(i)]};
	}
	std::vector<vibe::i32> Ids() const {
		std::vector<vibe::i32> ids(x.size());
		std::iota(ids.begin(), ids.end(), 0);
		return ids;
	}
};

bool SameNumber(double a, double b) {
	return a == b || (std::isnan(a) && std::isnan(b));
}

} // namespace

TEST_CASE("kernels: the extent of boxes", "[kernels]") {
	std::mt19937_64 random(2);
	for (size_t count : {0, 1, 31, 1000}) {
		const auto boxes = RandomBoxes(random, count, 100);
		Box expected = Box::Empty();
		for (const auto &box : boxes) {
			expected.Add(box);
		}
		for (uint64_t threads : {32, 256, 2048}) {
			const Box extent = Extent(boxes, threads);
			CHECK(SameBits(&extent, &expected, sizeof(extent)));
		}
	}
}

TEST_CASE("kernels: a packed tree is the CPU's", "[kernels]") {
	std::mt19937_64 random(3);
	Serial serial;
	for (size_t count : {0, 1, 2, 16, 17, 256, 300, 4096, 5000, 70000}) {
		for (const double scale : {1.0, 1e-44, 1e30, 1e300}) {
			const auto boxes = RandomBoxes(random, count, scale);
			const BoxTree tree(boxes.data(), count, serial);
			const auto packed = Pack(boxes, count % 2 == 0);
			REQUIRE(packed.Ids() == std::vector<uint32_t>(tree.Ids().begin(), tree.Ids().end()));
			REQUIRE(packed.NodeCount() == tree.NodeCount());
			REQUIRE((count == 0 || SameBits(packed.nodes.data(), tree.Nodes(), packed.nodes.size() * sizeof(float))));
		}
	}
}

TEST_CASE("kernels: a tree from its parts", "[kernels]") {
	std::mt19937_64 random(4);
	const auto boxes = RandomBoxes(random, 3000, 10);
	const auto packed = Pack(boxes, false);
	Serial serial;
	const BoxTree expected(boxes.data(), boxes.size(), serial);
	auto from_parts = [&](size_t node_count) {
		const auto ids = packed.Ids();
		vibespatial::UninitializedVector<vibe::PackedNode> nodes(node_count);
		std::memcpy(nodes.data(), packed.nodes.data(), node_count * sizeof(vibe::PackedNode));
		return BoxTree::FromParts({ids.begin(), ids.end()}, std::move(nodes));
	};
	const auto tree = from_parts(packed.NodeCount());
	CHECK(tree.Count() == expected.Count());
	CHECK(tree.MemoryUsage() <= BoxTree::EstimateMemory(boxes.size()));
	auto visited = [](const BoxTree &of, const Box &query) {
		std::vector<uint32_t> ids;
		of.Visit(query, [&](uint32_t id) {
			ids.push_back(id);
			return false;
		});
		return ids;
	};
	size_t hits = 0, wrong = 0;
	for (const auto &query : boxes) {
		const auto ids = visited(tree, query);
		wrong += ids != visited(expected, query);
		hits += ids.size();
	}
	CHECK(wrong == 0);
	CHECK(hits > 3000);
	CHECK(visited(BoxTree::FromParts({}, {}), Box {0, 0, 1, 1}).empty());
	CHECK_THROWS_AS(from_parts(packed.NodeCount() - 1), std::invalid_argument);
}

TEST_CASE("kernels: candidates are those of the tree, each once", "[kernels]") {
	std::mt19937_64 random(6);
	Serial serial;
	for (uint32_t rows : {0u, 1u, 15u, 17u, 300u, 5000u, 70000u}) {
		// Every third row is one of up to four parts
		auto boxes = RandomBoxes(random, rows, 100);
		std::vector<vibe::u32> part_row;
		for (uint32_t row = 0; row < rows; row += 3) {
			boxes[row] = Box::Empty();
			for (const auto &part : RandomBoxes(random, 1 + random() % 4, 100)) {
				boxes.push_back(part);
				part_row.push_back(row);
			}
		}
		const BoxTree tree(boxes.data(), boxes.size(), serial);
		const std::vector<vibe::i32> ids(tree.Ids().begin(), tree.Ids().end());
		const vibe::TreeView view {tree.Nodes(), ids.data(), static_cast<uint32_t>(ids.size()),
		                           boxes.data(), rows,       part_row.data()};

		std::vector<vibe::Vec2> points(300);
		std::vector<double> reach(points.size());
		for (size_t i = 0; i < points.size(); i++) {
			points[i] = vibe::Vec2 {static_cast<double>(random() % 110), static_cast<double>(random() % 110)};
			reach[i] = static_cast<double>(random() % 8) - 2;
		}
		points[7].x = NAN;
		const auto count = static_cast<uint32_t>(points.size());
		for (const bool by_row : {false, true}) {
			const vibe::LimitView limits {1.5, by_row ? reach.data() : nullptr, nullptr, false, false};
			std::set<std::pair<vibe::u32, vibe::u32>> expected;
			for (uint32_t i = 0; i < count; i++) {
				const double limit = by_row ? reach[i] : 1.5;
				if (points[i].x != points[i].x || limit < 0) {
					continue;
				}
				Box query {points[i].x, points[i].y, points[i].x, points[i].y};
				query = limit > 0 ? vibe::Grow(query, limit) : query;
				for (uint32_t id = 0; id < boxes.size(); id++) {
					if (!boxes[id].IsEmpty() && boxes[id].Intersects(query)) {
						expected.emplace(i, id < rows ? id : part_row[id - rows]);
					}
				}
			}
			// Without wide queries, with some, and with nothing else
			for (const uint32_t visits : {~0u, 5u, 0u}) {
				for (const size_t capacity : {size_t(200000), expected.size() / 2}) {
					DevicePairs found(capacity);
					const vibe::SideView side {nullptr, points.data()};
					std::vector<vibe::u32> wide_rows(count);
					vibe::u64 wide_count = 0;
					const vibe::WideRows wide {visits == ~0u ? nullptr : wide_rows.data(), &wide_count, visits};
					Launch(spatial_query_unit::tree_pairs, count, by_row, view, side, count, limits, 1u, wide,
					       found.list);
					REQUIRE((visits > 0 || found.total == 0));
					REQUIRE((visits < ~0u || wide_count == 0));
					REQUIRE((visits != 5u || rows < 5000 || wide_count > 0));
					Launch(spatial_query_unit::wide_pairs, 64, !by_row, view, side, limits, 1u, wide, found.list);
					REQUIRE(found.total == expected.size());
					for (size_t i = 0; i < found.list.Count(); i++) {
						REQUIRE(expected.count({found.left[i], found.right[i]}) == 1);
						REQUIRE(found.results[i] == vibe::PAIR_FALSE);
					}
					if (capacity > expected.size()) {
						std::set<std::pair<vibe::u32, vibe::u32>> all;
						for (size_t i = 0; i < found.total; i++) {
							all.emplace(found.left[i], found.right[i]);
						}
						REQUIRE(all == expected);
					}
				}
			}
			REQUIRE((rows < 5000 || expected.size() > 30));
		}
	}
}

TEST_CASE("kernels: the nearest points", "[kernels]") {
	std::mt19937_64 random(12);
	std::uniform_real_distribution<double> place(-50, 50);
	Serial serial;
	for (const bool whole : {false, true}) {
		auto at = [&] { return whole ? std::round(place(random) / 5) : place(random); };
		for (size_t items : {1, 16, 17, 700, 5000}) {
			std::vector<std::string> wkb(items);
			JoinRows rows;
			for (auto &bytes : wkb) {
				const double x = at(), y = at();
				bytes.assign(21, '\0');
				bytes[0] = bytes[1] = 1;
				std::memcpy(&bytes[5], &x, sizeof(x));
				std::memcpy(&bytes[13], &y, sizeof(y));
				rows.push_back(JoinRow {reinterpret_cast<const uint8_t *>(bytes.data()), 21});
			}
			KnnIndex index(rows);
			index.Build(serial);
			constexpr uint32_t COUNT = 100;
			const uint32_t k = whole ? 32 : 5;
			const double most = items == 700 ? 3 : HUGE_VAL;
			std::vector<vibe::Vec2> queries;
			queries.reserve(COUNT);
			for (uint32_t i = 0; i < COUNT; i++) {
				queries.push_back(vibe::Vec2 {at(), at()});
			}
			std::vector<vibe::u32> found(COUNT), near_rows(COUNT * k);
			std::vector<double> distances(COUNT * k);
			Launch(point_distance_unit::knn_points, COUNT, true, index.Tree().Nodes(), vibe::NodeLevels::Of(items),
			       index.Leaves().data(), index.Tree().Ids().data(), static_cast<uint32_t>(items), queries.data(),
			       COUNT, k, most, found.data(), near_rows.data(), distances.data());
			KnnSearch search(index, k, most, [] {});
			for (uint32_t i = 0; i < COUNT; i++) {
				uint8_t bytes[21] = {1, 1};
				std::memcpy(bytes + 5, &queries[i], sizeof(vibe::Vec2));
				auto &expected = search.Find(JoinRow {bytes, 21});
				REQUIRE(found[i] == expected.size());
				for (size_t n = 0; n < expected.size(); n++) {
					REQUIRE(near_rows[n * COUNT + i] == expected[n].row);
					REQUIRE(SameBits(&distances[n * COUNT + i], &expected[n].distance, sizeof(double)));
				}
			}
		}
	}
}

TEST_CASE("kernels: refined pairs are kept, counted or flagged", "[kernels]") {
	std::mt19937_64 random(7);
	DevicePairs pairs(1000), open(1000), kept(300);
	pairs.total = 900;
	std::vector<vibe::u32> expected_counts(50);
	std::vector<vibe::u8> expected_found(40);
	size_t expected_open = 0, expected_true = 0;
	for (size_t i = 0; i < pairs.total; i++) {
		pairs.left[i] = random() % 40;
		pairs.right[i] = random() % 50;
		pairs.results[i] = random() % 3;
		expected_open += pairs.results[i] == vibe::PAIR_OPEN;
		if (pairs.results[i] == vibe::PAIR_TRUE) {
			expected_true++;
			expected_counts[pairs.right[i]]++;
			expected_found[pairs.left[i]] = 1;
		}
	}
	for (vibe::u32 output = 0; output < 3; output++) {
		std::vector<vibe::u32> counts(50);
		std::vector<vibe::u8> found(40);
		open.total = kept.total = 0;
		Launch(spatial_query_unit::keep_pairs, 64, output == 1, pairs.list, output, kept.list, counts.data(),
		       found.data(), open.list);
		REQUIRE(open.total == expected_open);
		REQUIRE(kept.total == (output == 0 ? expected_true : 0));
		REQUIRE((output != 1 || counts == expected_counts));
		REQUIRE((output != 2 || found == expected_found));
	}
	REQUIRE(expected_true > kept.list.capacity / 2);
}

TEST_CASE("kernels: the cells of a device are those of the CPU", "[kernels]") {
	Serial serial;
	Zoo zoo(13, 300);
	std::vector<const vibe::ShapeView *> areas(zoo.views.size());
	for (size_t i = 0; i < areas.size(); i++) {
		const auto &view = zoo.views[i];
		areas[i] = view.element_count == 1 && !view.mixed && view.dimension == 2 ? &view : nullptr;
	}
	const auto index = CellIndex::Build(areas, SIZE_MAX, serial);
	REQUIRE(index);
	const auto pieces = index->GetPieces();
	std::vector<uint8_t> pool;
	for (const auto *chunk : pieces.chunks) {
		const auto *bytes = static_cast<const uint8_t *>(chunk);
		pool.insert(pool.end(), bytes, bytes + CellIndex::CHUNK_BYTES);
	}
	auto view = pieces.view;
	view.top_words = pieces.top_words;
	view.pool = pool.data();
	view.vertices = pieces.vertices;
	vibe::RoughEdges edges {nullptr, vibe::RoughFrame::Of(view.box)};
	std::vector<vibe::RoughVec> rough_vertices;
	for (size_t i = 0; i < pieces.vertex_count; i++) {
		rough_vertices.push_back(edges.frame.Of(pieces.vertices[i]));
		// All of them are in the frame
		REQUIRE(view.box.Covers(pieces.vertices[i].x, pieces.vertices[i].y));
	}
	edges.vertices = rough_vertices.data();
	PointColumns columns(zoo.random, 3000);
	std::vector<vibe::Vec2> points;
	for (auto i : columns.Ids()) {
		points.push_back(columns.At(i));
	}
	points.push_back(vibe::Vec2 {NAN, NAN});
	const auto count = static_cast<uint32_t>(points.size());
	size_t boundary = 0;
	for (const vibe::u32 answers :
	     {1u << vibe::LOC_INTERIOR, 1u << vibe::LOC_BOUNDARY, 1u << vibe::LOC_INTERIOR | 1u << vibe::LOC_BOUNDARY}) {
		std::set<std::pair<vibe::u32, vibe::u32>> expected, all;
		std::vector<vibe::u32> expected_counts(areas.size()), counts(areas.size());
		std::vector<vibe::u8> expected_found(count), found(count, 9);
		for (uint32_t i = 0; i < count; i++) {
			index->Locate(points[i], [&](uint32_t area, vibe::Location location) {
				if (answers >> location & 1) {
					expected.emplace(i, area);
					expected_counts[area]++;
					expected_found[i] = 1;
					boundary += location == vibe::LOC_BOUNDARY;
				}
				return false;
			});
		}
		DevicePairs pairs(expected.size() + 10);
		Launch(point_in_polygon_unit::cell_pairs, count, true, view, points.data(), count, answers, pairs.list);
		Launch(point_in_polygon_unit::cell_found, count, false, view, points.data(), count, answers, found.data());
		Launch(point_in_polygon_unit::cell_counts, count, false, view, points.data(), count, answers, counts.data());
		for (size_t i = 0; i < pairs.list.Count(); i++) {
			all.emplace(pairs.left[i], pairs.right[i]);
		}
		CHECK(pairs.total == expected.size());
		CHECK(all == expected);
		CHECK(counts == expected_counts);
		CHECK(found == expected_found);
		// With floats in front
		DevicePairs rough_pairs(expected.size() + 10);
		std::vector<vibe::u32> rough_counts(areas.size());
		std::vector<vibe::u8> rough_found(count, 9);
		namespace rough = point_in_polygon_rough_unit;
		Launch(rough::rough_pairs, count, true, view, edges, points.data(), count, answers, rough_pairs.list);
		Launch(rough::rough_found, count, false, view, edges, points.data(), count, answers, rough_found.data());
		Launch(rough::rough_counts, count, false, view, edges, points.data(), count, answers, rough_counts.data());
		all.clear();
		for (size_t i = 0; i < rough_pairs.list.Count(); i++) {
			all.emplace(rough_pairs.left[i], rough_pairs.right[i]);
		}
		CHECK(rough_pairs.total == expected.size());
		CHECK(all == expected);
		CHECK(rough_counts == expected_counts);
		CHECK(rough_found == expected_found);
	}
	CHECK(boundary > 300);
}

TEST_CASE("kernels: what cells of a device find near is what the CPU measures", "[kernels]") {
	Serial serial;
	Zoo zoo(14, 300);
	std::vector<const vibe::ShapeView *> areas(zoo.views.size());
	vibe::Box bounds = vibe::Box::Empty();
	size_t lines = 0;
	for (size_t i = 0; i < areas.size(); i++) {
		const auto &view = zoo.views[i];
		const bool is_line = view.element_count == 0 && !view.mixed && view.dimension == 1;
		areas[i] = is_line || (view.element_count == 1 && !view.mixed && view.dimension == 2) ? &view : nullptr;
		bounds.Add(areas[i] ? view.box : vibe::Box::Empty());
		lines += is_line;
	}
	CHECK(lines > 10);
	PointColumns columns(zoo.random, 2000);
	std::vector<vibe::Vec2> points;
	for (auto i : columns.Ids()) {
		points.push_back(columns.At(i));
	}
	points.push_back(vibe::Vec2 {NAN, NAN});
	const auto count = static_cast<uint32_t>(points.size());
	constexpr vibe::u32 ANSWERS = 1u << vibe::LOC_INTERIOR, ZERO = 0;
	for (const double limit : {0.0, 0.25, 1.0, 30.0}) {
		const auto index = CellIndex::Build(areas, SIZE_MAX, serial, 0, CellIndex::ReachOf(limit, bounds));
		REQUIRE(index);
		const auto pieces = index->GetPieces();
		std::vector<uint8_t> pool;
		for (const auto *chunk : pieces.chunks) {
			const auto *bytes = static_cast<const uint8_t *>(chunk);
			pool.insert(pool.end(), bytes, bytes + CellIndex::CHUNK_BYTES);
		}
		auto view = pieces.view;
		view.top_words = pieces.top_words;
		view.pool = pool.data();
		view.vertices = pieces.vertices;
		REQUIRE(view.reach.limit == limit);
		std::set<std::pair<vibe::u32, vibe::u32>> expected, all;
		std::vector<vibe::u32> expected_counts(areas.size()), counts(areas.size());
		std::vector<vibe::u8> expected_found(count), found(count, 9);
		for (uint32_t i = 0; i + 1 < count; i++) {
			const auto point = vibe::ShapeOfPoint(&points[i], &ZERO);
			for (uint32_t area = 0; area < areas.size(); area++) {
				if (areas[area] && vibe::ShapeDistance(point, *areas[area], limit) <= limit) {
					expected.emplace(i, area);
					expected_counts[area]++;
					expected_found[i] = 1;
				}
			}
		}
		DevicePairs pairs(expected.size() + 10);
		Launch(point_near_cells_unit::near_pairs, count, true, view, points.data(), count, ANSWERS, pairs.list);
		Launch(point_near_cells_unit::near_found, count, false, view, points.data(), count, ANSWERS, found.data());
		Launch(point_near_cells_unit::near_counts, count, false, view, points.data(), count, ANSWERS, counts.data());
		for (size_t i = 0; i < pairs.list.Count(); i++) {
			all.emplace(pairs.left[i], pairs.right[i]);
		}
		CHECK(pairs.total == expected.size());
		CHECK(all == expected);
		CHECK(counts == expected_counts);
		CHECK(found == expected_found);
		CHECK(expected.size() > 300);
	}
}

TEST_CASE("kernels: relations of shapes are the CPU's, or open", "[kernels]") {
	Zoo zoo(8, 120);
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	RelateScratch scratch;
	constexpr uint64_t THREADS = 32;
	for (const vibe::u64 bytes : {vibe::u64(1) << 20, vibe::u64(2048), vibe::u64(8)}) {
		std::vector<vibe::u64> arena(THREADS * bytes / 8);
		auto *memory = reinterpret_cast<vibe::u8 *>(arena.data());
		size_t wrong = 0, open = 0, holding = 0;
		for (vibe::u32 k = vibe::PREDICATE_RELATE; k <= vibe::PREDICATE_EQUALS; k++) {
			const auto predicate = static_cast<vibe::Predicate>(k);
			DevicePairs device(pairs);
			const auto &results = device.results;
			std::vector<vibe::Matrix> matrices(pairs.Count());
			const vibe::SideView side {zoo.views.data(), nullptr};
			Launch(polygon_predicates_unit::relate_pairs, THREADS, k % 2 == 0, side, side, device.list, k, 0u, memory,
			       bytes, ~0u, NO_REST, 0u, ANY_STEPS, matrices.data());
			for (size_t i = 0; i < pairs.Count(); i++) {
				if (results[i] == vibe::PAIR_OPEN) {
					open++;
					continue;
				}
				const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
				if (k == vibe::PREDICATE_RELATE) {
					wrong += results[i] != vibe::PAIR_TRUE || matrices[i] != Relate(a, b, scratch);
				} else {
					wrong += results[i] != (Evaluate(predicate, a, b, scratch) ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
				}
				holding += results[i];
			}
		}
		CHECK(wrong == 0);
		CHECK(holding > 3000);
		CHECK((bytes > 4096) == (open == 0));
	}
}

TEST_CASE("kernels: what takes one thread too long is for several", "[kernels]") {
	Zoo zoo(8, 120);
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	RelateScratch scratch;
	constexpr uint64_t THREADS = 32, BYTES = 16 << 10;
	std::vector<vibe::u64> arena(THREADS * BYTES / 8);
	auto *memory = reinterpret_cast<vibe::u8 *>(arena.data());
	const vibe::SideView side {zoo.views.data(), nullptr};
	for (const vibe::u32 k : {vibe::PREDICATE_RELATE, vibe::PREDICATE_TOUCHES, vibe::PREDICATE_OVERLAPS}) {
		// An answer of a condition before this one, which must stay
		DevicePairs device(pairs);
		device.results[5] = vibe::PAIR_OPEN;
		device.results[6] = vibe::PAIR_TRUE;
		std::vector<vibe::u32> list(pairs.Count());
		std::vector<vibe::Matrix> matrices(pairs.Count());
		vibe::u64 counts[2] = {};
		const vibe::LongPairs rest {list.data(), &counts[0], &counts[1]};
		const auto relate = [&](vibe::u32 together, vibe::u32 max_steps) {
			Launch(polygon_predicates_unit::relate_pairs, THREADS, k % 2 == 0, side, side, device.list, k, 0u, memory,
			       BYTES, ~0u, rest, together, max_steps, matrices.data());
		};
		relate(0, 8);
		const auto first = device.results;
		CHECK(counts[0] > 200);
		CHECK(counts[0] < pairs.Count() / 2);
		relate(1, 400);
		CHECK(counts[1] > counts[0]);
		const std::set<vibe::u32> left(list.begin(), list.begin() + static_cast<ptrdiff_t>(counts[0]));
		CHECK(left.size() == counts[0]);
		size_t wrong = 0, open = 0, mixed = 0, together = 0;
		for (size_t i = 0; i < pairs.Count(); i++) {
			const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
			const bool was_left = left.count(static_cast<vibe::u32>(i)) > 0;
			wrong += was_left && (a.mixed || b.mixed);
			wrong += !was_left && device.results[i] != first[i];
			if (i == 5 || i == 6) {
				wrong += device.results[i] != (i == 5 ? vibe::PAIR_OPEN : vibe::PAIR_TRUE) &&
				         device.results[i] != vibe::PAIR_TRUE;
			} else if (device.results[i] == vibe::PAIR_OPEN) {
				open += was_left;
				mixed += !was_left;
			} else if (k == vibe::PREDICATE_RELATE) {
				together += was_left;
				wrong += matrices[i] != Relate(a, b, scratch);
			} else {
				together += was_left;
				wrong +=
				    device.results[i] !=
				    (Evaluate(static_cast<vibe::Predicate>(k), a, b, scratch) ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
			}
		}
		CHECK(wrong == 0);
		CHECK(mixed > 100);
		CHECK(together > 200);
		CHECK(open < together);
	}
}

TEST_CASE("kernels: sides of rows, of points alone and of shapes", "[kernels]") {
	Zoo zoo(13, 70);
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	ScalarSide left, right, points;
	DevicePairs rows(pairs.Count() + 1);
	left.AddNothing();
	right.AddNothing();
	points.AddNothing();
	for (size_t i = 0; i < pairs.Count(); i++) {
		const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
		// Points that come before and after the first shape
		if (a.dimension == 0 && a.point_count == 1) {
			left.AddPoint(a.points[0]);
		} else {
			left.AddShape(a);
		}
		right.AddShape(b);
		points.AddPoint(vibe::Vec2 {static_cast<double>(i % 7), static_cast<double>(i % 5)});
	}
	CHECK(points.IsPoints());
	CHECK(!left.IsPoints());
	CHECK((left.Count() == rows.left.size() && right.Count() == left.Count() && points.Count() == left.Count()));
	HostShapes shapes[2];
	shapes[0].Make(left.Shapes(), 0, left.Count(), false);
	shapes[1].Make(right.Shapes(), 0, right.Count(), false);
	const vibe::SideView sides[] = {{shapes[0].views.data(), nullptr}, {shapes[1].views.data(), nullptr}};
	const vibe::SideView point_side {nullptr, points.Points().data()};
	for (uint32_t i = 0; i < rows.left.size(); i++) {
		rows.list.Write(rows.total++, i, i);
	}
	std::vector<double> distances(rows.left.size()), to_points(rows.left.size());
	const vibe::LimitView limits {-1, nullptr, nullptr, false, false};
	using segment_distance_unit::shape_distances;
	Launch(shape_distances, 64, true, sides[0], sides[1], rows.list, limits, 0u, 0u, ~0u, distances.data());
	Launch(shape_distances, 64, true, sides[0], point_side, rows.list, limits, 0u, 0u, ~0u, to_points.data());
	size_t wrong = 0;
	for (size_t i = 0; i < pairs.Count(); i++) {
		const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
		const bool empty = a.dimension < 0 || b.dimension < 0;
		wrong += !SameNumber(distances[i + 1], empty ? NAN : vibe::ShapeDistance(a, b, -1));
		const auto point = points.Points()[i + 1];
		const vibe::u32 zero = 0;
		const double expected = a.dimension < 0 ? NAN : vibe::ShapeDistance(a, vibe::ShapeOfPoint(&point, &zero), -1);
		wrong += !SameNumber(to_points[i + 1], expected);
	}
	CHECK(wrong == 0);
	left.Clear();
	CHECK((left.IsPoints() && left.Count() == 0));
}

TEST_CASE("kernels: distances are the CPU's", "[kernels]") {
	Zoo zoo(9, 80);
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	for (const double limit : {-1.0, 0.0, 0.75}) {
		std::vector<double> distances(pairs.Count()), hausdorff(pairs.Count());
		DevicePairs device(pairs);
		const auto &within = device.results;
		const vibe::SideView side {zoo.views.data(), nullptr};
		const vibe::LimitView limits {limit, nullptr, nullptr, false, false};
		// The large ones by themselves
		for (auto large : {1u, 0u}) {
			Launch(segment_distance_unit::shape_distances, 64, true, side, side, device.list, limits, 0u, large, 12u,
			       distances.data());
			Launch(segment_distance_unit::shape_distances, 64, false, side, side, device.list, limits, 0u, large, 12u,
			       static_cast<double *>(nullptr));
			Launch(segment_distance_unit::hausdorff_distances, 64, true, side, side, device.list, large, 12u,
			       hausdorff.data());
		}
		size_t wrong = 0;
		for (size_t i = 0; i < pairs.Count(); i++) {
			const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
			const bool empty = a.dimension < 0 || b.dimension < 0;
			const double expected = empty ? NAN : vibe::ShapeDistance(a, b, -1);
			wrong += !SameNumber(distances[i], expected);
			wrong += !SameNumber(hausdorff[i], empty ? NAN : vibe::HausdorffDistance(a, b));
			const bool near = !empty && limit >= 0 && vibe::ShapeDistance(a, b, -1) <= limit;
			wrong += within[i] != (near ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
		}
		CHECK(wrong == 0);
	}

	PointColumns points(zoo.random);
	const auto point_ids = points.Ids();
	const Pairs both(point_ids, point_ids);
	DevicePairs device(both);
	const auto &within = device.results;
	std::vector<vibe::Vec2> as_pairs;
	as_pairs.reserve(point_ids.size());
	for (auto i : point_ids) {
		as_pairs.push_back(points.At(i));
	}
	const vibe::SideView both_sides {nullptr, as_pairs.data()};
	Launch(point_distance_unit::points_within, 64, false, both_sides, both_sides, device.list,
	       vibe::LimitView {2.5, nullptr, nullptr, false, false});
	for (size_t i = 0; i < both.Count(); i++) {
		const double distance = vibe::PointDistance(points.At(both.left[i]), points.At(both.right[i]));
		REQUIRE(within[i] == (distance <= 2.5 ? 1 : 0));
	}
}

TEST_CASE("kernels: relations of points are the CPU's, or open", "[kernels]") {
	Zoo zoo(11, 160);
	PointColumns points(zoo.random, 60);
	RelateScratch scratch;
	const vibe::u32 zero = 0;
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs with_points(points.Ids(), points.Ids()), with_shapes(points.Ids(), all);
	std::vector<vibe::Vec2> as_pairs;
	for (auto i : points.Ids()) {
		as_pairs.push_back(points.At(i));
	}
	const vibe::SideView point_side {nullptr, as_pairs.data()}, shape_side {zoo.views.data(), nullptr};
	size_t wrong = 0, open = 0, holding = 0;
	for (vibe::u32 k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
		const auto predicate = static_cast<vibe::Predicate>(k);
		std::vector<vibe::u8> results;
		{
			DevicePairs device(with_points);
			Launch(point_binary_relations_unit::point_relations, 64, false, point_side, point_side, device.list, k, 1u);
			results = device.results;
		}
		for (size_t i = 0; i < with_points.Count(); i++) {
			const auto a = points.At(with_points.left[i]), b = points.At(with_points.right[i]);
			wrong += results[i] !=
			         (Evaluate(predicate, vibe::ShapeOfPoint(&a, &zero), vibe::ShapeOfPoint(&b, &zero), scratch)
			              ? vibe::PAIR_TRUE
			              : vibe::PAIR_FALSE);
		}
		for (const bool left : {true, false}) {
			auto check = [&](vibe::u8 result, const vibe::ShapeView &a, const vibe::ShapeView &b) {
				if (result == vibe::PAIR_OPEN) {
					open++;
					wrong += !b.mixed;
					return;
				}
				const bool expected = left ? Evaluate(predicate, a, b, scratch) : Evaluate(predicate, b, a, scratch);
				wrong += result != (expected ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
				holding += result;
			};
			DevicePairs device(with_shapes);
			if (!left) {
				device.left.swap(device.right);
				std::swap(device.list.left, device.list.right);
			}
			Launch(point_binary_relations_unit::point_relations, 64, true, left ? point_side : shape_side,
			       left ? shape_side : point_side, device.list, k, left ? 1u : 0u);
			results = device.results;
			for (size_t i = 0; i < with_shapes.Count(); i++) {
				const auto point = points.At(with_shapes.left[i]);
				check(results[i], vibe::ShapeOfPoint(&point, &zero), zoo.views[with_shapes.right[i]]);
			}
		}
	}
	CHECK(wrong == 0);
	CHECK(open > 100);
	CHECK(holding > 10000);
}

TEST_CASE("kernels: pairs with points need no walk along edges", "[kernels]") {
	Zoo zoo(12, 160);
	RelateScratch scratch;
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	const vibe::SideView side {zoo.views.data(), nullptr};
	// With so little memory that relate_pairs alone would leave many open
	constexpr uint64_t SLAB = 2 << 10;
	std::vector<uint64_t> arena(64 * SLAB / 8);
	size_t wrong = 0, holding = 0, decided = 0, left_open = 0;
	for (vibe::u32 k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
		for (const vibe::u32 max_points : {3u, 1000u}) {
			DevicePairs device(pairs);
			Launch(multipoint_binary_relations_unit::multipoint_relations, 64, k % 2 == 0, side, side, device.list, k,
			       max_points);
			const auto first = device.results;
			Launch(polygon_predicates_unit::relate_pairs, 64, true, side, side, device.list, k, max_points,
			       reinterpret_cast<vibe::u8 *>(arena.data()), SLAB, ~0u, NO_REST, 0u, ANY_STEPS,
			       static_cast<vibe::Matrix *>(nullptr));
			for (size_t i = 0; i < pairs.Count(); i++) {
				const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
				const bool points = vibe::PointsDecide(a, b, max_points);
				decided += points;
				// What one of the two does not decide it leaves as it is
				wrong += points ? device.results[i] != first[i] || first[i] == vibe::PAIR_OPEN
				                : first[i] != vibe::PAIR_FALSE;
				if (device.results[i] == vibe::PAIR_OPEN) {
					left_open++;
					continue;
				}
				const bool expected = Evaluate(static_cast<vibe::Predicate>(k), a, b, scratch);
				wrong += device.results[i] != (expected ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
				holding += expected;
			}
		}
	}
	CHECK(wrong == 0);
	CHECK(holding > 10000);
	CHECK(decided > 10000);
	CHECK(left_open > 10000);
}

TEST_CASE("kernels: large pairs intersect where they are at distance 0", "[kernels]") {
	Zoo zoo(17, 200);
	RelateScratch scratch;
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	const vibe::SideView side {zoo.views.data(), nullptr};
	constexpr uint64_t SLAB = 64 << 10;
	constexpr uint32_t MAX_VERTICES = 10;
	constexpr vibe::u32 ASKED = vibe::PREDICATE_INTERSECTS;
	std::vector<uint64_t> arena(64 * SLAB / 8);
	DevicePairs device(pairs);
	Launch(segment_distance_unit::shape_distances, 64, true, side, side, device.list,
	       vibe::LimitView {0, nullptr, nullptr, false, false}, 0u, 1u, MAX_VERTICES, static_cast<double *>(nullptr));
	Launch(polygon_predicates_unit::relate_pairs, 64, true, side, side, device.list, ASKED, 0u,
	       reinterpret_cast<vibe::u8 *>(arena.data()), SLAB, MAX_VERTICES, NO_REST, 0u, ANY_STEPS,
	       static_cast<vibe::Matrix *>(nullptr));
	size_t wrong = 0, large = 0, open = 0;
	for (size_t i = 0; i < pairs.Count(); i++) {
		const auto &a = zoo.views[pairs.left[i]], &b = zoo.views[pairs.right[i]];
		large += vibe::AreLarge(a, b, MAX_VERTICES);
		open += device.results[i] == vibe::PAIR_OPEN;
		wrong += device.results[i] !=
		         (Evaluate(vibe::PREDICATE_INTERSECTS, a, b, scratch) ? vibe::PAIR_TRUE : vibe::PAIR_FALSE);
	}
	CHECK(wrong == 0);
	CHECK(open == 0);
	CHECK(large > 5000);
}

TEST_CASE("kernels: distances by several threads are those of one", "[kernels]") {
	Zoo zoo(18, 150);
	size_t wrong = 0, zeros = 0, compared = 0;
	for (const auto &a : zoo.views) {
		for (const auto &b : zoo.views) {
			if (a.dimension < 0 || b.dimension < 0) {
				continue;
			}
			for (const double limit : {-1.0, 0.0, 0.8}) {
				const double expected = vibe::ShapeDistance(a, b, limit);
				constexpr vibe::u32 LANES = 3;
				auto all = vibe::SearchDistance(a, b, limit, vibe::Lane {0, LANES});
				for (vibe::u32 lane = 1; lane < LANES; lane++) {
					const auto one = vibe::SearchDistance(a, b, limit, vibe::Lane {lane, LANES});
					all.best = std::min(all.best, one.best);
					all.touching = all.touching || one.touching;
				}
				const double found = vibe::FinishDistance(all, a, b);
				wrong += limit < 0 ? found != expected : (found <= limit) != (expected <= limit);
				zeros += found == 0;
				compared++;
			}
		}
	}
	CHECK(wrong == 0);
	CHECK(zeros > 1000);
	CHECK(compared > zeros + 1000);
}

TEST_CASE("kernels: pairs are refined some at a time", "[kernels]") {
	Zoo zoo(19, 60);
	const auto all = zoo.Ids([](size_t) { return true; });
	const Pairs pairs(all, all);
	const vibe::SideView side {zoo.views.data(), nullptr};
	const vibe::LimitView near {0.75, nullptr, nullptr, false, false};
	auto refine = [&](const vibe::PairList &some) {
		Launch(segment_distance_unit::shape_distances, 64, true, side, side, some, near, 0u, 0u, ~0u,
		       static_cast<double *>(nullptr));
	};
	DevicePairs whole(pairs), pieces(pairs);
	refine(whole.list);
	// With room for more than there are
	const uint64_t step = pairs.Count() / 3 - 1;
	for (uint64_t begin = 0; begin < pairs.Count() + step; begin += step) {
		const auto some = pieces.list.From(begin, step);
		CHECK(some.Count() == (begin >= pairs.Count() ? 0 : std::min<uint64_t>(step, pairs.Count() - begin)));
		refine(some);
	}
	CHECK(whole.results == pieces.results);
	CHECK(std::count(whole.results.begin(), whole.results.end(), vibe::PAIR_TRUE) > 100);
}

TEST_CASE("kernels: WKB to columns and back", "[kernels]") {
	const auto column = RandomColumn(13, 1500);
	const auto count = column.Count();
	std::vector<vibe::i32> sizes[4];
	for (auto &size : sizes) {
		size.assign(count + 1, 0);
	}
	std::vector<vibe::WkbRow> rows;
	rows.reserve(count);
	for (size_t i = 0; i < count; i++) {
		rows.push_back(vibe::WkbRow {static_cast<uint32_t>(column.offsets[i]), static_cast<uint32_t>(column.Size(i))});
	}
	std::vector<vibe::u8> status(count, 9);
	Launch(wkb_codec_unit::wkb_counts, count, true, column.bytes.data(), rows.data(), count, sizes[0].data(),
	       sizes[1].data(), sizes[2].data(), sizes[3].data(), status.data());
	for (auto &size : sizes) {
		vibe::i32 total = 0;
		for (auto &entry : size) {
			const auto here = entry;
			entry = total;
			total += here;
		}
	}
	std::vector<vibe::u8> node_type(sizes[0][count]), part_family(sizes[1][count]);
	std::vector<vibe::u32> children(sizes[0][count]), part_ring(sizes[1][count] + 1), ring_start(sizes[2][count] + 1);
	std::vector<double> x(sizes[3][count]), y(sizes[3][count]);
	Launch(wkb_codec_unit::wkb_decode, count, true, column.bytes.data(), rows.data(), count, status.data(),
	       sizes[0].data(), sizes[1].data(), sizes[2].data(), sizes[3].data(),
	       vibe::WkbColumns {node_type.data(), children.data(), part_family.data(), part_ring.data(), ring_start.data(),
	                         x.data(), y.data()});

	GeometryBatch batch;
	size_t wrong = 0, malformed = 0;
	std::vector<std::string> plain(count);
	for (size_t i = 0; i < count; i++) {
		if (column.Size(i) == 0) {
			wrong += status[i] != vibe::PAIR_FALSE;
			batch.AppendNull();
			continue;
		}
		try {
			ReadWkb(column.Row(i), column.Size(i), batch);
			wrong += status[i] != vibe::PAIR_FALSE;
			if (batch.vertex_type.back() == VERTEX_XY) {
				plain[i] = WriteWkb(batch, i);
			}
		} catch (const GeometryError &) {
			wrong += status[i] != vibe::PAIR_OPEN;
			malformed++;
			batch.AppendNull();
		}
	}
	CHECK(wrong == 0);
	CHECK(malformed > 300);
	auto as_u32 = [](const std::vector<vibe::i32> &values) {
		return std::vector<uint32_t>(values.begin(), values.end());
	};
	CHECK(SameBits(as_u32(sizes[0]), batch.row_node));
	CHECK(SameBits(as_u32(sizes[1]), batch.row_part));
	CHECK(std::equal(node_type.begin(), node_type.end(), batch.node_type.begin(), batch.node_type.end(),
	                 [](vibe::u8 a, GeometryType b) { return a == static_cast<uint8_t>(b); }));
	CHECK(SameBits(children, batch.node_children));
	CHECK(SameBits(part_family, batch.part_family));
	CHECK(SameBits(part_ring, batch.part_ring));
	CHECK(SameBits(ring_start, batch.ring_start));
	CHECK(SameBits(x, batch.x));
	CHECK(SameBits(y, batch.y));

	std::vector<vibe::i64> bytes_of(count), position(count);
	Launch(wkb_codec_unit::wkb_sizes, count, false, ViewOf(batch), count, bytes_of.data());
	vibe::i64 total = 0;
	for (uint32_t i = 0; i < count; i++) {
		position[i] = total;
		total += bytes_of[i];
	}
	std::vector<vibe::u8> bytes(total);
	Launch(wkb_codec_unit::wkb_rows, count, true, ViewOf(batch), count, position.data(), bytes.data());
	size_t compared = 0;
	for (uint32_t i = 0; i < count; i++) {
		const std::string found(bytes.begin() + position[i], bytes.begin() + position[i] + bytes_of[i]);
		REQUIRE(found.empty() == !batch.valid[i]);
		if (!plain[i].empty()) {
			REQUIRE(found == plain[i]);
			compared++;
		}
	}
	CHECK(compared > 300);
}

//! Are there rings without area, or lines without length? Those are not for a device
bool IsFlat(const vibe::GeometryView &geometry) {
	for (uint32_t part = geometry.part_begin; part < geometry.part_end; part++) {
		const uint32_t least = geometry.part_family[part] == vibe::FAMILY_POLYGON ? 4 : 2;
		for (uint32_t ring = geometry.part_ring[part]; ring < geometry.part_ring[part + 1]; ring++) {
			uint32_t distinct = 0;
			for (uint32_t i = geometry.ring_start[ring]; i < geometry.ring_start[ring + 1]; i++) {
				distinct += i == geometry.ring_start[ring] || geometry.Vertex(i) != geometry.Vertex(i - 1);
			}
			if (geometry.part_family[part] != vibe::FAMILY_POINT && distinct > 0 && distinct < least) {
				return true;
			}
		}
	}
	return false;
}

//! Shapes of a device against the CPU's: how many there were of these, and how many rows were left
struct ShapeComparison {
	size_t same = 0;
	size_t wrong = 0;
	size_t left = 0;
	size_t empty = 0;

	ShapeComparison(const std::vector<std::string> &wkb, bool leave_empty) {
		ShapeRows rows;
		GeometryBatch batch;
		Shape shape;
		std::vector<bool> expect_left;
		for (auto &row : wkb) {
			const auto *data = reinterpret_cast<const uint8_t *>(row.data());
			expect_left.push_back(false);
			if (row.empty()) {
				rows.AddNothing();
			} else if (ShapeRows::IsForDevice(data, row.size())) {
				rows.AddWkb(data, row.size());
				try {
					BuildShape(data, row.size(), batch, shape);
					batch.Clear();
					ReadWkb(data, row.size(), batch);
					expect_left.back() = IsFlat(batch.View(0)) || (leave_empty && shape.View().dimension < 0);
				} catch (const GeometryError &) {
					expect_left.back() = true;
				}
			} else {
				try {
					BuildShape(data, row.size(), batch, shape);
				} catch (const GeometryError &) {
					rows.AddNothing();
					continue;
				}
				rows.AddPacked();
				rows.packed.emplace_back();
				rows.packed.back().Add(shape.View());
			}
		}
		HostShapes made;
		made.Make(rows, 0, rows.Count(), leave_empty);
		const std::set<uint32_t> are_left(made.left.begin(), made.left.end());
		for (uint32_t i = 0; i < wkb.size(); i++) {
			const auto &view = made.views[i];
			const bool is_left = are_left.count(i) > 0;
			if (is_left != expect_left[i]) {
				wrong++;
			} else if (is_left) {
				wrong += view.dimension != vibe::DIMENSION_UNKNOWN || !view.box.IsEmpty();
				left++;
			} else if (rows.Rows()[i].size == 0) {
				wrong += view.dimension != -1 || !view.box.IsEmpty() || view.AreaVertexEnd() != 0;
				empty++;
			} else {
				const auto *data = reinterpret_cast<const uint8_t *>(wkb[i].data());
				BuildShape(data, wkb[i].size(), batch, shape);
				wrong += !SameShape(view, shape.View());
				vibe::ShapeCounts counts {};
				wrong += vibe::CountShape(data, wkb[i].size(), counts) &&
				         counts.Bytes() > vibe::MostShapeBytes(wkb[i].size(), 1);
				same++;
			}
		}
		// A part of them, as when memory is short
		const size_t first = wkb.size() / 3, count = wkb.size() / 2;
		HostShapes some;
		some.Make(rows, first, count, leave_empty);
		for (size_t i = 0; i < count; i++) {
			const auto &view = made.views[first + i];
			wrong += some.views[i].dimension != view.dimension ||
			         (view.dimension != vibe::DIMENSION_UNKNOWN && !SameShape(some.views[i], view));
		}
	}
};

TEST_CASE("kernels: where the rows of a build side go", "[kernels]") {
	// Of one buffer, of which rows are as much as they say: types decide, and sizes
	std::vector<uint8_t> polygon(ShapeRows::MAX_WKB_BYTES + 1), collection(100), point(21);
	polygon[0] = collection[0] = point[0] = 1;
	polygon[1] = 3;
	collection[1] = 7;
	point[1] = 1;
	std::mt19937 random(17);
	std::vector<JoinRow> rows;
	std::vector<uint32_t> expect_packed;
	size_t expect_bytes = 0;
	for (uint32_t i = 0; i < 60000; i++) {
		const auto kind = random() % 100;
		// Long stretches of small rows, and of large ones
		const uint32_t size = i / 7000 % 2 == 0 ? 93 : static_cast<uint32_t>(ShapeRows::MAX_WKB_BYTES - random() % 100);
		if (kind == 0) {
			rows.push_back(JoinRow {nullptr, 0});
		} else if (kind == 1) {
			rows.push_back(JoinRow {collection.data(), 100});
			expect_packed.push_back(i);
		} else if (kind == 2 && i > 50000) {
			rows.push_back(JoinRow {polygon.data(), static_cast<uint32_t>(polygon.size())});
			expect_packed.push_back(i);
		} else if (kind == 3 && i < 1000) {
			rows.push_back(JoinRow {point.data(), 21});
			expect_bytes += 21;
		} else {
			rows.push_back(JoinRow {polygon.data(), size});
			expect_bytes += size;
		}
	}
	WkbLayout layout(rows.size());
	REQUIRE(layout.parts.size() == 59);
	// In any order
	for (size_t i = 0; i < layout.parts.size(); i++) {
		layout.Read(i * 17 % 59, rows.data());
	}
	Serial serial;
	layout.MakeGroups(serial);
	REQUIRE(layout.groups.size() == 2);
	REQUIRE(layout.groups[0].begin == 0);
	REQUIRE(layout.groups[0].end == layout.groups[1].begin);
	REQUIRE(layout.groups[1].end == 59);
	REQUIRE(layout.groups[0].bytes + layout.groups[1].bytes == expect_bytes);
	std::vector<uint32_t> packed;
	size_t wrong = 0, cuts = 0;
	for (auto &group : layout.groups) {
		wrong += group.bytes > WkbLayout::GROUP_BYTES;
		size_t at = 0;
		for (size_t number = group.begin; number < group.end; number++) {
			auto &part = layout.parts[number];
			size_t step = 0, next_cut = 0;
			const size_t part_at = at;
			for (size_t i = layout.Begin(number); i < layout.End(number); i++) {
				if (next_cut < part.cuts.size() && part.cuts[next_cut] == i) {
					next_cut++;
					step = 0;
				}
				const auto row = layout.numbers[i];
				const bool is_packed = row.size == vibe::WkbRow::PRESENT;
				wrong += row.begin != at;
				wrong += !is_packed && row.size != rows[i].size;
				at += is_packed ? 0 : row.size;
				step += is_packed ? 0 : row.size;
				wrong += step > WkbLayout::STEP_BYTES;
			}
			wrong += next_cut != part.cuts.size() || part.last_bytes != step || part.bytes != at - part_at;
			wrong += part.has_points != (number == 0) || part.has_large != (at - part_at > 100000 || number >= 49);
			cuts += part.cuts.size();
			packed.insert(packed.end(), part.packed.begin(), part.packed.end());
		}
		wrong += at != group.bytes;
	}
	REQUIRE(wrong == 0);
	REQUIRE(cuts > 100);
	REQUIRE(packed == expect_packed);
}

TEST_CASE("kernels: shapes from WKB are the CPU's", "[kernels]") {
	const auto column = RandomColumn(15, 2000);
	std::vector<std::string> wkb;
	wkb.reserve(column.Count());
	for (uint32_t i = 0; i < column.Count(); i++) {
		wkb.emplace_back(column.bytes.begin() + static_cast<ptrdiff_t>(column.offsets[i]),
		                 column.bytes.begin() + static_cast<ptrdiff_t>(column.offsets[i + 1]));
	}
	// What can be used, with vertices that repeat, rings in both directions, parts that are EMPTY, runs with boxes
	std::mt19937 random(16);
	for (int i = 0; i < 3000; i++) {
		const auto vertex_type = static_cast<uint8_t>(random() % 4);
		const size_t width = VertexWidth(vertex_type);
		const uint32_t longest = i % 50 == 0 ? 1100 : i % 5 == 0 ? 200 : 12;
		auto vertices = [&](wkb_test::Wkb &to, uint32_t least, bool closed, bool repeats) {
			const uint32_t corners = least + random() % longest;
			std::vector<double> xy;
			for (uint32_t k = 0; k < corners; k++) {
				const double angle = (closed && i % 2 ? -1 : 1) * 6.283185307179586 * k / corners;
				const double radius = 1 + random() % 4;
				do {
					xy.push_back(std::round(8 * radius * std::cos(angle)));
					xy.push_back(std::round(8 * radius * std::sin(angle)));
				} while (repeats && random() % 4 == 0);
			}
			if (closed) {
				xy.push_back(xy[0]);
				xy.push_back(xy[1]);
			}
			to.Count(static_cast<uint32_t>(xy.size() / 2));
			for (size_t k = 0; k < xy.size(); k += 2) {
				to.Doubles({xy[k], xy[k + 1]});
				for (size_t extra = 2; extra < width; extra++) {
					to.Doubles({extra == 2 ? wkb_test::NaN : 7});
				}
			}
		};
		const auto leaf = static_cast<GeometryType>(1 + random() % 3);
		const bool many = random() % 2 == 0, repeats = random() % 2 == 0;
		wkb_test::Wkb row;
		const uint32_t parts = many ? random() % 5 : 1;
		if (many) {
			row.Header(static_cast<GeometryType>(static_cast<uint8_t>(leaf) + 3), vertex_type).Count(parts);
		}
		for (uint32_t part = 0; part < parts; part++) {
			if (random() % 9 == 0) {
				row.Append(wkb_test::Empty(leaf, vertex_type));
				continue;
			}
			row.Header(leaf, vertex_type);
			if (leaf == GeometryType::POINT) {
				row.Doubles({static_cast<double>(random() % 3), random() % 2 ? 0.0 : -0.0});
				for (size_t extra = 2; extra < width; extra++) {
					row.Doubles({5});
				}
			} else if (leaf == GeometryType::LINESTRING) {
				vertices(row, 2, random() % 3 == 0, repeats);
			} else {
				const uint32_t rings = 1 + random() % 3;
				row.Count(rings);
				for (uint32_t ring = 0; ring < rings; ring++) {
					if (ring > 0 && random() % 5 == 0) {
						row.Count(0);
					} else {
						vertices(row, 3, true, repeats);
					}
				}
			}
		}
		wkb.push_back(row.bytes);
		if (i % 10 == 0) {
			wkb.push_back(row.bytes.substr(0, random() % row.bytes.size()));
		}
	}
	for (bool leave_empty : {false, true}) {
		const ShapeComparison compared(wkb, leave_empty);
		CHECK(compared.wrong == 0);
		CHECK(compared.same > 2000);
		CHECK(compared.left > 500);
		CHECK(compared.empty > 0);
	}
}

TEST_CASE("kernels: points to WKB", "[kernels]") {
	std::mt19937 random(14);
	const PointColumns points(random, 1000);
	auto x = points.x, y = points.y;
	const auto count = static_cast<uint32_t>(x.size());
	x[0] = y[0] = -wkb_test::NaN;
	constexpr size_t SIZE = 21;
	std::vector<vibe::u8> bytes(count * SIZE);
	Launch(wkb_codec_unit::encode_points, count, true, x.data(), y.data(), count, bytes.data());
	for (size_t i = 0; i < count; i++) {
		double read_x, read_y;
		REQUIRE(ReadWkbPoint(bytes.data() + i * SIZE, SIZE, read_x, read_y) == !(std::isnan(x[i]) && std::isnan(y[i])));
		REQUIRE((i == 0 || (SameBits(&read_x, &x[i], 8) && SameBits(&read_y, &y[i], 8))));
	}
	CHECK(std::string(bytes.begin(), bytes.begin() + SIZE) == wkb_test::Empty(GeometryType::POINT, 0));
}

TEST_CASE("kernels: points and numbers made out of rows", "[kernels]") {
	Zoo zoo(15, 300);
	const auto count = static_cast<uint32_t>(zoo.batch.RowCount());
	std::vector<double> x(count), y(count), areas(count), lengths(count), perimeters(count);
	const auto rows = ViewOf(zoo.batch);
	Launch(measures_unit::row_centroids, count, true, rows, count, x.data(), y.data());
	Launch(measures_unit::row_areas, count, false, rows, count, areas.data());
	Launch(measures_unit::row_lengths, count, false, rows, count, vibe::u32(vibe::FAMILY_LINE), lengths.data());
	Launch(measures_unit::row_lengths, count, false, rows, count, vibe::u32(vibe::FAMILY_POLYGON), perimeters.data());
	for (uint32_t i = 0; i < count; i++) {
		const auto wkb = WriteWkb(zoo.batch, i);
		const auto *data = wkb_test::Data(wkb);
		const auto centroid = Centroid(data, wkb.size());
		REQUIRE((SameNumber(x[i], centroid.x) && SameNumber(y[i], centroid.y)));
		REQUIRE(areas[i] == Area(data, wkb.size()));
		REQUIRE(lengths[i] == Length(data, wkb.size()));
		REQUIRE(perimeters[i] == Perimeter(data, wkb.size()));
	}
	// the polygon of no area and the line of no length at the head of the zoo
	REQUIRE((x[4] == 1 && y[4] == 1 && x[5] == 1 && y[5] == 1));
}
