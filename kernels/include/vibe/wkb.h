//===----------------------------------------------------------------------===//
// vibe/wkb.h
//
// The one walk over WKB bytes: both engines accept and refuse the same bytes. It allocates nothing and does not recurse.
// What happens to an error is the cursor's choice: the CPU's throws it with its place, WkbReader below only fails.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

namespace vibe {

//! The seven types by their WKB codes
enum WkbType : u8 {
	WKB_POINT = 1,
	WKB_LINESTRING = 2,
	WKB_POLYGON = 3,
	WKB_MULTIPOINT = 4,
	WKB_MULTILINESTRING = 5,
	WKB_MULTIPOLYGON = 6,
	WKB_COLLECTION = 7
};

//! Codes with Z, M and both are 1000, 2000 and 3000 above those in XY
constexpr u32 WKB_CODES_PER_VERTEX_TYPE = 1000;
VIBE_HD u32 WkbTypeOf(u32 code) {
	return code % WKB_CODES_PER_VERTEX_TYPE;
}
VIBE_HD u32 WkbVertexTypeOf(u32 code) {
	return code / WKB_CODES_PER_VERTEX_TYPE;
}
VIBE_HD bool IsWkbCode(u32 code) {
	return WkbVertexTypeOf(code) <= 3 && WkbTypeOf(code) >= WKB_POINT && WkbTypeOf(code) <= WKB_COLLECTION;
}

//! Collections within collections
constexpr u32 WKB_DEPTH = 16;
//! Byte order and code
constexpr u32 WKB_HEADER_BYTES = 5;
//! A member has a header and a count, or a header and a vertex
constexpr u32 WKB_LEAST_MEMBER = 9;

//! Bytes of a vertex by its type: XY = 0, XYZ = 1, XYM = 2, XYZM = 3
VIBE_HD u32 WkbStride(u32 vertex_type) {
	return 8 * (2 + (vertex_type & 1) + (vertex_type >> 1));
}

//! Whether a POINT's coordinates spell EMPTY: all of them NaN
VIBE_HD bool IsEmptyPoint(const u8 *coords, u64 stride) {
	for (u64 at = 0; at < stride; at += 8) {
		if (!IsNan(LoadDouble(coords + at))) {
			return false;
		}
	}
	return true;
}

//! A POINT with finite X and Y, read in place: false for all else, without saying why
VIBE_HD bool TryReadPoint(const u8 *data, u64 size, Vec2 &point) {
	// A header and two to four ordinates; code 1, 1001, 2001 or 3001
	constexpr u64 LEAST = WKB_HEADER_BYTES + 16, MOST = LEAST + 16;
	if (size < LEAST || size > MOST || data[0] != 1 || WkbTypeOf(LoadCount(data + 1)) != WKB_POINT) {
		return false;
	}
	point.x = LoadDouble(data + WKB_HEADER_BYTES);
	point.y = LoadDouble(data + WKB_HEADER_BYTES + 8);
	return IsFinite(point.x) && IsFinite(point.y);
}

//! One POINT, LINESTRING or POLYGON after its header: walker.Node(type, 0), walker.Part(family), then for every ring
//! walker.Ring(count, coords, stride). EMPTY points and lines have no ring, a ring of a polygon may have no vertices.
template <class CURSOR, class TYPE, class WALKER>
VIBE_HD void WalkWkbLeaf(CURSOR &cursor, TYPE type, u64 stride, WALKER &walker) {
	walker.Node(type, 0);
	walker.Part((Family)((u8)type - 1));
	if ((u8)type == WKB_POLYGON) {
		const u32 rings = cursor.TakeCount(sizeof(u32));
		for (u32 ring = 0; ring < rings && !cursor.Failed(); ring++) {
			const u32 count = cursor.TakeCount();
			const u8 *coords = cursor.Take(count * stride);
			if (!cursor.Failed()) {
				walker.Ring(count, coords, stride);
			}
		}
	} else if ((u8)type == WKB_POINT) {
		const u8 *coords = cursor.Take(stride);
		if (!cursor.Failed() && !IsEmptyPoint(coords, stride)) {
			walker.Ring(1, coords, stride);
		}
	} else {
		const u32 count = cursor.TakeCount();
		const u8 *coords = cursor.Take(count * stride);
		if (count > 0 && !cursor.Failed()) {
			walker.Ring(count, coords, stride);
		}
	}
}

//! A multi geometry or a collection after its header: its nodes in preorder
template <class CURSOR, class HEADER, class WALKER>
VIBE_HD void WalkWkbTree(CURSOR &cursor, const HEADER &header, WALKER &walker) {
	const u64 stride = WkbStride(header.vertex_type);
	auto type = header.type;
	// Holds: a collection in the last slot may have no members, a multi geometry has leaves only
	decltype(type) open[WKB_DEPTH];
	u32 left[WKB_DEPTH];
	u32 depth = 0;
	for (;;) {
		if ((u8)type <= WKB_POLYGON) {
			WalkWkbLeaf(cursor, type, stride, walker);
		} else {
			const u32 members = cursor.TakeCount(WKB_LEAST_MEMBER);
			if (!cursor.Failed()) {
				walker.Node(type, members);
			}
			open[depth] = type;
			left[depth++] = members;
		}
		while (depth > 0 && left[depth - 1] == 0) {
			depth--;
		}
		if (depth == 0 || cursor.Failed()) {
			return;
		}
		const auto parent = open[depth - 1];
		left[depth - 1]--;
		const u64 offset = cursor.Offset();
		const auto member = cursor.TakeHeader();
		if (cursor.Failed()) {
			return;
		}
		if (member.vertex_type != header.vertex_type) {
			cursor.RefuseDimensions(offset, header.vertex_type, member.vertex_type);
			return;
		}
		if ((u8)parent == WKB_COLLECTION) {
			if (depth == WKB_DEPTH) {
				cursor.RefuseDepth(offset);
				return;
			}
		} else if ((u8)member.type + 3 != (u8)parent) {
			cursor.RefuseMember(offset, parent, member.type);
			return;
		}
		type = member.type;
	}
}

//! A whole geometry: walker.Row(header) once, then its nodes. An error may come after some calls.
template <class CURSOR, class WALKER>
VIBE_HD void WalkWkb(CURSOR &cursor, WALKER &walker) {
	const auto header = cursor.TakeHeader();
	if (cursor.Failed()) {
		return;
	}
	walker.Row(header);
	// A tree may be a leaf, too: where code has to be short, all go one way
	if (CURSOR::SHORT || (u8)header.type > WKB_POLYGON) {
		WalkWkbTree(cursor, header, walker);
	} else if (header.vertex_type == 0) {
		// A literal, so that an inlined walker is compiled for it
		WalkWkbLeaf(cursor, header.type, 16, walker);
	} else {
		WalkWkbLeaf(cursor, header.type, WkbStride(header.vertex_type), walker);
	}
	if (!cursor.Failed()) {
		cursor.RequireEnd();
	}
}

//! A geometry that is no collection, as WalkWkb() but without memory for what is open. A collection fails.
template <class CURSOR, class WALKER>
VIBE_HD void WalkWkbParts(CURSOR &cursor, WALKER &walker) {
	const auto header = cursor.TakeHeader();
	if (cursor.Failed()) {
		return;
	}
	walker.Row(header);
	const u64 stride = WkbStride(header.vertex_type);
	const bool many = (u8)header.type > WKB_POLYGON;
	const u32 parts = many ? cursor.TakeCount(WKB_LEAST_MEMBER) : 1;
	for (u32 part = 0; part < parts && !cursor.Failed(); part++) {
		auto member = header;
		if (many) {
			const u64 offset = cursor.Offset();
			member = cursor.TakeHeader();
			if (cursor.Failed()) {
				return;
			}
			if (member.vertex_type != header.vertex_type) {
				cursor.RefuseDimensions(offset, header.vertex_type, member.vertex_type);
				return;
			}
			if ((u8)member.type + 3 != (u8)header.type) {
				cursor.RefuseMember(offset, header.type, member.type);
				return;
			}
		}
		WalkWkbLeaf(cursor, member.type, stride, walker);
	}
	if (!cursor.Failed()) {
		cursor.RequireEnd();
	}
}

//! What a header says
struct WkbKind {
	WkbType type;
	u8 vertex_type;
};

//! A cursor that stops at an error and says no more about it
class WkbReader {
public:
	static constexpr bool SHORT = true;

