#include "catch.hpp"

#include "engine/relate/simple.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

#include <cmath>

using namespace vibespatial;
using namespace wkt_test;

static bool Simple(const std::string &text) {
	const WktRow input(text);
	return IsSimple(input.batch, WktRow::ROW);
}

TEST_CASE("Simple geometries", "[simple]") {
	for (auto text :
	     {"POINT (1 2)", "POINT EMPTY", "LINESTRING EMPTY", "GEOMETRYCOLLECTION EMPTY",
	      "MULTIPOINT (1 2, 2 1, EMPTY, EMPTY)", "LINESTRING (0 0, 1 0, 1 1)", "LINESTRING (0 0, 1 0, 1 1, 0 0)",
	      "LINESTRING (1 1, 1 1)", "LINESTRING (0 0, 0 0, 1 0, 1 0, 2 0)",
	      "MULTILINESTRING ((0 0, 1 1), (1 1, 2 0), (1 1, 1 5))", "MULTILINESTRING ((0 0, 1 0, 1 1, 0 0), (5 5, 6 6))",
	      "MULTILINESTRING ((0 0, 4 4), (2 2, 2 2))", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (3 3, 9 3, 9 9, 3 3))",
	      "POLYGON ((1 1, 1 1, 1 1, 1 1))", "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((0 0, 4 0, 4 4, 0 0)))",
	      "GEOMETRYCOLLECTION (LINESTRING (0 0, 4 4), LINESTRING (0 4, 4 0), POINT (2 2))"}) {
		INFO(text);
		REQUIRE(Simple(text));
	}
}

TEST_CASE("Geometries that are not simple", "[simple]") {
	for (auto text :
	     {"MULTIPOINT (1 2, 2 1, 1 2)", "LINESTRING (0 0, 4 4, 4 0, 0 4)", "LINESTRING (0 0, 1 0, 0 0)",
	      "LINESTRING (0 0, 4 0, 2 0)", "LINESTRING (0 0, 4 0, 4 2, 2 2, 2 0)",
	      "LINESTRING (0 0, 4 0, 4 2, 2 2, 2 0, 0 -3)",
	      // through its own first vertex
	      "LINESTRING (0 0, 4 0, 4 4, 0 0, -4 0, -4 4, 0 0)",
	      // an end inside another line, or on the only point a closed line could end in
	      "MULTILINESTRING ((0 0, 4 0), (2 0, 2 2))", "MULTILINESTRING ((0 0, 1 0, 1 1, 0 0), (0 0, -1 0))",
	      "MULTILINESTRING ((0 0, 1 0, 1 1, 0 0), (0 0, -1 0, -1 -1, 0 0))", "MULTILINESTRING ((0 0, 2 2), (0 2, 2 0))",
	      "MULTILINESTRING ((0 0, 2 2), (2 2, 0 0))", "MULTILINESTRING ((0 0, 3 3), (1 1, 2 2))",
	      "POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))", "POLYGON ((0 0, 10 0, 5 0, 0 0))",
	      "GEOMETRYCOLLECTION (POINT (0 0), GEOMETRYCOLLECTION (LINESTRING (0 0, 4 4, 4 0, 0 4)))"}) {
		INFO(text);
		REQUIRE_FALSE(Simple(text));
	}
}

TEST_CASE("Simplicity is decided by exact signs", "[simple]") {
	// the end lies above, on and below the segment by one unit in the last place
	REQUIRE(Simple("MULTILINESTRING ((0 0, 1 1), (0.3 0.30000000000000004, 0 9))"));
	REQUIRE_FALSE(Simple("MULTILINESTRING ((0 0, 1 1), (0.3 0.3, 0 9))"));
	REQUIRE_FALSE(Simple("MULTILINESTRING ((0 0, 1 1), (0.3 0.29999999999999993, 0 9))"));
}

TEST_CASE("Long lines take n log n", "[simple]") {
	// spokes around a hub: the boxes of most pairs overlap
	std::string text = "LINESTRING (";
	const int spokes = 30000;
	for (int i = 0; i < spokes; i++) {
		const double angle = 6.28 * i / spokes;
		const double radius = i % 2 ? 1 : 0.01;
		text += (i ? ", " : "") + std::to_string(1e6 * radius * std::cos(angle)) + " " +
		        std::to_string(1e6 * radius * std::sin(angle));
	}
	REQUIRE(Simple(text + ")"));
	REQUIRE_FALSE(Simple(text + ", 0 500000)"));
}

TEST_CASE("Simplicity needs a usable geometry", "[simple]") {
	REQUIRE_THROWS_AS(Simple("LINESTRING (1 1)"), GeometryError);
	REQUIRE_THROWS_AS(Simple("POLYGON ((0 0, 4 0, 4 4, 0 4))"), GeometryError);
	REQUIRE_THROWS_AS(Simple("LINESTRING (0 0, nan 1)"), GeometryError);
}
