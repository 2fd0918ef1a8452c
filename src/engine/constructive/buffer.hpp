//===----------------------------------------------------------------------===//
// engine/constructive/buffer.hpp
//
// All points within a distance of a geometry, with circles approximated by polygons.
//
// Promise: the result is valid for any finite input, as it is the result of an Overlay. Vertices of arcs lie on the circle,
// evenly spaced from the end of one offset edge to the start of the next, in steps as close to a quarter / quad_segs as
// that allows. So the boundary of a round buffer is between distance * cos(3/4 of a step) and distance away. The input is
// not simplified. Invalid polygons are made valid first (make_valid.hpp).
//
// How it works: every ring gives one closed curve (offset_curves.hpp), its edges moved outwards by the distance and joined
// according to the style at corners that turn away from that side. The curve winds once, never backwards, around everything
// that it sweeps, so the buffer is what any curve winds around. A line is treated as the ring that runs there and back.
// Where the distance is much larger than the edges, one curve would cross itself everywhere: the chain is divided into
// pieces, whose buffers are united.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"

namespace vibespatial {

enum class BufferCap : uint8_t { ROUND, FLAT, SQUARE };
enum class BufferJoin : uint8_t { ROUND, MITRE, BEVEL };

struct BufferStyle {
	//! Segments of a quarter circle; less than 1 is 1
	int32_t quad_segs = 8;
	//! At the ends of lines. Of points: ROUND is a circle, SQUARE a square, FLAT nothing.
	BufferCap cap = BufferCap::ROUND;
	BufferJoin join = BufferJoin::ROUND;
	//! Maximum reach of a mitre from its corner, in multiples of the distance; longer ones are cut off there
	double mitre_limit = 5;
};

//! Appends a row with the polygons. A negative distance removes a margin of polygons, and lines and points entirely; 0 gives
//! the polygons themselves. Throws GeometryError when the row is not usable (geometry/checks.hpp), the distance is not
//! finite, or the buffer reaches beyond the range of numbers.
void Buffer(const GeometryBatch &batch, size_t row, double distance, const BufferStyle &style, Overlay &overlay,
            Parallel &parallel, GeometryBatch &out);

} // namespace vibespatial
