//===----------------------------------------------------------------------===//
// engine/constructive/node_lines.hpp
//
// Lines cut where they meet.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"

namespace vibespatial {

//! Appends all lines and rings of a row as a MULTILINESTRING whose members meet in their ends only; what runs along
//! something else comes once. Points and lines of no length add nothing. Throws GeometryError when the row is not usable
//! (geometry/checks.hpp).
void NodeLines(const GeometryBatch &batch, size_t row, Overlay &overlay, Parallel &parallel, GeometryBatch &out);

} // namespace vibespatial
