//===----------------------------------------------------------------------===//
// engine/measure/hausdorff.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "vibe/hausdorff.h"

#include <algorithm>
#include <cstdint>

namespace vibespatial {

//! As vibe::HausdorffDistance, but a search among many vertices can be stopped
inline double HausdorffDistance(const vibe::ShapeView &a, const vibe::ShapeView &b) {
	constexpr uint64_t PAIRS = uint64_t(1) << 24;
	const auto items = [](const vibe::ShapeView &s) { return uint64_t(s.vertex_count) + s.point_count; };
	// Few vertices at a time, each time from the farthest of those before
	const auto lanes = std::max<uint64_t>(1, std::min(items(a) * items(b) / PAIRS, std::max(items(a), items(b))));
	vibe::HausdorffSearch<vibe::SquareMetric> search {0.0};
	for (uint64_t i = 0; i < lanes; i++) {
		const vibe::Lane lane {uint32_t(i), uint32_t(lanes)};
		search.AddAll(a, b, lane);
		search.AddAll(b, a, lane);
		if (lanes > 1) {
			PollCall(PAIRS);
		}
	}
	return vibe::FinishHausdorff(search, a, b);
}

} // namespace vibespatial
