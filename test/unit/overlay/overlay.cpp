#include "catch.hpp"

#include "engine/overlay/overlay.hpp"
#include "engine/overlay/edges.hpp"
#include "engine/overlay/sweep.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_edit.hpp"
#include "three_threads.hpp"
#include "vibe/overlay.h"
#include "wkt_rows.hpp"

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace vibespatial;
using namespace wkt_test;
using vibe::Vec2;

static OverlayRule Rule(OverlayOp op) {
	OverlayRule rule;
	rule.op = op;
	return rule;
}

static std::string Run(Overlay &overlay, const OverlayRule &rule) {
	Serial serial;
	GeometryBatch out;
	ReadWkt("POINT (1 1)", out);
	overlay.Run(rule, serial, out);
	REQUIRE(out.RowCount() == 2);
	REQUIRE(IsValid(out, 1));
	return WriteWkt(out, 1);
}

static std::string Pair(OverlayOp op, const std::string &left, const std::string &right) {
	const WktRow l(left), r(right);
	Overlay overlay;
	overlay.Add(Overlay::LEFT, l.batch, WktRow::ROW);
	overlay.Add(Overlay::RIGHT, r.batch, WktRow::ROW);
	auto result = Run(overlay, Rule(op));
	// The same from WKB, in the memory of the first
	const auto a = WriteWkb(l.batch, WktRow::ROW), b = WriteWkb(r.batch, WktRow::ROW);
	overlay.AddWkb(Overlay::RIGHT, reinterpret_cast<const uint8_t *>(b.data()), b.size());
	overlay.AddWkb(Overlay::LEFT, reinterpret_cast<const uint8_t *>(a.data()), a.size());
	REQUIRE(Run(overlay, Rule(op)) == result);
	return result;
}

static std::string Union(const std::vector<std::string> &members) {
	Overlay overlay;
	for (auto &member : members) {
		overlay.Add(Overlay::LEFT, WktRow(member).batch, WktRow::ROW);
	}
	return Run(overlay, OverlayRule());
}

static double Area(const GeometryBatch &batch) {
	double area = 0;
	for (size_t ring = 0; ring + 1 < batch.ring_start.size(); ring++) {
		for (auto i = batch.ring_start[ring]; i + 1 < batch.ring_start[ring + 1]; i++) {
			area += batch.x[i] * batch.y[i + 1] - batch.x[i + 1] * batch.y[i];
		}
	}
	return area / 2;
}

static double RunArea(Overlay &overlay, OverlayOp op) {
	OverlayRule rule = Rule(op);
	rule.areas_only = true;
	Serial serial;
	GeometryBatch out;
	overlay.Run(rule, serial, out);
	REQUIRE(IsValid(out, 0));
	return Area(out);
}

static const char *const SQUARE = "POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0))";

TEST_CASE("Overlays of two squares", "[overlay]") {
	const auto other = "POLYGON ((1 1, 1 3, 3 3, 3 1, 1 1))";
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, other) == "POLYGON ((1 1, 2 1, 2 2, 1 2, 1 1))");
	REQUIRE(Pair(OverlayOp::UNION, SQUARE, other) == "POLYGON ((0 0, 2 0, 2 1, 3 1, 3 3, 1 3, 1 2, 0 2, 0 0))");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, SQUARE, other) == "POLYGON ((0 0, 2 0, 2 1, 1 1, 1 2, 0 2, 0 0))");
	REQUIRE(Pair(OverlayOp::SYM_DIFFERENCE, SQUARE, other) ==
	        "MULTIPOLYGON (((0 0, 2 0, 2 1, 1 1, 1 2, 0 2, 0 0)), ((1 2, 2 2, 2 1, 3 1, 3 3, 1 3, 1 2)))");
}

TEST_CASE("Areas that touch", "[overlay]") {
	const auto beside = "POLYGON ((2 0, 4 0, 4 2, 2 2, 2 0))", corner = "POLYGON ((2 2, 4 2, 4 4, 2 4, 2 2))";
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, beside) == "LINESTRING (2 0, 2 2)");
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, corner) == "POINT (2 2)");
	REQUIRE(Pair(OverlayOp::UNION, SQUARE, beside) == "POLYGON ((0 0, 2 0, 4 0, 4 2, 2 2, 0 2, 0 0))");
	REQUIRE(Pair(OverlayOp::UNION, SQUARE, corner) ==
	        "MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2, 0 0)), ((2 2, 4 2, 4 4, 2 4, 2 2)))");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, SQUARE, beside) == SQUARE);
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, "POLYGON ((2 0, 4 0, 4 2, 1 2, 1 1, 2 1, 2 0))") ==
	        "GEOMETRYCOLLECTION (POLYGON ((1 1, 2 1, 2 2, 1 2, 1 1)), LINESTRING (2 0, 2 1))");
}

