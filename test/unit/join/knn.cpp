#include "engine/join/knn.hpp"

#include "catch.hpp"

#include "engine/relate/prepared.hpp"
#include "geometry/wkb.hpp"
#include "neighbour_rows.hpp"
#include "three_threads.hpp"

#include <algorithm>
#include <cstring>
#include <random>

using namespace vibespatial;
using neighbour_test::Mixed;
using neighbour_test::Rows;
using vibe::Vec2;

namespace {

constexpr double FAR = __builtin_huge_val();

//! All distances, ordered
std::vector<std::vector<Neighbour>> AllNearest(const Rows &left, const Rows &right, size_t k, double most) {
	std::vector<std::vector<Neighbour>> result;
	auto rights = right.Get();
	for (auto &row : left.Get()) {
		result.emplace_back();
		for (uint32_t i = 0; i < rights.size(); i++) {
			GeometryBatch batch;
			Shape a, b;
			if (!row.data || !rights[i].data) {
				continue;
			}
			BuildShape(row.data, row.size, batch, a);
			BuildShape(rights[i].data, rights[i].size, batch, b);
			if (a.View().dimension < 0 || b.View().dimension < 0) {
				continue;
			}
			auto distance = vibe::ShapeDistance(a.View(), b.View(), -1);
			if (distance <= most) {
				result.back().push_back(Neighbour {distance, i});
			}
		}
		auto &list = result.back();
		std::sort(list.begin(), list.end(), [](const Neighbour &x, const Neighbour &y) {
			return x.distance < y.distance || (x.distance == y.distance && x.row < y.row);
		});
		list.resize(std::min(k, list.size()));
	}
	return result;
}

bool Same(const std::vector<Neighbour> &a, const std::vector<Neighbour> &b) {
	return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Neighbour &x, const Neighbour &y) {
		return vibe::Bits(x.distance) == vibe::Bits(y.distance) && x.row == y.row;
	});
}

//! Searches that differ from asking about all pairs
size_t Wrong(const Rows &left, const Rows &right, size_t k, double most = FAR) {
	KnnIndex index(right.Get());
	ThreeThreads threads;
	index.Build(threads);
	KnnSearch search(index, k, most, [] {});
	auto expected = AllNearest(left, right, k, most);
	auto lefts = left.Get();
	size_t wrong = 0;
	for (size_t i = 0; i < lefts.size(); i++) {
		wrong += !Same(search.Find(lefts[i]), expected[i]);
	}
	if (!index.AllPoints()) {
		return wrong;
	}
	// What the GPU runs
	auto &tree = index.Tree();
	auto levels = vibe::NodeLevels::Of(tree.Count());
	for (size_t i = 0; i < lefts.size(); i++) {
		Vec2 p;
		if (!lefts[i].data || !TryReadPoint(lefts[i].data, lefts[i].size, p)) {
			continue;
		}
		constexpr size_t STRIDE = 3;
		std::vector<double> distances(k * STRIDE);
		std::vector<uint32_t> rows(k * STRIDE);
		vibe::NearestList list {distances.data(), rows.data(), STRIDE, static_cast<uint32_t>(k), most, 0};
		vibe::FindNearestPoints(tree.Nodes(), levels, index.Leaves().data(), tree.Ids().data(),
		                        static_cast<uint32_t>(tree.Count()), p, list);
		std::vector<Neighbour> found;
		found.reserve(list.count);
		for (uint32_t n = 0; n < list.count; n++) {
			found.push_back(Neighbour {distances[n * STRIDE], rows[n * STRIDE]});
		}
		wrong += !Same(found, expected[i]);
	}
	return wrong;
}

} // namespace

TEST_CASE("knn: points, by all counts", "[knn]") {
	std::mt19937_64 random(3);
	std::uniform_real_distribution<double> place(-180, 180);
	for (size_t count : {0, 1, 15, 16, 17, 256, 257, 5000}) {
		Rows left, right;
		for (size_t i = 0; i < count; i++) {
			right.Point(place(random), place(random) / 2);
		}
		for (size_t i = 0; i < 40; i++) {
			left.Point(place(random), place(random) / 2);
		}
		left.Text("");
		left.Text("POINT EMPTY");
		for (size_t k : {1, 2, 5, 31, 32, 33, 400}) {
			INFO(count << " points, k " << k);
			REQUIRE(Wrong(left, right, k) == 0);
			REQUIRE(Wrong(left, right, k, 12.5) == 0);
		}
	}
}

