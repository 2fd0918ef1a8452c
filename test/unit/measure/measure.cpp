#include "catch.hpp"

#include "engine/measure/measure.hpp"
#include "geometry/wkb.hpp"
#include "vibe/measure.h"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;
using namespace wkt_test;

//! Every measure twice, from WKB and from columns: the bits must agree
struct Measures {
	double area;
	double length;
	double perimeter;
	CentroidPoint centroid;
};

static bool SameBits(double a, double b) {
	return vibe::Bits(a) == vibe::Bits(b) || (a != a && b != b);
}

static Measures Measure(const GeometryBatch &batch, size_t row) {
	const auto bytes = WriteWkb(batch, row);
	const auto wkb = reinterpret_cast<const uint8_t *>(bytes.data());
	const auto view = batch.View(row);
	const Measures result {Area(wkb, bytes.size()), Length(wkb, bytes.size()), Perimeter(wkb, bytes.size()),
	                       Centroid(wkb, bytes.size())};
	const auto centroid = Centroid(view);
	REQUIRE(SameBits(result.area, Area(view)));
	REQUIRE(SameBits(result.length, Length(view)));
	REQUIRE(SameBits(result.perimeter, Perimeter(view)));
	REQUIRE(centroid.empty == result.centroid.empty);
	REQUIRE(SameBits(centroid.x, result.centroid.x));
	REQUIRE(SameBits(centroid.y, result.centroid.y));
	return result;
}

static Measures Measure(const std::string &text) {
	const WktRow input(text);
	return Measure(input.batch, WktRow::ROW);
}

static std::string CentroidText(const std::string &text) {
	const auto centroid = Measure(text).centroid;
	if (centroid.empty) {
		return "EMPTY";
	}
	std::string result = FormatNumber(centroid.x) + " " + FormatNumber(centroid.y);
	for (auto extra : centroid.extra) {
		result += std::isnan(extra) ? "" : " " + FormatNumber(extra);
	}
	return result;
}

TEST_CASE("Areas", "[measure]") {
	for (auto text :
	     {"POINT (1 2)", "POINT EMPTY", "LINESTRING (0 0, 4 0, 4 4, 0 0)", "POLYGON EMPTY", "MULTIPOLYGON EMPTY",
	      "GEOMETRYCOLLECTION EMPTY", "POLYGON (EMPTY)", "POLYGON ((1 1))", "POLYGON ((1 1, 2 5))"}) {
		INFO(text);
		REQUIRE(Measure(text).area == 0);
	}
	REQUIRE(Measure("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))").area == 100);
	REQUIRE(Measure("POLYGON ((0 0, 0 10, 10 10, 10 0, 0 0))").area == 100);
	REQUIRE(Measure("POLYGON ZM ((0 0 1 2, 10 0 3 4, 10 10 5 6, 0 10 7 8, 0 0 1 2))").area == 100);
	// holes subtract whichever way they run
	REQUIRE(Measure("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))").area == 99);
	REQUIRE(Measure("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1), EMPTY)").area == 99);
	REQUIRE(Measure("POLYGON ((0 0, 1 0, 1 1, 0 0), (0 0, 2 0, 0 1, 0 0))").area == -0.5);
	REQUIRE(Measure("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))").area == 0);
	REQUIRE(Measure("MULTIPOLYGON (((0 0, 2 0, 2 2, 0 0)), EMPTY, ((5 5, 6 5, 6 6, 5 6, 5 5)))").area == 3);
	REQUIRE(
	    Measure(
	        "GEOMETRYCOLLECTION (POINT (1 1), POLYGON ((0 0, 2 0, 2 2, 0 0)), GEOMETRYCOLLECTION (LINESTRING (0 0, 1 "
	        "1), POLYGON ((0 0, 2 0, 2 2, 0 0))))")
	        .area == 4);
	REQUIRE(std::isnan(Measure("POLYGON ((0 0, 10 0, nan 10, 0 0))").area));
}

TEST_CASE("Areas far from the origin keep their digits", "[measure]") {
	REQUIRE(Measure("POLYGON ((4503599627370496 4503599627370496, 4503599627370497 4503599627370496, "
	                "4503599627370497 4503599627370497, 4503599627370496 4503599627370497, "
	                "4503599627370496 4503599627370496))")
	            .area == 1);
}

