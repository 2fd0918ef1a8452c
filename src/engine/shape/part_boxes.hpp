//===----------------------------------------------------------------------===//
// engine/shape/part_boxes.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/lanes.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"

#include <vector>

namespace vibespatial {

//! For VisitWkb: the box of each part, where they are asked for, and of the whole
struct PartBoxes {
	vibe::Box whole = vibe::Box::Empty();
	std::vector<vibe::Box> *parts;
	bool finite = true;
	uint64_t vertices = 0;

	void Part(vibe::Family) {
		if (parts) {
			parts->push_back(vibe::Box::Empty());
		}
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		Lanes rest {0, 0};
		const LaneRange range = VertexRange(coords, count, stride, [&](Lanes vertex) { rest += vertex - vertex; });
		const vibe::Box box {range.min[0], range.min[1], range.max[0], range.max[1]};
		// v - v is 0 for a finite v and NaN for all others
		finite = finite && rest[0] + rest[1] == 0;
		vertices += count;
		whole.Add(box);
		if (parts) {
			parts->back().Add(box);
		}
	}
};

} // namespace vibespatial
