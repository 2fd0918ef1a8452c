//===----------------------------------------------------------------------===//
// engine/constructive/tuning.hpp
//
// Constants of buffers that trade one cost against another. They decide which curves are united, and so which vertices an
// approximated arc has.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {
namespace buffer_tuning {

//! Where this many consecutive edges are shorter than the distance, a chain is buffered in pieces of as many edges: one curve
//! would cross itself everywhere. docs/internals/overlays.md, "Buffers".
constexpr uint32_t FAR_EDGES = 16;
//! Pieces that are united at a time. docs/internals/overlays.md, "Buffers".
constexpr size_t FAR_PIECES = 8;

} // namespace buffer_tuning

} // namespace vibespatial