	VIBE_HD WkbReader(const u8 *data, u64 size) : begin(data), pos(data), end(data + size), failed(false) {
	}

	VIBE_HD bool Failed() const {
		return failed;
	}
	//! Nothing to read from when it fails
	VIBE_HD const u8 *Take(u64 bytes) {
		const u8 *at = pos;
		if (Require(bytes)) {
			pos += bytes;
		}
		return at;
	}
	VIBE_HD u32 TakeCount(u64 least = 0) {
		const u8 *at = Take(sizeof(u32));
		const u32 count = failed ? 0 : LoadCount(at);
		return Require(count * least) ? count : 0;
	}
	VIBE_HD WkbKind TakeHeader() {
		const u8 *at = Take(WKB_HEADER_BYTES);
		const u32 code = failed ? 0 : LoadCount(at + 1);
		failed = failed || *at != 1 || !IsWkbCode(code);
		return WkbKind {(WkbType)WkbTypeOf(code), (u8)WkbVertexTypeOf(code)};
	}
	VIBE_HD u64 Offset() const {
		return pos - begin;
	}
	VIBE_HD void RequireEnd() {
		failed = failed || pos != end;
	}
	VIBE_HD void RefuseDimensions(u64, u8, u8) {
		failed = true;
	}
	VIBE_HD void RefuseDepth(u64) {
		failed = true;
	}
	VIBE_HD void RefuseMember(u64, WkbType, WkbType) {
		failed = true;
	}

private:
	VIBE_HD bool Require(u64 bytes) {
		failed = failed || bytes > (u64)(end - pos);
		return !failed;
	}

