#include "engine/shape/shape.hpp"

#include "catch.hpp"

#include "engine/measure/distance.hpp"
#include "engine/relate/relate.hpp"
#include "geometry/wkb.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;

namespace {

std::string Bytes(const std::string &wkt) {
	GeometryBatch row;
	wkt_test::ReadWkt(wkt, row);
	return WriteWkb(row, 0);
}

const uint8_t *Data(const std::string &wkb) {
	return reinterpret_cast<const uint8_t *>(wkb.data());
}

void Build(Shape &shape, const std::string &wkt) {
	GeometryBatch row;
	wkt_test::ReadWkt(wkt, row);
	shape.Build(row.View(0));
}

std::string At(double x, double y) {
	return FormatNumber(x) + " " + FormatNumber(y);
}

//! Around a place; `rough` ones wind so much that they cross themselves
std::string Ring(std::mt19937 &random, int n, double x, double y, double size, bool rough) {
	std::uniform_real_distribution<double> radius(0.5, 1), turn(0, 2 * M_PI);
	const bool backward = random() % 2 == 0;
	std::string first, text;
	for (int i = 0; i < n; i++) {
		const double angle = rough ? turn(random) : (backward ? -2 : 2) * M_PI * i / n, r = size * radius(random);
		// On a raster, so that vertices meet edges and vertices repeat
		const auto vertex =
		    At(std::round((x + r * std::cos(angle)) * 2) / 2, std::round((y + r * std::sin(angle)) * 2) / 2);
		first = i == 0 ? vertex : first;
		text += vertex + ", ";
	}
	return "(" + text + first + ")";
}

std::string Area(std::mt19937 &random, bool rough) {
	std::uniform_real_distribution<double> place(-20, 20);
	if (random() % 2 == 0) {
		return "POLYGON (" + Ring(random, 100 + int(random() % 200), 0, 0, 25, rough) +
		       (random() % 2 == 0 ? ", " + Ring(random, 5, 0, 0, 5, rough) : "") + ")";
	}
	std::string text;
	for (int i = 0; i < 12; i++) {
		text +=
		    (i > 0 ? ", (" : "(") + Ring(random, 4 + int(random() % 90), place(random), place(random), 4, rough) + ")";
	}
	return "MULTIPOLYGON (" + text + ")";
}

} // namespace

TEST_CASE("What a window shows of an area has the matrix and the distance of the whole", "[window]") {
	std::mt19937 random(5);
	std::uniform_real_distribution<double> place(-28, 28);
	RelateScratch scratch;
	Shape whole, part, other;
	int wrong = 0, differing = 0, far = 0, built = 0;
	uint64_t vertices = 0, kept = 0;
	for (int i = 0; i < 4000; i++) {
		const bool rough = i % 3 == 0;
		const auto text = Area(random, rough), wkb = Bytes(text);
		const double x = place(random), y = place(random), size = 0.5 + double(random() % 8);
		switch (random() % 3) {
		case 0:
			Build(other, "POINT (" + At(std::round(x), std::round(y)) + ")");
			break;
		case 1:
			Build(other, "LINESTRING (" + At(std::round(x), std::round(y)) + ", " + At(x + size, y - size) + ", " +
			                 At(x + size, y) + ")");
			break;
		default:
			Build(other, "POLYGON (" + Ring(random, 6, x, y, size, rough) + ")");
		}
		Build(whole, text);
		const auto &b = other.View();
		if (!part.BuildInWindow(Data(wkb), wkb.size(), b.box)) {
			continue;
		}
		built++;
		const auto &a = whole.View();
		wrong += Relate(a, b, scratch) != Relate(part.View(), b, scratch);
		wrong += Relate(b, a, scratch) != Relate(b, part.View(), scratch);
		for (int k = vibe::PREDICATE_INTERSECTS; k <= vibe::PREDICATE_EQUALS; k++) {
			const auto predicate = static_cast<vibe::Predicate>(k);
			wrong += Evaluate(predicate, a, b, scratch) != Evaluate(predicate, part.View(), b, scratch);
		}
		vertices += a.vertex_count;
		kept += part.View().vertex_count;
		const double distance = vibespatial::ShapeDistance(a, b, -1);
		Shape::WindowProbe probe {b, Shape::WindowProbe::MEET};
		REQUIRE(part.BuildInWindow(Data(wkb), wkb.size(), b.box, &probe));
		REQUIRE((distance == 0 || !probe.found));
		if (!probe.found && part.BuildInWindow(Data(wkb), wkb.size(), NearWindow(b.box, probe.reach))) {
			differing += vibespatial::ShapeDistance(part.View(), b, -1) != distance;
			far += distance > 0;
		}
		const double limit = double(random() % 6);
		if (part.BuildInWindow(Data(wkb), wkb.size(), NearWindow(b.box, limit))) {
			differing += (vibespatial::ShapeDistance(part.View(), b, limit) <= limit) != (distance <= limit);
		}
	}
	CHECK(wrong == 0);
	CHECK(differing == 0);
	CHECK(built > 3500);
	CHECK(far > 500);
	CHECK(kept * 4 < vertices);
}

