#include "engine/relate/relate.hpp"

#include "catch.hpp"

#include "engine/index/point_locator.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;

namespace {

struct Rows {
	GeometryBatch batch;
	Shape a, b;
	RelateScratch scratch;

	std::string Matrix(const std::string &left, const std::string &right) {
		a.Build(Row(left).View(0));
		b.Build(Row(right).View(0));
		return MatrixToString(Relate(a.View(), b.View(), scratch));
	}
	const GeometryBatch &Row(const std::string &wkt) {
		batch.Clear();
		wkt_test::ReadWkt(wkt, batch);
		return batch;
	}
};

//! A star of `n` corners with random radii: a valid polygon
std::string Star(std::mt19937 &random, int n, double x, double y) {
	std::uniform_real_distribution<double> radius(0.2, 1);
	std::string first, text;
	for (int i = 0; i < n; i++) {
		double angle = 2 * M_PI * i / n, r = radius(random);
		std::string vertex = std::to_string(x + r * std::cos(angle)) + " " + std::to_string(y + r * std::sin(angle));
		first = i == 0 ? vertex : first;
		text += vertex + ", ";
	}
	return "POLYGON ((" + text + first + "))";
}

} // namespace

TEST_CASE("matrices of simple pairs", "[relate]") {
	Rows rows;
	CHECK(rows.Matrix("POINT (1 1)", "POINT (1 1)") == "0FFFFFFF2");
	CHECK(rows.Matrix("POINT (1 1)", "LINESTRING (0 0, 2 2)") == "0FFFFF102");
	CHECK(rows.Matrix("LINESTRING (0 0, 2 2)", "LINESTRING (0 2, 2 0)") == "0F1FF0102");
	CHECK(rows.Matrix("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))") == "212101212");
	CHECK(rows.Matrix("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "POLYGON ((4 0, 8 0, 8 4, 4 4, 4 0))") == "FF2F11212");
	CHECK(rows.Matrix("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))") == "2FFF1FFF2");
	CHECK(rows.Matrix("POINT EMPTY", "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))") == "FFFFFF212");
}

TEST_CASE("an edge that passes through the vertex of a hole on the shell", "[relate]") {
	// The hole touches the shell at (4 0): a line through there goes from outside into the hole, not into the interior
	Rows rows;
	const std::string holed = "POLYGON ((0 0, 8 0, 8 8, 0 8, 0 0), (4 0, 3 4, 5 4, 4 0))";
	CHECK(rows.Matrix("LINESTRING (4 -1, 4 3)", holed) == "F01FF0212");
	CHECK(rows.Matrix("LINESTRING (1 -1, 7 7)", holed)[0] == '1');
}

TEST_CASE("a crossing that is an end of a line of the same geometry", "[relate]") {
	Rows rows;
	// (1 1) is the end of the second line, so a boundary point, though the first line passes through it
	CHECK(rows.Matrix("MULTILINESTRING ((0 0, 2 2), (1 1, 0 1))", "LINESTRING (0 2, 2 0)") == "FF10F0102");
}

TEST_CASE("members of a collection that overlap or adjoin", "[relate]") {
	Rows rows;
	const std::string pair =
	    "GEOMETRYCOLLECTION (POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0)), POLYGON ((2 0, 4 0, 4 2, 2 2, 2 0)))";
	CHECK(rows.Matrix(pair, "POLYGON ((0 0, 4 0, 4 2, 0 2, 0 0))") == "2FFF1FFF2");
	CHECK(rows.Matrix("POINT (2 1)", pair) == "0FFFFF212");
	CHECK(rows.Matrix("POINT (2 0)", pair) == "F0FFFF212");
	CHECK(rows.Matrix("LINESTRING (2 0, 2 2)", pair) == "1FFF0F212");
}

TEST_CASE("predicates that stop early agree with the whole matrix, and with the transposed pair", "[relate]") {
	std::mt19937 random(7);
	std::uniform_real_distribution<double> place(-1, 1);
	Rows rows;
	int pairs = 0, holding = 0;
	for (int i = 0; i < 300; i++) {
		rows.a.Build(rows.Row(Star(random, 3 + i % 60, place(random), place(random))).View(0));
		rows.b.Build(rows.Row(Star(random, 3 + i % 37, place(random) / 4, place(random) / 4)).View(0));
		auto &a = rows.a.View();
		auto &b = rows.b.View();
		auto matrix = Relate(a, b, rows.scratch);
		REQUIRE(vibe::Transpose(matrix) == Relate(b, a, rows.scratch));
		for (int k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
			auto predicate = static_cast<vibe::Predicate>(k);
			bool expected = vibe::Holds(predicate, matrix, 2, 2);
			pairs += Evaluate(predicate, a, b, rows.scratch) == expected;
			holding += expected;
		}
	}
	CHECK(pairs == 300 * 12);
	CHECK(holding > 300);
}

TEST_CASE("areas on a small raster: contacts that decide at once agree with the whole matrix", "[relate]") {
	std::mt19937 random(11);
	std::uniform_int_distribution<int> place(0, 6);
	auto area = [&]() -> std::string {
		// Triangles; squares with a hole that touches the shell; two squares that touch
		if (random() % 3 > 0) {
			int x[3], y[3];
			do {
				for (int k = 0; k < 3; k++) {
					x[k] = place(random), y[k] = place(random);
				}
			} while ((x[1] - x[0]) * (y[2] - y[0]) == (y[1] - y[0]) * (x[2] - x[0]));
			std::string text = "POLYGON ((";
			for (int k = 0; k < 4; k++) {
				text += (k > 0 ? ", " : "") + std::to_string(x[k % 3]) + " " + std::to_string(y[k % 3]);
			}
			return text + "))";
		}
		auto at = [](int x, int y) { return std::to_string(x) + " " + std::to_string(y); };
		const int x = place(random) - 2, y = place(random) - 2;
		auto square = [&](int from_x, int from_y, int size) {
			return "(" + at(from_x, from_y) + ", " + at(from_x + size, from_y) + ", " +
			       at(from_x + size, from_y + size) + ", " + at(from_x, from_y + size) + ", " + at(from_x, from_y) +
			       ")";
		};
		if (random() % 2 == 0) {
			return "MULTIPOLYGON ((" + square(x, y, 2) + "), (" + square(x + 2, y + 2, 2) + "))";
		}
		return "POLYGON (" + square(x, y, 4) + ", (" + at(x + 2, y) + ", " + at(x + 1, y + 2) + ", " +
		       at(x + 3, y + 3) + ", " + at(x + 2, y) + "))";
	};
	Rows rows;
	int wrong = 0, holding[13] = {};
	for (int i = 0; i < 3000; i++) {
		const auto left = area(), right = i % 20 == 0 ? left : area();
		rows.a.Build(rows.Row(left).View(0));
		rows.b.Build(rows.Row(right).View(0));
		auto &a = rows.a.View();
		auto &b = rows.b.View();
		auto matrix = Relate(a, b, rows.scratch);
		wrong += vibe::Transpose(matrix) != Relate(b, a, rows.scratch);
		for (int k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
			auto predicate = static_cast<vibe::Predicate>(k);
			bool expected = vibe::Holds(predicate, matrix, 2, 2);
			wrong += Evaluate(predicate, a, b, rows.scratch) != expected;
			holding[k] += expected;
		}
	}
	CHECK(wrong == 0);
	CHECK(holding[vibe::PREDICATE_TOUCHES] > 100);
	CHECK(holding[vibe::PREDICATE_OVERLAPS] > 500);
	CHECK(holding[vibe::PREDICATE_EQUALS] >= 150);
	CHECK(holding[vibe::PREDICATE_WITHIN] > 150);
}

TEST_CASE("Answers are exchanged with their arguments and agree with the matrix, for invalid polygons, too",
          "[relate]") {
	std::mt19937 random(11);
	auto ring = [&](unsigned size) {
		std::string text, first;
		for (unsigned i = 0; i < size; i++) {
			const auto vertex = std::to_string(random() % 6) + " " + std::to_string(random() % 6);
			first = i == 0 ? vertex : first;
			text += vertex + ", ";
		}
		return "(" + text + first + ")";
	};
	auto invalid = [&]() {
		switch (random() % 4) {
		case 0:
			return "MULTIPOLYGON ((" + ring(3 + random() % 3) + "), (" + ring(4) + "))";
		case 1:
			return "POLYGON (" + ring(3 + random() % 4) + ", " + ring(3) + ")";
		default:
			return "POLYGON (" + ring(3 + random() % 4) + ")";
		}
	};
	const std::pair<vibe::Predicate, vibe::Predicate> pairs[] = {
	    {vibe::PREDICATE_INTERSECTS, vibe::PREDICATE_INTERSECTS}, {vibe::PREDICATE_TOUCHES, vibe::PREDICATE_TOUCHES},
	    {vibe::PREDICATE_OVERLAPS, vibe::PREDICATE_OVERLAPS},     {vibe::PREDICATE_CROSSES, vibe::PREDICATE_CROSSES},
	    {vibe::PREDICATE_EQUALS, vibe::PREDICATE_EQUALS},         {vibe::PREDICATE_WITHIN, vibe::PREDICATE_CONTAINS},
	    {vibe::PREDICATE_COVERS, vibe::PREDICATE_COVERED_BY}};
	Rows rows;
	int wrong = 0, differing = 0, touching = 0;
	for (int i = 0; i < 20000; i++) {
		rows.a.Build(rows.Row(invalid()).View(0));
		rows.b.Build(rows.Row(i % 10 == 0 ? "LINESTRING " + ring(2) : invalid()).View(0));
		auto &a = rows.a.View();
		auto &b = rows.b.View();
		const auto matrix = Relate(a, b, rows.scratch);
		wrong += vibe::Transpose(matrix) != Relate(b, a, rows.scratch);
		for (int k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
			const auto predicate = static_cast<vibe::Predicate>(k);
			differing +=
			    Evaluate(predicate, a, b, rows.scratch) != vibe::Holds(predicate, matrix, a.dimension, b.dimension);
		}
		for (auto &pair : pairs) {
			wrong += Evaluate(pair.first, a, b, rows.scratch) != Evaluate(pair.second, b, a, rows.scratch);
		}
		touching += Evaluate(vibe::PREDICATE_TOUCHES, a, b, rows.scratch);
	}
	CHECK(wrong == 0);
	CHECK(differing == 0);
	CHECK(touching > 100);
}

TEST_CASE("the point locator agrees with the shape", "[point_locator]") {
	std::mt19937 random(3);
	std::uniform_real_distribution<double> place(-1.1, 1.1);
	Rows rows;
	int seen[3] = {0, 0, 0}, wrong = 0;
	for (int n : {3, 4, 17, 200, 5000}) {
		rows.a.Build(rows.Row(Star(random, n, 0, 0)).View(0));
		auto &shape = rows.a.View();
		PointLocator locator(shape);
		for (int i = 0; i < 2000; i++) {
			vibe::Vec2 point {place(random), place(random)};
			if (i % 4 == 0) {
				point = shape.Vertex(static_cast<uint32_t>(random() % shape.vertex_count));
			} else if (i % 4 == 1) {
				point.y = shape.y[random() % shape.vertex_count];
			}
			auto location = locator.Locate(point);
			wrong += location != vibe::LocateInElement(shape, 0, point);
			seen[location]++;
		}
	}
	CHECK(wrong == 0);
	CHECK(seen[0] > 500);
	CHECK(seen[1] > 500);
	CHECK(seen[2] > 500);
}
