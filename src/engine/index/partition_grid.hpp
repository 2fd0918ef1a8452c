//===----------------------------------------------------------------------===//
// engine/index/partition_grid.hpp
//
// Cuts the plane into parts of about equal weight: ranges of a Hilbert curve over a grid of cells. A box is in every part that
// it meets; a pair of boxes that meet is reported in one part alone, that of the lower left corner of what they share
// (the reference point of Patel and DeWitt, 1996).
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

#include <cstdint>
#include <vector>

namespace vibespatial {

class PartitionGrid {
public:
	static constexpr uint32_t MAX_PARTS = 256;

	//! `sample`: boxes of what is to be cut, `weights` what each of them counts. What lies outside of the sample is with its
	//! nearest.
	PartitionGrid(const std::vector<vibe::Box> &sample, const std::vector<double> &weights, uint32_t parts);

	uint32_t PartCount() const {
		return part_count;
	}
	uint32_t PartOf(double x, double y) const {
		return part[Place(y, bounds.min_y, per_y) * SIDE + Place(x, bounds.min_x, per_x)];
	}
	//! The part where a pair of boxes is reported; an EMPTY box leaves it to the other
	uint32_t PartOf(const vibe::Box &a, const vibe::Box &b) const;

	//! Calls use(part) for each part that a box meets, once; there is at least one
	template <class USE>
	void Visit(const vibe::Box &box, USE &&use) const {
		uint64_t seen[MAX_PARTS / 64] = {};
		const uint32_t last_column = Place(box.max_x, bounds.min_x, per_x);
		const uint32_t last_row = Place(box.max_y, bounds.min_y, per_y);
		for (uint32_t row = Place(box.min_y, bounds.min_y, per_y); row <= last_row; row++) {
			for (uint32_t column = Place(box.min_x, bounds.min_x, per_x); column <= last_column; column++) {
				const uint32_t p = part[row * SIDE + column];
				if (!(seen[p / 64] >> (p % 64) & 1)) {
					seen[p / 64] |= uint64_t(1) << (p % 64);
					use(p);
				}
			}
		}
	}

private:
	static constexpr uint32_t SIDE = 64;

	//! Monotone, so what two boxes share lies in cells of both
	static uint32_t Place(double at, double min, double per_unit) {
		const double place = (at - min) * per_unit;
		return place >= SIDE - 1 ? SIDE - 1 : place > 0 ? static_cast<uint32_t>(place) : 0;
	}

	vibe::Box bounds;
	double per_x;
	double per_y;
	uint32_t part_count;
	uint8_t part[SIDE * SIDE];
};

} // namespace vibespatial