TEST_CASE("What a probe says of two areas is what their relation says, on invalid ones, too", "[window]") {
	using Probe = Shape::WindowProbe;
	const std::vector<std::pair<vibe::Predicate, Probe::Until>> asked = {
	    {vibe::PREDICATE_TOUCHES, Probe::INTERIORS},
	    {vibe::PREDICATE_CONTAINS, Probe::AREA_OUTSIDE},
	    {vibe::PREDICATE_COVERS, Probe::AREA_OUTSIDE},
	    {vibe::PREDICATE_CONTAINS_PROPERLY, Probe::AREA_OUTSIDE},
	    {vibe::PREDICATE_EQUALS, Probe::AREA_OUTSIDE},
	    {vibe::PREDICATE_WITHIN, Probe::GEOMETRY_OUTSIDE},
	    {vibe::PREDICATE_COVERED_BY, Probe::GEOMETRY_OUTSIDE},
	    {vibe::PREDICATE_WITHIN_PROPERLY, Probe::GEOMETRY_OUTSIDE},
	    {vibe::PREDICATE_EQUALS, Probe::GEOMETRY_OUTSIDE}};
	std::mt19937 random(11);
	std::uniform_real_distribution<double> place(-6, 6);
	RelateScratch scratch;
	Shape whole, part, other;
	int wrong = 0, found = 0, open = 0;
	for (int i = 0; i < 6000; i++) {
		const bool rough = i % 2 == 0;
		std::string text;
		const int count = 1 + int(random() % 6);
		for (int k = 0; k < count; k++) {
			text += (k > 0 ? ", (" : "(") +
			        Ring(random, 4 + int(random() % 4), place(random), place(random), 3, rough) +
			        (random() % 4 == 0 ? ", " + Ring(random, 4, place(random), place(random), 1, rough) : "") + ")";
		}
		const auto small = Ring(random, 5, place(random) / 2, place(random) / 2, i % 5 == 0 ? 12 : 2, rough);
		const auto hole = random() % 4 == 0 ? ", " + Ring(random, 4, 0, 0, 1, rough) : "";
		// Now and then an area and itself
		const bool same = i % 50 == 0;
		const auto area = "POLYGON (" + small + hole + ")", large = same ? area : "MULTIPOLYGON (" + text + ")";
		const auto wkb = Bytes(large);
		Build(whole, large);
		Build(other, area);
		const auto &a = whole.View(), &b = other.View();
		for (const auto &one : asked) {
			Probe probe {b, one.second};
			if (part.BuildInWindow(Data(wkb), wkb.size(), b.box, &probe)) {
				const bool holds = Evaluate(one.first, a, b, scratch);
				wrong += probe.found && holds;
				found += probe.found;
				open += !probe.found && !holds;
			}
		}
	}
	CHECK(wrong == 0);
	CHECK(found > 20000);
	CHECK(open < found);
}

TEST_CASE("A window leaves little of a large area", "[window]") {
	std::string text;
	for (int i = 0; i < 10000; i++) {
		const int x = i % 100, y = i / 100;
		text += (i > 0 ? ", ((" : "((") + At(x, y) + ", " + At(x + 0.5, y) + ", " + At(x + 0.5, y + 0.5) + ", " +
		        At(x, y) + "))";
	}
	const auto squares = Bytes("MULTIPOLYGON (" + text + ")");
	Shape shape;
	REQUIRE(shape.BuildInWindow(Data(squares), squares.size(), vibe::Box {50, 50, 52, 52}));
	CHECK(shape.View().ring_count == 9 + 2);
	CHECK(shape.View().box.max_x == 99.5);
	std::string ring;
	for (int i = 0; i <= 10000; i++) {
		const double angle = 2 * M_PI * (i % 10000) / 10000;
		ring += (i > 0 ? ", " : "") + At(std::cos(angle), std::sin(angle));
	}
	const auto circle = Bytes("POLYGON ((" + ring + "))");
	REQUIRE(shape.BuildInWindow(Data(circle), circle.size(), vibe::Box {-0.1, -0.1, 0.1, 0.1}));
	CHECK(shape.View().vertex_count < 10);
	CHECK(shape.View().rings[0].interior_left);
}

