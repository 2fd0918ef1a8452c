//===----------------------------------------------------------------------===//
// same_shape.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/shape.h"

#include <algorithm>
#include <cstdint>

namespace vibespatial {

inline bool SameBox(const vibe::Box &a, const vibe::Box &b) {
	return a.min_x == b.min_x && a.min_y == b.min_y && a.max_x == b.max_x && a.max_y == b.max_y;
}

inline bool SameShape(const vibe::ShapeView &a, const vibe::ShapeView &b) {
	if (a.vertex_count != b.vertex_count || a.ring_count != b.ring_count || a.element_count != b.element_count ||
	    a.point_count != b.point_count || a.end_count != b.end_count || a.level_count != b.level_count ||
	    a.dimension != b.dimension || a.mixed != b.mixed || !SameBox(a.box, b.box)) {
		return false;
	}
	bool same = std::equal(a.x, a.x + a.vertex_count, b.x) && std::equal(a.y, a.y + a.vertex_count, b.y) &&
	            std::equal(a.vertex_ring, a.vertex_ring + a.vertex_count, b.vertex_ring) &&
	            std::equal(a.points, a.points + a.point_count, b.points) &&
	            std::equal(a.ends, a.ends + a.end_count, b.ends) &&
	            std::equal(a.element_begin, a.element_begin + a.element_count + 1, b.element_begin) &&
	            std::equal(a.element_box, a.element_box + a.element_count, b.element_box, SameBox) &&
	            std::equal(a.level_begin, a.level_begin + a.level_count + 1, b.level_begin) &&
	            std::equal(a.boxes, a.boxes + a.level_begin[a.level_count], b.boxes, SameBox);
	for (uint32_t i = 0; i < a.ring_count; i++) {
		auto &p = a.rings[i];
		auto &q = b.rings[i];
		same = same && p.begin == q.begin && p.end == q.end && p.element == q.element && p.is_area == q.is_area &&
		       p.interior_left == q.interior_left && SameBox(p.box, q.box);
	}
	return same;
}

} // namespace vibespatial
