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

//! Edges of the smallest pieces that a crowded curve is made in. docs/internals/overlays.md, "Buffers".
constexpr size_t FAR_EDGES = 16;
//! Pieces that are united at a time. docs/internals/overlays.md, "Buffers".
constexpr size_t FAR_PIECES = 8;
//! Edges of a run that one thread makes, at most. Estimate.
constexpr size_t FAR_RUN = 4096;

//! A curve is crowded where its edges cross more than this many of the edges after them, on average. Estimate.
//! Pieces with round joins are circles, of which more vertices stay: so they have to gain more.
constexpr double CROWDED = 4;
constexpr double CROWDED_ROUND = 8;
//! How many edges after an edge are looked at, and how many edges of a curve: between these, one of so many. Estimates.
constexpr size_t CROWD_WINDOW = 512;
constexpr size_t LEAST_SAMPLES = 64;
constexpr size_t MOST_SAMPLES = 8192;
constexpr size_t SAMPLED_EDGES = 64;

//! A curve with more crossings than one in so many vertices, and so many more, goes to the overlay: it is likely to be crowded. Rivers
//! with margins of two edges have one in eleven. Measured with them.
constexpr uint32_t VERTICES_PER_CROSSING = 2;
constexpr uint32_t LEAST_CROSSINGS = 16;

} // namespace buffer_tuning

} // namespace vibespatial
