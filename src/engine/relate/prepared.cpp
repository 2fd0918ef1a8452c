#include "engine/relate/prepared.hpp"

#include "geometry/checks.hpp"
#include "geometry/wkb.hpp"

#include <cstring>

namespace vibespatial {

void BuildShape(const uint8_t *wkb, size_t size, GeometryBatch &scratch, Shape &shape) {
	if (shape.BuildPlain(wkb, size)) {
		return;
	}
	scratch.Clear();
	ReadWkb(wkb, size, scratch);
	CheckUsable(scratch, 0);
	shape.Build(scratch.View(0));
}

PreparedGeometry::PreparedGeometry(const uint8_t *wkb, size_t size) : bytes(reinterpret_cast<const char *>(wkb), size) {
	GeometryBatch scratch;
	BuildShape(wkb, size, scratch, shape);
}

bool PreparedGeometry::Is(const uint8_t *wkb, size_t size) const {
	return bytes.size() == size && std::memcmp(bytes.data(), wkb, size) == 0;
}

vibe::Location PreparedGeometry::Locate(const vibe::Vec2 &point) const {
	// Points outside the box, often most of them, need no index
	if (!shape.View().box.Covers(point.x, point.y)) {
		return vibe::LOC_EXTERIOR;
	}
	std::call_once(locator_once, [this] { locator = std::make_unique<PointLocator>(shape.View()); });
	return locator->Locate(point);
}

} // namespace vibespatial
