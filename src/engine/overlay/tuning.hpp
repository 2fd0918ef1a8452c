//===----------------------------------------------------------------------===//
// engine/overlay/tuning.hpp
//
// Constants of overlays that trade one cost against another. PART_VERTICES, LEAST_VERTICES and LEAST_POLYGONS decide how a
// union is divided, and so the order in which crossings are rounded; the others change no result.
// "Measured": where the numbers stand. "Estimate": a plausible value that nobody has recorded a measurement of.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {
namespace overlay_tuning {

// A union of many polygons in parts: docs/internals/overlays.md
//! Vertices of a part: it should fit into the cache of a core, and larger parts remove more edges early. Estimate.
constexpr size_t PART_VERTICES = 8192;
//! Unions of fewer vertices or polygons are done in one piece. Estimates.
constexpr size_t LEAST_VERTICES = 4 * PART_VERTICES;
constexpr size_t LEAST_POLYGONS = 64;
//! Average vertices of a polygon from which the GPU checks validity faster than the CPU. Estimate.
constexpr size_t LARGE_POLYGON = 64;

// Steps per thread: balance against overhead. Estimates.
constexpr size_t READ_STEPS_PER_THREAD = 4;
constexpr size_t MEASURE_STEPS_PER_THREAD = 8;
constexpr size_t CHECK_STEPS_PER_THREAD = 32;
constexpr size_t PART_STEPS_PER_THREAD = 4;

//! Up to this many items std::sort is used, above it a bucket sort. Estimate.
constexpr size_t FEW_TO_SORT = 256;
//! Items of a bucket, and items from which another thread sorts along. Estimates.
constexpr size_t SORT_BUCKET = 16;
constexpr size_t SORT_SHARE = 8192;

//! With this many edges memory is given back as soon as it is not needed, otherwise it is kept for the next overlay. Estimate.
constexpr size_t MANY_EDGES = size_t(1) << 18;
//! Edges in one piece of memory of the result of parts, given back at once. Estimate.
constexpr size_t PIECE_EDGES = size_t(1) << 17;

//! Merging the results of parts: edges of a range of x, which should fit into the cache of a core; ranges at most; every how many
//! edges one is sampled to place the ranges. Estimates.
constexpr size_t RANGE_EDGES = 4096;
constexpr size_t MOST_RANGES = 512;
constexpr size_t RANGE_SAMPLE = 64;
//! Splitting: edges of a step, which should fit into the cache of a core. Estimate.
constexpr size_t SPLIT_STEP_EDGES = 8192;
//! Splitting: with more edges than this times the root of their number beside each other, other directions of strips are tried.
//! Buffers, provinces and counties have 0.1 to 1.1. Measured with them.
constexpr double BESIDE_PER_ROOT = 2;
//! Splitting: a strip is crowded with more than these edges, and more than these pairs an edge that come close in it. Estimates.
constexpr size_t CROWD_LEAST = 64;
constexpr size_t CROWD_PAIRS = 32;
//! Splitting: how often the pieces of a crowded strip are divided again, at most. Estimate.
constexpr int CROWD_DEPTH = 4;
//! Splitting: with more edges than these beside each other on average, and more than BESIDE_PER_ROOT says, a sweep first looks whether any
//! meet. Estimate.
constexpr double MANY_BESIDE = 64;
//! Sweep: edges of a slab, at least. Estimate.
constexpr size_t SLAB_EDGES = 16384;

} // namespace overlay_tuning
} // namespace vibespatial
