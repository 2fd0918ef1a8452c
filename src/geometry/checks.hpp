//===----------------------------------------------------------------------===//
// geometry/checks.hpp
//
// What predicates and distances ask of a geometry before they touch it. Weaker than validity: every geometry that
// passes has a well-defined point set for each of its rings and lines.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

#include <string>

namespace vibespatial {

//! Whether the row can be used: finite X and Y, closed rings of at least 4 vertices, no line of exactly one vertex,
//! no hole without a shell. NULL and EMPTY rows can. One pass over the columns.
bool IsUsable(const GeometryBatch &batch, size_t row);

//! The first thing wrong with the row, in words and with its place; empty when there is nothing
std::string UsabilityProblem(const GeometryBatch &batch, size_t row);

//! Throws GeometryError(UsabilityProblem()) unless IsUsable()
void CheckUsable(const GeometryBatch &batch, size_t row);

} // namespace vibespatial
