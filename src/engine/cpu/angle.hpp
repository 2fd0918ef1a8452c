//===----------------------------------------------------------------------===//
// engine/cpu/angle.hpp
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
	const double square = angle * angle;
	double sine = 1;
	double cosine = 1;
	for (int i = 16; i > 0; i -= 2) {
		sine = 1 - sine * square / (i * (i + 1));
		cosine = 1 - cosine * square / (i * (i - 1));
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

//! The direction of step i of a circle of 4 * quarter steps that starts on the X axis: mirrored from its first octant, so
//! that a circle is the same on both sides of either axis and of the diagonals
inline vibe::Vec2 CircleDirection(uint32_t i, uint32_t quarter) {
	const auto step = i % quarter;
	const bool upper = step > quarter - step;
	const auto octant = OctantDirection((upper ? quarter - step : step) * (HALF_TURN / 2) / quarter);
	const auto first = upper ? vibe::Vec2 {octant.y, octant.x} : octant;
	switch (i / quarter % 4) {
	case 0:
		return first;
	case 1:
		return vibe::Vec2 {-first.y, first.x};
	case 2:
		return vibe::Vec2 {-first.x, -first.y};
	default:
		return vibe::Vec2 {first.y, -first.x};
	}
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
