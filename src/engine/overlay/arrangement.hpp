//===----------------------------------------------------------------------===//
// engine/overlay/arrangement.hpp
//
// Turns rings and lines into edges that meet only at their ends, labelled with their role in the result.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/edges.hpp"
#include "engine/overlay/sweep.hpp"

namespace vibespatial {

//! A ring or a line of the input; a ring does not repeat its first vertex
struct OverlayChain {
	enum class Kind : uint8_t {
		//! Of a polygon: treated as counterclockwise
		SHELL,
		//! Of a polygon: treated as clockwise
		HOLE,
		//! Keeps its direction
		RING,
		LINE
	};

	const vibe::Vec2 *points;
	uint32_t count;
	uint32_t polygon;
	Kind kind;
	Overlay::Side side;
	//! Where `points` is null: the first point in WKB, and the bytes from one point to the next
	uint8_t stride = 0;
	//! Its number among the rings of OverlayInput::known
	static constexpr uint32_t NOT_KNOWN = UINT32_MAX;
	uint32_t known = NOT_KNOWN;
	const uint8_t *wkb = nullptr;
	vibe::Box box = vibe::Box::Empty();

	//! Of a ring: 1 where the depth is one greater to its left, -1 where it is to its right
	int32_t Weight() const;
	//! Of a ring: writes the vertices of the ring that has the same edges near a box to `out`, at most `count`; returns how many.
	//! Independent of where the ring begins and which way it runs.
	size_t Clip(const vibe::Box &box, vibe::Vec2 *out) const;
};

//! Whether of a side only what is near the other one matters
inline bool IsClipped(OverlayOp op, Overlay::Side side) {
	return op == OverlayOp::INTERSECTION || (op == OverlayOp::DIFFERENCE && side == Overlay::RIGHT);
}

class OverlayArrangement {
public:
	//! The edges and their labels, once arranged
	OverlayEdges net;
	OverlaySweep sweep;
	//! All coordinates stay multiples of this; 0: no restriction
	double grid = 0;

	//! `boxes`: of both sides; edges that cannot matter near the other side are dropped. `points`: sorted, no two equal.
	void Arrange(const CountedVector<OverlayChain> &chains, const vibe::Box boxes[2],
	             CountedVector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel);
	//! Arranges the edges in net.edges. `clean`: they meet only at their ends already, and there are no points.
	void ArrangeNet(CountedVector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel,
	                bool clean = false);
	//! Arranges edges in runs, which are consumed
	void ArrangeRuns(std::vector<EdgeRuns> &runs, CountedVector<OverlayPoint> &points, const OverlayRule &rule,
	                 Parallel &parallel);
	//! Appends the boundary of the resulting areas as a run
	void TakeAreas(std::vector<EdgeRuns> &pieces) const;
	//! Frees the memory where there were many edges, once nothing reads them any more
	void Trim();

private:
	void ArrangeSettled(CountedVector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel, bool clean);
	void AddEdges(const OverlayChain &chain, const vibe::Box *clip);
	void AddEdge(const vibe::Vec2 &p, const vibe::Vec2 &q, const OverlayChain &chain, int32_t weight);
	double Largest() const;

	//! A ring without its detours
	CountedVector<vibe::Vec2> clipped;
};

} // namespace vibespatial
