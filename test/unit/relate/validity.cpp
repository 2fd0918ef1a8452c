#include "catch.hpp"

#include "engine/relate/validity.hpp"
#include "wkt_rows.hpp"

#include <cmath>

using namespace vibespatial;
using namespace wkt_test;

static std::string Reason(const std::string &text) {
	const WktRow input(text);
	const auto reason = ValidityReason(input.batch, WktRow::ROW);
	REQUIRE(IsValid(input.batch, WktRow::ROW) == (reason == "Valid Geometry"));
	return reason;
}

//! Without the place
static std::string Label(const std::string &text) {
	const auto reason = Reason(text);
	return reason.substr(0, reason.find('['));
}

TEST_CASE("Valid geometries", "[validity]") {
	for (
	    auto text :
	    {"POINT EMPTY", "POINT (1 2)", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY", "LINESTRING EMPTY",
	     "MULTIPOINT (1 1, 1 1)", "LINESTRING (0 0, 4 4, 4 0, 0 4)", "LINESTRING (0 0, 0 0, 1 1)",
	     "MULTILINESTRING ((0 0, 4 4), (0 4, 4 0))", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
	     "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))",
	     // repeated and collinear vertices
	     "POLYGON ((0 0, 0 0, 4 0, 4 0, 4 4, 2 2, 0 0, 0 0))", "POLYGON ((0 0, 2 0, 4 0, 4 4, 0 4, 0 2, 0 0))",
	     "POLYGON ((0 0, 4 0, 4 4, 0 0), EMPTY)",
	     // a hole on one point of its shell: vertex on vertex, vertex on edge, edge on vertex
	     "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (0 0, 4 1, 1 4, 0 0))",
	     "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (4 0, 5 4, 3 4, 4 0))",
	     "POLYGON ((0 0, 9 0, 9 9, 5 5, 0 9, 0 0), (1 5, 8 5, 8 4, 1 4, 1 5))",
	     // holes in a chain, and three in one point
	     "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1), (2 2, 3 2, 3 3, 2 3, 2 2))",
	     "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (4 4, 5 1, 3 1, 4 4), (4 4, 1 3, 1 5, 4 4), (4 4, 8 5, 8 3, 4 4))",
	     // polygons that meet in points, also in many, also in a hole
	     "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((4 4, 8 4, 8 8, 4 8, 4 4)))",
	     "MULTIPOLYGON (((0 0, 4 0, 2 2, 4 4, 0 4, 0 0)), ((4 0, 8 0, 8 4, 4 4, 6 2, 4 0)))",
	     "MULTIPOLYGON (((0 0, 12 0, 12 12, 0 12, 0 0), (2 2, 2 10, 10 10, 10 2, 2 2)), ((6 2, 10 6, 6 10, 2 6, 6 2)))",
	     "MULTIPOLYGON (((6 2, 10 6, 6 10, 2 6, 6 2)), ((0 0, 12 0, 12 12, 0 12, 0 0), (2 2, 2 10, 10 10, 10 2, 2 2)))",
	     "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), EMPTY)",
	     // members of a collection do not see each other
	     "GEOMETRYCOLLECTION (POLYGON ((0 0, 4 0, 4 4, 0 0)), POLYGON ((0 0, 4 0, 4 4, 0 0)), LINESTRING (0 0, 9 "
	     "9))"}) {
		INFO(text);
		REQUIRE(Reason(text) == "Valid Geometry");
	}
}

TEST_CASE("Coordinates that are no place", "[validity]") {
	for (auto text : {"POINT (nan 1)", "POINT (1 inf)", "MULTIPOINT (0 0, -inf 1)", "LINESTRING (0 0, nan 1)",
	                  "POLYGON ((0 0, 4 0, inf 4, 0 0))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Invalid Coordinate");
	}
}

TEST_CASE("Too few or unclosed", "[validity]") {
	for (auto text : {"LINESTRING (1 1)", "LINESTRING (1 1, 1 1)", "MULTILINESTRING ((0 0, 1 1), (2 2, 2 2))",
	                  "POLYGON ((0 0, 1 1, 0 0))", "POLYGON ((1 1, 1 1, 1 1, 1 1))", "POLYGON ((0 0, 1 1, 1 1, 0 0))",
	                  "POLYGON ((0 0, 9 0, 9 9, 0 0), (1 1, 1 1, 1 1, 1 1))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Too few points in geometry component");
	}
	REQUIRE(Reason("POLYGON ((0 0, 4 0, 4 4, 0 4))") == "Ring is not closed[0 0]");
}

