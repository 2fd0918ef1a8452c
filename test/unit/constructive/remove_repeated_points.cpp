#include "catch.hpp"

#include "engine/constructive/remove_repeated_points.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <limits>

using namespace vibespatial;
using namespace wkt_test;

static std::string Removed(const std::string &text, double tolerance) {
	const WktRow input(text);
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	RemoveRepeatedPoints(input.batch, WktRow::ROW, tolerance, out);
	REQUIRE(out.RowCount() == 2);
	return WriteWkt(out, 1);
}

TEST_CASE("Vertices that repeat the one before them go", "[remove_repeated_points]") {
	REQUIRE(Removed("LINESTRING (0 0, 0 0, 1 1, 1 1, 1 1, 0 0, 2 0, 2 0)", 0) == "LINESTRING (0 0, 1 1, 0 0, 2 0)");
	REQUIRE(Removed("LINESTRING (0 0, 0 0, 0 0)", 0) == "LINESTRING (0 0, 0 0)");
	REQUIRE(Removed("LINESTRING (0 0, -0 0, 1 1)", 0) == "LINESTRING (0 0, 1 1)");
	REQUIRE(Removed("POLYGON ((0 0, 4 0, 4 0, 4 4, 0 0, 0 0), (1 1, 2 1, 2 2, 2 2, 1 1))", 0) ==
	        "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))");
}

TEST_CASE("A tolerance counts from the last vertex that stays", "[remove_repeated_points]") {
	REQUIRE(Removed("LINESTRING (0 0, 1 0, 2 0, 3 0, 4 0, 5 0)", 1) == "LINESTRING (0 0, 2 0, 5 0)");
	REQUIRE(Removed("LINESTRING (0 0, 3 4, 9 0)", 5) == "LINESTRING (0 0, 9 0)");
	REQUIRE(Removed("LINESTRING (0 0, 3 4, 9 0)", std::nextafter(5.0, 0.0)) == "LINESTRING (0 0, 3 4, 9 0)");
	const auto infinite = std::numeric_limits<double>::infinity();
	REQUIRE(Removed("LINESTRING (0 0, 1e300 -1e300, 2 0)", infinite) == "LINESTRING (0 0, 2 0)");
}

TEST_CASE("A ring that would collapse stays", "[remove_repeated_points]") {
	REQUIRE(Removed("POLYGON ((0 0, 1 0, 1 1, 0 0))", 1) == "POLYGON ((0 0, 1 0, 1 1, 0 0))");
	REQUIRE(Removed("POLYGON ((0 0, 9 0, 9 0.5, 9 9, 0 0), (2 1, 2.1 1, 2.1 1.1, 2 1))", 1) ==
	        "POLYGON ((0 0, 9 0, 9 9, 0 0), (2 1, 2.1 1, 2.1 1.1, 2 1))");
}

TEST_CASE("Points, EMPTY members and the tree stay", "[remove_repeated_points]") {
	const auto same = {"POINT (1 2)",
	                   "POINT EMPTY",
	                   "LINESTRING Z EMPTY",
	                   "MULTIPOINT ((1 1), (1 1))",
	                   "MULTILINESTRING (EMPTY, (0 0, 1 1))",
	                   "POLYGON EMPTY",
	                   "GEOMETRYCOLLECTION (POINT (1 1), GEOMETRYCOLLECTION (POINT (1 1), LINESTRING EMPTY))"};
	for (const auto *text : same) {
		REQUIRE(Removed(text, 0) == text);
	}
	REQUIRE(Removed("GEOMETRYCOLLECTION (LINESTRING (0 0, 0 0, 1 1), GEOMETRYCOLLECTION (LINESTRING (2 2, 2 2, 3 3)))",
	                0) == "GEOMETRYCOLLECTION (LINESTRING (0 0, 1 1), GEOMETRYCOLLECTION (LINESTRING (2 2, 3 3)))");
}

TEST_CASE("Z and M stay with their vertex", "[remove_repeated_points]") {
	REQUIRE(Removed("LINESTRING ZM (0 0 1 2, 0 0 3 4, 1 1 5 6)", 0) == "LINESTRING ZM (0 0 1 2, 1 1 5 6)");
	REQUIRE(Removed("LINESTRING M (0 0 1, 1 1 2, 1 1 3)", 0) == "LINESTRING M (0 0 1, 1 1 3)");
}

TEST_CASE("What is not finite repeats only itself", "[remove_repeated_points]") {
	REQUIRE(Removed("LINESTRING (nan 0, nan 0, inf 0, inf 0, 1 0)", 0) == "LINESTRING (nan 0, nan 0, inf 0, 1 0)");
	REQUIRE_THROWS_WITH(Removed("POINT (1 2)", -1), Catch::Contains("tolerance"));
	REQUIRE_THROWS_WITH(Removed("POINT (1 2)", std::nan("")), Catch::Contains("tolerance"));
}
