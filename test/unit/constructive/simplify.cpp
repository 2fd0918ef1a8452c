#include "catch.hpp"

#include "engine/constructive/simplify.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <limits>

using namespace vibespatial;
using namespace wkt_test;

static std::string Simplified(const std::string &text, double tolerance) {
	const WktRow input(text);
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	Simplify(input.batch, WktRow::ROW, tolerance, out);
	REQUIRE(out.RowCount() == 2);
	return WriteWkt(out, 1);
}

TEST_CASE("Lines keep their ends and what lies beyond the tolerance", "[simplify]") {
	REQUIRE(Simplified("LINESTRING (0 0, 5 1, 10 0)", 1) == "LINESTRING (0 0, 10 0)");
	REQUIRE(Simplified("LINESTRING (0 0, 5 1, 10 0)", 0.999) == "LINESTRING (0 0, 5 1, 10 0)");
	REQUIRE(Simplified("LINESTRING (0 0, 1 1, 2 2, 2 2, 3 3, 4 0)", 0) == "LINESTRING (0 0, 3 3, 4 0)");
	REQUIRE(Simplified("LINESTRING (0 0, 1 2, 2 0, 3 5, 4 0, 5 2, 6 0)", 2) == "LINESTRING (0 0, 3 5, 6 0)");
	REQUIRE(Simplified("LINESTRING (0 0, 10 0, 10 10, 0 0)", 100) == "LINESTRING (0 0, 0 0)");
	REQUIRE(Simplified("LINESTRING (0 0, 0 0)", 1) == "LINESTRING (0 0, 0 0)");
	const auto infinite = std::numeric_limits<double>::infinity();
	REQUIRE(Simplified("LINESTRING (0 0, 1e9 1e9, 2 0)", infinite) == "LINESTRING (0 0, 2 0)");
	// distance is to the segment, not to its line
	REQUIRE(Simplified("LINESTRING (0 0, 5 0, 1 0)", 1) == "LINESTRING (0 0, 5 0, 1 0)");
}

TEST_CASE("Rings may lose their first vertex and vanish", "[simplify]") {
	REQUIRE(Simplified("POLYGON ((5 0, 10 0, 10 10, 0 10, 0 0, 5 0))", 0) ==
	        "POLYGON ((10 0, 10 10, 0 10, 0 0, 10 0))");
	REQUIRE(Simplified("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))", 1) ==
	        "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))");
	REQUIRE(Simplified("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 8 1, 8 8, 1 8, 1 1))", 1) ==
	        "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 8 1, 8 8, 1 8, 1 1))");
	REQUIRE(Simplified("POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))", 5) == "POLYGON EMPTY");
	REQUIRE(Simplified("POLYGON ((0 0, 10 0, 5 0, 0 0))", 0) == "POLYGON EMPTY");
	// a shell takes its holes with it
	REQUIRE(Simplified("POLYGON ((0 0, 1 0, 1 1, 0 0), (20 20, 30 20, 30 30, 20 20))", 2) == "POLYGON EMPTY");
}

TEST_CASE("Multi geometries of one member become that member", "[simplify]") {
	REQUIRE(Simplified("MULTIPOINT (1 2)", 1) == "POINT (1 2)");
	REQUIRE(Simplified("MULTIPOINT (1 2, 1 2, EMPTY)", 1) == "MULTIPOINT ((1 2), (1 2))");
	REQUIRE(Simplified("MULTILINESTRING ((0 0, 1 1), EMPTY)", 1) == "LINESTRING (0 0, 1 1)");
	REQUIRE(Simplified("MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((0 0, 20 0, 20 20, 0 0)))", 1) ==
	        "POLYGON ((0 0, 20 0, 20 20, 0 0))");
	REQUIRE(Simplified("MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))", 1) == "MULTIPOLYGON EMPTY");
	REQUIRE(Simplified("MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), ((0 0, 1 0, 1 1, 0 0)), ((30 0, 39 0, 39 9, 30 0)))",
	                   1) == "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), ((30 0, 39 0, 39 9, 30 0)))");
}

TEST_CASE("Collections lose what is EMPTY and stay collections", "[simplify]") {
	REQUIRE(Simplified("GEOMETRYCOLLECTION (POINT EMPTY, MULTIPOINT (1 2), GEOMETRYCOLLECTION (LINESTRING EMPTY), "
	                   "GEOMETRYCOLLECTION (POINT (3 4), POLYGON ((0 0, 1 0, 1 1, 0 0))))",
	                   1) == "GEOMETRYCOLLECTION (POINT (1 2), GEOMETRYCOLLECTION (POINT (3 4)))");
	REQUIRE(Simplified("GEOMETRYCOLLECTION (POINT EMPTY)", 1) == "GEOMETRYCOLLECTION EMPTY");
}

TEST_CASE("EMPTY keeps its type, Z its vertex, M nothing", "[simplify]") {
	REQUIRE(Simplified("POINT EMPTY", 1) == "POINT EMPTY");
	REQUIRE(Simplified("LINESTRING Z EMPTY", 1) == "LINESTRING Z EMPTY");
	REQUIRE(Simplified("MULTIPOLYGON EMPTY", 1) == "MULTIPOLYGON EMPTY");
	REQUIRE(Simplified("LINESTRING ZM (0 0 1 2, 5 0 3 4, 9 0 5 6)", 0) == "LINESTRING Z (0 0 1, 9 0 5)");
	REQUIRE(Simplified("POINT M (1 2 3)", 0) == "POINT (1 2)");
}

TEST_CASE("Tolerances are numbers from 0 up", "[simplify]") {
	REQUIRE_THROWS_WITH(Simplified("POINT (1 2)", -1), Catch::Contains("non-negative"));
	REQUIRE_THROWS_WITH(Simplified("POINT (1 2)", std::nan("")), Catch::Contains("NaN"));
	REQUIRE_THROWS_AS(Simplified("LINESTRING (1 1)", 1), GeometryError);
}