TEST_CASE("Holes", "[overlay]") {
	// Holes that touch each other and the shell, in points and along an edge
	REQUIRE(Pair(OverlayOp::DIFFERENCE, "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))",
	             "MULTIPOLYGON (((2 2, 4 2, 4 4, 2 4, 2 2)), ((4 4, 6 4, 6 6, 4 6, 4 4)), ((0 8, 1 8, 1 9, 0 9, 0 8)), "
	             "((10 5, 9 6, 8 5, 9 4, 10 5)))") ==
	        "POLYGON ((0 0, 10 0, 10 5, 10 10, 0 10, 0 9, 1 9, 1 8, 0 8, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2), "
	        "(4 4, 4 6, 6 6, 6 4, 4 4), (8 5, 9 6, 10 5, 9 4, 8 5))");
	// A ring of members around a place that stays empty, and one in there
	REQUIRE(
	    Union({"POLYGON ((0 0, 6 0, 6 1, 0 1, 0 0))", "POLYGON ((0 5, 6 5, 6 6, 0 6, 0 5))",
	           "POLYGON ((0 0, 1 0, 1 6, 0 6, 0 0))", "POLYGON ((5 0, 6 0, 6 6, 5 6, 5 0))",
	           "POLYGON ((2 2, 3 2, 3 3, 2 3, 2 2))"}) ==
	    "MULTIPOLYGON (((0 0, 1 0, 5 0, 6 0, 6 1, 6 5, 6 6, 5 6, 1 6, 0 6, 0 5, 0 1, 0 0), (1 1, 1 5, 5 5, 5 1, 1 1)), "
	    "((2 2, 3 2, 3 3, 2 3, 2 2)))");
	// Holes in a ring cut the inner part off
	REQUIRE(Pair(OverlayOp::DIFFERENCE, "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))",
	             "MULTIPOLYGON (((2 2, 6 2, 4 3, 2 2)), ((6 2, 6 6, 5 4, 6 2)), ((6 6, 2 2, 4 5, 6 6)))") ==
	        "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 9, 0 0), (2 2, 4 5, 6 6, 6 2, 2 2)), ((2 2, 4 3, 6 2, 5 4, 6 6, 2 2)))");
}

TEST_CASE("Lines and points", "[overlay]") {
	const auto cross = "LINESTRING (0 2, 2 0)";
	REQUIRE(Pair(OverlayOp::INTERSECTION, "LINESTRING (0 0, 2 2)", cross) == "POINT (1 1)");
	REQUIRE(Pair(OverlayOp::UNION, "LINESTRING (0 0, 2 2)", cross) ==
	        "MULTILINESTRING ((0 0, 1 1), (0 2, 1 1), (1 1, 2 0), (1 1, 2 2))");
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, "LINESTRING (-1 1, 3 1)") == "LINESTRING (0 1, 2 1)");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, "LINESTRING (-1 1, 3 1)", SQUARE) ==
	        "MULTILINESTRING ((-1 1, 0 1), (2 1, 3 1))");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, SQUARE, "LINESTRING (3 1, 5 1)") == SQUARE);
	// Along a border; lines end where they come and where others meet them
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, "LINESTRING (-1 0, 1 0, 1 -1)") == "LINESTRING (0 0, 1 0)");
	REQUIRE(Union({"LINESTRING (0 0, 1 0)", "LINESTRING (1 0, 2 0)"}) == "MULTILINESTRING ((0 0, 1 0), (1 0, 2 0))");
	REQUIRE(Union({"LINESTRING (0 0, 1 0, 1 1, 0 0)", "LINESTRING (0 0, 1 0, 1 1, 0 0)"}) ==
	        "LINESTRING (0 0, 1 0, 1 1, 0 0)");
	REQUIRE(Pair(OverlayOp::INTERSECTION, "MULTIPOINT (1 1, 2 1, 3 1)", SQUARE) == "MULTIPOINT ((1 1), (2 1))");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, "MULTIPOINT (1 1, 2 1, 3 1)", SQUARE) == "POINT (3 1)");
	REQUIRE(Pair(OverlayOp::UNION, "MULTIPOINT (1 1, 5 5, 5 5)", SQUARE) ==
	        "GEOMETRYCOLLECTION (POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0)), POINT (5 5))");
	// A point on an edge that moves when it is split: 6 1 / 0 3 crosses 1 0 / 2 6 in no double
	REQUIRE(Pair(OverlayOp::INTERSECTION, "MULTIPOINT (4.5 1.5, 4.5 1.6)", "LINESTRING (1 0, 2 6, 0 3, 6 1)") ==
	        "POINT (4.5 1.5)");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, "MULTIPOINT (4.5 1.5, 4.5 1.6)", "LINESTRING (1 0, 2 6, 0 3, 6 1)") ==
	        "POINT (4.5 1.6)");
	// A line that is a point
	REQUIRE(Pair(OverlayOp::INTERSECTION, "LINESTRING (1 1, 1 1)", SQUARE) == "POINT (1 1)");
}