	const u8 *begin;
	const u8 *pos;
	const u8 *end;
	bool failed;
};

//! How much of each column a geometry takes
struct WkbCounts {
	u32 nodes;
	u32 parts;
	u32 rings;
	u32 vertices;

	VIBE_HD void Row(const WkbKind &) {
	}
	VIBE_HD void Node(WkbType, u32) {
		nodes++;
	}
	VIBE_HD void Part(Family) {
		parts++;
	}
	VIBE_HD void Ring(u32 count, const u8 *, u64) {
		rings++;
		vertices += count;
	}
};

//! False, with nothing counted, for what is malformed
VIBE_HD bool CountWkb(const u8 *data, u64 size, WkbCounts &counts) {
	WkbReader reader(data, size);
	counts = WkbCounts {0, 0, 0, 0};
	WalkWkb(reader, counts);
	if (reader.Failed()) {
		counts = WkbCounts {0, 0, 0, 0};
	}
	return !reader.Failed();
}

//! The columns of vibe::RowsView, to be written
struct WkbColumns {
	u8 *node_type;
	u32 *node_children;
	u8 *part_family;
	u32 *part_ring;
	u32 *ring_start;
	double *x;
	double *y;
};

//! Writes a geometry's columns from `at` on. Where a part or ring begins is where the one before it ends: call Finish()
//! for the end of the last.
struct WkbFiller {
	WkbColumns to;
	WkbCounts at;

	VIBE_HD void Row(const WkbKind &) {
	}
	VIBE_HD void Node(WkbType type, u32 children) {
		to.node_type[at.nodes] = type;
		to.node_children[at.nodes++] = children;
	}
	VIBE_HD void Part(Family family) {
		to.part_family[at.parts] = family;
		to.part_ring[at.parts++] = at.rings;
	}
	VIBE_HD void Ring(u32 count, const u8 *coords, u64 stride) {
		to.ring_start[at.rings++] = at.vertices;
		for (u32 i = 0; i < count; i++, coords += stride) {
			to.x[at.vertices] = LoadDouble(coords);
			to.y[at.vertices++] = LoadDouble(coords + 8);
		}
	}
	VIBE_HD void Finish() {
		to.part_ring[at.parts] = at.rings;
		to.ring_start[at.rings] = at.vertices;
	}
};

//! Bytes or the number of them: a writer that only counts has no memory
struct WkbWriter {
	u8 *out;
	u64 size;

	VIBE_HD void Bytes(const void *from, u64 bytes) {
		if (out) {
			CopyBytes(out + size, from, bytes);
		}
		size += bytes;
	}
	VIBE_HD void Header(u32 type) {
		const u8 little_endian = 1;
		Bytes(&little_endian, 1);
		Bytes(&type, sizeof(type));
	}
	VIBE_HD void Count(u32 count) {
		Bytes(&count, sizeof(count));
	}
	VIBE_HD void Vertex(double x, double y) {
		Bytes(&x, sizeof(x));
		Bytes(&y, sizeof(y));
	}
	//! That of POINT EMPTY
	VIBE_HD void EmptyVertex() {
		const u64 quiet = 0x7ff8000000000000ULL;
		Bytes(&quiet, sizeof(quiet));
		Bytes(&quiet, sizeof(quiet));
	}
	VIBE_HD void Vertices(const RowsView &rows, u32 begin, u32 end) {
		for (u32 i = begin; out && i < end; i++) {
			Vertex(rows.x[i], rows.y[i]);
		}
		size += out ? 0 : (u64)(end - begin) * 16;
	}
	//! A row in XY, byte for byte what DuckDB would store; nothing for NULL
	VIBE_HD void Row(const RowsView &rows, u64 row) {
		u32 part = rows.row_part[row];
		for (u32 node = rows.row_node[row]; node < rows.row_node[row + 1]; node++) {
			const u32 type = rows.node_type[node];
			Header(type);
			if (type > WKB_POLYGON) {
				Count(rows.node_children[node]);
				continue;
			}
			const u32 begin = rows.part_ring[part], end = rows.part_ring[part + 1];
			part++;
			if (type == WKB_POLYGON) {
				Count(end - begin);
				for (u32 ring = begin; ring < end; ring++) {
					Count(rows.ring_start[ring + 1] - rows.ring_start[ring]);
					Vertices(rows, rows.ring_start[ring], rows.ring_start[ring + 1]);
				}
				continue;
			}
			const u32 first = rows.ring_start[begin], last = rows.ring_start[end];
			if (type == WKB_LINESTRING) {
				Count(last - first);
			} else if (first == last) {
				EmptyVertex();
			}
			Vertices(rows, first, last);
		}
	}
};

} // namespace vibe
