#include "catch.hpp"

#include "engine/constructive/buffer.hpp"
#include "engine/measure/measure.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/error.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <limits>
#include <random>

using namespace vibespatial;
using namespace wkt_test;

namespace {

GeometryBatch BufferOf(const std::string &text, double distance, const BufferStyle &style = BufferStyle()) {
	const WktRow input(text);
	Overlay overlay;
	Serial serial;
	GeometryBatch out;
	Buffer(input.batch, WktRow::ROW, distance, style, overlay, serial, out);
	REQUIRE(out.RowCount() == 1);
	REQUIRE(ValidityReason(out, 0) == "Valid Geometry");
	return out;
}

std::string Buffered(const std::string &text, double distance, const BufferStyle &style = BufferStyle()) {
	return WriteWkt(BufferOf(text, distance, style), 0);
}

double BufferArea(const std::string &text, double distance, const BufferStyle &style = BufferStyle()) {
	const auto out = BufferOf(text, distance, style);
	return Area(out.View(0));
}

BufferStyle Style(int32_t quad_segs, BufferCap cap = BufferCap::ROUND, BufferJoin join = BufferJoin::ROUND,
                  double mitre_limit = 5) {
	BufferStyle style;
	style.quad_segs = quad_segs;
	style.cap = cap;
	style.join = join;
	style.mitre_limit = mitre_limit;
	return style;
}

const double PI = std::acos(-1.0);

//! The area of a circle of radius 1 drawn with so many segments a quarter
double CircleArea(int quad_segs) {
	return 2 * quad_segs * std::sin(PI / 2 / quad_segs);
}

} // namespace

TEST_CASE("Buffers of points", "[buffer]") {
	REQUIRE(Buffered("POINT (1 2)", 1, Style(1)) == "POLYGON ((0 2, 1 1, 2 2, 1 3, 0 2))");
	REQUIRE(Buffered("POINT (1 2)", 1, Style(0)) == "POLYGON ((0 2, 1 1, 2 2, 1 3, 0 2))");
	REQUIRE(Buffered("POINT (1 2)", 1, Style(8, BufferCap::SQUARE)) == "POLYGON ((0 1, 2 1, 2 3, 0 3, 0 1))");
	REQUIRE(Buffered("POINT (1 2)", 1, Style(8, BufferCap::FLAT)) == "POLYGON EMPTY");
	REQUIRE(Buffered("MULTIPOINT (0 0, 5 0)", 1, Style(1)) ==
	        "MULTIPOLYGON (((-1 0, 0 -1, 1 0, 0 1, -1 0)), ((4 0, 5 -1, 6 0, 5 1, 4 0)))");
	REQUIRE(Buffered("MULTIPOINT (0 0, 1 0, 0 0)", 1, Style(1)) ==
	        "POLYGON ((-1 0, 0 -1, 0.5 -0.5, 1 -1, 2 0, 1 1, 0.5 0.5, 0 1, -1 0))");
	for (int quad_segs : {1, 2, 3, 8, 64}) {
		REQUIRE(BufferArea("POINT (3 -4)", 2, Style(quad_segs)) == Approx(4 * CircleArea(quad_segs)).epsilon(1e-13));
	}
}

TEST_CASE("Circles are symmetric to the last bit", "[buffer]") {
	const auto out = BufferOf("POINT (0 0)", 3);
	REQUIRE(out.x.size() == 33);
	for (size_t i = 0; i < 32; i++) {
		REQUIRE(out.x[i] == out.x[(64 - i) % 32]);
		REQUIRE(out.y[i] == -out.y[(64 - i) % 32]);
		REQUIRE(out.x[i] == -out.x[(i + 16) % 32]);
	}
}