TEST_CASE("knn: ties go to the lower row", "[knn]") {
	std::mt19937_64 random(4);
	Rows grid;
	for (int i = 0; i < 900; i++) {
		if (i % 50 == 0) {
			grid.Text(i % 100 == 0 ? "" : "POINT EMPTY");
		}
		grid.Point(double(random() % 9), double(random() % 9));
	}
	for (size_t k : {1, 3, 10, 32, 100, 2000}) {
		REQUIRE(Wrong(grid, grid, k) == 0);
		REQUIRE(Wrong(grid, grid, k, 0) == 0);
		REQUIRE(Wrong(grid, grid, k, 1) == 0);
	}
}

TEST_CASE("knn: distances that differ in the last bits, far from the origin, tiny and huge", "[knn]") {
	std::mt19937_64 random(5);
	std::uniform_real_distribution<double> place(0, 1);
	for (double scale : {1e-200, 1e-150, 1e-25, 1e-12, 1.0, 1e9, 1e25, 1e150, 1e200, 1e300}) {
		for (double shift : {0.0, 1.0, 1e6}) {
			Rows left, right;
			for (int i = 0; i < 300; i++) {
				// On few circles around the first left row
				double angle = place(random) * 6.3, radius = 1 + double(random() % 3);
				right.Point(scale * (shift + radius * std::cos(angle)), scale * (shift + radius * std::sin(angle)));
			}
			left.Point(scale * shift, scale * shift);
			for (int i = 0; i < 10; i++) {
				left.Point(scale * (shift + place(random)), scale * (shift + place(random)));
			}
			INFO(scale << " " << shift);
			REQUIRE(Wrong(left, right, 7) == 0);
			REQUIRE(Wrong(left, right, 150) == 0);
		}
	}
}

TEST_CASE("knn: all types", "[knn]") {
	for (uint32_t seed = 0; seed < 6; seed++) {
		auto left = Mixed(seed, 60), right = Mixed(seed + 100, seed == 0 ? 3 : 300);
		for (size_t k : {1, 4, 40, 1000}) {
			INFO(seed << " " << k);
			REQUIRE(Wrong(left, right, k) == 0);
			REQUIRE(Wrong(left, right, k, 3) == 0);
		}
	}
}

TEST_CASE("knn: shapes among points, and points among shapes", "[knn]") {
	std::mt19937_64 random(8);
	std::uniform_real_distribution<double> place(0, 40);
	Rows points;
	for (int i = 0; i < 500; i++) {
		points.Point(place(random), place(random));
	}
	auto shapes = Mixed(77, 120);
	for (size_t k : {1, 6, 50}) {
		REQUIRE(Wrong(shapes, points, k) == 0);
		REQUIRE(Wrong(points, shapes, k) == 0);
	}
}

TEST_CASE("knn: a part of an index knows its own rows", "[knn]") {
	std::mt19937_64 random(9);
	Rows points;
	for (int i = 0; i < 700; i++) {
		points.Text(i % 60 == 7 ? "POINT EMPTY" : "");
		points.Point(double(random() % 90), double(random() % 90));
	}
	const auto mixed = Mixed(5, 300);
	const auto left = Mixed(6, 40);
	ThreeThreads threads;
	for (const Rows *right : std::initializer_list<const Rows *> {&points, &mixed}) {
		const auto rows = right->Get();
		KnnIndex index(right->Get());
		index.Build(threads);
		for (size_t first = 0; first < rows.size(); first += 77) {
			const size_t count = std::min<size_t>(77, rows.size() - first);
			const auto part = index.Part(first, count, threads);
			KnnIndex own(JoinRows(rows.begin() + long(first), rows.begin() + long(first + count)));
			own.Build(threads);
			REQUIRE(part->RowCount() == count);
			REQUIRE(part->ItemCount() == own.ItemCount());
			REQUIRE(part->AllPoints() == own.AllPoints());
			KnnSearch one(*part, 9, FAR, [] {}), other(own, 9, FAR, [] {});
			size_t found = 0;
			for (const auto &row : left.Get()) {
				const auto expected = other.Find(row);
				CHECK(Same(one.Find(row), expected));
				found += expected.size();
			}
			CHECK(found > 0);
		}
	}
}

TEST_CASE("knn: what cannot be used is an error", "[knn]") {
	Rows right, left;
	right.Text("LINESTRING (0 0, 1 1)");
	double nan = std::nan("");
	std::memcpy(&right.wkb[0][9], &nan, sizeof(nan));
	KnnIndex index(right.Get());
	Serial serial;
	REQUIRE_THROWS(index.Build(serial));
}

TEST_CASE("knn: a search stops when it is told to", "[knn]") {
	Rows points;
	for (int i = 0; i < 60000; i++) {
		points.Point(i % 300, i / 300); // NOLINT: whole numbers
	}
	KnnIndex index(points.Get());
	Serial serial;
	index.Build(serial);
	KnnSearch search(index, 50, FAR, [] { throw std::runtime_error("stop"); });
	REQUIRE_THROWS([&] {
		for (auto &row : points.Get()) {
			search.Find(row);
		}
	}());
}
