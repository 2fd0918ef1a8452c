//===----------------------------------------------------------------------===//
// engine/index/cell_edges.hpp
//
// Which cells of a grid the edges of a run meet, and at which reference points they change the status of their area.
// Used by the builder of CellIndex only.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/cell_items.hpp"
#include "engine/index/point_grid.hpp"

#include <limits>

namespace vibespatial {
namespace cell_build {

// Margins, in cells. Positions are computed with an error below 2^-9 of a cell: cells are at least 2^-40 of the coordinates
// wide (SMALLEST_CELL), and a crossing is off by at most a dozen roundings of these.
constexpr double SMALLEST_CELL = 1.0 / (1ULL << 40);
//! Edges are registered in cells that they miss by less than this
constexpr double EDGE_ROOM = 1.0 / 64;
//! A grid inside a cell covers the cell and this margin. Less than EDGE_ROOM, so that all edges in it are known.
constexpr double GRID_ROOM = 1.0 / 256;
//! Closer to a reference point than this, the exact predicate decides on which side of it an edge passes
constexpr double REFERENCE_ROOM = 1.0 / 64;

//! A position that cannot be computed with full precision
constexpr double UNKNOWN = std::numeric_limits<double>::quiet_NaN();

//! Whether the path from one reference point to another crosses the edge an odd number of times
inline bool Separates(const vibe::CellEdge &edge, const vibe::Vec2 &from, const vibe::Vec2 &to) {
	const vibe::Vec2 corner {from.x, to.y};
	bool odd = false;
	if ((edge.a.y > to.y) != (edge.b.y > to.y)) {
		odd = vibe::PassesLeft(edge, corner) != vibe::PassesLeft(edge, to);
	}
	if ((edge.a.x > from.x) != (edge.b.x > from.x)) {
		odd ^= vibe::PassesBelow(edge, corner) != vibe::PassesBelow(edge, from);
	}
	return odd;
}

//! The first of the reference points 0 .. last that lies beyond a crossing; last + 1 where none does. `at` is the approximate
//! position of the crossing in units of reference points, or UNKNOWN; beyond(k) decides exactly.
template <class BEYOND>
uint32_t FirstBeyond(double at, uint32_t last, const BEYOND &beyond) {
	if (at < -REFERENCE_ROOM) {
		return 0;
	}
	if (at > last + REFERENCE_ROOM) {
		return last + 1;
	}
	if (at == at) {
		const double half_up = at + 0.5; // the nearest point or a neighbour of it: the comparisons below decide
		const auto k = static_cast<uint32_t>(static_cast<int32_t>(half_up));
		const double near = static_cast<int32_t>(k);
		if (at > near + REFERENCE_ROOM) {
			return k + 1;
		}
		return at < near - REFERENCE_ROOM || beyond(k) ? k : k + 1;
	}
	uint32_t low = 0, high = last + 1;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (beyond(middle)) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low;
}

//! Appends the items of a run: the cells that its edges meet, and the reference points whose status they change.
//! `from_outside`: the status of the first column is relative to a point left of everything, instead of known. `reach`: the
//! cells that are at most so far away count as met.
void AddItems(ItemList &list, const PointGrid &grid, const Run &run, const vibe::Vec2 *vertices, bool from_outside,
              double reach = 0);

} // namespace cell_build
} // namespace vibespatial
