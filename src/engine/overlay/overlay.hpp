//===----------------------------------------------------------------------===//
// engine/overlay/overlay.hpp
//
// Unions, intersections, differences and their kin: one arrangement of all edges, whatever the operation.
//
// Promise: the result is valid by OGC rules for any finite input, in normal form, and the same bits in whatever order
// the input comes and on however many threads. Contacts of edges are classified exactly; the coordinates of a crossing are
// rounded once, and where that makes edges meet anew they are split again, until no two edges of the arrangement meet
// but in their ends. That is checked by a sweep with exact predicates, and all else is decided on that arrangement.
// Every vertex of the result is a vertex of the input or a rounded crossing. Z and M are dropped.
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

enum class OverlayOp : uint8_t { INTERSECTION, UNION, DIFFERENCE, SYM_DIFFERENCE };

//! When a point with a depth (how many rings run around it, counterclockwise ones as +1, clockwise ones as -1) lies inside
enum class FillRule : uint8_t {
	//! depth >= OverlayRule::least
	AT_LEAST,
	//! depth is odd
	ODD
};

struct OverlayRule {
	OverlayOp op = OverlayOp::UNION;
	//! Of both sides
	FillRule fill = FillRule::AT_LEAST;
	//! 1: in any member. The number of members: in all of them.
	int32_t least = 1;
	//! Leaves out lines and points
	bool areas_only = false;
};

//! One overlay after the other, in memory that is kept. Add the members of both sides, in any order, then Run.
//! A union of many has them all on the left side.
class Overlay {
public:
	Overlay();
	~Overlay();

	enum Side : uint8_t { LEFT = 0, RIGHT = 1 };

	//! All parts of a row: polygons with depth 1 inside, lines, points. EMPTY adds nothing, NULL neither.
	//! Throws GeometryError when the row is not usable (geometry/checks.hpp).
	void Add(Side side, const GeometryBatch &batch, size_t row);
	//! As above from WKB, without a batch in between
	void AddWkb(Side side, const uint8_t *wkb, size_t size);
	//! Each polygon of many geometries by itself, by all threads, to a side that has nothing. False where one of them is
	//! something else, or not usable: then nothing was added. They are read again when it runs.
	bool AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel);
	//! A closed curve as it runs: what lies to its left is one deeper. The last point may repeat the first or not.
	void AddRing(Side side, const vibe::Vec2 *points, size_t count);
	//! A line; one that is a single point is that point
	void AddLine(Side side, const vibe::Vec2 *points, size_t count);
	void AddPoint(Side side, const vibe::Vec2 &point);

	//! Appends the result as a row to `out`, drops what was added. EMPTY results have the type of the highest dimension
	//! that the operation could give: POLYGON, LINESTRING, POINT, or GEOMETRYCOLLECTION where nothing was added.
	void Run(const OverlayRule &rule, Parallel &parallel, GeometryBatch &out);
	//! The same as WKB, into memory of the size that `allocate` is asked for, by all threads
	void Run(const OverlayRule &rule, Parallel &parallel, const std::function<uint8_t *(size_t)> &allocate);
	//! Drops what was added
	void Clear();
	//! For unions of many polygons, as long as it is there; nullptr: none
	void UseDevice(OverlayDevice *device);
	//! Bytes held now, for the caller's accounts
	size_t Memory() const;

private:
	struct Work;
	std::unique_ptr<Work> work;
};

} // namespace vibespatial
