//===----------------------------------------------------------------------===//
// engine/relate/simple.hpp
//
// Is a geometry simple by the OGC simple features rules?
//
// Promise: exact, and n log n for any input. A line does not meet itself except
// that it may end where it begins; the lines of a multilinestring meet only in
// ends of both, and a closed line has no ends; the points of a multipoint are
// distinct; each ring of a polygon is simple, seen alone. Members of a collection are seen
// alone. Repeated vertices and lines without length change nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

namespace vibespatial {

//! Throws GeometryError when the row is not usable (geometry/checks.hpp)
bool IsSimple(const GeometryBatch &batch, size_t row);

} // namespace vibespatial