TEST_CASE("Overlays with nothing", "[overlay]") {
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, "POLYGON ((5 5, 6 5, 6 6, 5 5))") == "POLYGON EMPTY");
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, "LINESTRING (5 5, 6 6)") == "LINESTRING EMPTY");
	REQUIRE(Pair(OverlayOp::INTERSECTION, SQUARE, "POINT (5 5)") == "POINT EMPTY");
	REQUIRE(Pair(OverlayOp::DIFFERENCE, SQUARE, SQUARE) == "POLYGON EMPTY");
	REQUIRE(Pair(OverlayOp::UNION, SQUARE, "POINT EMPTY") == SQUARE);
	REQUIRE(Pair(OverlayOp::UNION, "LINESTRING EMPTY", "POINT EMPTY") == "LINESTRING EMPTY");
	REQUIRE(Union({}) == "GEOMETRYCOLLECTION EMPTY");
	REQUIRE(Union({"GEOMETRYCOLLECTION EMPTY"}) == "GEOMETRYCOLLECTION EMPTY");
}

TEST_CASE("Polygons that are not valid", "[overlay]") {
	// One alone: what an odd number of its rings' windings goes around
	const auto bow = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))";
	const auto wings = "MULTIPOLYGON (((0 0, 1 1, 0 2, 0 0)), ((1 1, 2 0, 2 2, 1 1)))";
	REQUIRE(Union({bow}) == wings);
	REQUIRE(Pair(OverlayOp::INTERSECTION, bow, "POLYGON ((-1 -1, 3 -1, 3 3, -1 3, -1 -1))") == wings);
	// In a crowd each counts once, whichever way its rings run
	REQUIRE(Union({bow, bow, "POLYGON ((0 0, 0 2, 2 0, 2 2, 0 0))"}) == wings);
	REQUIRE(
	    Union({"POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", "POLYGON ((9 9, 9 8, 8 8, 9 9), (1 1, 1 2, 2 2, 2 1, 1 1))"}) ==
	    "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((8 8, 9 8, 9 9, 8 8)))");
	REQUIRE(Union({"POLYGON ((0 0, 4 0, 4 4, 2 4, 2 6, 2 4, 0 4, 0 0))", SQUARE}) ==
	        "POLYGON ((0 0, 2 0, 4 0, 4 4, 2 4, 0 4, 0 2, 0 0))");
	Overlay overlay;
	REQUIRE_THROWS_AS(overlay.Add(Overlay::LEFT, WktRow("POLYGON ((0 0, 1 0, 1 1, 0 1))").batch, WktRow::ROW),
	                  GeometryError);
	const auto nan = std::string("\1\2\0\0\0\2\0\0\0", 9) + std::string(32, '\xff');
	REQUIRE_THROWS_AS(overlay.AddWkb(Overlay::LEFT, reinterpret_cast<const uint8_t *>(nan.data()), nan.size()),
	                  GeometryError);
}

TEST_CASE("In all members, or in an odd number of them", "[overlay]") {
	OverlayRule rule;
	const auto members = {SQUARE, "POLYGON ((1 0, 3 0, 3 2, 1 2, 1 0))", "POLYGON ((0 1, 3 1, 3 3, 0 3, 0 1))"};
	Overlay overlay;
	for (auto member : members) {
		overlay.Add(Overlay::LEFT, WktRow(member).batch, WktRow::ROW);
	}
	rule.least = 3;
	REQUIRE(Run(overlay, rule) == "POLYGON ((1 1, 2 1, 2 2, 1 2, 1 1))");
	for (auto member : members) {
		overlay.Add(Overlay::LEFT, WktRow(member).batch, WktRow::ROW);
	}
	rule.least = 1;
	rule.fill = FillRule::ODD;
	REQUIRE(Run(overlay, rule) ==
	        "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 1, 0 0)), ((0 2, 1 2, 1 1, 2 1, 2 2, 3 2, 3 3, 0 3, "
	        "0 2)), ((2 0, 3 0, 3 1, 2 1, 2 0)))");
}

