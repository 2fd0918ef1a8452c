//===----------------------------------------------------------------------===//
// engine/measure/distance.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "vibe/distance.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! The distance of a point and a geometry straight from its bytes, in one pass: the same value as vibe::ShapeDistance. False,
//! with nothing computed, for what needs a closer look: EMPTY or unusable geometries, and distances whose squares
//! leave the range of doubles.
bool PointWkbDistance(const vibe::Vec2 &point, const uint8_t *wkb, size_t size, double &distance);

//! A box with a margin: what lies outside is farther than `reach` from all that is in the box
vibe::Box NearWindow(const vibe::Box &box, double reach);

namespace distance_detail {

//! As one thread after the other would search, each from the best of those before
template <class METRIC>
void Search(vibe::DistanceSearch<METRIC> &search, const vibe::ShapeView &a, const vibe::ShapeView &b) {
	constexpr uint64_t PAIRS = uint64_t(1) << 24;
	constexpr uint64_t LEAST_ITEMS = 64;
	const auto items = [](const vibe::ShapeView &s) { return uint64_t(s.vertex_count) + s.point_count; };
	const auto few = std::min(items(a), items(b)), many = std::max(items(a), items(b));
	const auto lanes = std::max<uint64_t>(1, std::min(few * many / PAIRS, few / LEAST_ITEMS));
	for (uint64_t lane = 0; lane < lanes; lane++) {
		vibe::distance_detail::Search(search, a, b, vibe::Lane {uint32_t(lane), uint32_t(lanes)});
		if (search.touching || (search.limit >= 0 && METRIC::Distance(search.best) <= search.limit)) {
			return;
		}
		if (lanes > 1) {
			PollCall(many);
		}
	}
}

//! The distance of two shapes from a search that begins with a bound
inline double Distance(const vibe::ShapeView &a, const vibe::ShapeView &b, double bound, double limit) {
	vibe::DistanceSearch<vibe::SquareMetric> search {vibe::distance_detail::FirstBound(bound), limit, false};
	Search(search, a, b);
	if (search.touching) {
		return 0.0;
	}
	if (vibe::distance_detail::Holds(search, a.box, b.box)) {
		return vibe::Sqrt(search.best);
	}
	vibe::DistanceSearch<vibe::LinearMetric> again {vibe::Infinity(), limit, false};
	Search(again, a, b);
	return vibe::distance_detail::AtLeast(again);
}

} // namespace distance_detail

// As those of vibe, but a search among many pairs of edges can be stopped

inline double ShapeDistance(const vibe::ShapeView &a, const vibe::ShapeView &b, double limit) {
	return distance_detail::Distance(a, b, limit, limit);
}

inline double ShapeDistanceWithin(const vibe::ShapeView &a, const vibe::ShapeView &b, double bound) {
	return distance_detail::Distance(a, b, bound, -1.0);
}

} // namespace vibespatial
