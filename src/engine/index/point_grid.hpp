//===----------------------------------------------------------------------===//
// engine/index/point_grid.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/lanes.hpp"
#include "vibe/cells.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! Columns and rows of cells that many points are looked up in
struct PointGrid : vibe::CellGrid {
	struct At {
		uint32_t column, row;
	};
	using vibe::CellGrid::CellOf;
	//! That of Column() and Row(), without branches: compilers do make some of vibe::CellGrid::Place(), and where a point
	//! lies cannot be foretold
	At PlaceOf(const vibe::Vec2 &p) const {
		const Lanes zero {0, 0};
		const Lanes most {static_cast<double>(static_cast<int32_t>(last_column)),
		                  static_cast<double>(static_cast<int32_t>(last_row))};
		Lanes at = (Lanes {p.x, p.y} - Lanes {min_x, min_y}) * Lanes {columns_per_x, rows_per_y};
		at = at > zero ? at : zero;
		at = at < most ? at : most;
		return At {static_cast<uint32_t>(static_cast<int32_t>(at[0])),
		           static_cast<uint32_t>(static_cast<int32_t>(at[1]))};
	}
	size_t CellOf(const vibe::Vec2 &p) const {
		const At at = PlaceOf(p);
		return CellOf(at.column, at.row);
	}
};

} // namespace vibespatial