TEST_CASE("Slivers between members are filled, holes of members stay", "[overlay]") {
	// The same border, computed twice: its middle differs by three units in the last place
	const double off = 3 * std::ldexp(1.0, -45);
	const auto x = FormatNumber(100 + off);
	REQUIRE(Union({"POLYGON ((90 0, 100 0, 100 2, 100 5, 100 8, 100 10, 90 10, 90 0))",
	               "POLYGON ((100 0, 110 0, 110 10, 100 10, 100 8, " + x + " 5, 100 2, 100 0))"}) ==
	        "POLYGON ((90 0, 100 0, 110 0, 110 10, 100 10, 90 10, 90 0))");
	const auto thin = "POLYGON ((90 0, 110 0, 110 10, 90 10, 90 0), (100 1, 100 9, " + x + " 5, 100 1))";
	REQUIRE(Union({thin, "POLYGON ((110 0, 120 0, 120 10, 110 10, 110 0))"}) ==
	        "POLYGON ((90 0, 110 0, 120 0, 120 10, 110 10, 90 10, 90 0), (100 1, 100 9, " + x + " 5, 100 1))");
}

TEST_CASE("Coordinates of all sizes", "[overlay]") {
	for (double size : {1e-300, 1e-100, 1e100, 1e300}) {
		CAPTURE(size);
		const Vec2 left[] = {{0, 0}, {2 * size, 0}, {2 * size, 2 * size}, {0, 2 * size}};
		const Vec2 right[] = {{size, size}, {3 * size, size}, {3 * size, 3 * size}, {size, 3 * size}};
		Overlay overlay;
		overlay.AddRing(Overlay::LEFT, left, 4);
		overlay.AddRing(Overlay::RIGHT, right, 4);
		GeometryBatch out;
		Serial serial;
		overlay.Run(Rule(OverlayOp::INTERSECTION), serial, out);
		REQUIRE(out.x == CountedVector<double> {size, 2 * size, 2 * size, size, size});
		REQUIRE(out.y == CountedVector<double> {size, size, 2 * size, 2 * size, size});
	}
}

//===----------------------------------------------------------------------===//
// Random input: valid, the same in any order and on any number of threads, and with the areas that add up
//===----------------------------------------------------------------------===//
using Ring = std::vector<Vec2>;

//! A star around a centre: simple, of any shape
static Ring Star(std::mt19937_64 &random, double x, double y, double size, int grid) {
	std::uniform_real_distribution<double> unit(0.2, 1);
	Ring ring;
	const int count = 3 + int(random() % 12);
	for (int i = 0; i < count; i++) {
		const double angle = 6.283185307179586 * i / count, radius = size * unit(random);
		Vec2 p {x + radius * std::cos(angle), y + radius * std::sin(angle)};
		if (grid > 0) {
			p = Vec2 {std::nearbyint(p.x * grid) / grid, std::nearbyint(p.y * grid) / grid};
		}
		ring.push_back(p);
	}
	return ring;
}

TEST_CASE("Rings that are next to nothing beside others end, whatever becomes of them", "[overlay]") {
	std::mt19937_64 random(14);
	const Ring large {{-1, -1}, {2, -1}, {2, 2}, {-1, 2}};
	Serial serial;
	for (double size : {1e-323, 1e-320, 1e-305, 1e-200, 1e-160, 1e-100}) {
		for (int i = 0; i < 20; i++) {
			CAPTURE(size, i);
			Ring tiny;
			for (int k = 0; k < 30; k++) {
				tiny.push_back(Vec2 {size * double(random() % 1000) / 100, size * double(random() % 1000) / 100});
			}
			for (auto op :
			     {OverlayOp::INTERSECTION, OverlayOp::UNION, OverlayOp::DIFFERENCE, OverlayOp::SYM_DIFFERENCE}) {
				for (auto side : {Overlay::LEFT, Overlay::RIGHT}) {
					Overlay overlay;
					overlay.AddRing(side, tiny.data(), tiny.size());
					overlay.AddRing(side == Overlay::LEFT ? Overlay::RIGHT : Overlay::LEFT, large.data(), large.size());
					const bool is_large =
					    op != OverlayOp::INTERSECTION && (op != OverlayOp::DIFFERENCE || side == Overlay::RIGHT);
					REQUIRE(RunArea(overlay, op) == Approx(is_large ? 9 : 0).margin(1e-150));
				}
			}
		}
	}
}

static void AddPolygon(GeometryBatch &batch, const Ring &ring, size_t first, bool reversed) {
	batch.BeginRow(GeometryType::POLYGON, VERTEX_XY);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	batch.BeginRing();
	const auto n = ring.size();
	for (size_t i = 0; i <= n; i++) {
		const auto at = (first + (reversed ? n - i % n : i)) % n;
		batch.AddVertex(ring[at].x, ring[at].y, 0, 0);
	}
	batch.EndRow();
}

static GeometryBatch UnionOf(const std::vector<Ring> &rings, std::mt19937_64 &random, Parallel &parallel) {
	std::vector<size_t> order(rings.size());
	for (size_t i = 0; i < order.size(); i++) {
		order[i] = i;
	}
	std::shuffle(order.begin(), order.end(), random);
	GeometryBatch batch, out;
	Overlay overlay;
	for (auto i : order) {
		AddPolygon(batch, rings[i], random() % rings[i].size(), random() % 2 == 0);
		overlay.Add(Overlay::LEFT, batch, batch.RowCount() - 1);
	}
	overlay.Run(OverlayRule(), parallel, out);
	return out;
}

