#include "catch.hpp"

#include "engine/constructive/curve_shell.hpp"
#include "engine/constructive/offset_pieces.hpp"
#include "engine/relate/validity.hpp"

#include <algorithm>
#include <cmath>
#include <random>

using namespace vibespatial;
using vibe::Vec2;

using Curve = std::vector<Vec2>;

namespace {

GeometryBatch ByOverlay(const Curve &curve) {
	Overlay overlay;
	Serial serial;
	GeometryBatch out;
	overlay.AddRing(Overlay::LEFT, curve.data(), curve.size());
	OverlayRule rule;
	rule.areas_only = true;
	overlay.Run(rule, serial, out);
	return out;
}

//! Whether a ring was found. It is then that of the overlay, with the same vertices.
bool IsFound(const Vec2 *points, size_t count) {
	CurveShell shell;
	if (!shell.Find(points, count)) {
		return false;
	}
	const auto &ring = shell.Ring();
	const auto expected = ByOverlay(Curve(points, points + count));
	REQUIRE(IsValid(expected, 0));
	REQUIRE(expected.ring_start.size() == 2);
	REQUIRE(ring.size() + 1 == expected.x.size());
	for (size_t i = 0; i < ring.size(); i++) {
		REQUIRE(ring[i] == Vec2 {expected.x[i], expected.y[i]});
	}
	return true;
}
bool IsFound(const Curve &curve) {
	return IsFound(curve.data(), curve.size());
}

//! From any vertex on
bool IsFoundTurned(Curve curve) {
	const bool found = IsFound(curve);
	for (size_t i = 0; i < curve.size(); i++) {
		std::rotate(curve.begin(), curve.begin() + 1, curve.end());
		REQUIRE(IsFound(curve) == found);
	}
	return found;
}

struct Random {
	std::mt19937 bits {1};
	//! Between -1 and 1
	double operator()() {
		return double(bits()) / 2147483648.0 - 1;
	}
};

} // namespace

TEST_CASE("What a curve winds around is found by its crossings", "[buffer]") {
	CHECK(IsFoundTurned({{0, 0}, {4, 0}, {4, 1}, {0, 1}}));
	// The loop of a corner that turns to the side of the curve, twice around
	CHECK(IsFoundTurned({{0, 0}, {4, 0}, {4, 1}, {0.5, 1}, {0.5, 0.5}, {1, 0.5}, {1, 4}, {0, 4}}));
	// Half of it counterclockwise
	CHECK(IsFoundTurned({{0, 0}, {2, 2}, {2, 0}, {0, 2}}));

	CurveShell shell;
	const Curve corner {{0, 0}, {4, 0}, {4, 1}, {0.5, 1}, {0.5, 0.5}, {1, 0.5}, {1, 4}, {0, 4}};
	REQUIRE(shell.Find(corner.data(), corner.size()));
	CHECK(Curve(shell.Ring().begin(), shell.Ring().end()) == Curve {{0, 0}, {4, 0}, {4, 1}, {1, 1}, {1, 4}, {0, 4}});
}

TEST_CASE("Curves with anything else than one ring are left to the overlay", "[buffer]") {
	// Clockwise
	CHECK_FALSE(IsFoundTurned({{0, 0}, {0, 1}, {4, 1}, {4, 0}}));
	// Around a hole
	CHECK_FALSE(IsFoundTurned({{0, 0}, {6, 0}, {6, 6}, {0, 6}, {0, -1}, {1, -1}, {1, 5}, {5, 5}, {5, 1}, {0, 1}}));
	// Two areas that are counterclockwise, and one between them that is not
	CHECK_FALSE(IsFoundTurned({{0, 0}, {2, 2}, {4, 0}, {6, 2}, {6, 0}, {4, 2}, {2, 0}, {0, 2}}));
	// A vertex on an edge, two vertices in one place, edges on one another, back the same way
	CHECK_FALSE(IsFoundTurned({{0, 0}, {4, 0}, {4, 4}, {2, 0}, {0, 4}}));
	CHECK_FALSE(IsFoundTurned({{0, 0}, {2, 1}, {4, 0}, {4, 2}, {2, 1}, {0, 2}}));
	CHECK_FALSE(IsFoundTurned({{0, 0}, {4, 0}, {4, 2}, {3, 0}, {1, 0}, {0, 2}}));
	CHECK_FALSE(IsFoundTurned({{0, 0}, {4, 0}, {2, 0}, {2, 2}, {0, 2}}));
	// Too few vertices, and sizes that overlays scale
	CHECK_FALSE(IsFound({{0, 0}, {1, 0}}));
	CHECK_FALSE(IsFound({{0, 0}, {1e80, 0}, {0, 1e80}}));
	CHECK_FALSE(IsFound({{0, 0}, {1e-80, 0}, {0, 1e-80}}));
}

TEST_CASE("Curves of lines and any other curves have the ring of the overlay", "[buffer]") {
	Random random;
	size_t found = 0;
	for (size_t round = 0; round < 3000; round++) {
		OffsetRing line;
		const bool on_grid = round % 3 == 0;
		Vec2 at {0, 0};
		for (size_t i = 0; i < 2 + round % 40; i++) {
			line.vertices.push_back(at);
			at.x += on_grid ? 1 + std::floor(2 * random()) : 1 + 2 * random();
			at.y += on_grid ? 1 + std::floor(3 * random()) : 2 * random();
			at.x += at == line.vertices.back();
		}
		found += line.Size() > 2 && IsFound(line.vertices.data(), line.Size());
		line.MakeLine();
		BufferStyle style;
		style.join = static_cast<BufferJoin>(round % 2);
		for (double distance : {0.2, 1.0, 3.0}) {
			OffsetCurves curves(distance, style);
			curves.AddRing(line);
			found += IsFound(curves.Begin(0), curves.Size(0));
		}
	}
	INFO(found);
	CHECK(found > 3000);
	CHECK(found < 12000);
}

TEST_CASE("A crowded curve is given up early", "[buffer]") {
	// A star of so many points that each edge crosses most others
	Curve star;
	for (size_t i = 0; i < 2001; i++) {
		const double angle = 2 * std::acos(-1.0) * double(i * 1000 % 2001) / 2001;
		star.push_back(Vec2 {std::cos(angle), std::sin(angle)});
	}
	CurveShell shell;
	CHECK_FALSE(shell.Find(star.data(), star.size()));
}
