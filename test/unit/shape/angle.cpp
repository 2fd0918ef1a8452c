#include "catch.hpp"

#include "engine/shape/angle.hpp"

#include <cmath>

using namespace vibespatial;

TEST_CASE("Directions and angles agree with the C library", "[angle]") {
	constexpr double LAST_BITS = 1e-15;
	for (int i = 0; i <= 10000; i++) {
		const double angle = HALF_TURN * i / 10000;
		const auto direction = Direction(angle);
		REQUIRE(std::abs(direction.x - std::cos(angle)) < LAST_BITS);
		REQUIRE(std::abs(direction.y - std::sin(angle)) < LAST_BITS);
		REQUIRE(std::abs(Angle(7 * std::cos(angle), 7 * std::abs(std::sin(angle))) - angle) < LAST_BITS);
	}
	REQUIRE(Angle(1, 0) == 0);
	REQUIRE(Angle(0, 1) == HALF_TURN / 2);
	REQUIRE(Angle(-1, 0) == HALF_TURN);
}

TEST_CASE("A quarter circle is the same on both sides of the diagonal", "[angle]") {
	for (uint32_t steps : {1u, 2u, 3u, 8u, 100u}) {
		REQUIRE(QuarterDirection(0, steps) == vibe::Vec2 {1, 0});
		for (uint32_t i = 0; i <= steps; i++) {
			const auto d = QuarterDirection(i, steps), mirrored = QuarterDirection(steps - i, steps);
			REQUIRE(std::abs(d.x - std::cos(HALF_TURN / 2 * i / steps)) < 1e-15);
			REQUIRE(d == vibe::Vec2 {mirrored.y, mirrored.x});
		}
	}
}