TEST_CASE("Rings that cross or overlap", "[validity]") {
	REQUIRE(Reason("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))") == "Self-intersection[5 5]");
	REQUIRE(Reason("POLYGON ((0 0, 10 0, 5 0, 0 0))") == "Self-intersection[0 0]");
	for (auto text : {// a spike, a fold, a shared edge
	                  "POLYGON ((0 0, 4 0, 8 0, 4 0, 4 4, 0 0))", "POLYGON ((0 0, 4 0, 4 4, 4 6, 4 4, 0 4, 0 0))",
	                  "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (0 2, 2 2, 2 4, 0 4, 0 2))",
	                  "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (0 0, 9 0, 9 9, 0 9, 0 0))",
	                  "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (2 2, 8 2, 8 8, 2 2))",
	                  // through a vertex of both rings, and through a vertex of one
	                  "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (2 2, 4 4, 6 6, 2 8, 2 2))",
	                  "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (2 2, 4 2, 6 3, 2 3, 2 2))",
	                  "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((4 0, 8 0, 8 4, 4 4, 4 0)))",
	                  "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((2 2, 6 2, 6 6, 2 6, 2 2)))",
	                  "GEOMETRYCOLLECTION (POINT (1 1), POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0)))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Self-intersection");
	}
}

TEST_CASE("Rings that turn one way only", "[validity]") {
	// Once around, in either direction, from any vertex
	const std::vector<std::string> corners {"6 0", "4 4", "0 6", "-4 4", "-6 0", "-4 -4", "0 -6", "4 -4"};
	for (size_t first = 0; first < corners.size(); first++) {
		std::string forward, backward;
		for (size_t i = 0; i <= corners.size(); i++) {
			forward += (i > 0 ? ", " : "") + corners[(first + i) % corners.size()];
			backward += (i > 0 ? ", " : "") + corners[(first + 2 * corners.size() - i) % corners.size()];
		}
		CHECK(Reason("POLYGON ((" + forward + "))") == "Valid Geometry");
		CHECK(Reason("POLYGON ((" + backward + "))") == "Valid Geometry");
	}
	// Twice around: a pentagram, and an outline that comes back a little further in
	CHECK(Label("POLYGON ((0 6, 4 -5, -6 2, 6 2, -4 -5, 0 6))") == "Self-intersection");
	CHECK(Label("POLYGON ((6 0, 0 6, -6 0, 0 -6, 5 0, 0 5, -5 0, 0 -5, 6 0))") == "Self-intersection");
	// Straight on, and back
	CHECK(Label("POLYGON ((0 0, 4 0, 2 0, 0 0))") == "Self-intersection");
	CHECK(Label("POLYGON ((0 0, 4 0, 4 4, 4 2, 0 0))") == "Self-intersection");
}

TEST_CASE("A ring must not touch itself", "[validity]") {
	// from inside, from outside, vertex on vertex, vertex on edge
	for (auto text :
	     {"POLYGON ((0 0, 8 0, 8 8, 4 0.5, 0 8, 0 0), (1 1, 2 1, 2 2, 1 1))", "POLYGON ((0 0, 8 0, 8 8, 0 0))"}) {
		REQUIRE(Reason(text) == "Valid Geometry");
	}
	REQUIRE(Reason("POLYGON ((0 0, 8 0, 8 8, 4 0, 0 8, 0 0))") == "Ring Self-intersection[4 0]");
	REQUIRE(Reason("POLYGON ((0 0, 4 0, 8 0, 8 8, 4 0, 0 8, 0 0))") == "Ring Self-intersection[4 0]");
	REQUIRE(Reason("POLYGON ((0 0, 4 4, 8 0, 8 8, 4 4, 0 8, 0 0))") == "Ring Self-intersection[4 4]");
	// the same points either way
	REQUIRE(Reason("POLYGON ((4 0, 8 8, 0 8, 4 0, 5 6, 3 6, 4 0))") == "Ring Self-intersection[4 0]");
	REQUIRE(Reason("POLYGON ((4 0, 8 8, 0 8, 4 0, 3 6, 5 6, 4 0))") == "Ring Self-intersection[4 0]");
}

