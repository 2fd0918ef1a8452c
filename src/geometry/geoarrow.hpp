//===----------------------------------------------------------------------===//
// geometry/geoarrow.hpp
//
// The native encodings of GeoArrow: lists of lists of coordinates, as Arrow's plain buffers. Both ways, between them and
// WKB as DuckDB stores it.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb.hpp"

#include <string>

namespace vibespatial {

//! What the schema of a native column says. Each list level holds the next one, the last one the vertices:
//! POINT has none, LINESTRING and MULTIPOINT have one, POLYGON and MULTILINESTRING two, MULTIPOLYGON three.
struct GeoArrowType {
	GeometryType kind = GeometryType::POINT;
	uint8_t vertex_type = VERTEX_XY; // VertexBits
	//! A struct of two corners (xmin, ymin, .., xmax, ymax, ..) in place of lists; `kind` is POLYGON then
	bool box = false;
	//! Vertices are fixed-size lists of ordinates, not structs of them
	bool interleaved = false;
	//! Offsets have 64 bits
	bool large = false;

	uint32_t Levels() const {
		return box ? 0 : GeoArrowLevels(kind);
	}
	//! Ordinates of a vertex, or of both corners of a box
	uint32_t Width() const {
		return uint32_t(VertexWidth(vertex_type)) * (box ? 2 : 1);
	}
	static uint32_t GeoArrowLevels(GeometryType kind);
};

constexpr uint32_t GEOARROW_LEVELS = 3;
constexpr uint32_t GEOARROW_AXES = 8;

//! One array of a column: Arrow's logical element i is at offset + i of its buffers
struct GeoArrowArray {
	//! One bit an element, 1 = valid; nullptr: all are
	const uint8_t *validity = nullptr;
	//! Offsets of a list (length + 1 of them), doubles of a leaf, nullptr otherwise
	const void *data = nullptr;
	int64_t offset = 0;
	int64_t length = 0;
};

//! A column of native geometries. Nothing in it is trusted: what is read is checked against the lengths first.
struct GeoArrowColumn {
	GeoArrowType type;
	//! The levels of lists, outermost first: the column itself is list[0], or `vertices` where there is none
	GeoArrowArray list[GEOARROW_LEVELS];
	//! The structs or fixed-size lists
	GeoArrowArray vertices;
	//! The ordinates: one array for each axis of a struct, or leaf[0] alone for fixed-size lists
	GeoArrowArray leaf[GEOARROW_AXES];

	const GeoArrowArray &Rows() const {
		return type.Levels() > 0 ? list[0] : vertices;
	}
	bool IsValid(int64_t row) const {
		const auto &rows = Rows();
		const auto bit = rows.offset + row;
		return !rows.validity || ((rows.validity[bit >> 3] >> (bit & 7)) & 1) != 0;
	}
};

//! Every value of a column of points has this many bytes of WKB
inline uint32_t PointWkbSize(const GeoArrowType &type) {
	return 5 + 8 * type.Width();
}

//! Bytes of WKB of the rows [first, first + count), also one by one in `sizes`; 0 where `valid(i)`, i from 0, is false.
//! Throws GeometryError where rows, offsets, vertices or ordinates are not all there, offsets fall, or a part is NULL.
template <class VALID>
uint64_t MeasureGeoArrow(const GeoArrowColumn &column, int64_t first, size_t count, uint64_t *sizes, VALID &&valid);
uint64_t MeasureGeoArrow(const GeoArrowColumn &column, int64_t first, size_t count, uint64_t *sizes);
//! The WKB of one row at `out`, in as many bytes as MeasureGeoArrow said. Returns the end.
uint8_t *WriteGeoArrowWkb(const GeoArrowColumn &column, int64_t row, uint8_t *out);
//! What MeasureGeoArrow checks, for points: their size is known
template <class VALID>
void CheckGeoArrowPoints(const GeoArrowColumn &column, int64_t first, size_t count, VALID &&valid);
//! The WKB of points [first, first + count) one behind the other, PointWkbSize() bytes each, NULL or not. They must have
//! been checked.
void WriteGeoArrowPoints(const GeoArrowColumn &column, int64_t first, size_t count, uint8_t *out);

//! Checks and measures one row after another
class GeoArrowMeasure {
public:
	//! Rows [first, first + count) must be there
	GeoArrowMeasure(const GeoArrowColumn &column, int64_t first, size_t count);
	uint64_t Row(int64_t row);

private:
	const GeoArrowColumn &column;
};

template <class VALID>
uint64_t MeasureGeoArrow(const GeoArrowColumn &column, int64_t first, size_t count, uint64_t *sizes, VALID &&valid) {
	GeoArrowMeasure measure(column, first, count);
	uint64_t total = 0;
	for (size_t i = 0; i < count; i++) {
		sizes[i] = valid(i) ? measure.Row(first + int64_t(i)) : 0;
		total += sizes[i];
	}
	return total;
}

template <class VALID>
void CheckGeoArrowPoints(const GeoArrowColumn &column, int64_t first, size_t count, VALID &&valid) {
	GeoArrowMeasure measure(column, first, count);
	bool may_lack = false;
	for (auto &leaf : column.leaf) {
		may_lack = may_lack || leaf.validity;
	}
	for (size_t i = 0; may_lack && i < count; i++) {
		if (valid(i)) {
			measure.Row(first + int64_t(i));
		}
	}
}

//===----------------------------------------------------------------------===//
// WKB into native encodings
//===----------------------------------------------------------------------===//

//! One list: its elements are [offset, offset + length) of the next level
struct GeoArrowSpan {
	uint64_t offset;
	uint64_t length;
};

//! How many lists or vertices the levels have
struct GeoArrowCounts {
	//! Of the levels below the outermost one; the vertices are the last of them
	uint64_t below[GEOARROW_LEVELS] = {0, 0, 0};
};

//! Where the levels are written; every pointer has room for what was counted
struct GeoArrowTarget {
	//! The spans of the outermost level, one a row, and those of the levels below it
	GeoArrowSpan *spans[GEOARROW_LEVELS] = {nullptr, nullptr, nullptr};
	//! The first ordinate of each axis, and the doubles between two vertices
	double *axis[4] = {nullptr, nullptr, nullptr, nullptr};
	size_t step = 1;
};

//! Turns rows of WKB into one native encoding (no box). A row must be of the type's kind, or of the kind that its multi
//! kind is made of (POLYGON in a column of MULTIPOLYGON), and have its dimensions.
class GeoArrowWriter {
public:
	explicit GeoArrowWriter(const GeoArrowType &type) : type(type) {
	}
	//! Counts a row. Throws GeometryError for another kind or other dimensions, and for what ReadWkb refuses.
	void Count(const uint8_t *wkb, size_t size);
	const GeoArrowCounts &Counts() const {
		return counts;
	}
	//! Writes a row that was counted, as row number `row`; rows come in the order in which they were counted, with NULL
	//! ones between them
	void Write(uint64_t row, const uint8_t *wkb, size_t size, const GeoArrowTarget &target);
	void WriteNull(uint64_t row, const GeoArrowTarget &target);

private:
	template <class SINK>
	void Walk(const uint8_t *wkb, size_t size, SINK &sink) const;

	GeoArrowType type;
	GeoArrowCounts counts;
	GeoArrowCounts written;
};

//! "POINT Z": the kind and the dimensions of a type, as in well-known text
std::string GeoArrowKindName(GeometryType kind, uint8_t vertex_type);

} // namespace vibespatial
