#include "engine/gpu_pairwise.hpp"

#include <limits>

namespace vibespatial {

static constexpr double NOWHERE = std::numeric_limits<double>::quiet_NaN();

void PairwiseSide::Clear(ShapeRows::Memory memory) {
	points.clear();
	shapes.Clear(std::move(memory));
	has_shapes = false;
}

void PairwiseSide::BeginShapes() {
	if (has_shapes) {
		return;
	}
	has_shapes = true;
	for (auto &point : points) {
		AddPoint(point);
	}
	points.clear();
}

void PairwiseSide::AddNothing() {
	AddPoint(vibe::Vec2 {NOWHERE, NOWHERE});
}

void PairwiseSide::AddPoint(const vibe::Vec2 &point) {
	if (!has_shapes) {
		points.push_back(point);
	} else if (point.x == point.x) {
		const auto wkb = WritePoint(point);
		shapes.AddWkb(wkb.data(), wkb.size());
	} else {
		shapes.AddNothing();
	}
}

void PairwiseSide::AddWkb(const uint8_t *wkb, size_t size) {
	BeginShapes();
	shapes.AddWkb(wkb, size);
}

void PairwiseSide::AddShape(const vibe::ShapeView &shape) {
	BeginShapes();
	shapes.AddPacked();
	if (shapes.packed.empty()) {
		shapes.packed.emplace_back();
	}
	shapes.packed.back().Add(shape);
}

} // namespace vibespatial
