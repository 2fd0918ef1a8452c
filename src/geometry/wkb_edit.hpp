//===----------------------------------------------------------------------===//
// geometry/wkb_edit.hpp
//
// Geometries put together, taken apart and turned around as WKB bytes. Coordinates are copied, never computed.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb_visit.hpp"

#include <string>
#include <vector>

namespace vibespatial {

//! The bytes of one geometry; belongs to someone else. No bytes stand for NULL.
struct WkbSlice {
	const uint8_t *data;
	size_t size;
};

//! The line through points. NULL and EMPTY points are left out, a missing Z or M is 0. Throws when one point is left.
std::string MakeLine(const std::vector<WkbSlice> &points);
//! Bytes of a line of so many vertices in XY
constexpr size_t LineSize(size_t vertices) {
	return vibe::WKB_HEADER_BYTES + sizeof(uint32_t) + vertices * 2 * sizeof(double);
}
//! The same as MakeLine(), into memory of LineSize(count) bytes. False, with anything written, unless all are points in XY
//! with coordinates and there are two or more.
bool TryMakeLine(const WkbSlice *points, size_t count, uint8_t *out);
//! A polygon of closed lines; NULL holes are left out, a missing Z or M is 0. Throws on lines that are no rings.
std::string MakePolygon(WkbSlice shell, const std::vector<WkbSlice> &holes);
//! A multi geometry when all are points, all lines or all polygons, else a collection. NULL and EMPTY ones are left out,
//! but an EMPTY one gives its Z and M to the result, as in `spatial`; where others have none, it is 0.
class Collection {
public:
	//! Takes NULL and EMPTY ones out of the geometries, which must stay until Write()
	explicit Collection(std::vector<WkbSlice> &geometries);
	size_t Size() const {
		return size;
	}
	//! Into memory of Size() bytes
	void Write(uint8_t *out) const;

private:
	const std::vector<WkbSlice> &members;
	GeometryType type = GeometryType::INVALID;
	uint8_t vertex_type = VERTEX_XY;
	size_t size;
	//! The members, where one has another vertex type than the result
	std::string converted;
};
//! The geometry as the only member of a multi geometry; multi geometries and collections as they are
std::string Multi(WkbSlice geometry);
//! With another vertex type: ordinates are dropped, or are 0 where they are new
std::string WithVertexType(WkbSlice geometry, uint8_t vertex_type);

//! A line's vertices; count 0 when EMPTY
struct WkbVertices {
	uint32_t count;
	const uint8_t *coords;
	size_t stride;
};
//! Whether the first and the last of one or more vertices are equal, in all ordinates
bool IsClosed(const WkbVertices &vertices);
//! The vertices of a LINESTRING, which the caller has checked it to be
WkbVertices LineVertices(WkbSlice line);
//! A ring of a POLYGON, likewise, counted from 0; false when there is none. All rings are checked.
bool PolygonRing(WkbSlice polygon, uint64_t index, WkbVertices &ring);

//! Calls leaf(WkbSlice, const int32_t *path, size_t depth) for the points, lines and polygons of a geometry, in order;
//! `path` are the 1-based places that lead to it, none for a leaf itself
template <class LEAF>
void Dump(WkbSlice geometry, LEAF &&leaf);

//! Writes into `out`, of the size of the geometry: every line and ring backwards
void Reverse(WkbSlice geometry, uint8_t *out);
//! Likewise: x and y exchanged
void FlipCoordinates(WkbSlice geometry, uint8_t *out);

template <class LEAF>
void Dump(WkbSlice geometry, LEAF &&leaf) {
	struct IgnoreParts {
		void Node(GeometryType, uint32_t) {
		}
		void Part(vibe::Family) {
		}
		void Ring(uint32_t, const uint8_t *, size_t) {
		}
	};
	WkbCursor cursor(geometry.data, geometry.size);
	int32_t path[WKB_MAX_DEPTH];
	uint32_t members[WKB_MAX_DEPTH];
	size_t depth = 0;
	for (;;) {
		const auto offset = cursor.Offset();
		const auto header = cursor.TakeHeader();
		if (IsLeaf(header.type)) {
			IgnoreParts ignore;
			WalkWkbLeaf(cursor, header.type, VertexWidth(header.vertex_type) * sizeof(double), ignore);
			leaf(WkbSlice {geometry.data + offset, cursor.Offset() - offset}, path, depth);
		} else {
			if (depth == WKB_MAX_DEPTH) {
				wkb_error::TooDeep(offset);
			}
			members[depth] = cursor.TakeCount();
			path[depth++] = 0;
		}
		while (depth > 0 && uint32_t(path[depth - 1]) == members[depth - 1]) {
			depth--;
		}
		if (depth == 0) {
			return;
		}
		path[depth - 1]++;
	}
}

} // namespace vibespatial
