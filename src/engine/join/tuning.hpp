//===----------------------------------------------------------------------===//
// engine/join/tuning.hpp
//
// Constants of joins and nearest neighbours that trade one cost against another. None of them changes a result.
// "Measured": where the numbers stand. "Estimate": a plausible value that nobody has recorded a measurement of.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {
namespace join_tuning {

// Reading the build side in parallel steps: smaller steps balance threads better, larger ones cost less overhead. Estimates.
constexpr size_t STEPS = 64;
constexpr size_t MIN_ROWS_PER_STEP = 256;
constexpr size_t MAX_ROWS_PER_STEP = 8192;
//! Rows per step where each row becomes a shape for the cells. Estimate.
constexpr size_t SHAPE_ROWS_PER_STEP = 256;
//! About what a shape takes, compared with its WKB
constexpr size_t SHAPE_BYTES_PER_WKB_BYTE = 2;
//! Rows per step of the index for nearest neighbours. Estimate.
constexpr size_t KNN_ROWS_PER_STEP = 8192;

//! Caches a shape for the whole join from this many bytes of WKB on, when it is used a second time: memory against decoding
//! again. Estimate.
constexpr uint32_t BYTES_TO_KEEP_SHAPE = 1024;
//! With more build rows no shapes are cached: the array of slots alone would take 32 MiB. Estimate.
constexpr size_t MAX_ROWS_WITH_SHAPES = 4u << 20;
//! A geometry with more parts is one item of the tree: tighter boxes against the size of the tree. Estimate.
constexpr size_t MAX_PARTS = 16384;

// The cost model that decides when an index pays, in nanoseconds: decisions/0004-cells-when-they-pay.md.
//! Building the cells, per vertex of the areas. Measured there: 50 to 200.
constexpr double CELL_COST_PER_VERTEX = 60;
//! Building the cells of what is near, per vertex of the areas and lines. Measured there: 160 to 190 while the reach is less
//! than a cell. For each cell that it spans, building costs this much more per vertex, and looking up per point.
constexpr double NEAR_CELL_COST_PER_VERTEX = 180;
constexpr double NEAR_COST_PER_SPAN = 60;
//! Measuring the distance to a candidate of the tree: a constant part, and a part per vertex of an average line. Measured there.
constexpr double NEAR_COST_PER_TEST = 250;
constexpr double NEAR_COST_PER_LINE_VERTEX = 1;
//! A query of the tree with a point. Measured there.
constexpr double TREE_COST_PER_POINT = 40;
//! Testing a point against a candidate area: a constant part, and a part per vertex of an average area. Measured there.
constexpr double TREE_COST_PER_TEST = 400;
constexpr double TEST_COST_PER_VERTEX = 6;
//! Tests per point, assumed until POINTS_TO_KNOW points have been counted. Estimate.
constexpr double EXPECTED_TESTS = 0.25;
constexpr uint64_t POINTS_TO_KNOW = 1024;
//! What cells save a GPU per point, compared with the tree. Estimate.
constexpr uint64_t DEVICE_COST_PER_POINT = 900;
//! The share of the polygon scan's time that cells would save: looking up cells is cheaper, not free. Estimate.
constexpr double SAVED_OF_POLYGON_SCAN = 0.6;
//! When probing has gone on without cells, this many times the points seen so far are expected. Estimate.
constexpr uint64_t EXPECTED_PER_SEEN = 4;

// Points against one probed area: a PointLocator is built for at least so many candidates and vertices. Estimates.
constexpr size_t POINTS_FOR_LOCATOR = 16;
constexpr uint32_t VERTICES_FOR_LOCATOR = 32;

//! Points per look-up in the cells or the polygon scan: overlapping memory accesses against cache space. Measured for the
//! polygon scan: decision 4.
constexpr size_t POINTS_PER_RUN = 512;
//! Rows ahead whose first bytes are prefetched while a tile is read. Estimate.
constexpr size_t PREFETCH_ROWS = 16;
//! Bytes prefetched per row, and candidates per row for which that is done. Estimates.
constexpr uint32_t PREFETCH_BYTES = 1024;
constexpr size_t PREFETCH_CANDIDATES = 8;
//! Tiles and build sides with fewer rows are not sorted along a Z curve: locality against the cost of sorting. Estimate.
constexpr size_t ROWS_TO_SORT = 64;

// Joining some rows tells how long the CPU would take for all, where a device could do it: how many rows, for how long, and one of how
// many is dropped as too large to say anything. Estimates.
constexpr size_t FORECAST_ROWS = 64;
constexpr double FORECAST_MS = 1;
constexpr size_t FORECAST_DROPPED_PART = 16;
//! The rows that are dropped take more of the time where distances are measured. Fitted: decision 16.
constexpr double FORECAST_OF_DISTANCES = 2;
//! What a device takes for pairs that the CPU would take a millisecond for. By the sums of measurements/gpu.md, real layers with one another.
constexpr double DEVICE_PART_OF_CPU = 0.44;
//! A row has one of so many parts of that time, and so many rows are looked at in any case. Estimates.
constexpr double FORECAST_ROW_PART = 16;
constexpr size_t FORECAST_LEAST_ROWS = 8;
//! Units of work after which it is looked whether a row has had its part, and candidates that say how long the others take. Estimates.
constexpr uint64_t FORECAST_WORK_PER_POLL = 1024;
constexpr size_t FORECAST_LEAST_CANDIDATES = 32;
//! Fewer probe rows are done before a device could help. The tree of more build rows costs more than the forecast tells. Estimates.
constexpr size_t MIN_FORECAST_ROWS = 1000;
constexpr size_t MAX_FORECAST_BUILD_ROWS = 200000;

//! Units of about 10 ns of work between two calls of poll(), so a cancelled query stops soon. Estimate.
constexpr uint64_t WORK_PER_POLL = 1u << 20;

//! Rows of a tile that a thread takes at a time where several probe it: balance against overhead. Estimate.
constexpr size_t ROWS_PER_SHARE = 256;
//! Pairs that a share buffers before it waits for them to be consumed. Estimate.
constexpr size_t PAIRS_PER_SHARE = 2048;
//! Bytes of WKB in a tile from which sharing it pays: more than a tile of points has. Estimate.
constexpr size_t BYTES_TO_SHARE = 64 * 1024;

} // namespace join_tuning
} // namespace vibespatial