TEST_CASE("A look at some rings tells that areas meet, and then nothing is kept", "[window]") {
	std::string text;
	for (int i = 0; i < 10000; i++) {
		const int x = i % 100, y = i / 100;
		text += (i > 0 ? ", ((" : "((") + At(x, y) + ", " + At(x + 0.5, y) + ", " + At(x + 0.5, y + 0.5) + ", " +
		        At(x, y) + "))";
	}
	const auto squares = Bytes("MULTIPOLYGON (" + text + ")");
	Shape shape, box;
	const auto found = [&](const std::string &wkt, Shape::WindowProbe::Until until) {
		Build(box, wkt);
		Shape::WindowProbe probe {box.View(), until};
		REQUIRE(shape.BuildInWindow(Data(squares), squares.size(), box.View().box, &probe));
		return probe.found;
	};
	const std::string large = "POLYGON ((20.25 20.25, 80 20, 80 80, 20 80, 20.25 20.25))";
	CHECK(found(large, Shape::WindowProbe::MEET));
	CHECK(found(large, Shape::WindowProbe::INTERIORS));
	CHECK(shape.View().ring_count < 200);
	// Between the squares, along one of them, within one of them
	CHECK_FALSE(found("POLYGON ((20.6 20.6, 20.9 20.6, 20.9 20.9, 20.6 20.6))", Shape::WindowProbe::MEET));
	const std::string along = "POLYGON ((20.5 20, 20.9 20, 20.9 20.5, 20.5 20))";
	CHECK(found(along, Shape::WindowProbe::MEET));
	CHECK_FALSE(found(along, Shape::WindowProbe::INTERIORS));
	const std::string inside = "POLYGON ((20.3 20.1, 20.4 20.1, 20.4 20.2, 20.3 20.1))";
	CHECK_FALSE(found(inside, Shape::WindowProbe::MEET));
	// All of a box lies in gaps, and squares in the box
	CHECK(found("POLYGON ((19.7 19.7, 80.7 19.7, 80.7 80.7, 19.7 80.7, 19.7 19.7))", Shape::WindowProbe::AREA_OUTSIDE));
	CHECK(shape.View().ring_count < 200);
	CHECK(found(large, Shape::WindowProbe::AREA_OUTSIDE));
	CHECK_FALSE(found(along, Shape::WindowProbe::AREA_OUTSIDE));
	CHECK_FALSE(found(inside, Shape::WindowProbe::AREA_OUTSIDE));
	CHECK(found(inside, Shape::WindowProbe::GEOMETRY_OUTSIDE));
	CHECK(shape.View().ring_count < 200);
	CHECK_FALSE(found("POLYGON ((-1 -1, 101 -1, 101 101, -1 101, -1 -1))", Shape::WindowProbe::GEOMETRY_OUTSIDE));
}

TEST_CASE("What a window cannot show is left to the long way", "[window]") {
	Shape shape;
	const vibe::Box window {0, 0, 1, 1};
	for (auto wkt :
	     {"POINT (1 1)", "LINESTRING (0 0, 1 1)", "POLYGON EMPTY", "MULTIPOLYGON EMPTY",
	      "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 1))", "POLYGON ((5 5, 6 6, 5 5, 5 5, 5 5))",
	      "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((8 8, 9 9, 8 8, 8 8)))", "POLYGON ((0 0, 4 0, nan 4, 0 4, 0 0))",
	      "POLYGON ((0 0, 4 0, inf 4, 0 4, 0 0))", "GEOMETRYCOLLECTION (POLYGON ((0 0, 1 0, 1 1, 0 0)))"}) {
		const auto wkb = Bytes(wkt);
		CHECK_FALSE(shape.BuildInWindow(Data(wkb), wkb.size(), window));
	}
	const auto wkb = Bytes("POLYGON Z ((0 0 1, 4 0 2, 4 4 3, 0 0 1))");
	CHECK(shape.BuildInWindow(Data(wkb), wkb.size(), window));
	CHECK_THROWS(shape.BuildInWindow(Data(wkb), wkb.size() - 1, window));
}
