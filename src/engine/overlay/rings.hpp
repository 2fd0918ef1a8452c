//===----------------------------------------------------------------------===//
// engine/overlay/rings.hpp
//
// From the labelled edges of an overlay to polygons, lines and points in normal form.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/edges.hpp"
#include "engine/overlay/sweep.hpp"
#include "geometry/geometry_batch.hpp"

namespace vibespatial {

//! Holes between members thinner than this part of their largest coordinate are filled: two digitisations of one border, or
//! one border computed twice, leave thousands of them. About 1e-12.
constexpr double OVERLAY_SLIVER = 0x1p-40;

class OverlayRings {
public:
	//! `line_ends`: the ends of all lines of the input, sorted; lines of the result end there too
	void Build(const PagesVector<OverlayEdge> &edges, const OverlaySweep &sweep,
	           const std::vector<vibe::Vec2> &line_ends, Parallel &parallel);
	//! Rings that a device found
	void Build(UnitedNet &united, Parallel &parallel);
	//! Appends a row, all coordinates times `scale`; `dimension` tells the type of an EMPTY one, -1 for a collection
	void Write(int dimension, double scale, GeometryBatch &out) const;
	//! Polygons are all there is, and there are some: then they can be written as WKB at once
	bool AreasOnly() const {
		return !order.empty() && line_order.empty() && points.empty();
	}
	size_t WkbSize() const;
	void WriteWkb(double scale, uint8_t *out, Parallel &parallel) const;
	size_t Memory() const;

private:
	static constexpr uint32_t NONE = UINT32_MAX;

	//! Vertices [start, start + count) of `vertices`; while they are looked for, the edges of `path` that leave them
	struct Ring {
		uint32_t start;
		uint32_t count;
		//! The position of its first vertex by x and y
		uint32_t first;
		//! The first of both edges there tells its place among all rings
		uint32_t place;
		//! Of a hole: the lower one of both, then the ring next below that
		uint32_t under;
		bool shell;
		//! One polygon has all of it
		bool own;
		//! The shell that it lies in; its own number for a shell
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
	void FillHoles(std::vector<uint8_t> &gone);
	void Nest(Parallel &parallel);
	bool IsNode(uint32_t edge, const vibe::Vec2 &p) const;
	void BuildLines(const std::vector<vibe::Vec2> &line_ends);

	const PagesVector<OverlayEdge> *edges = nullptr;
	const OverlaySweep *sweep = nullptr;

	PagesVector<uint32_t> path;
	PagesVector<vibe::Vec2> vertices;
	std::vector<Ring> rings;
	PagesVector<uint32_t> ring_of;
	//! The rings of the result: shells in order, each before its holes
	std::vector<uint32_t> order;
	std::vector<vibe::Vec2> line_vertices;
	std::vector<uint32_t> line_start;
	std::vector<uint32_t> line_order;
	std::vector<vibe::Vec2> points;
	// of a walk
	std::vector<uint32_t> walked;
};

} // namespace vibespatial
