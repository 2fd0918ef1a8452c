//===----------------------------------------------------------------------===//
// geometry/wkb_visit.hpp
//
// The one walk over WKB bytes: ReadWkb, WkbBounds and every measure go through
// it, so they accept and refuse the same bytes. It allocates nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb.hpp"

#include <cstring>

namespace vibespatial {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "WKB coordinates are read as the machine's own doubles");

//! A double at any address
inline double LoadDouble(const uint8_t *at) {
	double value;
	std::memcpy(&value, at, sizeof(value));
	return value;
}

//! Whether a POINT's coordinates spell EMPTY: all of them NaN
inline bool IsEmptyPoint(const uint8_t *coords, size_t stride) {
	for (size_t at = 0; at < stride; at += sizeof(double)) {
		const auto value = LoadDouble(coords + at);
		if (value == value) {
			return false;
		}
	}
	return true;
}

//! A POINT with finite X and Y, read in place: false for all else, without saying why
inline bool TryReadPoint(const uint8_t *data, size_t size, vibe::Vec2 &point) {
	// A header and two to four ordinates; code 1, 1001, 2001 or 3001
	constexpr size_t LEAST = 5 + 2 * sizeof(double), MOST = LEAST + 2 * sizeof(double);
	if (size < LEAST || size > MOST || data[0] != 1) {
		return false;
	}
	uint32_t code;
	std::memcpy(&code, data + 1, sizeof(code));
	if (code % 1000 != 1) {
		return false;
	}
	point.x = LoadDouble(data + 5);
	point.y = LoadDouble(data + 13);
	return vibe::IsFinite(point.x) && vibe::IsFinite(point.y);
}

// The errors, out of line
namespace wkb_error {
[[noreturn]] void Truncated(size_t offset, size_t size, uint64_t needed);
[[noreturn]] void ByteOrder(size_t offset, uint8_t found);
[[noreturn]] void TypeCode(size_t offset, uint32_t found);
[[noreturn]] void Member(size_t offset, GeometryType parent, GeometryType found);
[[noreturn]] void Dimensions(size_t offset, uint8_t parent, uint8_t found);
[[noreturn]] void TooDeep(size_t offset);
[[noreturn]] void Trailing(size_t offset, size_t size);
} // namespace wkb_error

//! A checked position in the bytes
class WkbCursor {
public:
	WkbCursor(const uint8_t *data, size_t size) : begin(data), pos(data), end(data + size) {
	}

	//! `bytes` bytes from here; moves past them
	const uint8_t *Take(uint64_t bytes) {
		Require(bytes);
		const auto at = pos;
		pos += bytes;
		return at;
	}
	uint32_t TakeCount() {
		uint32_t count;
		std::memcpy(&count, Take(sizeof(count)), sizeof(count));
		return count;
	}
	//! A count of things of at least `least` bytes each, which must fit into what is left
	uint32_t TakeCount(uint64_t least) {
		const auto count = TakeCount();
		Require(count * least);
		return count;
	}
	WkbHeader TakeHeader() {
		const auto at = Take(1 + sizeof(uint32_t));
		if (*at != 1) {
			wkb_error::ByteOrder(at - begin, *at);
		}
		uint32_t code;
		std::memcpy(&code, at + 1, sizeof(code));
		const auto vertex_type = code / 1000;
		const auto type = code % 1000;
		if (vertex_type > 3 || type < 1 || type > 7) {
			wkb_error::TypeCode(at - begin, code);
		}
		return WkbHeader {static_cast<GeometryType>(type), static_cast<uint8_t>(vertex_type)};
	}
	size_t Offset() const {
		return pos - begin;
	}
	void RequireEnd() const {
		if (pos != end) {
			wkb_error::Trailing(Offset(), end - begin);
		}
	}

private:
	void Require(uint64_t bytes) const {
		if (bytes > static_cast<uint64_t>(end - pos)) {
			wkb_error::Truncated(Offset(), end - begin, bytes);
		}
	}

	const uint8_t *begin;
	const uint8_t *pos;
	const uint8_t *end;
};

