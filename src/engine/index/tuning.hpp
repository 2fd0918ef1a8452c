//===----------------------------------------------------------------------===//
// engine/index/tuning.hpp
//
// Constants of the indexes that trade one cost against another. None of them changes a result.
// "Measured": where the numbers stand. "Estimate": a plausible value that nobody has recorded a measurement of.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

namespace vibespatial {

namespace cell_tuning {

//! How fine the cells are: fast look-ups against building time and memory
struct Fineness {
	double cells_per_edge;       // of the top grid
	double inner_cells_per_edge; // of the grids inside its cells
	double entries_per_edge;     // cells that an average edge may be in; long edges make the cells coarser
	uint32_t edges_per_cell;     // a cell with more edges gets a grid of its own
};
//! The finest cells, for many or an unknown number of points. Estimate.
constexpr Fineness FINEST {2, 0.5, 6, 32};
//! The coarsest cells: even coarser ones save next to nothing, as every edge is read once anyway. Estimate.
constexpr Fineness COARSEST {1.0 / 8, 1.0 / 16, 6, 4096};

//! Cells of the top grid per expected point. Building an edge costs more with sqrt(cells / edges), looking up a point with
//! sqrt(edges / cells). Half or double this value cost a tenth more when it was measured; the numbers were not recorded.
constexpr double CELLS_PER_POINT = 0.6;
//! Refining a cell costs as much as this many points that look at its edges, assuming that points lie where edges are. Estimate.
constexpr double POINTS_PER_REFINED = 1500;

//! Columns or rows of a grid, at most: memory of the words. Estimate.
constexpr double MAX_ACROSS = 32768;
//! Levels of grids, at most. Estimate.
constexpr uint32_t MAX_DEPTH = 12;
//! Levels that leave most edges in one cell, at most: edges that meet in one vertex never separate. Estimate.
constexpr uint32_t MAX_STUCK = 2;
//! Copies of an edge over all levels, at most: long edges that cross each other everywhere never become few. Estimate.
constexpr double MAX_SPREAD = 32;

// Cells of what is near (cell_reach.hpp): an edge is in all cells within reach of it.
//! Cells that an average edge may be in: a reach of many cells makes the cells coarser, and leaves the fine ones to the grids
//! inside. Estimate.
constexpr double NEAR_ENTRIES = 16;
//! What a grid that is built in stripes counts for in MAX_SPREAD, at most. Estimate.
constexpr double NEAR_STRIPED_SPREAD = 4;

// Building in parallel: balance of threads against overhead. Estimates.
constexpr uint32_t CHUNK_EDGES = 16384;
constexpr uint32_t STRIPE_EDGES = 4096;
constexpr size_t MAX_STRIPES = 1024;
//! A cell with more edges is refined by all threads together
constexpr size_t SHARED_EDGES = 32768;
//! Items of a run that are searched for the same cell before a new one is added: fewer items against time. Estimate.
constexpr size_t ITEMS_TO_MERGE = 4;

//! Points whose memory accesses overlap in CellIndex::LocateMany(). Estimate.
constexpr size_t POINTS_AT_ONCE = 64;

} // namespace cell_tuning

// All of these: docs/decisions/0004-cells-when-they-pay.md, where not said otherwise
namespace polygon_scan_tuning {

//! Edges of a run, whose range is stored: memory and comparisons of ranges against edges to test. Measured there.
constexpr uint32_t RUN_EDGES = 8;
//! An item with more blocks of runs gets groups, the ranges of whole blocks. Estimate.
constexpr uint32_t BLOCKS_TO_GROUP = 4;

//! Blocks of the candidates whose ranges are compared together: memory against memory accesses that overlap. Estimate.
constexpr size_t BLOCKS_AT_ONCE = size_t(1) << 16;
//! Rows per step of building. Estimate.
constexpr size_t ROWS_PER_STEP = 128;
//! Points that are looked up together, so that their memory accesses overlap. Measured there.
constexpr size_t POINTS_AT_ONCE = 512;
//! Bytes that reading vertices prefetches ahead, farther than the hardware does: the next row mostly follows. Estimate.
constexpr uint32_t READ_AHEAD_BYTES = 2048;
//! Cache lines of an item's ranges that are prefetched. Estimate.
constexpr uint32_t PREFETCHED_LINES = 4;

//! Cells of the grid per polygon: fewer polygons in a cell against memory. Measured there: finer cells gain nothing.
constexpr double CELLS_PER_BOX = 5;
constexpr double MAX_CELLS = 1 << 20;
//! Entries per polygon, at most, before the cells are made coarser. Estimate.
constexpr double ENTRIES_PER_BOX = 16;
//! Bands of rows per thread while the grid is built. Estimate.
constexpr size_t BANDS_PER_THREAD = 2;

// Cost model, in nanoseconds: of building, for JoinIndex to decide whether it pays ...
constexpr double NANOSECONDS_PER_VERTEX = 3;
constexpr double NANOSECONDS_PER_ROW = 150;
// ... and of looking up, to decide whether cells pay
constexpr uint64_t NANOSECONDS_PER_TEST = 40;
constexpr uint64_t NANOSECONDS_PER_RUN = 30;
//! Eight ranges of a group. Measured: 6M points in 150,000 polygons, some of which have millions of vertices, took 15 us each.
constexpr uint64_t NANOSECONDS_PER_RANGES = 2;

} // namespace polygon_scan_tuning

} // namespace vibespatial
