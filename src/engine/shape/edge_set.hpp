//===----------------------------------------------------------------------===//
// engine/shape/edge_set.hpp
//
// What a geometry is made of, however it is written: its points and edges, whatever comes first and in which direction.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb.hpp"

#include <cstdint>
#include <vector>

namespace vibespatial {

//! The same for all that is written of the same points and edges, and seldom for anything else
uint64_t EdgeHash(const uint8_t *wkb, size_t size);
//! Exactly
bool SameEdges(const uint8_t *left, size_t left_size, const uint8_t *right, size_t right_size);

} // namespace vibespatial