TEST_CASE("Holes and shells in the wrong place", "[validity]") {
	for (auto text : {"POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (6 6, 8 6, 8 8, 6 6))",
	                  "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (4 2, 8 1, 8 3, 4 2))",
	                  // the hole is around the shell
	                  "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (-9 -9, 9 -9, 9 9, -9 9, -9 -9))",
	                  // above, below and in the bay of the shell
	                  "POLYGON ((0 0, 9 0, 5 5, 9 9, 0 9, 0 0), (7 4, 8 4, 8 5, 7 4))",
	                  "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0), (6 6, 8 6, 8 8, 6 6)), ((5 5, 9 5, 9 9, 5 9, 5 5)))",
	                  "POLYGON (EMPTY, (0 0, 4 0, 4 4, 0 0))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Hole lies outside shell");
	}
	for (auto text : {"POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 8 1, 8 8, 1 8, 1 1), (2 2, 3 2, 3 3, 2 2))",
	                  "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 3 2, 3 3, 1 1), (1 1, 8 1, 8 8, 1 8, 1 1))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Holes are nested");
	}
	for (auto text : {"MULTIPOLYGON (((0 0, 9 0, 9 9, 0 9, 0 0)), ((1 1, 2 1, 2 2, 1 1)))",
	                  "MULTIPOLYGON (((1 1, 2 1, 2 2, 1 1)), ((0 0, 9 0, 9 9, 0 9, 0 0)))",
	                  "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 9, 0 0), (4 4, 8 4, 8 8, 4 4)), ((1 1, 2 1, 2 2, 1 1)))",
	                  // all vertices on the shell around
	                  "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((2 0, 4 2, 2 4, 0 2, 2 0)))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Nested shells");
	}
}

TEST_CASE("The interior hangs together", "[validity]") {
	// two touches of the shell, two touches of two holes, a cycle of four holes
	for (auto text :
	     {"POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (0 0, 8 8, 3 5, 0 0))",
	      "POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (4 0, 8 4, 4 8, 0 4, 4 0))",
	      "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 3 4, 2 6, 5 4, 2 2), (2 2, 1.5 4, 2 6, 1 8, 1 1, 2 2))",
	      "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 4, 4 2, 4 4, 2 4), (4 2, 6 4, 4.5 3.5, 4 2), "
	      "(6 4, 4 6, 4.5 4.5, 6 4), (4 6, 2 4, 3.5 4.5, 4 6))"}) {
		INFO(text);
		REQUIRE(Label(text) == "Interior is disconnected");
	}
}

TEST_CASE("Validity is decided by exact signs", "[validity]") {
	// a hole's vertex one unit in the last place inside, on and outside the shell's diagonal
	const std::string shell = "POLYGON ((0 0, 1 0, 1 1, 0 0), (";
	REQUIRE(Label(shell + "0.9 0.5, 0.9 0.6, 0.30000000000000004 0.3, 0.9 0.5))") == "Valid Geometry");
	REQUIRE(Label(shell + "0.9 0.5, 0.9 0.6, 0.3 0.3, 0.9 0.5))") == "Valid Geometry");
	REQUIRE(Label(shell + "0.9 0.5, 0.9 0.6, 0.3 0.30000000000000004, 0.9 0.5))") == "Self-intersection");
	// nominally on the shell's edge; in binary just beyond it
	REQUIRE(Label("POLYGON ((2.1 0.7, 5.1 9.7, -0.9 0.7, -3.9 -8.3, 2.1 0.7), "
	              "(2.1 3.7, 3.1 3.7, 0.1 -2.3, -0.9 -2.3, 2.1 3.7))") == "Self-intersection");
	// at the ends of the range
	REQUIRE(Label("POLYGON ((0 0, 1e308 0, 1e308 1e308, 0 0))") == "Valid Geometry");
	REQUIRE(Label("POLYGON ((0 0, 5e-324 0, 5e-324 5e-324, 0 0))") == "Valid Geometry");
}

TEST_CASE("Long rings take n log n", "[validity]") {
	// spokes around a hub: the boxes of most pairs overlap
	std::string ring;
	const int spokes = 30000;
	for (int i = 0; i < spokes; i++) {
		const double angle = 6.28 * i / spokes;
		const double radius = i % 2 ? 1 : 0.01;
		ring += std::to_string(1e6 * radius * std::cos(angle)) + " " + std::to_string(1e6 * radius * std::sin(angle)) +
		        ", ";
	}
	const std::string first = "10000.000000 0.000000";
	REQUIRE(ring.compare(0, first.size(), first) == 0);
	REQUIRE(Label("POLYGON ((" + ring + first + "))") == "Valid Geometry");
	REQUIRE(Label("POLYGON ((" + ring + "500000 500000, " + first + "))") == "Self-intersection");
}
