//===----------------------------------------------------------------------===//
// engine/constructive/offset_pieces.hpp
//
// What the curve of a ring sweeps over, made in pieces: for curves that would cross themselves everywhere.
//
// Promise: the same area as that of the curve, but for the rounding of crossings; the same to the bit for any number of threads.
// Where pieces meet in a corner that turns to this side, the rectangles of its edges are not trimmed: they pass over the ring, to places
// on its other side that are within the distance, too.
// Each edge sweeps over a rectangle, and each corner that turns away over what the style of joins gives it. Runs of edges are united
// first, then their unions, so that most of what lies inside of others is gone before it meets the rest.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/constructive/offset_curves.hpp"

namespace vibespatial {

//! Whether a closed curve turns left at every corner and winds once
bool IsConvex(const vibe::Vec2 *points, size_t count);

//! Appends a row with a polygon in the normal form that an overlay gives: a counterclockwise ring from `least` on, its lexicographically
//! least vertex
void AppendShell(const vibe::Vec2 *points, size_t count, size_t least, GeometryBatch &out);
//! Appends a row with the union of the areas that were added
void RunUnion(Overlay &overlay, Parallel &parallel, GeometryBatch &out);
//! Appends a row with the area that a single curve winds around, where that is found without an overlay
bool AppendShell(const OffsetCurves &curves, GeometryBatch &out);
//! Appends a row with the area that curves wind around, by an overlay
void AppendOverlay(const OffsetCurves &curves, Overlay &overlay, Parallel &parallel, GeometryBatch &out);
//! Either of them
void AppendArea(const OffsetCurves &curves, Overlay &overlay, Parallel &parallel, GeometryBatch &out);

//! Appends a row with the union of rows, which are cleared
void AppendUnion(GeometryBatch &rows, Overlay &overlay, Parallel &parallel, GeometryBatch &out);

//! Whether the curve of a ring crosses itself so often within short runs that pieces are faster; an estimate from some of its
//! edges. Crossings that are the ring's own do not count.
bool IsCrowded(const OffsetRing &ring, double distance, const BufferStyle &style);

//! Appends a row with what the ring sweeps over on its right side, within the distance. With round joins it may be swept on both
//! sides: on the left that reaches no farther than the distance.
void AppendSweep(const OffsetRing &ring, double distance, const BufferStyle &style, Overlay &overlay,
                 Parallel &parallel, GeometryBatch &out);

} // namespace vibespatial
