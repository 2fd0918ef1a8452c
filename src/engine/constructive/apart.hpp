//===----------------------------------------------------------------------===//
// engine/constructive/apart.hpp
//
// Areas whose boxes meet no other box need no overlay to be united: of a million parts that lie apart, each is in the result as it is.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/constructive/offset_pieces.hpp"

namespace vibespatial {

//! For boxes in the order of their least x: 1 where a box meets none of the others. Where boxes meet, what lies in the box around them may be
//! said to meet them, too. n log n, however they lie.
CountedVector<uint8_t> FindApart(const CountedVector<vibe::Box> &boxes);

//! Appends a row with the area that curves wind around, united with rows of polygons, which are cleared
void AppendAreas(const OffsetCurves &curves, GeometryBatch &rows, Overlay &overlay, Parallel &parallel,
                 GeometryBatch &out);

} // namespace vibespatial
