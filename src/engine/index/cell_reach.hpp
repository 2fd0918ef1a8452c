//===----------------------------------------------------------------------===//
// engine/index/cell_reach.hpp
//
// Which edges a cell keeps in a CellIndex with a reach, and which areas and lines are near all of its points. Used by the
// builder of CellIndex only.
//
// Why nothing is missed. The distance to an edge changes by at most the way that a point moves. So where the centre of a cell
// is d away from an edge, each of its points is at least d - h and at most d + h away, h being the way from the centre to the
// farthest point of the cell. Of one area or line with the nearest edge at d:
//
//   d + h <= reach             all points are near it, and no edge is needed
//   d > h, centre inside       no edge meets the cell: all points are inside, and no edge is needed
//   e > reach + h              no point is near the edge at e, which is dropped
//
// Distances are computed to within 1e-12 of them, and all bounds have more room than that. What holds for a cell holds for
// the cells of a grid inside it, which therefore begins with the edges that the cell has kept.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/cell_items.hpp"
#include "engine/index/point_grid.hpp"

#include <vector>

namespace vibespatial {
namespace cell_build {

//! What is left of a cell's items. Areas and lines that are near all points are in `near`, and have no items; `inside` are
//! the other areas that contain the reference point.
struct NearCell {
	std::vector<uint32_t> near;
	AreaSet inside;
	uint32_t edges = 0;
};

//! Reads the cells of one grid
class NearReader {
public:
	NearReader(const PointGrid &grid, const vibe::CellReach &reach, const vibe::Vec2 *vertices);
	//! Appends the edges that stay to `kept`. `active`: the areas that contain the reference point
	void Read(uint32_t column, uint32_t row, const ItemSpan &items, const AreaSet &active, NearCell &cell,
	          ItemList &kept);

private:
	const PointGrid &grid;
	const vibe::CellReach &reach;
	const vibe::Vec2 *vertices;
	double half; // from the centre to the farthest point
	std::vector<double> distances;
};

} // namespace cell_build
} // namespace vibespatial