TEST_CASE("Ends of lines", "[buffer]") {
	REQUIRE(Buffered("LINESTRING (0 0, 4 0)", 1, Style(1)) == "POLYGON ((-1 0, 0 -1, 4 -1, 5 0, 4 1, 0 1, -1 0))");
	REQUIRE(Buffered("LINESTRING (0 0, 4 0)", 1, Style(1, BufferCap::FLAT)) ==
	        "POLYGON ((0 -1, 4 -1, 4 1, 0 1, 0 -1))");
	REQUIRE(Buffered("LINESTRING (0 0, 4 0)", 1, Style(1, BufferCap::SQUARE)) ==
	        "POLYGON ((-1 -1, 5 -1, 5 1, -1 1, -1 -1))");
	REQUIRE(Buffered("LINESTRING (1 2, 1 2)", 1, Style(1)) == Buffered("POINT (1 2)", 1, Style(1)));
	REQUIRE(Buffered("LINESTRING (0 0, 0 0, 2 0, 4 0, 4 0)", 1) == Buffered("LINESTRING (0 0, 4 0)", 1));
	// a line that turns back is round there; flat ends stay inside
	REQUIRE(BufferArea("LINESTRING (0 0, 4 0, 2 0)", 1, Style(8, BufferCap::FLAT)) == Approx(8 + CircleArea(8) / 2));
	REQUIRE(BufferArea("LINESTRING (0 0, 4 0, 0 0)", 1, Style(8, BufferCap::FLAT)) == Approx(8 + CircleArea(8) / 2));
	REQUIRE(BufferArea("LINESTRING (0 0, 4 0, 2 0)", 1, Style(8, BufferCap::FLAT, BufferJoin::BEVEL)) == Approx(8));
}

TEST_CASE("Closed lines have no ends", "[buffer]") {
	const auto mitre = Style(8, BufferCap::FLAT, BufferJoin::MITRE);
	REQUIRE(Buffered("LINESTRING (0 0, 4 0, 4 4, 0 4, 0 0)", 1, mitre) ==
	        "POLYGON ((-1 -1, 5 -1, 5 5, -1 5, -1 -1), (1 1, 1 3, 3 3, 3 1, 1 1))");
	REQUIRE(Buffered("LINESTRING (0 0, 4 0, 4 4, 0 4, 0 0)", 3, mitre) == "POLYGON ((-3 -3, 7 -3, 7 7, -3 7, -3 -3))");
}

TEST_CASE("Corners", "[buffer]") {
	const std::string square = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))";
	REQUIRE(BufferArea(square, 1) == Approx(32 + CircleArea(8)));
	REQUIRE(Buffered(square, 1, Style(1)) == "POLYGON ((-1 0, 0 -1, 4 -1, 5 0, 5 4, 4 5, 0 5, -1 4, -1 0))");
	REQUIRE(Buffered(square, 1, Style(8, BufferCap::ROUND, BufferJoin::BEVEL)) == Buffered(square, 1, Style(1)));
	REQUIRE(Buffered(square, 1, Style(8, BufferCap::ROUND, BufferJoin::MITRE)) ==
	        "POLYGON ((-1 -1, 5 -1, 5 5, -1 5, -1 -1))");
	// a mitre of sqrt(2) is cut off at the limit, square to the corner, and never inside of the bevel
	const auto cut = [&](double limit) {
		return BufferArea(square, 1, Style(8, BufferCap::ROUND, BufferJoin::MITRE, limit));
	};
	REQUIRE(cut(1.5) == Approx(36));
	REQUIRE(cut(1) == Approx(36 - 4 * std::pow(std::sqrt(2.0) - 1, 2)));
	REQUIRE(cut(0.5) == Approx(34));
	REQUIRE(cut(0) == Approx(34));
	REQUIRE(cut(-1) == Approx(34));
}

TEST_CASE("Holes shrink and vanish", "[buffer]") {
	const auto mitre = Style(8, BufferCap::ROUND, BufferJoin::MITRE);
	const std::string frame = "POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (3 3, 6 3, 6 6, 3 6, 3 3))";
	REQUIRE(Buffered(frame, 1, mitre) == "POLYGON ((-1 -1, 10 -1, 10 10, -1 10, -1 -1), (4 4, 4 5, 5 5, 5 4, 4 4))");
	REQUIRE(Buffered(frame, 1.5, mitre) == "POLYGON ((-1.5 -1.5, 10.5 -1.5, 10.5 10.5, -1.5 10.5, -1.5 -1.5))");
	REQUIRE(Buffered(frame, 7, mitre) == "POLYGON ((-7 -7, 16 -7, 16 16, -7 16, -7 -7))");
}

