#include "catch.hpp"

#include "engine/constructive/make_valid.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

#include <random>

using namespace vibespatial;
using namespace wkt_test;

static std::string Mended(const std::string &text) {
	const WktRow input(text);
	Overlay overlay;
	Serial serial;
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	MakeValid(input.batch, WktRow::ROW, overlay, serial, out);
	REQUIRE(out.RowCount() == 2);
	INFO(text << " -> " << WriteWkt(out, 1));
	REQUIRE(ValidityReason(out, 1) == "Valid Geometry");
	REQUIRE(out.type[1] == out.node_type[out.row_node[1]]);
	return WriteWkt(out, 1);
}

TEST_CASE("Inside is what an odd number of rings runs around", "[make_valid]") {
	REQUIRE(Mended("POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))") ==
	        "MULTIPOLYGON (((0 0, 2 2, 0 4, 0 0)), ((2 2, 4 0, 4 4, 2 2)))");
	// the same with the crossing as a vertex
	REQUIRE(Mended("POLYGON ((0 0, 2 2, 4 4, 4 0, 2 2, 0 4, 0 0))") ==
	        "MULTIPOLYGON (((0 0, 2 2, 0 4, 0 0)), ((2 2, 4 0, 4 4, 2 2)))");
	REQUIRE(Mended("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (6 6, 7 6, 7 7, 6 6))") ==
	        "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((6 6, 7 6, 7 7, 6 6)))");
	REQUIRE(Mended("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (2 2, 6 2, 6 6, 2 6, 2 2))") ==
	        "MULTIPOLYGON (((0 0, 4 0, 4 2, 2 2, 2 4, 0 4, 0 0)), ((2 4, 4 4, 4 2, 6 2, 6 6, 2 6, 2 4)))");
	REQUIRE(Mended("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 7 2, 7 7, 2 7, 2 2), (3 3, 5 3, 5 5, 3 5, 3 3))") ==
	        "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 2 7, 7 7, 7 2, 2 2)), ((3 3, 5 3, 5 5, 3 5, 3 3)))");
	REQUIRE(Mended("MULTIPOLYGON (((0 0, 8 0, 8 8, 0 8, 0 0)), ((2 2, 6 2, 6 6, 2 6, 2 2)))") ==
	        "POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (2 2, 2 6, 6 6, 6 2, 2 2))");
	REQUIRE(Mended("MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((4 0, 8 0, 8 4, 4 4, 4 0)))") ==
	        "POLYGON ((0 0, 4 0, 8 0, 8 4, 4 4, 0 4, 0 0))");
}

TEST_CASE("A ring that comes twice counts once", "[make_valid]") {
	REQUIRE(Mended("MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((4 4, 4 0, 0 0, 0 4, 4 4)))") ==
	        "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))");
	REQUIRE(Mended("POLYGON ((4 0, 4 4, 0 4, 0 0, 4 0, 4 4, 4 4, 0 4, 0 0, 4 0))") ==
	        "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))");
	REQUIRE(Mended("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 7 2, 7 7, 2 7, 2 2), (7 7, 2 7, 2 2, 7 2, 7 7))") ==
	        "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 2 7, 7 7, 7 2, 2 2))");
	// a member that fills the hole of another fills it
	REQUIRE(
	    Mended("MULTIPOLYGON (((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 7 2, 7 7, 2 7, 2 2)), ((2 2, 7 2, 7 7, 2 7, 2 2)))") ==
	    "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))");
}

