#include "catch.hpp"

#include "engine/constructive/node_lines.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

using namespace vibespatial;
using namespace wkt_test;

static std::string Noded(const std::string &text) {
	const WktRow input(text);
	Overlay overlay;
	Serial serial;
	GeometryBatch out;
	NodeLines(input.batch, WktRow::ROW, overlay, serial, out);
	REQUIRE(out.RowCount() == 1);
	return WriteWkt(out, 0);
}

TEST_CASE("Lines are cut where they meet", "[node_lines]") {
	REQUIRE(Noded("MULTILINESTRING ((0 0, 2 2), (0 2, 2 0))") ==
	        "MULTILINESTRING ((0 0, 1 1), (0 2, 1 1), (1 1, 2 0), (1 1, 2 2))");
	REQUIRE(Noded("LINESTRING (0 0, 2 2, 0 2, 2 0)") ==
	        "MULTILINESTRING ((0 0, 1 1), (1 1, 0 2, 2 2, 1 1), (1 1, 2 0))");
	REQUIRE(Noded("MULTILINESTRING ((0 0, 1 1), (1 1, 2 2))") == "MULTILINESTRING ((0 0, 1 1), (1 1, 2 2))");
	REQUIRE(Noded("MULTILINESTRING ((0 0, 4 0), (2 0, 6 0))") ==
	        "MULTILINESTRING ((0 0, 2 0), (2 0, 4 0), (4 0, 6 0))");
	REQUIRE(Noded("LINESTRING (0 0, 1 1)") == "MULTILINESTRING ((0 0, 1 1))");
}

TEST_CASE("Rings are lines, points are not", "[node_lines]") {
	REQUIRE(Noded("GEOMETRYCOLLECTION (LINESTRING (1 -1, 1 1), POLYGON ((0 0, 4 0, 4 4, 0 0)), POINT (3 3))") ==
	        "MULTILINESTRING ((0 0, 1 0), (0 0, 1 1), (1 -1, 1 0), (1 0, 1 1), (1 0, 4 0, 4 4, 1 1))");
	for (auto none : {"POINT (1 2)", "POINT EMPTY", "LINESTRING (1 2, 1 2)", "GEOMETRYCOLLECTION EMPTY"}) {
		REQUIRE(Noded(none) == "MULTILINESTRING EMPTY");
	}
	REQUIRE_THROWS_AS(Noded("LINESTRING (0 0, nan 1)"), GeometryError);
}

//! Beside another line, so that it goes through the overlay
static std::string NodedByOverlay(const std::string &line) {
	const auto noded = Noded("MULTILINESTRING (" + line + ", (1000 1000, 1001 1001))");
	const auto other = noded.find(", (1000 1000");
	REQUIRE(other != std::string::npos);
	return noded.substr(0, other) + ")";
}

TEST_CASE("A line that nowhere meets itself is the same as from an overlay", "[node_lines]") {
	for (auto line : {"(0 0, 1 1, 2 0)", "(2 0, 1 1, 0 0)", "(0 5, 3 3, 0 0)", "(0 0, 3 3, 0 5)",
	                  "(0 0, 1 0, 1 1, 0 0)", "(0 0, 1 1, 1 0, 0 0)", "(1 1, 0 0, 1 0, 1 1)", "(1 1, 1 0, 0 0, 1 1)",
	                  "(1 0, 1 1, 0 0, 1 0)", "(1 0, 0 0, 1 1, 1 0)", "(1 0, 2 0, 2 1, 0 1, 0 0, 1 0)",
	                  "(1 0, 0 0, 0 1, 2 1, 2 0, 1 0)", "(0 1, 0 2, 1 2, 1 0, 0 0, 0 1)",
	                  "(0 1, 0 0, 1 0, 1 2, 0 2, 0 1)", "(0 0, 1 0, 1 0, 2 0, 3 1)", "(-0.0 1, -1 -0.0, 0 -1)"}) {
		INFO(line);
		REQUIRE(Noded(std::string("LINESTRING ") + line) == NodedByOverlay(line));
	}
	REQUIRE(Noded("LINESTRING (0 0, 1e-200 1e-200, 0 2e-200)") != "");
}