TEST_CASE("Random unions", "[overlay]") {
	std::mt19937_64 random(7);
	Serial serial;
	ThreeThreads threads;
	for (int round = 0; round < 300; round++) {
		CAPTURE(round);
		std::uniform_real_distribution<double> place(0, 10);
		// Anywhere, on a coarse grid, or copies that are off by a few units in the last place, far from the origin
		const int kind = round % 3;
		std::vector<Ring> rings;
		const int members = 1 + int(random() % 12);
		for (int i = 0; i < members; i++) {
			if (kind == 2 && i > 0 && random() % 2) {
				rings.push_back(rings[random() % rings.size()]);
				for (auto &p : rings.back()) {
					p.x += double(int(random() % 5) - 2) * 0x1p-33;
					p.y += double(int(random() % 5) - 2) * 0x1p-33;
				}
			} else {
				rings.push_back(
				    Star(random, place(random) + (kind == 2 ? 1e6 : 0), place(random), 5, kind == 1 ? 1 : 0));
			}
		}
		const auto one = UnionOf(rings, random, serial), other = UnionOf(rings, random, threads);
		REQUIRE(IsValid(one, 0));
		REQUIRE(WriteWkb(one, 0) == WriteWkb(other, 0));
		// A + B = A or B + A and B; A without B = A or B without B
		if (rings.size() < 2) {
			continue;
		}
		GeometryBatch batch;
		AddPolygon(batch, rings[0], 0, false);
		AddPolygon(batch, rings[1], 0, false);
		double areas[4];
		for (auto op : {OverlayOp::INTERSECTION, OverlayOp::UNION, OverlayOp::DIFFERENCE, OverlayOp::SYM_DIFFERENCE}) {
			Overlay overlay;
			overlay.Add(Overlay::LEFT, batch, 0);
			overlay.Add(Overlay::RIGHT, batch, 1);
			areas[size_t(op)] = RunArea(overlay, op);
		}
		Overlay alone;
		alone.Add(Overlay::LEFT, batch, 0);
		const double left = RunArea(alone, OverlayOp::UNION);
		REQUIRE(areas[2] + areas[0] == Approx(left).margin(kind == 2 ? 1e-2 : 1e-6));
		REQUIRE(areas[1] - areas[0] == Approx(areas[3]).margin(kind == 2 ? 1e-2 : 1e-6));
	}
}

TEST_CASE("Rings whose coordinates are of any size", "[overlay]") {
	std::mt19937_64 random(21);
	Serial serial;
	for (int round = 0; round < 2000; round++) {
		CAPTURE(round);
		// One size, or sizes from the least numbers to the largest, of which some share most digits
		const int least = round % 2 ? -1074 : int(random() % 2000) - 1060, most = round % 2 ? 1000 : least + 80;
		const auto coordinate = [&]() {
			const auto digits = random() % 3 == 0 ? 1.0 : double(1 + random() % 1000) / 7;
			const int exponent = std::min(1000, least + int(random() % (1 + most - least) / 16 * 16));
			return random() % 8 == 0 ? 0.0 : std::ldexp(random() % 2 ? digits : -digits, exponent);
		};
		std::vector<Ring> rings(2);
		for (auto &ring : rings) {
			for (auto i = 3 + random() % 6; i > 0; i--) {
				const auto x = coordinate();
				ring.push_back(Vec2 {x, coordinate()});
			}
		}
		const auto one = UnionOf(rings, random, serial), other = UnionOf(rings, random, serial);
		REQUIRE(IsValid(one, 0));
		REQUIRE(WriteWkb(one, 0) == WriteWkb(other, 0));
	}
}

