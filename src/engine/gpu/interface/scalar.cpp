#include "engine/gpu/interface/scalar.hpp"

#include "vibe/wkb.h"

#include <limits>

namespace vibespatial {

static constexpr double NOWHERE = std::numeric_limits<double>::quiet_NaN();

bool ScalarTask::IsForDevice(const uint8_t *wkb, size_t size) const {
	if (IsOverlay()) {
		// The host reads it, so that only a block has to have room for it
		if (size < vibe::WKB_LEAST_MEMBER || size > ShapeRows::BLOCK_BYTES) {
			return false;
		}
		const auto type = vibe::WkbTypeOf(vibe::LoadCount(wkb + 1));
		return type == vibe::WKB_POLYGON || type == vibe::WKB_MULTIPOLYGON;
	}
	if (!ShapeRows::IsForDevice(wkb, size)) {
		return false;
	}
	if (!GivesGeometries()) {
		return true;
	}
	const auto code = vibe::LoadCount(wkb + 1);
	if (vibe::WkbVertexTypeOf(code) > 0) {
		return false; // Z and M go with a geometry
	}
	// The NaN of an EMPTY point is any that was given; a centroid has its own
	vibe::Vec2 point;
	return kind != FLIP ||
	       (code == vibe::WKB_POINT ? vibe::TryReadPoint(wkb, size, point) : code != vibe::WKB_MULTIPOINT);
}

void ScalarSide::Clear(ShapeRows::Memory memory) {
	points.clear();
	shapes.Clear(std::move(memory));
	has_shapes = false;
}

void ScalarSide::BeginShapes() {
	if (has_shapes) {
		return;
	}
	has_shapes = true;
	for (auto &point : points) {
		AddPoint(point);
	}
	points.clear();
}

void ScalarSide::AddNothing() {
	AddPoint(vibe::Vec2 {NOWHERE, NOWHERE});
}

void ScalarSide::AddPoint(const vibe::Vec2 &point) {
	if (!has_shapes) {
		points.push_back(point);
	} else if (point.x == point.x) {
		const auto wkb = WritePoint(point);
		shapes.AddWkb(wkb.data(), wkb.size());
	} else {
		shapes.AddNothing();
	}
}

void ScalarSide::AddWkb(const uint8_t *wkb, size_t size) {
	BeginShapes();
	shapes.AddWkb(wkb, size);
}

void ScalarSide::AddShape(const vibe::ShapeView &shape) {
	BeginShapes();
	shapes.AddPacked();
	if (shapes.packed.empty()) {
		shapes.packed.emplace_back();
	}
	shapes.packed.back().Add(shape);
}

} // namespace vibespatial
