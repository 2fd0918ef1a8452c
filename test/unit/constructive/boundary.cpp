#include "catch.hpp"

#include "engine/constructive/boundary.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

using namespace vibespatial;
using namespace wkt_test;

static std::string BoundaryOf(const std::string &text) {
	const WktRow input(text);
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	Boundary(input.batch, WktRow::ROW, out);
	REQUIRE(out.RowCount() == 2);
	return WriteWkt(out, 1);
}

TEST_CASE("Points have no boundary", "[boundary]") {
	for (auto text : {"POINT (1 2)", "POINT Z EMPTY", "MULTIPOINT (1 2, 3 4)", "MULTIPOINT EMPTY"}) {
		REQUIRE(BoundaryOf(text) == "GEOMETRYCOLLECTION EMPTY");
	}
}

TEST_CASE("A line is bounded by its ends", "[boundary]") {
	REQUIRE(BoundaryOf("LINESTRING (5 5, 1 1, 3 0)") == "MULTIPOINT ((5 5), (3 0))");
	REQUIRE(BoundaryOf("LINESTRING ZM (5 5 1 2, 1 1 3 4)") == "MULTIPOINT ZM ((5 5 1 2), (1 1 3 4))");
	REQUIRE(BoundaryOf("LINESTRING Z (0 0 1, 1 1 2, 0 0 3)") == "MULTIPOINT EMPTY");
	REQUIRE(BoundaryOf("LINESTRING EMPTY") == "MULTIPOINT EMPTY");
}

TEST_CASE("Lines are bounded where an odd number of them end", "[boundary]") {
	REQUIRE(BoundaryOf("MULTILINESTRING ((9 9, 1 1), (0 0, 1 1))") == "MULTIPOINT ((0 0), (9 9))");
	REQUIRE(BoundaryOf("MULTILINESTRING ((5 0, 1 1), (0 0, 1 1), (1 1, 1 5))") ==
	        "MULTIPOINT ((0 0), (1 1), (1 5), (5 0))");
	// a closed line ends twice in its first vertex
	REQUIRE(BoundaryOf("MULTILINESTRING ((0 0, 1 0, 1 1, 0 0), (0 0, 2 2), EMPTY)") == "MULTIPOINT ((0 0), (2 2))");
	REQUIRE(BoundaryOf("MULTILINESTRING ((3 3, 1 1))") == "MULTIPOINT ((1 1), (3 3))");
	REQUIRE(BoundaryOf("MULTILINESTRING Z ((0 0 7, 1 1 8), (0 0 9, 1 1 5), (0 0 3, 4 4 4))") ==
	        "MULTIPOINT Z ((0 0 7), (4 4 4))");
	REQUIRE(BoundaryOf("MULTILINESTRING EMPTY") == "MULTIPOINT EMPTY");
}

TEST_CASE("Polygons are bounded by their rings", "[boundary]") {
	REQUIRE(BoundaryOf("POLYGON ((0 0, 4 0, 4 4, 0 0))") == "LINESTRING (0 0, 4 0, 4 4, 0 0)");
	REQUIRE(BoundaryOf("POLYGON M ((0 0 1, 4 0 2, 4 4 3, 0 0 4))") == "LINESTRING M (0 0 1, 4 0 2, 4 4 3, 0 0 4)");
	REQUIRE(BoundaryOf("POLYGON ((0 0, 9 0, 9 9, 0 0), (4 1, 5 1, 5 2, 4 1))") ==
	        "MULTILINESTRING ((0 0, 9 0, 9 9, 0 0), (4 1, 5 1, 5 2, 4 1))");
	REQUIRE(BoundaryOf("POLYGON ((0 0, 4 0, 4 4, 0 0), EMPTY)") == "LINESTRING (0 0, 4 0, 4 4, 0 0)");
	REQUIRE(BoundaryOf("MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)))") == "MULTILINESTRING ((0 0, 4 0, 4 4, 0 0))");
	REQUIRE(BoundaryOf("POLYGON Z EMPTY") == "MULTILINESTRING EMPTY");
	REQUIRE(BoundaryOf("MULTIPOLYGON EMPTY") == "MULTILINESTRING EMPTY");
}

TEST_CASE("The boundary of a collection is not defined", "[boundary]") {
	REQUIRE(BoundaryOf("GEOMETRYCOLLECTION EMPTY") == "NULL");
	REQUIRE(BoundaryOf("GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (0 0, 1 1))") == "NULL");
}

TEST_CASE("A boundary needs a usable geometry", "[boundary]") {
	REQUIRE_THROWS_AS(BoundaryOf("LINESTRING (1 1)"), GeometryError);
	REQUIRE_THROWS_AS(BoundaryOf("POLYGON ((0 0, 4 0, 4 4, 0 4))"), GeometryError);
}
