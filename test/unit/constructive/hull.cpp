#include "catch.hpp"

#include "engine/constructive/hull.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "vibe/orient2d.h"
#include "wkt_rows.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace vibespatial;
using namespace wkt_test;

static std::string Hull(const std::string &text) {
	const WktRow input(text);
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	ConvexHull(input.batch, WktRow::ROW, out);
	REQUIRE(out.RowCount() == 2);
	// From bytes it is the same
	const auto wkb = WriteWkb(input.batch, WktRow::ROW);
	GeometryBatch scratch;
	ConvexHull(reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size(), scratch, out);
	REQUIRE(WriteWkt(out, 2) == WriteWkt(out, 1));
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

namespace {

//! A line through places, with their numbers as Z
GeometryBatch LineThrough(const std::vector<vibe::Vec2> &places) {
	GeometryBatch line;
	line.BeginRow(GeometryType::LINESTRING, VERTEX_Z);
	line.BeginNode(GeometryType::LINESTRING, 0);
	line.BeginPart(vibe::FAMILY_LINE);
	line.BeginRing();
	for (size_t i = 0; i < places.size(); i++) {
		line.AddVertex(places[i].x, places[i].y, double(i), 0);
	}
	line.EndRow();
	return line;
}

//! The hull of few points at a time, and then of the corners of these hulls in the order of the points
std::string HullBySteps(std::vector<vibe::Vec2> places) {
	constexpr size_t FEW = 1000;
	std::vector<size_t> corners;
	for (size_t begin = 0; begin < places.size(); begin += FEW) {
		const auto end = std::min(begin + FEW, places.size());
		GeometryBatch out;
		ConvexHull(LineThrough(std::vector<vibe::Vec2>(places.begin() + begin, places.begin() + end)), 0, out);
		for (auto z : out.z) {
			corners.push_back(begin + size_t(z));
		}
	}
	std::sort(corners.begin(), corners.end());
	corners.erase(std::unique(corners.begin(), corners.end()), corners.end());
	std::vector<vibe::Vec2> left;
	left.reserve(corners.size());
	for (auto i : corners) {
		left.push_back(places[i]);
	}
	GeometryBatch out;
	ConvexHull(LineThrough(left), 0, out);
	for (auto &z : out.z) {
		z = double(corners[size_t(z)]);
	}
	// Two corners are left of points in a line, which come from the lowest
	const bool more = std::any_of(places.begin(), places.end(), [&](const vibe::Vec2 &p) {
		return p != out.View(0).Vertex(0) && p != out.View(0).Vertex(1);
	});
	if (out.type[0] == GeometryType::LINESTRING && more && out.y[1] < out.y[0]) {
		std::swap(out.x[0], out.x[1]);
		std::swap(out.y[0], out.y[1]);
		std::swap(out.z[0], out.z[1]);
	}
	return WriteWkt(out, 0);
}

} // namespace

TEST_CASE("Of many points most are left out early, and the hull is the same", "[hull]") {
	std::mt19937_64 random(3);
	for (int round = 0; round < 40; round++) {
		std::vector<vibe::Vec2> places;
		const int size = 2100 + int(random() % 3000);
		std::uniform_int_distribution<int> grid(0, 1 << (round % 10));
		std::normal_distribution<double> blob;
		for (int i = 0; i < size; i++) {
			if (round % 4 == 0) {
				places.push_back({blob(random), blob(random)});
			} else if (round % 4 == 1) {
				places.push_back({double(grid(random)), double(grid(random))});
			} else if (round % 4 == 2) {
				// In a line, and a little beside it
				const double t = grid(random) * 0.1;
				places.push_back({t, round % 8 == 2 ? t : 3 * t});
			} else {
				const double angle = double(random() % 1000000);
				places.push_back({std::cos(angle), std::sin(angle)});
			}
		}
		GeometryBatch out;
		ConvexHull(LineThrough(places), 0, out);
		REQUIRE(WriteWkt(out, 0) == HullBySteps(places));
		const auto wkb = WriteWkb(LineThrough(places), 0);
		GeometryBatch scratch;
		ConvexHull(reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size(), scratch, out);
		REQUIRE(WriteWkt(out, 1) == WriteWkt(out, 0));
		// Of a grid, what is certainly inside does not get into memory
		if (round % 4 == 1 && round % 10 > 4) {
			CHECK(scratch.x.size() < places.size() * 3 / 4);
		}
	}
}

TEST_CASE("The largest coordinates", "[hull]") {
	REQUIRE(Hull("MULTIPOINT (1e308 1e308, 1.7e308 1e308, 1.7e308 1.7e308, 1.5e308 1.4e308)") ==
	        "POLYGON ((1e+308 1e+308, 1.7e+308 1.7e+308, 1.7e+308 1e+308, 1e+308 1e+308))");
	REQUIRE(Hull("MULTIPOINT (-1e308 -1e308, -1.7e308 -1e308, -1.7e308 -1.7e308)") ==
	        "POLYGON ((-1.7e+308 -1.7e+308, -1.7e+308 -1e+308, -1e+308 -1e+308, -1.7e+308 -1.7e+308))");
}

TEST_CASE("A hull needs finite coordinates", "[hull]") {
	REQUIRE_THROWS_AS(Hull("LINESTRING (0 0, nan 1)"), GeometryError);
	REQUIRE_THROWS_AS(Hull("POINT (inf 1)"), GeometryError);
}