TEST_CASE("A union in parts is a union", "[overlay]") {
	// Enough vertices for parts; overlapping stars, and tiles of a coverage whose borders vanish
	std::mt19937_64 random(3);
	std::uniform_real_distribution<double> place(0, 100);
	Serial serial;
	ThreeThreads threads;
	std::vector<Ring> rings;
	rings.reserve(8000);
	for (int i = 0; i < 8000; i++) {
		rings.push_back(Star(random, place(random), place(random), 1, 0));
	}
	const auto one = UnionOf(rings, random, serial), other = UnionOf(rings, random, threads);
	REQUIRE(IsValid(one, 0));
	REQUIRE(WriteWkb(one, 0) == WriteWkb(other, 0));
	// A line on the right side keeps it in one piece: the same area
	Overlay overlay;
	GeometryBatch batch;
	for (auto &ring : rings) {
		AddPolygon(batch, ring, 0, false);
		overlay.Add(Overlay::LEFT, batch, batch.RowCount() - 1);
	}
	const Vec2 line[] = {{-5, -5}, {-6, -6}};
	overlay.AddLine(Overlay::RIGHT, line, 2);
	REQUIRE(Area(one) == Approx(RunArea(overlay, OverlayOp::UNION)).epsilon(1e-12));

	rings.clear();
	for (int x = 0; x < 100; x++) {
		for (int y = 0; y < 100; y++) {
			// A vertex more on one side of some borders
			Ring ring {{double(x), double(y)}, {x + 1.0, double(y)}, {x + 1.0, y + 1.0}, {double(x), y + 1.0}};
			if ((x + y) % 3 == 0) {
				ring.insert(ring.begin() + 1, Vec2 {x + 0.5, double(y)});
			}
			rings.push_back(ring);
		}
	}
	const auto square = UnionOf(rings, random, threads);
	REQUIRE(square.RowCount() == 1);
	REQUIRE(square.ring_start.size() == 2);
	REQUIRE(Area(square) == 10000);
}

//! Closed rings through points of a small lattice, as edges with their weights
static OverlayEdges LatticeRings(std::mt19937_64 &random, double origin, double step, uint32_t size, int rings) {
	OverlayEdges net;
	for (int i = 0; i < rings; i++) {
		Vec2 ring[5];
		for (auto &p : ring) {
			p = Vec2 {origin + step * double(random() % size), origin + step * double(random() % size)};
		}
		for (int k = 0; k < 5; k++) {
			const auto &p = ring[k], &q = ring[(k + 1) % 5];
			const bool forward = vibe::LexicographicLess(p, q);
			if (p != q) {
				net.edges.push_back(OverlayEdge {forward ? p : q, forward ? q : p, {forward ? 1 : -1, 0}, 0, 0});
			}
		}
	}
	Serial serial;
	net.Settle(serial);
	return net;
}

static size_t Meetings(const OverlayEdges &net) {
	size_t found = 0;
	for (size_t i = 0; i < net.edges.size(); i++) {
		for (size_t k = 0; k < i; k++) {
			found += vibe::MeetInside(net.edges[k], net.edges[i]);
		}
	}
	return found;
}

static int32_t Heaviest(const OverlayEdges &net) {
	int32_t heaviest = 0;
	for (auto &edge : net.edges) {
		heaviest = std::max(heaviest, std::abs(edge.rise[0]));
	}
	return heaviest;
}

TEST_CASE("Edges in runs settle to those whose weights do not cancel out", "[overlay]") {
	std::mt19937_64 random(13);
	ThreeThreads threads;
	// Wide and narrow, down to edges that all begin in one column, and few as well as many
	for (uint32_t width : {3000, 40, 1}) {
		for (size_t count : {0, 1, 300, 60000}) {
			std::map<std::array<double, 4>, std::pair<int32_t, std::set<uint32_t>>> expected;
			std::vector<EdgeRuns> pieces;
			for (size_t left = count; left > 0;) {
				if (pieces.empty() || random() % 4 == 0) {
					pieces.emplace_back();
				}
				std::vector<EdgeRuns::Edge> run(std::min<size_t>(left, 1 + random() % 5000));
				left -= run.size();
				for (auto &edge : run) {
					const double x = random() % width, y = random() % 50;
					edge = EdgeRuns::Edge {
					    {x, y}, {x + 1, double(random() % 3)}, random() % 2 ? 1 : -1, uint32_t(random() % 3)};
					auto &sum = expected[{edge.a.x, edge.a.y, edge.b.x, edge.b.y}];
					sum.first += edge.rise;
					sum.second.insert(edge.polygon);
				}
				std::sort(run.begin(), run.end(), EdgeBefore());
				auto &piece = pieces.back();
				piece.edges.insert(piece.edges.end(), run.begin(), run.end());
				piece.ends.push_back(piece.edges.size());
			}
			OverlayEdges net;
			net.Settle(pieces, threads);
			size_t at = 0;
			for (auto &entry : expected) {
				if (entry.second.first == 0) {
					continue;
				}
				REQUIRE(at < net.edges.size());
				const auto &edge = net.edges[at++];
				const auto &polygons = entry.second.second;
				REQUIRE(entry.first == std::array<double, 4> {edge.a.x, edge.a.y, edge.b.x, edge.b.y});
				REQUIRE(edge.rise[0] == entry.second.first);
				REQUIRE(edge.polygon == (polygons.size() == 1 ? *polygons.begin() : OverlayEdge::NO_POLYGON));
			}
			REQUIRE(at == net.edges.size());
			for (auto &piece : pieces) {
				REQUIRE(piece.edges.capacity() == 0);
			}
		}
	}
}

