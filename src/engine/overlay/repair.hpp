//===----------------------------------------------------------------------===//
// engine/overlay/repair.hpp
//
// Polygons of the input that are not valid
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/input.hpp"

namespace vibespatial {

//! Of the polygons that begin with these chains, those that are not valid, in order
std::vector<size_t> InvalidPolygons(const OverlayInput &input, const std::vector<size_t> &first, Parallel &parallel);

//! Replaces the polygons that are not valid by the result of the even-odd rule, on sides that are not `odd` anyway
void RepairPolygons(OverlayInput &input, const bool odd[2], Parallel &parallel);

} // namespace vibespatial
