#include "catch.hpp"

#include "engine/constructive/hull.hpp"
#include "geometry/error.hpp"
#include "vibe/orient2d.h"
#include "wkt_rows.hpp"

#include <random>

using namespace vibespatial;
using namespace wkt_test;

static std::string Hull(const std::string &text) {
	const WktRow input(text);
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	ConvexHull(input.batch, WktRow::ROW, out);
	REQUIRE(out.RowCount() == 2);
	return WriteWkt(out, 1);
}

TEST_CASE("Hulls without area", "[hull]") {
	for (auto empty : {"POINT EMPTY", "LINESTRING Z EMPTY", "MULTIPOLYGON EMPTY", "GEOMETRYCOLLECTION (POINT EMPTY)"}) {
		REQUIRE(Hull(empty) == "GEOMETRYCOLLECTION EMPTY");
	}
	REQUIRE(Hull("POINT (1 2)") == "POINT (1 2)");
	REQUIRE(Hull("LINESTRING (1 2, 1 2, 1 2)") == "POINT (1 2)");
	REQUIRE(Hull("MULTIPOINT (3 4, 1 2, 3 4)") == "LINESTRING (3 4, 1 2)");
	REQUIRE(Hull("MULTIPOINT (5 0, 3 0, 1 0, 4 0)") == "LINESTRING (1 0, 5 0)");
	REQUIRE(Hull("MULTIPOINT (5 5, 0 10, 10 0, 1 9)") == "LINESTRING (10 0, 0 10)");
}

TEST_CASE("A polygon goes clockwise from its lowest vertex", "[hull]") {
	REQUIRE(Hull("MULTIPOINT (2 0, 0 2, -2 0, 0 -2, 0 0, 1 1)") == "POLYGON ((0 -2, -2 0, 0 2, 2 0, 0 -2))");
	REQUIRE(Hull("LINESTRING (4 0, 0 0, 4 4, 0 4, 2 0)") == "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))");
	// all points on one side of the line between the ends
	REQUIRE(Hull("MULTIPOINT (0 0, 3 1, 0 4)") == "POLYGON ((0 0, 0 4, 3 1, 0 0))");
	REQUIRE(Hull("MULTIPOINT (0 0, -3 1, 0 4)") == "POLYGON ((0 0, -3 1, 0 4, 0 0))");
	REQUIRE(Hull("GEOMETRYCOLLECTION (POINT (5 5), LINESTRING (0 0, 4 0))") == "POLYGON ((0 0, 5 5, 4 0, 0 0))");
	REQUIRE(Hull("POLYGON ((0 0, 0 4, 4 4, 4 0))") == "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))");
}

TEST_CASE("Z stays with its vertex and M goes", "[hull]") {
	REQUIRE(Hull("MULTIPOINT Z (0 0 1, 4 0 2, 0 4 3, 1 1 9, 0 0 8)") == "POLYGON Z ((0 0 1, 0 4 3, 4 0 2, 0 0 1))");
	REQUIRE(Hull("POINT ZM (1 2 3 4)") == "POINT Z (1 2 3)");
	REQUIRE(Hull("POINT M (1 2 3)") == "POINT (1 2)");
}

TEST_CASE("Points a rounding error off a line are kept or left out by their true side", "[hull]") {
	// 0.1 + 0.2 and 0.3 are neighbours: the middle vertex is off the diagonal by one unit in the last place
	REQUIRE(Hull("MULTIPOINT (0 0, 0.1 0.1, 0.30000000000000004 0.3, 1 1)") ==
	        "POLYGON ((0 0, 1 1, 0.30000000000000004 0.3, 0 0))");
}

TEST_CASE("Nothing lies outside a hull", "[hull]") {
	std::mt19937_64 random(7);
	for (int round = 0; round < 300; round++) {
		std::uniform_int_distribution<int> grid(0, 1 + round % 12);
		GeometryBatch input, out;
		const auto count = 3 + round % 40;
		input.BeginRow(GeometryType::LINESTRING, VERTEX_XY);
		input.BeginNode(GeometryType::LINESTRING, 0);
		input.BeginPart(vibe::FAMILY_LINE);
		input.BeginRing();
		for (int i = 0; i < count; i++) {
			input.AddVertex(grid(random) * 0.1, grid(random) * 0.1, 0, 0);
		}
		input.EndRow();
		ConvexHull(input, 0, out);
		if (out.type[0] != GeometryType::POLYGON) {
			continue;
		}
		const auto hull = out.View(0);
		const auto n = uint32_t(out.x.size());
		REQUIRE(hull.Vertex(0) == hull.Vertex(n - 1));
		for (uint32_t i = 0; i + 1 < n; i++) {
			for (size_t k = 0; k < input.x.size(); k++) {
				REQUIRE(vibe::Orient2d(hull.Vertex(i), hull.Vertex(i + 1), {input.x[k], input.y[k]}) <= 0);
			}
			REQUIRE(vibe::Orient2d(hull.Vertex(i), hull.Vertex(i + 1), hull.Vertex(i + 2 < n ? i + 2 : 1)) < 0);
		}
	}
}

TEST_CASE("A hull needs finite coordinates", "[hull]") {
	REQUIRE_THROWS_AS(Hull("LINESTRING (0 0, nan 1)"), GeometryError);
	REQUIRE_THROWS_AS(Hull("POINT (inf 1)"), GeometryError);
}
