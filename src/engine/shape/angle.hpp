//===----------------------------------------------------------------------===//
// engine/shape/angle.hpp
//
// Angles and directions without the C library, whose last bits change from one machine to the next.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

#include <cstdint>

namespace vibespatial {

constexpr double HALF_TURN = 3.141592653589793;

//! The direction of an angle between 0 and an eighth of a turn, by its power series
inline vibe::Vec2 OctantDirection(double angle) {
	// each factor of x^2 from one term to the next
	constexpr double COSINE[] = {1. / 240, 1. / 182, 1. / 132, 1. / 90, 1. / 56, 1. / 30, 1. / 12, 1. / 2};
	constexpr double SINE[] = {1. / 272, 1. / 210, 1. / 156, 1. / 110, 1. / 72, 1. / 42, 1. / 20, 1. / 6};
	const double square = angle * angle;
	double cosine = 1;
	double sine = 1;
	for (int i = 0; i < 8; i++) {
		cosine = 1 - cosine * square * COSINE[i];
		sine = 1 - sine * square * SINE[i];
	}
	return vibe::Vec2 {cosine, sine * angle};
}

//! The direction of an angle between 0 and half a turn
inline vibe::Vec2 Direction(double angle) {
	const bool left = angle > HALF_TURN / 2;
	if (left) {
		angle = HALF_TURN - angle;
	}
	auto direction = angle > HALF_TURN / 4 ? OctantDirection(HALF_TURN / 2 - angle) : OctantDirection(angle);
	if (angle > HALF_TURN / 4) {
		direction = vibe::Vec2 {direction.y, direction.x};
	}
	return left ? vibe::Vec2 {-direction.x, direction.y} : direction;
}

//! The direction of step i of a quarter circle that starts on the X axis: mirrored from its first half, so that a circle of
//! them is the same on both sides of the axes and of the diagonals
inline vibe::Vec2 QuarterDirection(uint32_t i, uint32_t steps) {
	if (2 * i == steps) {
		constexpr double DIAGONAL = 0.7071067811865476;
		return vibe::Vec2 {DIAGONAL, DIAGONAL};
	}
	const bool upper = i > steps - i;
	const auto direction = OctantDirection((upper ? steps - i : i) * (HALF_TURN / 2) / steps);
	return upper ? vibe::Vec2 {direction.y, direction.x} : direction;
}

//! The angle of a direction, between 0 and half a turn; y is not negative, and not both are 0
inline double Angle(double x, double y) {
	const double along = vibe::Abs(x);
	const bool steep = y > along;
	const double slope = steep ? along / y : y / along;
	// near enough for two steps
	double angle = slope / (1 + 0.28 * slope * slope);
	for (int i = 0; i < 2; i++) {
		const auto d = OctantDirection(angle);
		const double off = (slope * d.x - d.y) / (d.x + slope * d.y);
		angle += off - off * off * off / 3;
	}
	if (steep) {
		angle = HALF_TURN / 2 - angle;
	}
	return x < 0 ? HALF_TURN - angle : angle;
}

} // namespace vibespatial