//! One POINT, LINESTRING or POLYGON after its header. `stride` is a literal in the XY case, so that an inlined
//! visitor is compiled for it.
template <class WALKER>
inline void WalkWkbLeaf(WkbCursor &cursor, GeometryType type, size_t stride, WALKER &walker) {
	walker.Node(type, 0);
	walker.Part(FamilyOf(type));
	if (type == GeometryType::POLYGON) {
		const auto rings = cursor.TakeCount(sizeof(uint32_t));
		for (uint32_t ring = 0; ring < rings; ring++) {
			const auto count = cursor.TakeCount();
			walker.Ring(count, cursor.Take(uint64_t(count) * stride), stride);
		}
	} else if (type == GeometryType::POINT) {
		const auto coords = cursor.Take(stride);
		if (!IsEmptyPoint(coords, stride)) {
			walker.Ring(1, coords, stride);
		}
	} else {
		const auto count = cursor.TakeCount();
		const auto coords = cursor.Take(uint64_t(count) * stride);
		if (count > 0) {
			walker.Ring(count, coords, stride);
		}
	}
}

//! A multi geometry or a collection after its header
template <class WALKER>
void WalkWkbTree(WkbCursor &cursor, WkbHeader header, WALKER &walker) {
	// A member has a header and a count, or a header and a vertex
	constexpr uint64_t LEAST_MEMBER = 9;
	const auto stride = VertexWidth(header.vertex_type) * sizeof(double);

	struct Open {
		GeometryType type;
		uint32_t left;
	};
	// Holds: a collection in the last slot may have no members, a multi geometry has leaves only
	Open open[WKB_MAX_DEPTH];
	uint32_t depth = 0;
	auto type = header.type;
	for (;;) {
		if (IsLeaf(type)) {
			WalkWkbLeaf(cursor, type, stride, walker);
		} else {
			const auto members = cursor.TakeCount(LEAST_MEMBER);
			walker.Node(type, members);
			open[depth++] = Open {type, members};
		}
		while (depth > 0 && open[depth - 1].left == 0) {
			depth--;
		}
		if (depth == 0) {
			return;
		}
		auto &parent = open[depth - 1];
		parent.left--;
		const auto offset = cursor.Offset();
		const auto member = cursor.TakeHeader();
		if (member.vertex_type != header.vertex_type) {
			wkb_error::Dimensions(offset, header.vertex_type, member.vertex_type);
		}
		if (parent.type == GeometryType::GEOMETRYCOLLECTION) {
			if (depth == WKB_MAX_DEPTH) {
				wkb_error::TooDeep(offset);
			}
		} else if (static_cast<uint8_t>(member.type) + 3 != static_cast<uint8_t>(parent.type)) {
			wkb_error::Member(offset, parent.type, member.type);
		}
		type = member.type;
	}
}

//! VisitWkb that also tells the tree: walker.Row(header) once, then for every node in preorder
//! walker.Node(type, children), a leaf node followed by Part and Ring as in VisitWkb
template <class WALKER>
void WalkWkb(const uint8_t *data, size_t size, WALKER &walker) {
	WkbCursor cursor(data, size);
	const auto header = cursor.TakeHeader();
	walker.Row(header);
	if (!IsLeaf(header.type)) {
		WalkWkbTree(cursor, header, walker);
	} else if (header.vertex_type == VERTEX_XY) {
		WalkWkbLeaf(cursor, header.type, 2 * sizeof(double), walker);
	} else {
		WalkWkbLeaf(cursor, header.type, VertexWidth(header.vertex_type) * sizeof(double), walker);
	}
	cursor.RequireEnd();
}

template <class VISITOR>
void VisitWkb(const uint8_t *data, size_t size, VISITOR &visitor) {
	struct Parts {
		VISITOR &visitor;

		void Row(WkbHeader) {
		}
		void Node(GeometryType, uint32_t) {
		}
		void Part(vibe::Family family) {
			visitor.Part(family);
		}
		void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
			visitor.Ring(count, coords, stride);
		}
	};
	Parts parts {visitor};
	WalkWkb(data, size, parts);
}

} // namespace vibespatial
