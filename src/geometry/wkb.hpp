//===----------------------------------------------------------------------===//
// geometry/wkb.hpp
//
// Well-known binary as DuckDB stores it: ISO codes (base + 1000 Z, 2000 M, 3000 ZM), little-endian,
// nested collections up to 16 deep, POINT EMPTY as NaN in every coordinate.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"
#include "vibe/wkb.h"

#include <string>

namespace vibespatial {

constexpr uint32_t WKB_MAX_DEPTH = vibe::WKB_DEPTH;

//! Appends one geometry as a row. Throws GeometryError (truncated, unknown type, wrong byte order, mixed
//! dimensions, wrong member type, too deep, trailing bytes) and leaves the batch as it was. Never reads past `size`.
void ReadWkb(const uint8_t *data, size_t size, GeometryBatch &batch);

//! The WKB of a row, byte for byte what DuckDB would store for the same geometry. NULL rows are refused.
std::string WriteWkb(const GeometryBatch &batch, size_t row);
//! As above, into a caller's buffer of WkbSize() bytes
size_t WkbSize(const GeometryBatch &batch, size_t row);
void WriteWkb(const GeometryBatch &batch, size_t row, uint8_t *out);

//! Header facts without decoding: throws for a broken header only
struct WkbHeader {
	GeometryType type;
	uint8_t vertex_type; // VertexBits
};
WkbHeader ReadWkbHeader(const uint8_t *data, size_t size);

//! The name of a type in well-known text
const char *TypeName(GeometryType type);
//! Throws GeometryError unless the type is the one needed: "a POINT is needed, not a POLYGON"
void RequireType(GeometryType type, GeometryType needed);

//! The coordinates of a POINT (2 to 4 doubles at data + 5); false when it is EMPTY (all of them NaN).
//! Throws GeometryError for another type and for what ReadWkb refuses.
bool ReadWkbPoint(const uint8_t *data, size_t size, double &x, double &y);

//! XY box and vertex count straight from the bytes (EMPTY points are not vertices)
uint64_t WkbBounds(const uint8_t *data, size_t size, vibe::Box &box);

//! Calls, for every leaf part in order: visitor.Part(family), then for every ring visitor.Ring(count, coords, stride):
//! `coords` points at unaligned little-endian doubles (LoadDouble() reads one), `stride` is the size of a vertex in
//! bytes. EMPTY points and lines have no ring, a ring of a polygon may have no vertices. Same checks as ReadWkb, but
//! an error may come after some calls.
template <class VISITOR>
void VisitWkb(const uint8_t *data, size_t size, VISITOR &visitor);

} // namespace vibespatial

#include "geometry/wkb_visit.hpp"