TEST_CASE("What bounds no area stays as lines and points", "[make_valid]") {
	REQUIRE(Mended("POLYGON ((0 0, 1 1, 0 0, 0 0))") == "LINESTRING (0 0, 1 1)");
	REQUIRE(Mended("POLYGON ((1 2, 1 2, 1 2, 1 2))") == "POINT (1 2)");
	REQUIRE(Mended("POLYGON ((0 0, 4 0, 4 4, 8 4, 4 4, 0 4, 0 0))") ==
	        "GEOMETRYCOLLECTION (POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0)), LINESTRING (4 4, 8 4))");
	REQUIRE(Mended("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (6 6, 6 6, 6 6, 6 6))") ==
	        "GEOMETRYCOLLECTION (POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0)), POINT (6 6))");
	// in an area it adds nothing
	REQUIRE(Mended("POLYGON ((0 0, 4 0, 4 2, 2 2, 4 2, 4 4, 0 4, 0 0))") == "POLYGON ((0 0, 4 0, 4 2, 4 4, 0 4, 0 0))");
	REQUIRE(Mended("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (2 2, 2 2, 2 2, 2 2))") ==
	        "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))");
}

TEST_CASE("Lines of no length are points", "[make_valid]") {
	REQUIRE(Mended("LINESTRING (1 1, 1 1)") == "POINT (1 1)");
	REQUIRE(Mended("LINESTRING Z (1 1 5, 1 1 6)") == "POINT (1 1)");
	REQUIRE(Mended("MULTILINESTRING ((1 1, 1 1), EMPTY, (0 0, 2 2))") ==
	        "GEOMETRYCOLLECTION (POINT (1 1), LINESTRING EMPTY, LINESTRING (0 0, 2 2))");
	REQUIRE(Mended("MULTILINESTRING ((1 1, 1 1), (2 2, 2 2))") == "MULTIPOINT ((1 1), (2 2))");
}

TEST_CASE("Collections member by member", "[make_valid]") {
	REQUIRE(
	    Mended("GEOMETRYCOLLECTION (POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0)), GEOMETRYCOLLECTION (LINESTRING (1 1, 1 1), "
	           "MULTIPOINT (2 2, 2 2)), POLYGON EMPTY, LINESTRING (0 0, 1 0))") ==
	    "GEOMETRYCOLLECTION (MULTIPOLYGON (((0 0, 2 2, 0 4, 0 0)), ((2 2, 4 0, 4 4, 2 2))), GEOMETRYCOLLECTION (POINT "
	    "(1 "
	    "1), MULTIPOINT ((2 2), (2 2))), POLYGON EMPTY, LINESTRING (0 0, 1 0))");
	for (auto empty : {"POINT EMPTY", "POLYGON EMPTY", "MULTIPOLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY"}) {
		REQUIRE(Mended(empty) == empty);
	}
}

TEST_CASE("Rings that are not closed are", "[make_valid]") {
	REQUIRE(Mended("POLYGON ((0 0, 1 0, 1 1, 0 1))") == "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))");
	REQUIRE(Mended("POLYGON ((0 0, 1 0))") == "LINESTRING (0 0, 1 0)");
	REQUIRE(Mended("POLYGON (EMPTY, (0 0, 1 0, 1 1, 0 0))") == "POLYGON ((0 0, 1 0, 1 1, 0 0))");
	REQUIRE_THROWS_AS(Mended("POLYGON ((0 0, nan 0, 1 1, 0 0))"), GeometryError);
	REQUIRE_THROWS_AS(Mended("LINESTRING (0 0, inf 0)"), GeometryError);
}

TEST_CASE("Anything comes out valid", "[make_valid]") {
	std::mt19937 random(11);
	for (int round = 0; round < 2000; round++) {
		const auto size = 2 + random() % 6;
		std::string text = "MULTIPOLYGON (";
		const auto rings = 1 + random() % 4;
		for (size_t ring = 0; ring < rings; ring++) {
			const auto vertex = [&] { return std::to_string(random() % size) + " " + std::to_string(random() % size); };
			const auto first = vertex();
			text += (ring == 0 ? "((" : random() % 2 ? "), (" : ")), ((") + first;
			for (size_t i = 0; i < 2 + random() % 7; i++) {
				text += ", " + vertex();
			}
			text += ", " + first;
		}
		Mended(text + ")))");
	}
}
