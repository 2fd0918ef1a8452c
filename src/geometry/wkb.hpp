//===----------------------------------------------------------------------===//
// geometry/wkb.hpp
//
// Well-known binary as DuckDB stores it: ISO codes (base + 1000 Z, 2000 M, 3000 ZM), little-endian,
// nested collections up to 16 deep, POINT EMPTY as NaN in every coordinate. geometry/wkb_visit.hpp visits the bytes in place.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"
#include "vibe/wkb.h"

#include <string>

namespace vibespatial {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "WKB coordinates are read as the machine's own doubles");

using vibe::IsEmptyPoint;
using vibe::LoadDouble;
using vibe::TryReadPoint;

constexpr uint32_t WKB_MAX_DEPTH = vibe::WKB_DEPTH;

//! Appends one geometry as a row. Throws GeometryError (truncated, unknown type, wrong byte order, mixed
//! dimensions, wrong member type, too deep, trailing bytes) and leaves the batch as it was. Never reads past `size`.
void ReadWkb(const uint8_t *data, size_t size, GeometryBatch &batch);

//! The WKB of a row, byte for byte what DuckDB stores for the same geometry. Throws for NULL rows.
std::string WriteWkb(const GeometryBatch &batch, size_t row);
//! Size of that WKB, and the WKB written to a buffer of that size
size_t WkbSize(const GeometryBatch &batch, size_t row);
void WriteWkb(const GeometryBatch &batch, size_t row, uint8_t *out);

//! What the header says, without decoding the rest. Throws for a malformed header only.
struct WkbHeader {
	GeometryType type;
	uint8_t vertex_type; // VertexBits
};
WkbHeader ReadWkbHeader(const uint8_t *data, size_t size);

//! Bytes of a POINT in XY
constexpr size_t WKB_POINT_SIZE = vibe::WKB_HEADER_BYTES + 2 * sizeof(double);

//! Whether the bytes are exactly a POINT in XY that is not EMPTY, which most points of a column are: one look instead of a walk
inline bool IsPlainPoint(const uint8_t *data, size_t size) {
	// Both NaN: EMPTY. One alone is left to the walk, too.
	return size == WKB_POINT_SIZE && data[0] == 1 && vibe::LoadCount(data + 1) == vibe::WKB_POINT &&
	       !vibe::IsNan(LoadDouble(data + vibe::WKB_HEADER_BYTES)) &&
	       !vibe::IsNan(LoadDouble(data + vibe::WKB_HEADER_BYTES + sizeof(double)));
}

//! Whether bytes from outside are exactly what DuckDB stores for them: little-endian, ISO codes, nothing missing, nothing behind. True is
//! sure; false is for collections, too, and for all that has to be converted or refused.
bool IsStoredWkb(const uint8_t *data, size_t size);

//! The name of a type in well-known text
const char *TypeName(GeometryType type);
//! Throws GeometryError unless the type is the one needed: "a POINT is needed, not a POLYGON"
void RequireType(GeometryType type, GeometryType needed);

//! The coordinates of a POINT; false when it is EMPTY. Throws GeometryError for another type and for bytes that ReadWkb
//! rejects.
bool ReadWkbPoint(const uint8_t *data, size_t size, double &x, double &y);

//! Extends `box` by the XY extent and returns the number of vertices; EMPTY points have none
uint64_t WkbBounds(const uint8_t *data, size_t size, vibe::Box &box);

} // namespace vibespatial
