//===----------------------------------------------------------------------===//
// geometry/wkb_visit.hpp
//
// Visits WKB bytes in place, without decoding them into a GeometryBatch. ReadWkb, WkbBounds and all measures use this
// walk (vibe/wkb.h), so they accept the same bytes and reject malformed ones with the same error.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb.hpp"
#include "geometry/work_scope.hpp"

#include <cstring>

namespace vibespatial {

using vibe::WalkWkbLeaf;

// Throw GeometryError; out of line to keep the walk small
namespace wkb_error {
[[noreturn]] void Truncated(size_t offset, size_t size, uint64_t needed);
[[noreturn]] void ByteOrder(size_t offset, uint8_t found);
[[noreturn]] void TypeCode(size_t offset, uint32_t found);
[[noreturn]] void Member(size_t offset, GeometryType parent, GeometryType found);
[[noreturn]] void Dimensions(size_t offset, uint8_t parent, uint8_t found);
[[noreturn]] void TooDeep(size_t offset);
[[noreturn]] void Trailing(size_t offset, size_t size);
} // namespace wkb_error

//! A position in the bytes; every read is checked against the end
class WkbCursor {
public:
	//! WalkWkb() may compile separate code for leaves and for XY vertices
	static constexpr bool SHORT = false;

	WkbCursor(const uint8_t *data, size_t size) : begin(data), pos(data), end(data + size) {
	}

	//! Returns the position and advances by `bytes`
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
	//! A count of items of at least `least` bytes each; they must fit into the remaining bytes
	uint32_t TakeCount(uint64_t least) {
		const auto count = TakeCount();
		Require(count * least);
		return count;
	}
	WkbHeader TakeHeader() {
		const auto at = Take(vibe::WKB_HEADER_BYTES);
		if (*at != 1) {
			wkb_error::ByteOrder(at - begin, *at);
		}
		uint32_t code;
		std::memcpy(&code, at + 1, sizeof(code));
		const auto vertex_type = vibe::WkbVertexTypeOf(code);
		const auto type = vibe::WkbTypeOf(code);
		if (!vibe::IsWkbCode(code)) {
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
	//! Errors are thrown
	static constexpr bool Failed() {
		return false;
	}
	[[noreturn]] static void RefuseDimensions(uint64_t offset, uint8_t parent, uint8_t found) {
		wkb_error::Dimensions(offset, parent, found);
	}
	[[noreturn]] static void RefuseDepth(uint64_t offset) {
		wkb_error::TooDeep(offset);
	}
	[[noreturn]] static void RefuseMember(uint64_t offset, GeometryType parent, GeometryType found) {
		wkb_error::Member(offset, parent, found);
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

//! Like VisitWkb(), with the tree of the geometry: walker.Row(header) once, then walker.Node(type, children) for every node in
//! preorder; a leaf node is followed by its Part and Ring calls
template <class WALKER>
void WalkWkb(const uint8_t *data, size_t size, WALKER &walker) {
	constexpr size_t LONG = 4096;
	if (size >= LONG) {
		PollCall(size / sizeof(vibe::Vec2));
	}
	WkbCursor cursor(data, size);
	vibe::WalkWkb(cursor, walker);
}

//! Calls for every leaf part in order visitor.Part(family), then visitor.Ring(count, coords, stride) for each of its rings.
//! `coords` points at unaligned little-endian doubles (LoadDouble() reads one), `stride` is the size of a vertex in bytes.
//! EMPTY points and lines have no ring; a ring of a polygon may have no vertices. Makes the same checks as ReadWkb, but an
//! error may be thrown after some calls.
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