TEST_CASE("Edges are split the same in any number of steps", "[overlay]") {
	std::mt19937_64 random(14);
	std::uniform_real_distribution<double> unit(0, 1);
	Serial serial;
	ThreeThreads threads;
	OverlayEdges one;
	for (uint32_t i = 0; i < 4000; i++) {
		// Some of them as wide as many steps
		const double x = unit(random), y = unit(random), w = i % 500 == 0 ? 0.7 : 0.01, h = 0.01;
		const Vec2 left {x - w, y}, low {x, y - h}, right {x + w, y}, high {x, y + h};
		for (auto &edge : {OverlayEdge {left, low, {1, 0}, i, 0}, OverlayEdge {low, right, {1, 0}, i, 0},
		                   OverlayEdge {high, right, {-1, 0}, i, 0}, OverlayEdge {left, high, {-1, 0}, i, 0}}) {
			one.edges.push_back(edge);
		}
	}
	one.Settle(serial);
	const auto whole = one.edges.size();
	auto other = one;
	for (auto &tolerance :
	     {OverlayEdges::Tolerance {}, OverlayEdges::Tolerance {0x1p-49, 0}, OverlayEdges::Tolerance {0, 0x1p-40}}) {
		one.Split(tolerance, serial);
		other.Split(tolerance, threads);
		REQUIRE(one.edges.size() > whole);
		REQUIRE(one.edges.size() == other.edges.size());
		REQUIRE(std::equal(one.edges.begin(), one.edges.end(), other.edges.begin(),
		                   [](const OverlayEdge &l, const OverlayEdge &r) {
			                   return l.a == r.a && l.b == r.b && l.rise[0] == r.rise[0] && l.polygon == r.polygon;
		                   }));
	}
	// No two of them meet but in their ends
	OverlaySweep sweep;
	REQUIRE(sweep.Run(one, {}, OverlayRule(), serial));
}

TEST_CASE("Edges that go to a grid come to an end", "[overlay]") {
	Serial serial;
	std::mt19937_64 random(11);
	for (int i = 0; i < 300; i++) {
		// On the grid itself, where diagonals cross in the corners of its squares, and off it
		const bool off = i % 2 == 1;
		auto net = LatticeRings(random, 0, off ? 0.3 : 1, off ? 12 : 2 + i % 4, 2 + i % 7);
		const OverlayEdges::Tolerance tolerance {0, 1};
		for (int round = 0; round < 4; round++) {
			net.Split(tolerance, serial);
		}
		REQUIRE(Meetings(net) == 0);
		const auto settled = net.edges.size();
		net.Split(tolerance, serial);
		REQUIRE(net.edges.size() == settled);
		REQUIRE(Heaviest(net) < 40);
	}
}

TEST_CASE("Edges that go to near ends do not grow", "[overlay]") {
	Serial serial;
	std::mt19937_64 random(12);
	for (int i = 0; i < 100; i++) {
		auto net = LatticeRings(random, 1, std::ldexp(1.0, -52), 4 + i % 9, 3 + i % 12);
		for (int round = 0; round < 24; round++) {
			net.Split(OverlayEdges::Tolerance {std::ldexp(1.0, 2 * (round / 8) - 51), 0}, serial);
		}
		REQUIRE(Meetings(net) == 0);
		REQUIRE(Heaviest(net) < 200);
	}
}

TEST_CASE("What lies in a hole that is filled goes with it", "[overlay]") {
	// Two squares leave a gap of 1e-13 between them; a third polygon lies in it and touches neither
	const auto square = [](const char *x0, const char *x1) {
		return std::string("POLYGON ((") + x0 + " 0, " + x1 + " 0, " + x1 + " 1, " + x0 + " 1, " + x0 + " 0))";
	};
	const auto frame = "MULTIPOLYGON (((-1 -1, 3 -1, 3 0, -1 0, -1 -1)), ((-1 1, 3 1, 3 2, -1 2, -1 1)))";
	const auto left = square("-1", "1"), right = square("1.0000000000001", "3");
	const auto island =
	    "POLYGON ((1.00000000000003 0.4, 1.00000000000007 0.4, 1.00000000000005 0.6, 1.00000000000003 0.4))";
	const auto filled = Union({frame, left, right});
	REQUIRE(filled.find("), (") == std::string::npos);
	REQUIRE(Union({frame, left, right, island}) == filled);
	REQUIRE(Union({frame, left, square("1.1", "3"), island}).find("), (") != std::string::npos);
}

