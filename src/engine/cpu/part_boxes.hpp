//===----------------------------------------------------------------------===//
// engine/cpu/part_boxes.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb.hpp"

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
		vibe::Box box = vibe::Box::Empty();
		double sum = 0;
		for (uint32_t i = 0; i < count; i++) {
			double x = LoadDouble(coords + i * stride), y = LoadDouble(coords + i * stride + 8);
			sum += (x - x) + (y - y);
			box.Add(x, y);
		}
		finite = finite && sum == 0;
		vertices += count;
		whole.Add(box);
		if (parts) {
			parts->back().Add(box);
		}
	}
};

} // namespace vibespatial
