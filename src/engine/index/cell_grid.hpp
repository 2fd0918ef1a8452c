//===----------------------------------------------------------------------===//
// engine/index/cell_grid.hpp
//
// How fine the grids of a CellIndex are. Used by its builder only.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/point_grid.hpp"
#include "engine/index/tuning.hpp"

namespace vibespatial {
namespace cell_build {

//! The fineness that minimizes the cost of building and of looking up that many points (0: unknown)
cell_tuning::Fineness FinenessFor(double edges, double points);
//! Cells that take less memory
cell_tuning::Fineness Coarser(const cell_tuning::Fineness &fineness);

//! Edges in a grid: their number, and the sums of their widths and heights
struct EdgeSums {
	double count;
	double width;
	double height;
	double reach; // they are in all cells that are at most so far away
};
//! Sets the columns and rows of a grid over a box. `largest`: the largest absolute coordinates of the edges. Returns the
//! approximate number of cells that an edge is in, which is kept below `entries_per_edge`.
double SetGrid(PointGrid &grid, const vibe::Box &box, const vibe::Vec2 &largest, const EdgeSums &edges,
               double cells_per_edge, double entries_per_edge);

} // namespace cell_build
} // namespace vibespatial
