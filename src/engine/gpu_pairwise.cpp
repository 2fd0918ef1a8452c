#include "engine/gpu_pairwise.hpp"

#include <limits>

namespace vibespatial {

static constexpr double NOWHERE = std::numeric_limits<double>::quiet_NaN();

void PairwiseSide::PackPoint(const vibe::Vec2 &point) {
	const vibe::u32 zero = 0;
	if (point.x == point.x) {
		shapes.Add(vibe::ShapeOfPoint(&point, &zero));
	} else {
		shapes.AddNothing();
	}
}

void PairwiseSide::AddNothing() {
	AddPoint(vibe::Vec2 {NOWHERE, NOWHERE});
}

void PairwiseSide::AddPoint(const vibe::Vec2 &point) {
	if (has_shapes) {
		PackPoint(point);
	} else {
		points.push_back(point);
	}
}

void PairwiseSide::AddShape(const vibe::ShapeView &shape) {
	if (!has_shapes) {
		has_shapes = true;
		for (auto &point : points) {
			PackPoint(point);
		}
		points.clear();
	}
	shapes.Add(shape);
}

void PairwiseSide::Clear() {
	points.clear();
	shapes.Clear();
	has_shapes = false;
}

} // namespace vibespatial
