//===----------------------------------------------------------------------===//
// engine/cpu/point_grid.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/lanes.hpp"
#include "vibe/cells.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! Columns and rows of cells that many points are looked up in
struct PointGrid : vibe::CellGrid {
	using vibe::CellGrid::CellOf;
	//! That of Column() and Row(), without branches: compilers do make some of Place(), and where a point lies cannot be
	//! foretold
	size_t CellOf(const vibe::Vec2 &p) const {
		const Lanes zero {0, 0};
		const Lanes most {static_cast<double>(static_cast<int32_t>(last_column)),
		                  static_cast<double>(static_cast<int32_t>(last_row))};
		Lanes at = (Lanes {p.x, p.y} - Lanes {min_x, min_y}) * Lanes {columns_per_x, rows_per_y};
		at = at > zero ? at : zero;
		at = at < most ? at : most;
		return CellOf(static_cast<uint32_t>(static_cast<int32_t>(at[0])),
		              static_cast<uint32_t>(static_cast<int32_t>(at[1])));
	}
};

} // namespace vibespatial
