//===----------------------------------------------------------------------===//
// engine/overlay/arrangement.hpp
//
// From rings and lines to edges that meet in their ends only, labelled with what they are to the result.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/edges.hpp"
#include "engine/overlay/sweep.hpp"

namespace vibespatial {

//! A ring or a line of the input; a ring does not repeat its first vertex
struct OverlayChain {
	enum class Kind : uint8_t {
		//! Of polygons: counted as if it ran counterclockwise
		SHELL,
		//! Clockwise
		HOLE,
		//! As it runs
		RING,
		LINE
	};

	const vibe::Vec2 *points;
	uint32_t count;
	uint32_t polygon;
	Kind kind;
	Overlay::Side side;
	//! Where the points were not read yet: the first one in WKB, and how many bytes further the next one is
	uint8_t stride = 0;
	const uint8_t *wkb = nullptr;
	vibe::Box box = vibe::Box::Empty();

	//! Of a ring: 1 where what lies to its left, as it runs, is counted one deeper, -1 where that lies to its right
	int32_t Weight() const;
};

class OverlayArrangement {
public:
	//! The net and its labels, once arranged
	OverlayEdges net;
	OverlaySweep sweep;
	//! Of which all coordinates are multiples, 0: of none
	double grid = 0;

	//! `boxes`: those of both sides; only what can matter near the other's is kept. `points`: sorted, no two equal.
	void Arrange(const std::vector<OverlayChain> &chains, const vibe::Box boxes[2], std::vector<OverlayPoint> &points,
	             const OverlayRule &rule, Parallel &parallel);
	//! What was put into net.edges; `clean`: they meet in their ends only, and no points are there
	void ArrangeNet(std::vector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel, bool clean = false);
	//! Edges in runs, which are taken
	void ArrangeRuns(std::vector<EdgeRuns> &runs, std::vector<OverlayPoint> &points, const OverlayRule &rule,
	                 Parallel &parallel);
	//! Adds the boundary of the areas that came out, as a run
	void TakeAreas(std::vector<EdgeRuns> &pieces) const;
	//! Gives back the memory of many edges, once nothing is read from them any more
	void Trim();
	size_t Memory() const;

private:
	void ArrangeSettled(std::vector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel, bool clean);
	void AddEdges(const OverlayChain &chain, const vibe::Box *clip);
	void AddEdge(const vibe::Vec2 &p, const vibe::Vec2 &q, const OverlayChain &chain, int32_t weight);
	double Largest() const;
};

} // namespace vibespatial
