//===----------------------------------------------------------------------===//
// engine/measure/distance.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/distance.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! The distance of a point and a geometry straight from its bytes, in one pass: the same value as vibe::ShapeDistance. False,
//! with nothing computed, for what needs a closer look: EMPTY or unusable geometries, and distances whose squares
//! leave the range of doubles.
bool PointWkbDistance(const vibe::Vec2 &point, const uint8_t *wkb, size_t size, double &distance);

// As those of vibe, but a search among many pairs of edges can be stopped

double ShapeDistance(const vibe::ShapeView &a, const vibe::ShapeView &b, double limit);
double ShapeDistanceWithin(const vibe::ShapeView &a, const vibe::ShapeView &b, double bound);

} // namespace vibespatial
