//===----------------------------------------------------------------------===//
// engine/overlay/rings.hpp
//
// Builds polygons, lines and points in normal form from the labelled edges of an overlay.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/edges.hpp"
#include "engine/overlay/sweep.hpp"
#include "geometry/geometry_batch.hpp"

namespace vibespatial {

//! Holes between members that are thinner than this fraction of their largest coordinate are filled: a border that was
//! digitised or computed twice leaves thousands of them. About 1e-12.
constexpr double OVERLAY_SLIVER = 0x1p-40;

class OverlayRings {
public:
	//! `line_ends`: the ends of all lines of the input, sorted. Lines of the result end there, too.
	void Build(const PagesVector<OverlayEdge> &edges, const OverlaySweep &sweep,
	           const CountedVector<vibe::Vec2> &line_ends, Parallel &parallel);
	//! Takes the rings that a device found
	void Build(UnitedNet &united, Parallel &parallel);
	//! Appends a row, with all coordinates times `scale`. `dimension` decides the type of an EMPTY result; -1: a collection.
	void Write(int dimension, double scale, GeometryBatch &out) const;
	//! The result is one or more polygons and nothing else: WriteWkb() can write it
	bool AreasOnly() const {
		return !order.empty() && line_order.empty() && points.empty();
	}
	size_t WkbSize() const;
	void WriteWkb(double scale, uint8_t *out, Parallel &parallel) const;

private:
	static constexpr uint32_t NONE = UINT32_MAX;

	//! Vertices [start, start + count) of `vertices`; during the search, the edges of `path` that leave them
	struct Ring {
		uint32_t start;
		uint32_t count;
		//! Position of its lexicographically least vertex
		uint32_t first;
		//! The first of the two edges there, which decides the order of rings
		uint32_t place;
		//! Of a hole: the lower of the two edges, later the ring next below that
		uint32_t under;
		bool shell;
		//! All edges belong to one polygon
		bool own;
		//! The shell of a hole; for a shell, its own number
		uint32_t owner;
	};

	vibe::Vec2 Tail(uint32_t edge) const;
	vibe::Vec2 Head(uint32_t edge) const;
	void Walk(uint32_t start);
	void AddRing(size_t from);
	bool IsOwn(const Ring &ring) const;
	uint32_t Owner(uint32_t ring);
	bool IsSliver(const Ring &ring) const;
	bool LiesIn(const Ring &shell, const Ring &hole) const;
	void FillHoles(CountedVector<uint8_t> &gone);
	void Nest(Parallel &parallel);
	bool IsNode(uint32_t edge, const vibe::Vec2 &p) const;
	void BuildLines(const CountedVector<vibe::Vec2> &line_ends, Parallel &parallel);
	void SortLines(size_t open);

	const PagesVector<OverlayEdge> *edges = nullptr;
	const OverlaySweep *sweep = nullptr;

	PagesVector<uint32_t> path;
	PagesVector<vibe::Vec2> vertices;
	CountedVector<Ring> rings;
	PagesVector<uint32_t> ring_of;
	//! The rings of the result: shells in order, each before its holes
	CountedVector<uint32_t> order;
	PagesVector<vibe::Vec2> line_vertices;
	CountedVector<uint32_t> line_start;
	CountedVector<uint32_t> line_order;
	CountedVector<vibe::Vec2> points;
	// Of a walk
	CountedVector<uint32_t> walked;
};

//! Rings of a device none of which is a hole, as the polygons that OverlayRings makes of them. EMPTY without rings.
class OverlayShells {
public:
	//! `vertices`: those of all rings of the device
	OverlayShells(const vibe::UnitedRing *rings, size_t count, const vibe::Vec2 *vertices)
	    : rings(rings), count(count), vertices(vertices) {
	}

	static bool Are(const vibe::UnitedRing *rings, size_t count);
	size_t WkbSize() const;
	void WriteWkb(uint8_t *out) const;
	//! The area of that WKB, to the bit
	double Area() const;

private:
	const vibe::UnitedRing *rings;
	size_t count;
	const vibe::Vec2 *vertices;
};

} // namespace vibespatial
