#include "catch.hpp"

#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "wkb_bytes.hpp"

using namespace vibespatial;
using namespace wkb_test;

static std::string Line(std::initializer_list<double> values, uint8_t vertex_type = 0) {
	Wkb wkb;
	wkb.Header(GeometryType::LINESTRING, vertex_type).Count(values.size() / VertexWidth(vertex_type)).Doubles(values);
	return wkb.bytes;
}

static std::string Polygon(std::initializer_list<std::initializer_list<double>> rings) {
	Wkb wkb;
	wkb.Header(GeometryType::POLYGON).Count(rings.size());
	for (const auto &ring : rings) {
		wkb.Count(ring.size() / 2).Doubles(ring);
	}
	return wkb.bytes;
}

static std::string Point(double x, double y) {
	return Wkb().Header(GeometryType::POINT).Doubles({x, y}).bytes;
}

static std::string Multi(GeometryType type, std::initializer_list<std::string> members) {
	Wkb wkb;
	wkb.Header(type).Count(members.size());
	for (const auto &member : members) {
		wkb.Append(member);
	}
	return wkb.bytes;
}

//! Both the fast and the wordy check, with another row before and after so that offsets count
static std::string Problem(const std::string &bytes) {
	const auto before = Polygon({{0, 0, 9, 0, 9, 9, 0, 0}});
	const auto after = Line({NaN, 1, 2, 3});
	GeometryBatch batch;
	ReadWkb(Data(before), before.size(), batch);
	ReadWkb(Data(bytes), bytes.size(), batch);
	ReadWkb(Data(after), after.size(), batch);
	auto problem = UsabilityProblem(batch, 1);
	REQUIRE(IsUsable(batch, 1) == problem.empty());
	if (problem.empty()) {
		REQUIRE_NOTHROW(CheckUsable(batch, 1));
	} else {
		REQUIRE_THROWS_AS(CheckUsable(batch, 1), GeometryError);
		REQUIRE_THROWS_WITH(CheckUsable(batch, 1), problem);
	}
	return problem;
}

TEST_CASE("Usable geometries pass", "[checks]") {
	for (auto type : TYPES) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			REQUIRE(Problem(Empty(type, vertex_type)).empty());
		}
	}
	GeometryBatch batch;
	batch.AppendNull();
	REQUIRE(IsUsable(batch, 0));

	REQUIRE(Problem(Point(1, 2)).empty());
	REQUIRE(Problem(Line({1, 1, 1, 1})).empty());
	REQUIRE(Problem(Line({1e308, -1e308, 5e-324, -0.0})).empty());
	REQUIRE(Problem(Polygon({{0, 0, 1, 0, 1, 1, 0, 0}})).empty());
	REQUIRE(Problem(Polygon({{0, 0, 9, 0, 9, 9, 0, 0}, {2, 1, 3, 1, 3, 2, 2, 1}, {}})).empty());
	REQUIRE(Problem(Polygon({{}})).empty());
	// Closed by value
	REQUIRE(Problem(Polygon({{0.0, 0.0, 1, 0, 1, 1, -0.0, -0.0}})).empty());
	REQUIRE(Problem(Multi(GeometryType::MULTIPOINT, {Point(NaN, NaN), Point(1, 2)})).empty());
	// Only X and Y count
	REQUIRE(Problem(Line({0, 0, NaN, 1, 1, INF}, VERTEX_Z)).empty());
}

TEST_CASE("NaN and infinity are found at every place", "[checks]") {
	REQUIRE(Problem(Point(NaN, 1)) == "point 1 is NaN or infinite: (nan 1)");
	REQUIRE(Problem(Point(1, -INF)) == "point 1 is NaN or infinite: (1 -inf)");
	REQUIRE(Problem(Line({0, 0, 0.5, INF, 1, 1})) == "vertex 2 of line 1 is NaN or infinite: (0.5 inf)");
	REQUIRE(Problem(Multi(GeometryType::MULTIPOINT, {Point(1, 2), Point(NaN, NaN), Point(INF, 0)})) ==
	        "point 3 is NaN or infinite: (inf 0)");
	REQUIRE(Problem(Polygon({{0, 0, 9, 0, 9, 9, 0, 0}, {2, 1, 3, 1, 3, NaN, 2, 1}})) ==
	        "vertex 3 of ring 2 of polygon 1 is NaN or infinite: (3 nan)");
	for (uint32_t count = 2; count < 20; count++) {
		for (uint32_t bad = 0; bad < 2 * count; bad++) {
			for (double value : {NaN, -NaN, INF, -INF}) {
				Wkb wkb;
				wkb.Header(GeometryType::LINESTRING).Count(count);
				for (uint32_t i = 0; i < 2 * count; i++) {
					wkb.Doubles({i == bad ? value : 1e300});
				}
				REQUIRE(Problem(wkb.bytes).find("vertex " + std::to_string(bad / 2 + 1) +
				                                " of line 1 is NaN or infinite") == 0);
			}
		}
	}
}

TEST_CASE("Rings and lines that cannot be used are named", "[checks]") {
	REQUIRE(Problem(Line({1, 1.5})) == "line 1 has only 1 vertex: (1 1.5)");
	REQUIRE(Problem(Polygon({{0, 0, 1, 0, 1, 1, 0, 1}})) ==
	        "ring 1 of polygon 1 is not closed: it starts at (0 0) and ends at (0 1)");
	REQUIRE(Problem(Polygon({{0, 0, 9, 0, 9, 9, 0, 0}, {0, 0, 2, 1, 3, 1, 1, 0}})) ==
	        "ring 2 of polygon 1 is not closed: it starts at (0 0) and ends at (1 0)");
	// One axis alone does not close a ring
	REQUIRE_FALSE(Problem(Polygon({{0, 0, 1, 0, 1, 1, 0, 1e-300}})).empty());
	REQUIRE_FALSE(Problem(Polygon({{0, 0, 1, 0, 1, 1, 1e-300, 0}})).empty());
	REQUIRE(Problem(Polygon({{3, 4}})) == "ring 1 of polygon 1 has fewer than 4 vertices: 1");
	REQUIRE(Problem(Polygon({{3, 4, 3, 4}})) == "ring 1 of polygon 1 has fewer than 4 vertices: 2");
	REQUIRE(Problem(Polygon({{3, 4, 5, 5, 3, 4}})) == "ring 1 of polygon 1 has fewer than 4 vertices: 3");
	REQUIRE(Problem(Polygon({{}, {0, 0, 1, 0, 1, 1, 0, 0}})) ==
	        "ring 2 of polygon 1 is a hole, but the shell of the polygon is empty");
}

TEST_CASE("Members are counted by kind through the whole tree", "[checks]") {
	const auto good = Polygon({{0, 0, 1, 0, 1, 1, 0, 0}});
	const auto open = Polygon({{0, 0, 1, 0, 1, 1, 0, 1}});
	const auto ring = "ring 1 of polygon 3 is not closed: it starts at (0 0) and ends at (0 1)";
	REQUIRE(Problem(Multi(GeometryType::MULTIPOLYGON, {good, good, open})) == ring);
	const auto inner = Multi(GeometryType::GEOMETRYCOLLECTION, {Point(1, 2), good, Line({1, 2, 3, 4}), open});
	REQUIRE(Problem(Multi(GeometryType::GEOMETRYCOLLECTION, {Point(0, 0), good, inner})) == ring);
	REQUIRE(Problem(Multi(GeometryType::MULTILINESTRING, {Line({}), Line({1, 2})})) ==
	        "line 2 has only 1 vertex: (1 2)");
}
