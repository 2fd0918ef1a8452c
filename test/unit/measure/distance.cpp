#include "engine/measure/distance.hpp"

#include "catch.hpp"

#include "engine/relate/prepared.hpp"
#include "geometry/wkb.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;

namespace {

double Distance(const std::string &left, const std::string &right, double limit = -1) {
	Shape a, b;
	GeometryBatch rows;
	wkt_test::ReadWkt(left, rows);
	wkt_test::ReadWkt(right, rows);
	a.Build(rows.View(0));
	b.Build(rows.View(1));
	double distance = vibe::ShapeDistance(a.View(), b.View(), limit);
	CHECK((limit >= 0 || distance == vibe::ShapeDistance(b.View(), a.View(), limit)));
	return distance;
}

} // namespace

TEST_CASE("distances of simple pairs", "[distance]") {
	CHECK(Distance("POINT (0 0)", "POINT (3 4)") == 5);
	CHECK(Distance("POINT (1 2)", "LINESTRING (0 0, 4 0)") == 2);
	CHECK(Distance("POINT (7 4)", "LINESTRING (0 0, 4 0)") == 5);
	CHECK(Distance("LINESTRING (0 0, 4 0)", "LINESTRING (0 3, 4 3)") == 3);
	CHECK(Distance("LINESTRING (0 0, 4 4)", "LINESTRING (0 4, 4 0)") == 0);
	CHECK(Distance("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "POINT (2 2)") == 0);
	CHECK(Distance("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 7 2, 7 7, 2 7, 2 2))", "POINT (4 5)") == 2);
	CHECK(Distance("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))", "POLYGON ((3 3, 4 3, 4 4, 3 3))") == 0);
	CHECK(Distance("MULTIPOINT (0 0, 9 9)", "MULTIPOINT (9 8, 50 50)") == 1);
}

TEST_CASE("what is as close as numbers can be ends no search for what meets", "[distance]") {
	// The square of what is between the first vertices is 0; the lines meet at their ends
	const std::string a = "LINESTRING (0.25 10, 0 9.5, 8 9, 5 20)", b = "LINESTRING (5e-324 9.5, 1.5 9.5, 5 20)";
	for (double limit : {-1.0, 0.0, 1e-200}) {
		CHECK(Distance(a, b, limit) == 0);
		CHECK(Distance(b, a, limit) == 0);
	}
	CHECK(Distance("LINESTRING (0.25 10, 0 9.5)", "LINESTRING (5e-324 9.5, 1.5 9.5)", 0) > 0);
	CHECK(Distance("LINESTRING (0.25 10, 0 9.5)", "LINESTRING (5e-324 9.5, 1.5 9.5)", 1e-200) <= 1e-200);
}

TEST_CASE("the distance is 0 exactly when the geometries meet", "[distance]") {
	// (1/3, 1/3) rounded lies on the line y = x; one step beside it, it does not
	double third = 1.0 / 3, beside = std::nextafter(third, 1);
	vibe::Vec2 on {third, third}, off {third, beside};
	vibe::u32 zero = 0;
	Shape line;
	GeometryBatch rows;
	wkt_test::ReadWkt("LINESTRING (0 0, 1 1)", rows);
	line.Build(rows.View(0));
	CHECK(vibe::ShapeDistance(vibe::ShapeOfPoint(&on, &zero), line.View(), -1) == 0);
	double distance = vibe::ShapeDistance(vibe::ShapeOfPoint(&off, &zero), line.View(), -1);
	CHECK(distance == Approx((beside - third) / std::sqrt(2)).epsilon(1e-12));
}

TEST_CASE("distances at the ends of the range", "[distance]") {
	CHECK(vibe::PointDistance({0, 0}, {3e-200, 4e-200}) == Approx(5e-200).epsilon(1e-12));
	CHECK(vibe::PointDistance({0, 0}, {3e200, 4e200}) == Approx(5e200).epsilon(1e-12));
	CHECK(Distance("POINT (0 3e-200)", "LINESTRING (-1 0, 1 0)") == Approx(3e-200).epsilon(1e-12));
	CHECK(Distance("LINESTRING (0 0, 1e200 0)", "LINESTRING (0 3e200, 1e200 3e200)") == Approx(3e200).epsilon(1e-12));
}

TEST_CASE("a limit stops the search and does not change the answer", "[distance]") {
	CHECK(Distance("POINT (0 0)", "LINESTRING (3 0, 3 9)", 3) <= 3);
	CHECK(Distance("POINT (0 0)", "LINESTRING (3 0, 3 9)", 2.999) > 2.999);
	CHECK(Distance("POINT (0 0)", "LINESTRING (3 0, 3 9)", std::nextafter(3, 0)) > std::nextafter(3, 0));
	CHECK(Distance("POINT (0 0)", "LINESTRING (3 0, 3 9)", 0) > 0);
	CHECK(Distance("POINT (3 1)", "LINESTRING (3 0, 3 9)", 0) == 0);
	CHECK(Distance("POINT (0 3e-200)", "LINESTRING (-1 0, 1 0)", 2e-200) > 2e-200);
	CHECK(Distance("POINT (0 3e-200)", "LINESTRING (-1 0, 1 0)", 4e-200) <= 4e-200);
	CHECK(Distance("LINESTRING (0 0, 1e200 0)", "LINESTRING (0 3e200, 1e200 3e200)", 2e200) > 2e200);
	CHECK(Distance("LINESTRING (0 0, 1e200 0)", "LINESTRING (0 3e200, 1e200 3e200)", 4e200) <= 4e200);
}

TEST_CASE("edges whose products overflow hide nothing that is near", "[distance]") {
	// The second line is 3 away, and its squares are finite
	const std::string lines = "MULTILINESTRING ((-1e160 -0.5, 1e160 -0.5), (0 3, 1 3))";
	CHECK(Distance("POINT (0 0)", lines) == 0.5);
	CHECK(Distance("POINT (0 0)", lines, 0.5) <= 0.5);
	CHECK(Distance("POINT (0 0)", lines, 0.25) > 0.25);
	CHECK(Distance("POINT (0 0)", "LINESTRING (-1e160 -0.5, 1e160 -0.5)", 1) <= 1);
	CHECK(Distance("LINESTRING (0 0, 0 1)", lines, 0.5) <= 0.5);
	// Far away, and yet 0 / infinity is a small measure
	CHECK(Distance("POINT (0 1e152)", "LINESTRING (-1e160 0, 1e160 0)", 5) > 5);
	for (double bound : {0.5, 1.0, 1e10}) {
		vibe::Vec2 at {0, 0};
		Shape shape;
		GeometryBatch rows;
		wkt_test::ReadWkt(lines, rows);
		shape.Build(rows.View(0));
		CHECK(vibe::PointShapeDistanceWithin(at, shape.View(), bound) == 0.5);
	}
}

TEST_CASE("limits at and just below the distance of random lines", "[distance]") {
	std::mt19937 random(9);
	std::uniform_real_distribution<double> place(-5, 5);
	int wrong = 0, apart = 0;
	for (int i = 0; i < 400; i++) {
		std::string lines[2];
		for (int k = 0; k < 2; k++) {
			for (int n = 0; n < 2 + (i * (k + 3)) % 150; n++) {
				lines[k] += (n > 0 ? ", " : "LINESTRING (") + std::to_string(place(random) + 9 * k) + " " +
				            std::to_string(place(random));
			}
			lines[k] += ")";
		}
		double distance = Distance(lines[0], lines[1]);
		wrong += !(Distance(lines[0], lines[1], distance) <= distance);
		if (distance > 0) {
			double below = std::nextafter(distance, 0);
			wrong += Distance(lines[0], lines[1], below) <= below;
			apart++;
		}
	}
	CHECK(wrong == 0);
	CHECK(apart > 20);
}

TEST_CASE("from the bytes, from the shape and by trying all pairs: the same distance", "[distance]") {
	std::mt19937 random(5);
	std::uniform_real_distribution<double> place(-20, 20);
	int checked = 0;
	for (int i = 0; i < 300; i++) {
		// A long random line, and a point
		int n = 2 + i % 200;
		GeometryBatch row;
		row.BeginRow(GeometryType::LINESTRING, VERTEX_XY);
		row.BeginNode(GeometryType::LINESTRING, 0);
		row.BeginPart(vibe::FAMILY_LINE);
		row.BeginRing();
		std::vector<vibe::Vec2> vertices;
		for (int k = 0; k < n; k++) {
			vertices.push_back(vibe::Vec2 {place(random), place(random) * (1 + i % 3)});
			row.AddVertex(vertices.back().x, vertices.back().y, 0, 0);
		}
		row.EndRow();
		vibe::Vec2 point {place(random) * 2, place(random) * 2};
		double least = INFINITY;
		for (int k = 0; k + 1 < n; k++) {
			least = std::min(least, vibe::SquareMetric::PointSegment(point, vertices[k], vertices[k + 1]));
		}
		Shape shape;
		shape.Build(row.View(0));
		vibe::u32 zero = 0;
		REQUIRE(vibe::ShapeDistance(vibe::ShapeOfPoint(&point, &zero), shape.View(), -1) == std::sqrt(least));
		auto wkb = WriteWkb(row, 0);
		double distance = -1;
		REQUIRE(PointWkbDistance(point, reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size(), distance));
		REQUIRE(distance == std::sqrt(least));
		checked++;
	}
	CHECK(checked == 300);
}
