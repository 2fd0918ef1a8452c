//===----------------------------------------------------------------------===//
// engine/index/point_grid.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/lanes.hpp"
#include "vibe/cells.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! A grid for looking up many points
struct PointGrid : vibe::CellGrid {
	struct At {
		uint32_t column, row;
	};
	using vibe::CellGrid::CellOf;
	//! The same as Column() and Row(), without branches: compilers make branches of vibe::CellGrid::Place(), which mispredict
	//! for random points
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
