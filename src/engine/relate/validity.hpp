//===----------------------------------------------------------------------===//
// engine/relate/validity.hpp
//
// Is a geometry valid by the OGC simple features rules, and if not, why and where?
//
// Promise: exact, and n log n for any input. Coordinates are finite; rings are closed
// and simple, of at least four vertices; lines have at least two distinct vertices;
// rings of a polygon or multipolygon meet in points only and never cross; holes lie
// in their shell, not in each other; shells do not lie in other polygons; the interior
// of each polygon is connected. Repeated vertices are allowed. A collection is
// valid when its members are.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

#include <optional>
#include <string>

namespace vibespatial {

//! What is wrong with a geometry, the first of it that was found
struct ValidityProblem {
	//! In the terms other spatial databases use
	const char *reason;
	//! Where; rounded when it is no vertex
	vibe::Vec2 place;
};

//! Nothing for a valid geometry
std::optional<ValidityProblem> FindValidityProblem(const GeometryBatch &batch, size_t row);

bool IsValid(const GeometryBatch &batch, size_t row);

//! One polygon of a geometry, by itself
bool IsValidPolygon(const vibe::GeometryView &view, uint32_t part);

//! "Valid Geometry", or the reason and the place: "Self-intersection[5 5]"
std::string ValidityReason(const GeometryBatch &batch, size_t row);

} // namespace vibespatial
