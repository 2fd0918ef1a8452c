//===----------------------------------------------------------------------===//
// engine/relate/prepared.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/point_locator.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/geometry_batch.hpp"

#include <memory>
#include <mutex>
#include <string>

namespace vibespatial {

//! One geometry that many others are held against: checked, indexed, and shared by all threads of a query
class PreparedGeometry {
public:
	//! Throws GeometryError on malformed or unusable bytes
	PreparedGeometry(const uint8_t *wkb, size_t size);

	bool Is(const uint8_t *wkb, size_t size) const;
	const vibe::ShapeView &View() const {
		return shape.View();
	}
	//! A polygon or multipolygon: Locate() may be asked
	bool IsArea() const {
		return shape.View().element_count == 1 && !shape.View().mixed;
	}
	vibe::Location Locate(const vibe::Vec2 &point) const;

private:
	std::string bytes;
	Shape shape;
	mutable std::once_flag locator_once;
	mutable std::unique_ptr<PointLocator> locator;
};

//! Reads, checks and builds one geometry
void BuildShape(const uint8_t *wkb, size_t size, GeometryBatch &scratch, Shape &shape);

} // namespace vibespatial
