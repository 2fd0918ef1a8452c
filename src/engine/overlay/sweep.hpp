//===----------------------------------------------------------------------===//
// engine/overlay/sweep.hpp
//
// A plane sweep over the edges of an overlay: whether they meet in their ends only, how deep it is on both sides of
// each, what belongs to the result, and how its rings go on.
//
// Promise: exact. Only comparisons of coordinates and signs of Orient2d.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/overlay.hpp"
#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/edges.hpp"

#include <atomic>

namespace vibespatial {

//! What an edge is to the result
enum OverlayLabel : uint8_t {
	//! On the boundary of its areas
	LABEL_AREA = 1,
	//! The area lies above
	LABEL_ABOVE = 2,
	//! In one of its lines
	LABEL_LINE = 4,
	//! In its areas, boundary included
	LABEL_COVERED = 8,
	//! In the closure of the left, or the right side
	LABEL_LEFT = 16,
	LABEL_RIGHT = 32,
	//! In a line that ends at the edge's left end, for other edges meet there too
	LABEL_NODE = 64
};

class OverlaySweep {
public:
	static constexpr uint32_t NONE = UINT32_MAX;

	//! For each edge: its labels
	std::vector<uint8_t> labels;
	//! For each edge of an area: the edge after it, on the way around the area that lies to its left
	PagesVector<uint32_t> next;
	//! For each edge of an area: more than two of them meet in the point it leads to. For each edge of a line: more than two
	//! edges meet in its right end.
	std::vector<uint8_t> crowded;
	//! For each edge of an area: the edge of an area next below its left end
	PagesVector<uint32_t> under;
	//! The result's points, sorted
	std::vector<vibe::Vec2> points;

	//! Both sorted, no two equal. False when two edges meet elsewhere than in ends of both; then nothing else is said.
	bool Run(const OverlayEdges &net, const std::vector<OverlayPoint> &points, const OverlayRule &rule,
	         Parallel &parallel);

	//! What a device found of these edges, each of which bounds an area
	void Take(const PagesVector<OverlayEdge> &edges, UnitedNet &united);

	size_t Memory() const;

private:
	class Slab;

	//! All edges by their right ends
	PagesVector<uint32_t> ends;
	//! For each edge: its place in the order of the slab where it starts
	PagesVector<uint32_t> places;
};

} // namespace vibespatial
