//===----------------------------------------------------------------------===//
// engine/overlay/input.hpp
//
// The input of an overlay: the members of both sides as rings, lines and points
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/pages_vector.hpp"
#include "engine/overlay/arrangement.hpp"
#include "engine/overlay/known_polygons.hpp"
#include "engine/overlay/overlay.hpp"
#include "geometry/geometry_batch.hpp"
#include "geometry/wkb_edit.hpp"

#include <vector>

namespace vibespatial {

//! A vertex in WKB; -0 becomes 0
inline vibe::Vec2 LoadVertex(const uint8_t *at) {
	return vibe::Vec2 {vibe::LoadDouble(at) + 0.0, vibe::LoadDouble(at + sizeof(double)) + 0.0};
}

//! Calls visit(point) for the points of a chain as they came
template <class VISIT>
void VisitVertices(const OverlayChain &chain, VISIT &&visit) {
	const size_t count = chain.count;
	if (const auto *at = chain.points) {
		for (size_t i = 0; i < count; i++) {
			visit(at[i]);
		}
		return;
	}
	const auto *at = chain.wkb;
	const size_t stride = chain.stride;
	for (size_t i = 0; i < count; i++, at += stride) {
		visit(LoadVertex(at));
	}
}

class OverlayInput {
public:
	typedef Overlay::Side Side;

	// As those of Overlay
	void Add(Side side, const GeometryBatch &batch, size_t row);
	void AddWkb(Side side, const uint8_t *wkb, size_t size);
	bool AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel);
	//! The same for one geometry, which may be small
	bool AddPolygons(Side side, WkbSlice geometry);
	//! The same for rows of known polygons, by number
	bool AddKnown(Side side, const KnownRows &rows, const uint32_t *numbers, size_t count, Parallel &parallel);
	void AddRing(Side side, const vibe::Vec2 *points, size_t count);
	void AddLine(Side side, const vibe::Vec2 *points, size_t count);
	void AddPoint(Side side, const vibe::Vec2 &point);
	void Clear();

	//! Call before anything below is read: makes chains of everything added, finds boxes and scale, and sorts the points
	void Prepare(Parallel &parallel);

	//! Whether a side is one geometry of polygons only
	bool IsOnePolygonal(Side side) const {
		return added[side] == 1 && others[side] == 0;
	}
	bool HasNothing(Side side) const {
		return added[side] == 0;
	}
	//! Dimension of the type of an EMPTY result; -1 for a collection
	int ResultDimension(OverlayOp op) const;

	//! Calls visit(point) for the points of a chain, whether they were read or are still WKB
	template <class VISIT>
	void VisitPoints(const OverlayChain &chain, VISIT &&visit) const {
		if (chain.points || grid == 0) {
			VisitVertices(chain, visit);
		} else {
			VisitVertices(chain, [&](const vibe::Vec2 &p) { visit(Scaled(p)); });
		}
	}
	void ReadPoints(const OverlayChain &chain, vibe::Vec2 *out) const {
		VisitPoints(chain, [&](const vibe::Vec2 &p) { *out++ = p; });
	}
	//! Reads the points of all chains that are still WKB
	void ReadAll(Parallel &parallel);
	//! Adds a polygon, or a hole of the last one, after Prepare()
	void AddMended(CountedVector<vibe::Vec2> ring, bool shell, Side side);
	//! Rings without what cannot matter for this operation, after Prepare(): the edges are those that OverlayArrangement makes of them.
	//! Appends their points to `near`, which has room for all and does not move.
	void Clip(OverlayOp op, PagesVector<vibe::Vec2> &near);
	//! Frees chains and vertices, once nothing reads them any more
	void ReleaseChains();
	//! Whether a polygon was found to be valid before, by its first chain. Coordinates that are rounded are others.
	bool IsKnownValid(const OverlayChain &first) const {
		return grid == 0 && first.known != OverlayChain::NOT_KNOWN && known->IsValid(first.known);
	}
	void NoteValid(const OverlayChain &first) const {
		if (grid == 0 && first.known != OverlayChain::NOT_KNOWN) {
			known->NoteValid(first.known);
		}
	}
	//! All of them
	bool AreKnownValid() const;
	void NoteValid() const;

	//! Those that chains are numbered by; null where none is
	const KnownPolygons *known = nullptr;
	CountedVector<OverlayChain> chains;
	//! Of all chains
	size_t vertex_count = 0;
	uint32_t polygons = 0;
	//! Sorted, no two equal
	CountedVector<OverlayPoint> points;
	//! The ends of all lines, sorted
	CountedVector<vibe::Vec2> line_ends;
	vibe::Box boxes[2];
	//! All coordinates are multiplied by this power of two, so that no product of four of them overflows
	double scale = 1;
	//! Where the scale is not 1, all coordinates are rounded to multiples of this, which the result must be, too: then no product of two
	//! differences underflows, and scaling back rounds nothing. 0: no such restriction.
	double grid = 0;

private:
	struct Reader;

	//! A chain whose vertices may still move in memory
	struct Member {
		size_t start;
		OverlayChain chain;
	};

	static vibe::Box PointsBox(const OverlayChain &chain);

	void BeginGeometry(Side side, GeometryType type);
	void BeginPart(Side side, vibe::Family family);
	// The vertices appended from `start` on are a ring, line or point of the last part
	void EndRing(size_t start, Side side, vibe::Family family, bool shell);
	void EndChain(size_t start, OverlayChain::Kind kind, Side side, uint32_t polygon);
	void EndLine(size_t start, Side side);
	void EndPoint(size_t start, Side side);
	void Measure(Parallel &parallel);
	void Scale(double largest, bool has_tiny);
	//! Times the scale, and rounded where that is needed
	double Scaled(double value) const;
	vibe::Vec2 Scaled(const vibe::Vec2 &p) const {
		return vibe::Vec2 {Scaled(p.x), Scaled(p.y)};
	}
	void SortPoints();

	PagesVector<vibe::Vec2> vertices;
	CountedVector<Member> members;
	//! Points of the rings of AddMended()
	CountedVector<CountedVector<vibe::Vec2>> mended;
	//! Of a ring that is clipped
	CountedVector<vibe::Vec2> whole;
	//! Highest dimension that was added; -1: nothing was added
	int dimension[2] = {-1, -1};
	//! Geometries that were added, and those of them that are neither POLYGON nor MULTIPOLYGON
	size_t added[2] = {0, 0};
	size_t others[2] = {0, 0};
};

} // namespace vibespatial
