#include "catch.hpp"

#include "engine/constructive/precision.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <limits>
#include <random>

using namespace vibespatial;
using namespace wkt_test;

static std::string Reduced(const std::string &text, double grid) {
	const WktRow input(text);
	Overlay overlay;
	Serial serial;
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	ReducePrecision(input.batch, WktRow::ROW, grid, overlay, serial, out);
	REQUIRE(out.RowCount() == 2);
	REQUIRE(out.type[1] == out.node_type[out.row_node[1]]);
	return WriteWkt(out, 1);
}

TEST_CASE("Points and lines go to the grid vertex by vertex", "[precision]") {
	REQUIRE(Reduced("POINT (1.26 -1.26)", 0.1) == "POINT (1.3 -1.3)");
	REQUIRE(Reduced("POINT Z (7 8 9)", 5) == "POINT (5 10)");
	// of two the upper one
	REQUIRE(Reduced("MULTIPOINT (0.5 -0.5, 1.5 -1.5)", 1) == "MULTIPOINT ((1 0), (2 -1))");
	REQUIRE(Reduced("LINESTRING (0 0, 0.1 0.1, 2.2 2.2, 1.8 1.9)", 1) == "LINESTRING (0 0, 2 2)");
	REQUIRE(Reduced("LINESTRING (0 0, 2 2.1, 0 2, 2 0)", 1) == "LINESTRING (0 0, 2 2, 0 2, 2 0)");
	REQUIRE(Reduced("LINESTRING (1 2, 3 4)", 1e-30) == "LINESTRING (1 2, 3 4)");
}

TEST_CASE("What collapses is dropped", "[precision]") {
	REQUIRE(Reduced("LINESTRING (0 0, 0.1 0.1)", 1) == "LINESTRING EMPTY");
	REQUIRE(Reduced("MULTILINESTRING ((0 0, 0.1 0.1), (0 0, 2 2))", 1) == "MULTILINESTRING ((0 0, 2 2))");
	REQUIRE(Reduced("MULTILINESTRING ((0 0, 0.1 0.1))", 1) == "MULTILINESTRING EMPTY");
	REQUIRE(Reduced("POLYGON ((0 0, 0.4 0, 0.4 0.4, 0 0))", 1) == "POLYGON EMPTY");
	REQUIRE(Reduced("POLYGON ((0 0, 5 0.2, 9 0.4, 0 0))", 1) == "POLYGON EMPTY");
	REQUIRE(Reduced("MULTIPOLYGON (((0 0, 0.4 0, 0.4 0.4, 0 0)), ((0 0, 4.1 0, 4 4, 0 0)))", 1) ==
	        "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)))");
	REQUIRE(Reduced("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 2.2 2, 2.2 2.4, 2 2))", 1) ==
	        "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))");
	REQUIRE(Reduced("GEOMETRYCOLLECTION (LINESTRING (0 0, 0.1 0.1), GEOMETRYCOLLECTION (POINT (1.2 3.4)), "
	                "MULTILINESTRING ((0 0, 0.1 0.1)), GEOMETRYCOLLECTION (POLYGON EMPTY), MULTIPOINT (1.1 1.1))",
	                1) == "GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (POINT (1 3)), MULTIPOINT ((1 1)))");
	REQUIRE(Reduced("GEOMETRYCOLLECTION (LINESTRING (0 0, 0.1 0.1))", 1) == "GEOMETRYCOLLECTION EMPTY");
}

TEST_CASE("Polygons go to the grid as areas", "[precision]") {
	// neighbours that come to touch
	REQUIRE(Reduced("MULTIPOLYGON (((0 0, 2.1 0, 2.1 2.1, 0 2.1, 0 0)), ((2.2 0, 4 0, 4 4, 2.2 3, 2.2 0)))", 1) ==
	        "MULTIPOLYGON (((0 0, 2 0, 4 0, 4 4, 2 3, 2 2, 0 2, 0 0)))");
	// a neck that closes
	REQUIRE(Reduced("POLYGON ((0 0, 3 0, 3 1.4, 6 1.4, 6 0, 9 0, 9 3, 6 3, 6 1.45, 3 1.45, 3 3, 0 3, 0 0))", 1) ==
	        "MULTIPOLYGON (((0 0, 3 0, 3 1, 3 3, 0 3, 0 0)), ((6 0, 9 0, 9 3, 6 3, 6 1, 6 0)))");
	// members of a collection do not know each other
	REQUIRE(Reduced("GEOMETRYCOLLECTION (POLYGON ((0 0, 2.1 0, 2 2, 0 2, 0 0)), POLYGON ((1 0, 4 0, 4 4, 1 0)))", 1) ==
	        "GEOMETRYCOLLECTION (POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0)), POLYGON ((1 0, 4 0, 4 4, 1 0)))");
	REQUIRE(Reduced("POLYGON ((0 0, 4 4.1, 4 0, 0 4, 0 0))", 1) ==
	        "MULTIPOLYGON (((0 0, 2 2, 0 4, 0 0)), ((2 2, 4 0, 4 4, 2 2)))");
}

TEST_CASE("What is turned inside out takes nothing from the rest", "[precision]") {
	// the leftmost spike crosses over when it is moved
	REQUIRE(Reduced("POLYGON ((0 1.6, 4 1.4, 4 0, 8 0, 8 4, 4 4, 4 1.45, 0 1.61, 0 1.6))", 1) ==
	        "POLYGON ((4 0, 8 0, 8 4, 4 4, 4 1, 4 0))");
}

TEST_CASE("Polygons on the grid are valid, on the grid and stay there", "[precision]") {
	std::mt19937 random(3);
	Overlay overlay;
	Serial serial;
	for (int round = 0; round < 500; round++) {
		GeometryBatch input, out, again;
		std::string text = "MULTIPOLYGON (";
		for (int polygon = 0; polygon < 3; polygon++) {
			const auto place = [&] { return std::to_string(random() % 1000 / 100.0) + " "; };
			const auto first = place() + place();
			text += (polygon ? ", ((" : "((") + first;
			for (int i = 0; i < 6; i++) {
				text += ", " + place() + place();
			}
			text += ", " + first + "))";
		}
		ReadWkt(text + ")", input);
		const double grid = round % 2 ? 0.3 : 1;
		ReducePrecision(input, 0, grid, overlay, serial, out);
		INFO(text << ") -> " << WriteWkt(out, 0));
		REQUIRE(ValidityReason(out, 0) == "Valid Geometry");
		for (size_t i = 0; i < out.x.size(); i++) {
			REQUIRE(std::abs(out.x[i] - std::round(out.x[i] / grid) * grid) < 1e-14);
			REQUIRE(std::abs(out.y[i] - std::round(out.y[i] / grid) * grid) < 1e-14);
		}
		ReducePrecision(out, 0, grid, overlay, serial, again);
		REQUIRE(WriteWkt(again, 0) == WriteWkt(out, 0));
	}
}

TEST_CASE("Grids that are none", "[precision]") {
	const double infinite = std::numeric_limits<double>::infinity();
	for (double grid : {0.0, -1.0, infinite, std::nan("")}) {
		REQUIRE_THROWS_AS(Reduced("POINT (1 2)", grid), GeometryError);
	}
	REQUIRE_THROWS_AS(Reduced("POINT (nan 2)", 1), GeometryError);
}
