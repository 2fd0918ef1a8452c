//===----------------------------------------------------------------------===//
// engine/overlay/sweep.hpp
//
// A plane sweep over the edges of an overlay. It checks that they meet only at their ends, computes the depth on both sides
// of each, decides what belongs to the result, and links the edges of its rings.
//
// Promise: exact. Uses only comparisons of coordinates and signs of Orient2d.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"
#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/edges.hpp"

#include <atomic>

namespace vibespatial {

//! The role of an edge in the result
enum OverlayLabel : uint8_t {
	//! On the boundary of an area
	LABEL_AREA = 1,
	//! The area lies above
	LABEL_ABOVE = 2,
	//! Part of a line
	LABEL_LINE = 4,
	//! In an area or on its boundary
	LABEL_COVERED = 8,
	//! In the closure of the left or the right side
	LABEL_LEFT = 16,
	LABEL_RIGHT = 32,
	//! Part of a line that ends at the left end of the edge, because other edges meet there
	LABEL_NODE = 64
};

class OverlaySweep {
public:
	static constexpr uint32_t NONE = UINT32_MAX;

	//! For each edge: its labels
	CountedVector<uint8_t> labels;
	//! For each edge of an area: the next edge around the area, with the area to the left
	PagesVector<uint32_t> next;
	//! For each edge of an area: more than two of those meet at the point it leads to. For each edge of a line: more than two
	//! edges meet at its right end.
	CountedVector<uint8_t> crowded;
	//! For each edge of an area: the edge of an area next below its left end
	PagesVector<uint32_t> under;
	//! The points of the result, sorted
	CountedVector<vibe::Vec2> points;

	//! Edges and points must be sorted, no two equal. False when two edges meet elsewhere than at ends of both; the members are
	//! undefined then.
	bool Run(const OverlayEdges &net, const CountedVector<OverlayPoint> &points, const OverlayRule &rule,
	         Parallel &parallel);

	//! Takes the result of a device for these edges, each of which bounds an area
	void Take(const PagesVector<OverlayEdge> &edges, UnitedNet &united);

private:
	class Slab;

	//! All edges, sorted by their right ends
	PagesVector<uint32_t> ends;
	//! For each edge: its node in the order of the slab where it starts
	PagesVector<uint32_t> places;
};

} // namespace vibespatial
