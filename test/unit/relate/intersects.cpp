#include "engine/relate/intersects.hpp"

#include "catch.hpp"

#include "engine/relate/relate.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;

namespace {

struct Pair {
	GeometryBatch batch;
	Shape a, b;
	RelateScratch scratch;

	void Read(const std::string &left, const std::string &right) {
		batch.Clear();
		wkt_test::ReadWkt(left, batch);
		wkt_test::ReadWkt(right, batch);
		a.Build(batch.View(0));
		b.Build(batch.View(1));
	}
	//! What the whole matrix says
	bool Share() {
		return vibe::Holds(vibe::PREDICATE_INTERSECTS, Relate(a.View(), b.View(), scratch), a.View().dimension,
		                   b.View().dimension);
	}
	bool Intersects(const std::string &left, const std::string &right) {
		Read(left, right);
		const bool result = Intersect(a.View(), b.View());
		CHECK(Intersect(b.View(), a.View()) == result);
		CHECK(Evaluate(vibe::PREDICATE_INTERSECTS, a.View(), b.View(), scratch) == result);
		CHECK(Evaluate(vibe::PREDICATE_DISJOINT, a.View(), b.View(), scratch) != result);
		return result;
	}
};

//! The vertices of a star, rounded to a raster so that vertices and edges of two often coincide
std::string Star(std::mt19937 &random, int corners, double x, double y, double size) {
	std::uniform_real_distribution<double> radius(0.5, 1);
	std::string first, text;
	for (int i = 0; i < corners; i++) {
		const double angle = 2 * M_PI * i / corners, r = size * radius(random);
		const std::string vertex = std::to_string(std::round(x + r * std::cos(angle))) + " " +
		                           std::to_string(std::round(y + r * std::sin(angle)));
		first = i == 0 ? vertex : first;
		text += vertex + ", ";
	}
	return text + first;
}

} // namespace

TEST_CASE("intersects: inside, around, beside and touching", "[intersects]") {
	Pair pair;
	const std::string ring = "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 7 2, 7 7, 2 7, 2 2))";
	CHECK(pair.Intersects(ring, "POLYGON ((1 1, 1.5 1, 1 1.5, 1 1))"));
	CHECK_FALSE(pair.Intersects(ring, "POLYGON ((3 3, 4 3, 4 4, 3 3))"));
	CHECK_FALSE(pair.Intersects(ring, "LINESTRING (3 3, 6 6)"));
	CHECK(pair.Intersects(ring, "LINESTRING (3 3, 7 6)"));
	CHECK(pair.Intersects(ring, "POLYGON ((9 9, 10 9, 10 10, 9 9))"));
	CHECK(pair.Intersects(ring, "POLYGON ((-1 -1, 10 -1, 10 10, -1 10, -1 -1))"));
	CHECK(pair.Intersects(ring, "MULTILINESTRING ((3 3, 4 4), (5 5, 6 6), (8 1, 8 2))"));
	CHECK_FALSE(pair.Intersects("LINESTRING (0 0, 4 4)", "LINESTRING (1 0, 5 4)"));
	CHECK_FALSE(pair.Intersects("LINESTRING (0 0, 4 4)", "LINESTRING (5 5, 6 6)"));
	CHECK(pair.Intersects("LINESTRING (0 0, 4 4)", "LINESTRING (4 4, 6 6)"));
	CHECK(pair.Intersects("LINESTRING (0 0, 4 4)", "LINESTRING (3 3, 6 6)"));
}

TEST_CASE("intersects: random shapes, small and large, against the matrix", "[intersects]") {
	Pair pair;
	std::mt19937 random(5);
	std::uniform_int_distribution<int> corners(3, 300), place(-60, 60), size(3, 60), kind(0, 3);
	size_t wrong = 0, share = 0;
	for (int i = 0; i < 600; i++) {
		std::string text[2];
		for (auto &shape : text) {
			const std::string ring =
			    "(" + Star(random, corners(random), place(random), place(random), size(random)) + ")";
			const std::string far = "(" + Star(random, corners(random), place(random), 250, size(random)) + ")";
			const int k = kind(random);
			static const char *const BEFORE[] = {"LINESTRING ", "MULTILINESTRING (", "POLYGON (", "MULTIPOLYGON (("};
			static const char *const BETWEEN[] = {"", ", ", "", "), ("};
			static const char *const AFTER[] = {"", ")", ")", "))"};
			shape = BEFORE[k];
			shape.append(k % 2 == 1 ? far : "").append(BETWEEN[k]).append(ring).append(AFTER[k]);
		}
		pair.Read(text[0], text[1]);
		if (!IsLinesOrArea(pair.a.View()) || !IsLinesOrArea(pair.b.View())) {
			continue;
		}
		const bool expected = pair.Share();
		wrong += Intersect(pair.a.View(), pair.b.View()) != expected;
		share += expected;
	}
	CHECK(wrong == 0);
	CHECK(share > 150);
	CHECK(share < 550);
}
