#include "catch.hpp"

#include "engine/measure/distance.hpp"
#include "engine/measure/polygon_contact.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/wkb.hpp"
#include "wkb_bytes.hpp"
#include "wkt_rows.hpp"

#include <random>

using namespace vibespatial;
using namespace wkb_test;
using namespace wkt_test;

static std::string Bytes(const std::string &wkt) {
	GeometryBatch batch;
	ReadWkt(wkt, batch);
	return WriteWkb(batch, 0);
}

static bool Meet(const std::string &left, const std::string &right) {
	return PolygonsMeet(Data(left), left.size(), Data(right), right.size());
}

TEST_CASE("Polygons that hold the first vertex of another", "[polygon_contact]") {
	const auto square = Bytes("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))");
	for (auto other : {"POLYGON ((1 1, 2 1, 2 2, 1 1))", "POLYGON ((4 4, 9 4, 9 9, 4 4))",
	                   "POLYGON ((4 2, 9 2, 9 9, 4 2))", "POLYGON ((-9 -9, 9 -9, 9 9, -9 9, -9 -9))"}) {
		REQUIRE(Meet(square, Bytes(other)));
		REQUIRE(Meet(Bytes(other), square));
	}
	for (auto other :
	     {"POLYGON ((5 1, 6 1, 6 2, 5 1))", "POLYGON EMPTY", "POINT (1 1)", "LINESTRING (1 1, 2 2)",
	      "POLYGON Z ((1 1 0, 2 1 0, 2 2 0, 1 1 0))", "MULTIPOLYGON (((1 1, 2 1, 2 2, 1 1)))",
	      "POLYGON ((-9 -9, 9 -9, 9 9, -9 9, -9 -9), (-1 -1, 5 -1, 5 5, -1 5, -1 -1))",
	      // not usable: an error is due
	      "POLYGON ((1 1, 2 1, 2 2, 3 3))", "POLYGON ((1 1, nan 1, 2 2, 1 1))", "POLYGON ((1 1, 2 1, 1 1))"}) {
		REQUIRE_FALSE(Meet(square, Bytes(other)));
		REQUIRE_FALSE(Meet(Bytes(other), square));
	}
	for (size_t size = 0; size < square.size(); size++) {
		std::vector<char> cut(square.begin(), square.begin() + ptrdiff_t(size));
		REQUIRE_FALSE(PolygonsMeet(reinterpret_cast<uint8_t *>(cut.data()), size, Data(square), square.size()));
	}
}

TEST_CASE("Polygons that meet have no distance", "[polygon_contact]") {
	std::mt19937 random(3);
	const auto polygon = [&]() {
		std::string text;
		std::string first;
		const int count = 3 + int(random() % 5);
		for (int i = 0; i < count; i++) {
			const auto vertex = std::to_string(random() % 8) + " " + std::to_string(random() % 8);
			text += vertex + ", ";
			first = i == 0 ? vertex : first;
		}
		return Bytes("POLYGON ((" + text + first + "))");
	};
	size_t met = 0;
	for (int round = 0; round < 5000; round++) {
		const auto left = polygon(), right = polygon();
		if (Meet(left, right)) {
			met++;
			GeometryBatch batch;
			ReadWkb(Data(left), left.size(), batch);
			ReadWkb(Data(right), right.size(), batch);
			Shape a, b;
			a.Build(batch.View(0));
			b.Build(batch.View(1));
			REQUIRE(vibespatial::ShapeDistance(a.View(), b.View(), -1.0) == 0.0);
		}
	}
	REQUIRE(met > 1000);
}