TEST_CASE("The area of rings of every size", "[measure]") {
	// every remainder of the four sums; the formula in long double, vertex by vertex
	std::mt19937_64 random(11);
	std::uniform_real_distribution<double> radius(0.5, 1.5);
	for (uint32_t corners = 3; corners < 80; corners++) {
		GeometryBatch batch;
		batch.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		batch.BeginNode(GeometryType::POLYGON, 0);
		batch.BeginPart(vibe::FAMILY_POLYGON);
		batch.BeginRing();
		for (uint32_t i = 0; i < corners; i++) {
			const auto r = radius(random);
			batch.AddVertex(100 + r * std::cos(6.2 * i / corners), -70 + r * std::sin(6.2 * i / corners), 0, 0);
		}
		batch.AddVertex(batch.x[0], batch.y[0], 0, 0);
		batch.EndRow();
		long double area2 = 0, mx = 0, my = 0, length = 0;
		for (uint32_t i = 0; i < corners; i++) {
			const long double ax = (long double)batch.x[i] - batch.x[0], ay = (long double)batch.y[i] - batch.y[0];
			const long double bx = (long double)batch.x[i + 1] - batch.x[0],
			                  by = (long double)batch.y[i + 1] - batch.y[0];
			area2 += ax * by - bx * ay;
			mx += (ax * by - bx * ay) * (ax + bx);
			my += (ax * by - bx * ay) * (ay + by);
			length += std::sqrt((bx - ax) * (bx - ax) + (by - ay) * (by - ay));
		}
		const auto measures = Measure(batch, 0);
		REQUIRE(std::fabs(double(measures.area - area2 / 2)) < 1e-14);
		REQUIRE(std::fabs(double(measures.perimeter - length)) < 1e-13);
		REQUIRE(std::fabs(double(measures.centroid.x - (batch.x[0] + mx / (3 * area2)))) < 3e-14);
		REQUIRE(std::fabs(double(measures.centroid.y - (batch.y[0] + my / (3 * area2)))) < 3e-14);
	}
}

TEST_CASE("The order of operations is the one that is written down", "[measure]") {
	// 2^53 + 1 + 1 + 1: what is lost depends on which sum takes which term
	const double x[] = {0, 1, 1, 1, 1, 1, 0, 0};
	const double y[] = {0, -9007199254740992., 0, 9007199254740993., 1, 2, 3, 0};
	double s[4] = {0, 0, 0, 0};
	for (uint32_t i = 1; i + 1 < 8; i++) {
		s[(i - 1) % 4] += (x[i] - x[0]) * (y[i + 1] - y[i - 1]);
	}
	REQUIRE(vibe::RingArea2(vibe::ColumnRing {x, y}, 8) == (s[0] + s[1]) + (s[2] + s[3]));
}

TEST_CASE("Lengths and perimeters", "[measure]") {
	REQUIRE(Measure("LINESTRING (0 0, 3 4, 3 5)").length == 6);
	REQUIRE(Measure("LINESTRING Z (0 0 0, 3 4 100)").length == 5);
	REQUIRE(Measure("LINESTRING (1 1)").length == 0);
	REQUIRE(Measure("MULTILINESTRING ((0 0, 3 4), EMPTY, (0 0, 0 1))").length == 6);
	REQUIRE(Measure("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))").length == 0);
	REQUIRE(Measure("POINT (1 1)").length == 0);
	REQUIRE(std::isnan(Measure("LINESTRING (0 0, nan 1)").length));
	REQUIRE(std::isinf(Measure("LINESTRING (0 0, inf 1)").length));

	REQUIRE(Measure("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))").perimeter == 20);
	REQUIRE(Measure("POLYGON ((0 0, 4 0, 4 4, 0 4))").perimeter == 12);
	REQUIRE(Measure("LINESTRING (0 0, 3 4)").perimeter == 0);

	const auto mixed =
	    Measure("GEOMETRYCOLLECTION (POINT (9 9), LINESTRING (0 0, 3 4), POLYGON ((0 0, 4 0, 4 3, 0 0)))");
	REQUIRE(mixed.length == 5);
	REQUIRE(mixed.perimeter == 12);
	REQUIRE(mixed.area == 6);
}

TEST_CASE("Centroids", "[measure]") {
	REQUIRE(CentroidText("POINT (1 2)") == "1 2");
	REQUIRE(CentroidText("MULTIPOINT (1 1, 1 1, EMPTY, 4 7)") == "2 3");
	REQUIRE(CentroidText("LINESTRING (0 0, 10 0, 10 10)") == "7.5 2.5");
	REQUIRE(CentroidText("MULTILINESTRING ((0 0, 2 0), (10 10, 10 16))") == "7.75 9.75");
	REQUIRE(CentroidText("POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))") == "5 5");
	REQUIRE(CentroidText("POLYGON ((0 0, 0 10, 10 10, 10 0, 0 0))") == "5 5");
	REQUIRE(CentroidText("POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (0 0, 0 4, 4 4, 4 0, 0 0))") ==
	        "4.666666666666667 4.666666666666667");
	REQUIRE(CentroidText("POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (0 0, 4 0, 4 4, 0 4, 0 0))") ==
	        "4.666666666666667 4.666666666666667");
	REQUIRE(CentroidText("MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2, 0 0)), ((10 10, 10 12, 12 12, 12 10, 10 10)))") == "6 6");
	// the highest dimension wins, in any order
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (POINT (5 5), LINESTRING (0 0, 4 0), POINT (7 7))") == "2 0");
	REQUIRE(
	    CentroidText("GEOMETRYCOLLECTION (POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0)), POINT (5 5), LINESTRING (0 0, 4 0))") ==
	    "1 1");
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (POLYGON EMPTY, LINESTRING (0 0, 4 0))") == "2 0");
}

