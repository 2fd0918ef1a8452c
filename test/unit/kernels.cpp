// The GPU's units, run on the host: what they compute is what the CPU engine computes.
#include "host_cuda.hpp"

#include "vibe/box_node.h"
#include "vibe/curve.h"
#include "vibe/thread.h"
#include "vibe/wkb.h"

namespace bounds_unit {
#include "../../kernels/bounds.cu"
}
namespace morton_range_unit {
#include "../../kernels/morton_range.cu"
}
namespace indexing_unit {
#include "../../kernels/indexing.cu"
}

#include "catch.hpp"

#include "engine/cpu/box_tree.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "wkb_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace vibespatial;
using host_cuda::Launch;
using vibe::Box;

namespace {

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

bool SameBits(const void *a, const void *b, size_t size) {
	return std::memcmp(a, b, size) == 0;
}

template <class T>
bool SameBits(const std::vector<T> &a, const std::vector<T> &b) {
	return a.size() == b.size() && (a.empty() || SameBits(a.data(), b.data(), a.size() * sizeof(T)));
}

struct FiniteCheck {
	bool finite = true;

	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		for (uint32_t i = 0; i < count; i++) {
			finite = finite && std::isfinite(vibe::LoadDouble(coords + i * stride)) &&
			         std::isfinite(vibe::LoadDouble(coords + i * stride + 8));
		}
	}
};

//! What the CPU says of a row
uint32_t CpuBounds(const uint8_t *data, size_t size, Box &box) {
	box = Box::Empty();
	if (size == 0) {
		return vibe::WKB_OK;
	}
	try {
		FiniteCheck check;
		VisitWkb(data, size, check);
		WkbBounds(data, size, box);
		return check.finite ? vibe::WKB_OK : vibe::WKB_NOT_FINITE;
	} catch (const GeometryError &) {
		return vibe::WKB_MALFORMED;
	}
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
	Launch(morton_range_unit::curve_codes, count, backwards, boxes.data(), count, extent, position.data(), keys.data(),
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

} // namespace

TEST_CASE("kernels: boxes of WKB are the CPU's", "[kernels]") {
	const auto column = RandomColumn(1, 4000);
	std::vector<Box> boxes(column.Count());
	std::vector<vibe::u32> status(column.Count(), 9);
	Launch(bounds_unit::wkb_bounds, column.Count(), true, column.bytes.data(), column.offsets.data(), column.Count(),
	       boxes.data(), status.data());
	size_t wrong = 0, seen[3] = {};
	for (size_t i = 0; i < column.Count(); i++) {
		Box box;
		const auto expected = CpuBounds(column.Row(i), column.Size(i), box);
		wrong += status[i] != expected || !SameBits(&boxes[i], &box, sizeof(box));
		seen[expected]++;
	}
	CHECK(wrong == 0);
	CHECK(seen[0] > 1000);
	CHECK(seen[1] > 1000);
	CHECK(seen[2] > 1000);
}

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
			REQUIRE(packed.Ids() == tree.Ids());
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
	const auto tree = BoxTree::FromParts(packed.Ids(), packed.nodes.data(), packed.NodeCount());
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
	CHECK(visited(BoxTree::FromParts({}, nullptr, 0), Box {0, 0, 1, 1}).empty());
	CHECK_THROWS_AS(BoxTree::FromParts(packed.Ids(), packed.nodes.data(), packed.NodeCount() - 1),
	                std::invalid_argument);
}

TEST_CASE("kernels: Morton codes and ranges of cells", "[kernels]") {
	std::mt19937_64 random(5);
	for (int i = 0; i < 1000; i++) {
		const auto x = static_cast<uint32_t>(random()), y = static_cast<uint32_t>(random());
		const auto code = vibe::MortonCode(x, y);
		REQUIRE(vibe::MortonX(code) == x);
		REQUIRE(vibe::MortonY(code) == y);
	}
	CHECK(vibe::MortonCode(1, 0) == 1);
	CHECK(vibe::MortonCode(0, 1) == 2);

	auto boxes = RandomBoxes(random, 400, 100);
	boxes.push_back(Box {-1000, -1000, 1000, 1000});
	boxes.push_back(Box {0, 0, 0, 0});
	const auto count = static_cast<uint32_t>(boxes.size());
	const double extent[] = {-100, -100, 100, 100};
	std::vector<vibe::i32> position(count);
	std::iota(position.begin(), position.end(), 0);
	std::vector<vibe::u64> keys(count);
	std::vector<vibe::i32> ids(count, -1);
	Launch(morton_range_unit::morton_codes, count, true, boxes.data(), count, extent, position.data(), keys.data(),
	       ids.data());
	const auto grid = vibe::CurveGrid<32>::Over(Box {-100, -100, 100, 100});
	for (uint32_t i = 0; i < count; i++) {
		REQUIRE(ids[i] == (boxes[i].IsEmpty() ? -1 : static_cast<int>(i)));
		REQUIRE((boxes[i].IsEmpty() || keys[i] == vibe::MortonCodeOf(grid, boxes[i])));
	}
	for (uint32_t level : {0, 1, 5, 9}) {
		std::vector<vibe::i32> counts(count);
		Launch(morton_range_unit::morton_range_counts, count, false, boxes.data(), count, extent, level, counts.data());
		vibe::i32 total = 0;
		for (uint32_t i = 0; i < count; i++) {
			position[i] = total;
			total += counts[i];
		}
		std::vector<vibe::u64> first(total), last(total);
		Launch(morton_range_unit::morton_ranges, count, true, boxes.data(), count, extent, level, position.data(),
		       first.data(), last.data());
		for (uint32_t i = 0; i < count; i++) {
			std::set<vibe::u64> expected, found;
			if (!boxes[i].IsEmpty()) {
				const auto cells = vibe::CellBlock::Of(grid, boxes[i], level);
				for (uint32_t x = cells.min_x; x <= cells.max_x; x++) {
					for (uint32_t y = cells.min_y; y <= cells.max_y; y++) {
						expected.insert(vibe::MortonCode(x, y));
					}
				}
			}
			for (vibe::i32 k = position[i]; k < position[i] + counts[i]; k++) {
				// Apart from the one before: as long as can be
				REQUIRE((k == position[i] || last[k - 1] + 1 < first[k]));
				for (auto code = first[k]; code <= last[k]; code++) {
					found.insert(code);
				}
			}
			REQUIRE(found == expected);
		}
	}
}
