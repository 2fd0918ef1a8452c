//===----------------------------------------------------------------------===//
// engine/constructive/buffer.hpp
//
// All that lies within a distance of a geometry, with its circles drawn as polygons.
//
// Promise: valid for any finite input, for it is an Overlay's result. Vertices of arcs lie on the circle, evenly from
// the end of one offset edge to the start of the next, in steps as near to a quarter / quad_segs as that allows; so a
// round buffer reaches from distance * cos(3/4 of that step) to distance. The input is not simplified. A polygon that is
// not valid is made so first (make_valid.hpp).
//
// How it works: every ring gives one closed curve, its edges moved out by the distance, joined by what the style says
// at corners that turn away from that side. It winds once around each piece that it sweeps, never backwards, so the
// buffer is what any curve winds around. A line is the ring that runs there and back. Where the distance is far above that
// between vertices, such a curve would cross itself all over: pieces of a chain have curves then, and are united.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"

namespace vibespatial {

enum class BufferCap : uint8_t { ROUND, FLAT, SQUARE };
enum class BufferJoin : uint8_t { ROUND, MITRE, BEVEL };

struct BufferStyle {
	//! Segments of a quarter circle; less than 1 is 1
	int32_t quad_segs = 8;
	//! At the ends of lines; of points, too: ROUND a circle, SQUARE a square, FLAT nothing
	BufferCap cap = BufferCap::ROUND;
	BufferJoin join = BufferJoin::ROUND;
	//! How far from its corner a mitre may reach, in distances; beyond that it is cut off there
	double mitre_limit = 5;
};

//! Appends a row with the polygons. A negative distance takes a margin off polygons and leaves nothing of lines and
//! points; 0 gives the polygons themselves. Throws GeometryError when the row is not usable (geometry/checks.hpp), the
//! distance is not finite or the buffer reaches beyond the range of numbers.
void Buffer(const GeometryBatch &batch, size_t row, double distance, const BufferStyle &style, Overlay &overlay,
            Parallel &parallel, GeometryBatch &out);

} // namespace vibespatial