TEST_CASE("Centroids of nothing", "[measure]") {
	for (auto text : {"POINT EMPTY", "LINESTRING EMPTY", "POLYGON Z EMPTY", "MULTIPOINT (EMPTY)",
	                  "GEOMETRYCOLLECTION EMPTY", "LINESTRING (0 0, nan 1)", "POLYGON ((0 0, 4 0, nan 4, 0 0))",
	                  "GEOMETRYCOLLECTION (LINESTRING (0 0, nan 1), POINT (3 3))"}) {
		INFO(text);
		REQUIRE(CentroidText(text) == "EMPTY");
	}
}

TEST_CASE("Centroids without a measure fall back to the lower dimension", "[measure]") {
	REQUIRE(CentroidText("LINESTRING (1 1, 1 1)") == "1 1");
	REQUIRE(CentroidText("MULTILINESTRING ((1 1, 1 1), (4 1, 4 1, 4 1))") == "2.5 1");
	REQUIRE(CentroidText("POLYGON ((0 0, 10 0, 5 0, 0 0))") == "5 0");
	REQUIRE(CentroidText("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))") == "5 5");
	REQUIRE(CentroidText("POLYGON ((1 2, 1 2, 1 2, 1 2))") == "1 2");
	// a hole as large as the shell: the lengths of both
	REQUIRE(CentroidText("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (0 0, 4 0, 4 4, 0 4, 0 0))") == "2 2");
	// a line of no length is one point, however many vertices it has, and so is each ring
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (LINESTRING (1 1, 1 1, 1 1), POINT (3 3))") == "2 2");
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (POLYGON ((0 0, 0 0, 0 0), (4 0, 4 0, 4 0)), POINT (2 3))") == "2 1");
	// rings without area and lines are weighed together; what has area beats them all
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (POLYGON ((0 0, 2 0, 0 0)), LINESTRING (0 3, 4 3), POINT (9 9))") ==
	        "1.5 1.5");
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (POLYGON ((0 0, 2 0, 0 0)), POLYGON ((4 4, 6 4, 6 6, 4 6, 4 4)))") ==
	        "5 5");
	REQUIRE(CentroidText("GEOMETRYCOLLECTION (LINESTRING (1 1, 1 1), LINESTRING (0 0, 4 0), POINT (9 9))") == "2 0");
	REQUIRE(CentroidText("POLYGON ZM ((0 0 1 5, 4 0 3 5, 0 0 1 5))") == "2 0 2 5");
	REQUIRE(CentroidText("LINESTRING Z (1 1 0, 1 1 4)") == "1 1 2");
	REQUIRE(CentroidText("GEOMETRYCOLLECTION Z (LINESTRING Z (1 1 0, 1 1 4), POINT Z (3 3 8))") == "2 2 5");
}

TEST_CASE("Centroids keep Z and M", "[measure]") {
	REQUIRE(CentroidText("POINT ZM (1 2 3 4)") == "1 2 3 4");
	REQUIRE(CentroidText("POINT M (1 2 3)") == "1 2 3");
	REQUIRE(CentroidText("MULTIPOINT Z (1 1 1, 2 2 5)") == "1.5 1.5 3");
	REQUIRE(CentroidText("LINESTRING Z (0 0 5, 3 4 6)") == "1.5 2 5.5");
	REQUIRE(CentroidText("LINESTRING ZM (0 0 1 10, 10 0 2 20)") == "5 0 1.5 15");
	REQUIRE(CentroidText("POLYGON Z ((0 0 1, 3 0 2, 3 3 3, 0 0 1))") == "2 1 2");
	REQUIRE(CentroidText("POLYGON Z ((0 0 1, 3 3 3, 3 0 2, 0 0 1))") == "2 1 2");
	// a plane stays a plane: z = 1 + x + 2y, hole included
	REQUIRE(CentroidText("POLYGON Z ((0 0 1, 8 0 9, 8 8 25, 0 8 17, 0 0 1), (2 2 7, 4 2 9, 4 4 13, 2 4 11, 2 2 7))") ==
	        CentroidText("POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (2 2, 4 2, 4 4, 2 4, 2 2))") + " 13.2");
	REQUIRE(
	    CentroidText("MULTIPOLYGON Z (((0 0 1, 3 0 2, 3 3 3, 0 0 1)), ((10 10 11, 13 10 12, 13 13 7, 10 10 11)))") ==
	    "7 6 6");
}
