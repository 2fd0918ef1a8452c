#include "engine/index/partition_grid.hpp"

#include <algorithm>
#include <cmath>

namespace vibespatial {

//! The cell at a place of the Hilbert curve over a square of `side` cells
static void HilbertCell(uint32_t side, uint32_t place, uint32_t &column, uint32_t &row) {
	column = row = 0;
	for (uint32_t s = 1; s < side; s *= 2) {
		const uint32_t right = 1 & (place / 2);
		const uint32_t up = 1 & (place ^ right);
		if (up == 0) {
			if (right == 1) {
				column = s - 1 - column;
				row = s - 1 - row;
			}
			std::swap(column, row);
		}
		column += s * right;
		row += s * up;
		place /= 4;
	}
}

static double PerUnit(double min, double max, uint32_t side) {
	const double per_unit = side / (max - min);
	return std::isfinite(per_unit) ? per_unit : 0;
}

static vibe::Box BoundsOf(const std::vector<vibe::Box> &boxes) {
	vibe::Box result = vibe::Box::Empty();
	for (auto &box : boxes) {
		result.Add(box);
	}
	return result;
}

PartitionGrid::PartitionGrid(const std::vector<vibe::Box> &sample, const std::vector<double> &weights, uint32_t parts)
    : bounds(BoundsOf(sample)), per_x(PerUnit(bounds.min_x, bounds.max_x, SIDE)),
      per_y(PerUnit(bounds.min_y, bounds.max_y, SIDE)), part_count(std::max(1u, std::min(parts, MAX_PARTS))) {
	std::vector<double> weight(SIDE * SIDE, 0);
	double total = 0;
	for (size_t i = 0; i < sample.size(); i++) {
		if (sample[i].IsEmpty()) {
			continue;
		}
		const double x = sample[i].min_x / 2 + sample[i].max_x / 2, y = sample[i].min_y / 2 + sample[i].max_y / 2;
		weight[Place(y, bounds.min_y, per_y) * SIDE + Place(x, bounds.min_x, per_x)] += weights[i];
		total += weights[i];
	}
	double before = 0;
	for (uint32_t place = 0; place < SIDE * SIDE; place++) {
		uint32_t column, row;
		HilbertCell(SIDE, place, column, row);
		const uint32_t cell = row * SIDE + column;
		const double middle = before + weight[cell] / 2;
		const double share = total > 0 ? middle / total : double(place) / (SIDE * SIDE);
		part[cell] = static_cast<uint8_t>(std::min(part_count - 1, static_cast<uint32_t>(share * part_count)));
		before += weight[cell];
	}
}

uint32_t PartitionGrid::PartOf(const vibe::Box &a, const vibe::Box &b) const {
	if (a.IsEmpty() || b.IsEmpty()) {
		return a.IsEmpty() && b.IsEmpty() ? 0 : a.IsEmpty() ? PartOf(b.min_x, b.min_y) : PartOf(a.min_x, a.min_y);
	}
	return PartOf(std::max(a.min_x, b.min_x), std::max(a.min_y, b.min_y));
}

} // namespace vibespatial
