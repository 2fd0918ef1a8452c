//===----------------------------------------------------------------------===//
// engine/measure/polygon_contact.hpp
//
// A quick yes for two small polygons that meet, straight from their bytes
//
// Promise: exact where it says yes: both are usable and share a point. A no says nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! Whether the first vertex of one lies in the other. For polygons in XY of one ring with few vertices; no for all else.
bool PolygonsMeet(const uint8_t *left, size_t left_size, const uint8_t *right, size_t right_size);

} // namespace vibespatial