TEST_CASE("Negative distances take a margin off polygons", "[buffer]") {
	REQUIRE(Buffered("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))", -1) == "POLYGON ((1 1, 8 1, 8 8, 1 8, 1 1))");
	REQUIRE(Buffered("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))", -4.5) == "POLYGON EMPTY");
	REQUIRE(Buffered("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0))", -50) == "POLYGON EMPTY");
	REQUIRE(Buffered("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (4 4, 5 4, 5 5, 4 5, 4 4))", -3.5) == "POLYGON EMPTY");
	// two rooms and a corridor that is too narrow
	REQUIRE(Buffered("POLYGON ((0 0, 4 0, 4 1, 8 1, 8 0, 12 0, 12 4, 8 4, 8 2, 4 2, 4 4, 0 4, 0 0))", -1,
	                 Style(8, BufferCap::ROUND, BufferJoin::MITRE)) ==
	        "MULTIPOLYGON (((1 1, 3 1, 3 2, 3 3, 1 3, 1 1)), ((9 1, 11 1, 11 3, 9 3, 9 2, 9 1)))");
	// what the thin one loses beyond itself is not taken from its neighbour
	REQUIRE(Buffered("MULTIPOLYGON (((0 0, 1 0, 1 9, 0 9, 0 0)), ((1 0, 9 0, 9 9, 1 9, 1 0)))", -2) ==
	        "POLYGON ((3 2, 7 2, 7 7, 3 7, 3 2))");
	for (auto flat : {"POINT (1 2)", "LINESTRING (0 0, 4 0)", "LINESTRING (0 0, 4 0, 4 4, 0 0)"}) {
		REQUIRE(Buffered(flat, -1) == "POLYGON EMPTY");
	}
}

TEST_CASE("A margin wider than the polygon leaves nothing, at once", "[buffer]") {
	// A comb: every tooth would meet every other
	std::string comb = "((0 0";
	for (int i = 0; i < 10000; i++) {
		comb += ", " + std::to_string(i) + " 1, " + std::to_string(i) + ".5 0.5";
	}
	comb += ", 10000 0, 0 0))";
	REQUIRE(Buffered("POLYGON " + comb, -100) == "POLYGON EMPTY");
	REQUIRE(Buffered("POLYGON EMPTY", -1) == "POLYGON EMPTY");
	const std::string square = "((0 10, 8 10, 8 18, 0 18, 0 10))";
	REQUIRE(Buffered("MULTIPOLYGON (" + square + ", " + comb + ")", -3) == "POLYGON ((3 13, 5 13, 5 15, 3 15, 3 13))");
	// Drawn with few segments, round corners come nearer than their distance
	for (auto segments : {1, 2, 8}) {
		const double width = 4;
		for (double distance = 0.1; distance < 20; distance *= 1.1) {
			const double left = std::max(0.0, width - 2 * distance);
			REQUIRE(BufferArea("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", -distance, Style(segments)) ==
			        Approx(left * left));
		}
	}
}

TEST_CASE("Distance 0 gives the polygons", "[buffer]") {
	REQUIRE(Buffered("POLYGON ((0 0, 0 4, 4 4, 4 2, 4 0, 0 0))", 0) == "POLYGON ((0 0, 4 0, 4 2, 4 4, 0 4, 0 0))");
	REQUIRE(Buffered("MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2, 0 0)), ((1 0, 3 0, 3 2, 1 2, 1 0)))", 0) ==
	        "POLYGON ((0 0, 1 0, 2 0, 3 0, 3 2, 2 2, 1 2, 0 2, 0 0))");
	REQUIRE(Buffered("POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))", 0) ==
	        "MULTIPOLYGON (((0 0, 2 2, 0 4, 0 0)), ((2 2, 4 0, 4 4, 2 2)))");
	for (auto flat : {"POINT (1 2)", "LINESTRING (0 0, 4 0)", "POINT EMPTY", "GEOMETRYCOLLECTION EMPTY"}) {
		REQUIRE(Buffered(flat, 0) == "POLYGON EMPTY");
	}
}

