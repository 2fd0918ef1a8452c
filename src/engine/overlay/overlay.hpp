//===----------------------------------------------------------------------===//
// engine/overlay/overlay.hpp
//
// Unions, intersections, differences and symmetric differences, all from one arrangement of the edges.
//
// Promise: the result is valid by OGC rules for any finite input, in normal form, and the same to the bit for any order of
// the input and any number of threads. Contacts of edges are classified exactly. The coordinates of a crossing are rounded
// once; where that makes edges meet again they are split again, until edges meet only at their ends. A sweep with exact
// predicates checks that, and everything else is decided on that arrangement. Every vertex of the result is a vertex of
// the input or a rounded crossing. Z and M are dropped.
//
// How it works: docs/internals/overlays.md
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "geometry/geometry_batch.hpp"
#include "geometry/wkb_edit.hpp"
#include "vibe/orient2d.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

class OverlayDevice;
struct KnownRows;

enum class OverlayOp : uint8_t { INTERSECTION, UNION, DIFFERENCE, SYM_DIFFERENCE };

//! Which depths are inside. The depth of a point is the number of counterclockwise rings around it minus the clockwise ones.
enum class FillRule : uint8_t {
	//! depth >= OverlayRule::least
	AT_LEAST,
	//! depth is odd
	ODD
};

struct OverlayRule {
	OverlayOp op = OverlayOp::UNION;
	//! For both sides
	FillRule fill = FillRule::AT_LEAST;
	//! 1: points in any member. The number of members: points in all of them.
	int32_t least = 1;
	//! Drops lines and points
	bool areas_only = false;
};

//! Add the members of both sides in any order, then call Run(). Can be used again; the memory is kept. A union of many
//! geometries has all of them on the left side.
class Overlay {
public:
	Overlay();
	~Overlay();

	enum Side : uint8_t { LEFT = 0, RIGHT = 1 };

	//! All parts of a row: polygons with depth 1 inside, lines, points. EMPTY and NULL add nothing.
	//! Throws GeometryError when the row is not usable (geometry/checks.hpp).
	void Add(Side side, const GeometryBatch &batch, size_t row);
	//! The same from WKB, without a batch in between
	void AddWkb(Side side, const uint8_t *wkb, size_t size);
	//! Adds each polygon of many geometries as a member, with all threads, to an empty side. False where a geometry is anything
	//! but polygons, or not usable; nothing is added then. The bytes are read again by Run().
	bool AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel);
	//! The same for rows of known polygons, by number
	bool AddKnown(Side side, const KnownRows &rows, const uint32_t *numbers, size_t count, Parallel &parallel);
	//! A closed curve: the depth is one greater to its left. The last point may repeat the first or not.
	void AddRing(Side side, const vibe::Vec2 *points, size_t count);
	//! A line; if all of its points are equal, that point
	void AddLine(Side side, const vibe::Vec2 *points, size_t count);
	void AddPoint(Side side, const vibe::Vec2 &point);

	//! Appends the result as a row to `out` and clears the input. An EMPTY result has the type of the highest dimension that the
	//! operation could give: POLYGON, LINESTRING, POINT, or GEOMETRYCOLLECTION where nothing was added.
	void Run(const OverlayRule &rule, Parallel &parallel, GeometryBatch &out);
	//! The same as WKB, written by all threads to memory that `allocate` returns for a given size
	void Run(const OverlayRule &rule, Parallel &parallel, const std::function<uint8_t *(size_t)> &allocate);
	//! Clears the input
	void Clear();
	//! A device for unions of many polygons, which must outlive its use; nullptr: none
	void UseDevice(OverlayDevice *device);

private:
	struct Work;
	std::unique_ptr<Work> work;
};

} // namespace vibespatial