TEST_CASE("Overlays of edges that all but coincide", "[overlay]") {
	// Buffers that hide their input in the last digits: corners of the same circle, over and over
	std::mt19937_64 random(13);
	for (int i = 0; i < 20; i++) {
		Overlay overlay;
		Ring circle;
		for (int k = 0; k < 40; k++) {
			const double angle = k * 0.15707963267948966;
			circle.push_back(Vec2 {std::cos(angle), std::sin(angle)});
		}
		for (int copy = 0; copy < 30; copy++) {
			auto ring = circle;
			for (auto &p : ring) {
				p.x += std::ldexp(double(random() % 9), -53);
				p.y += std::ldexp(double(random() % 9), -53);
			}
			overlay.AddRing(Overlay::LEFT, ring.data(), ring.size());
		}
		Serial serial;
		GeometryBatch out;
		overlay.Run(OverlayRule(), serial, out);
		REQUIRE(IsValid(out, 0));
		REQUIRE(Area(out) == Approx(20 * std::sin(0.15707963267948966)));
	}
}

//! The union of geometries that are read and written as WKB by several threads; nothing where they cannot be read so
static std::string UnionInWkb(const std::vector<std::string> &texts) {
	std::vector<std::string> wkb;
	std::vector<WkbSlice> slices;
	wkb.reserve(texts.size());
	slices.reserve(texts.size());
	for (auto &text : texts) {
		wkb.push_back(WriteWkb(WktRow(text).batch, WktRow::ROW));
	}
	for (auto &one : wkb) {
		slices.push_back(WkbSlice {reinterpret_cast<const uint8_t *>(one.data()), one.size()});
	}
	ThreeThreads threads;
	Overlay overlay;
	if (!overlay.AddPolygons(Overlay::LEFT, slices.data(), slices.size(), threads)) {
		// As if nothing had been there
		REQUIRE(Run(overlay, OverlayRule()) == "GEOMETRYCOLLECTION EMPTY");
		return "";
	}
	std::string out;
	overlay.Run(OverlayRule(), threads, [&](size_t size) {
		out.resize(size);
		return reinterpret_cast<uint8_t *>(&out[0]);
	});
	GeometryBatch batch;
	ReadWkb(reinterpret_cast<const uint8_t *>(out.data()), out.size(), batch);
	REQUIRE(WriteWkb(batch, 0) == out);
	return WriteWkt(batch, 0);
}

TEST_CASE("Polygons are read and written as WKB by several threads", "[overlay]") {
	const std::string square = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
	                  frame = "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 1 8, 8 8, 8 1, 1 1))";
	const std::vector<std::vector<std::string>> all {
	    {square},
	    {square, "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))", "POLYGON ((20 0, 21 0, 21 1, 20 0))"},
	    {frame, "POLYGON ((3 3, 5 3, 5 5, 3 5, 3 3))", "POLYGON ((10 0, 11 0, 11 1, 10 0))",
	     "POLYGON ((9 9, 10 9, 10 10, 9 9))"},
	    {"POLYGON Z ((0 0 1, 4 0 2, 4 4 3, 0 0 1))", "POLYGON M ((0 0 1, 0 4 2, 4 4 3, 0 0 1))"},
	    {"POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))", square},
	    {"POLYGON EMPTY", square, "MULTIPOLYGON EMPTY"},
	    {"POLYGON EMPTY"},
	    {"POLYGON ((0 0, 1e300 0, 1e300 1e300, 0 0))", square},
	    {"POLYGON ((0 0, 1 1, 2 2, 0 0))"},
	};
	for (auto &texts : all) {
		CHECK(UnionInWkb(texts) == Union(texts));
	}
	// Members by themselves, which overlap
	CHECK(UnionInWkb({"MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0)), ((2 2, 6 2, 6 6, 2 6, 2 2)))", square}) ==
	      Union({square, "POLYGON ((2 2, 6 2, 6 6, 2 6, 2 2))"}));
	std::vector<std::string> many;
	for (int i = 0; i < 300; i++) {
		const auto first = std::to_string(i * 7 % 40) + " " + std::to_string(i * 11 % 50);
		std::string text = "POLYGON ((";
		for (auto corner : {first.c_str(), ", 41 0", ", 41 51, ", first.c_str()}) {
			text += corner;
		}
		many.push_back(text + "))");
	}
	CHECK(UnionInWkb(many) == Union(many));
	// These have to be read one by one
	for (auto other : {"POINT (1 1)", "LINESTRING (0 0, 1 1)", "GEOMETRYCOLLECTION (POLYGON ((0 0, 1 0, 1 1, 0 0)))",
	                   "POLYGON ((0 0, 1 0, 1 1, 0 1))", "POLYGON ((0 0, 1 0, 0 0))",
	                   "POLYGON ((0 0, 1 0, nan 1, 0 0))", "POLYGON ((0 0, 1 0, inf 1, 0 0))"}) {
		CHECK(UnionInWkb({square, other}).empty());
		CHECK(UnionInWkb({other, square, square}).empty());
	}
}