TEST_CASE("All parts of a collection at once", "[buffer]") {
	REQUIRE(Buffered("GEOMETRYCOLLECTION (POINT (0 0), LINESTRING (10 0, 14 0), POLYGON EMPTY)", 1, Style(1)) ==
	        "MULTIPOLYGON (((-1 0, 0 -1, 1 0, 0 1, -1 0)), ((9 0, 10 -1, 14 -1, 15 0, 14 1, 10 1, 9 0)))");
	for (auto empty : {"POINT EMPTY", "MULTILINESTRING (EMPTY)", "POLYGON Z EMPTY", "GEOMETRYCOLLECTION EMPTY"}) {
		REQUIRE(Buffered(empty, 1) == "POLYGON EMPTY");
	}
}

TEST_CASE("Polygons that are not valid are mended first", "[buffer]") {
	// a line there and back, a point, a spike
	REQUIRE(Buffered("POLYGON ((0 0, 4 0, 4 0, 0 0))", 1) == Buffered("LINESTRING (0 0, 4 0)", 1));
	REQUIRE(Buffered("POLYGON ((1 2, 1 2, 1 2, 1 2))", 1) == Buffered("POINT (1 2)", 1));
	REQUIRE(BufferArea("POLYGON ((0 0, 4 0, 4 4, 8 4, 4 4, 0 4, 0 0))", 1) ==
	        Approx(BufferArea("GEOMETRYCOLLECTION (POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0)), LINESTRING (4 4, 8 4))", 1)));
	REQUIRE(BufferArea("POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))", 1) ==
	        Approx(BufferArea("MULTIPOLYGON (((0 0, 2 2, 0 4, 0 0)), ((4 0, 4 4, 2 2, 4 0)))", 1)));
}

TEST_CASE("A convex buffer has the form that the overlay gives", "[buffer]") {
	for (auto text : {"POINT (1 2)", "LINESTRING (0 0, 3 5)", "POLYGON ((0 0, 7 1, 9 5, 2 8, 0 0))"}) {
		const auto direct = BufferOf(text, 1);
		Overlay overlay;
		Serial serial;
		GeometryBatch out;
		OverlayRule rule;
		overlay.Add(Overlay::LEFT, direct, 0);
		overlay.Run(rule, serial, out);
		REQUIRE(WriteWkt(out, 0) == WriteWkt(direct, 0));
	}
}

TEST_CASE("Extreme sizes", "[buffer]") {
	REQUIRE(Buffered("POINT (1 2)", 1e-300) == "POLYGON EMPTY");
	REQUIRE(Buffered("LINESTRING (1 2, 3 4)", 1e-300) == "POLYGON EMPTY");
	REQUIRE(Buffered("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))", 1e-300, Style(1)).substr(0, 9) == "POLYGON (");
	REQUIRE(BufferArea("POLYGON ((1 1, 4 1, 4 4, 1 4, 1 1))", 1e-300) == 9);
	REQUIRE(BufferArea("LINESTRING (1e-300 0, 3e-300 0, 3e-300 4e-300)", 1) == Approx(CircleArea(8)));
	REQUIRE(BufferArea("LINESTRING (0 0, 1 0, 0 1, 5 5)", 1e100) == Approx(PI * 1e200).epsilon(0.01));
	REQUIRE(BufferArea("LINESTRING (-1e150 0, 1e150 0)", 1e149) > 0);
	// as small as the last digit of the coordinates
	for (double distance : {1e-10, 3e-10, 1e-9, 1e-8}) {
		BufferOf("LINESTRING (1000000.1 1000000.3, 1000000.2 1000000.7, 1000000.1 1000000.9)", distance);
		BufferOf("POLYGON ((1000000.1 1000000.3, 1000000.2 1000000.7, 1000000.1 1000000.9, 1000000.1 1000000.3))",
		         distance);
		BufferOf("POINT (1000000.1 1000000.3)", distance, Style(100));
	}
}

TEST_CASE("Buffers that cannot be", "[buffer]") {
	const auto infinite = std::numeric_limits<double>::infinity();
	REQUIRE_THROWS_AS(Buffered("POINT (1 2)", infinite), GeometryError);
	REQUIRE_THROWS_AS(Buffered("POINT (1 2)", std::nan("")), GeometryError);
	REQUIRE_THROWS_AS(Buffered("POINT (1 2)", 1, Style(65537)), GeometryError);
	REQUIRE_THROWS_AS(Buffered("POINT (1 2)", 1, Style(8, BufferCap::ROUND, BufferJoin::MITRE, std::nan(""))),
	                  GeometryError);
	REQUIRE_THROWS_AS(Buffered("POINT (1e308 2)", 1e308), GeometryError);
	REQUIRE_THROWS_AS(Buffered("LINESTRING (-1.7e308 0, 1.7e308 0)", 1), GeometryError);
	REQUIRE_THROWS_AS(Buffered("LINESTRING (0 0, nan 1)", 1), GeometryError);
	REQUIRE_THROWS_AS(Buffered("POLYGON ((0 0, 1 0, 1 1))", 1), GeometryError);
	GeometryBatch batch, out;
	Overlay overlay;
	Serial serial;
	batch.AppendNull();
	Buffer(batch, 0, 1, BufferStyle(), overlay, serial, out);
	REQUIRE(!out.valid[0]);
}

//! Points on either side of the border of random buffers, by their distance from the input
TEST_CASE("A buffer holds what is near and nothing else", "[buffer]") {
	std::mt19937 random(7);
	const auto coordinate = [&] { return int(random() % 10); };
	for (int round = 0; round < 200; round++) {
		std::string text = "LINESTRING (";
		std::vector<vibe::Vec2> line;
		for (int i = 0; i < 2 + int(random() % 8); i++) {
			line.push_back(vibe::Vec2 {double(coordinate()), double(coordinate())});
			text += (i ? ", " : "") + std::to_string(int(line[i].x)) + " " + std::to_string(int(line[i].y));
		}
		constexpr int QUAD_SEGS = 16;
		const double distance = (1 + random() % 30) / 10.0;
		const auto out = BufferOf(text + ")", distance, Style(QUAD_SEGS));
		for (int i = 0; i < 200; i++) {
			const vibe::Vec2 p {random() % 1600 / 100.0 - 3.005, random() % 1600 / 100.0 - 3.005};
			double nearest = 1e9;
			for (size_t k = 1; k < line.size(); k++) {
				const double dx = line[k].x - line[k - 1].x, dy = line[k].y - line[k - 1].y;
				const double square = dx * dx + dy * dy;
				const double along =
				    ((p.x - line[k - 1].x) * dx + (p.y - line[k - 1].y) * dy) / (square > 0 ? square : 1);
				const double t = std::min(1.0, std::max(0.0, along));
				nearest = std::min(nearest, std::hypot(p.x - line[k - 1].x - t * dx, p.y - line[k - 1].y - t * dy));
			}
			// within the circle or within its polygon; between them lies the border
			bool inside = false;
			for (size_t ring = 0; ring + 1 < out.ring_start.size(); ring++) {
				for (auto v = out.ring_start[ring]; v + 1 < out.ring_start[ring + 1]; v++) {
					const double ay = out.y[v], by = out.y[v + 1];
					if ((ay > p.y) != (by > p.y) &&
					    p.x < out.x[v] + (p.y - ay) / (by - ay) * (out.x[v + 1] - out.x[v])) {
						inside = !inside;
					}
				}
			}
			INFO(text << ") at " << p.x << " " << p.y);
			if (nearest > distance * (1 + 1e-9)) {
				REQUIRE(!inside);
			} else if (nearest < distance * std::cos(3 * PI / 8 / QUAD_SEGS) * (1 - 1e-9)) {
				REQUIRE(inside);
			}
		}
	}
}
