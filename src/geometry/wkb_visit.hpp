//===----------------------------------------------------------------------===//
// geometry/wkb_visit.hpp
//
// The walk of vibe/wkb.h on the CPU: ReadWkb, WkbBounds and every measure go through it, so they accept and refuse the
// same bytes, and say why.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/wkb.hpp"
#include "vibe/wkb.h"

#include <cstring>

namespace vibespatial {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "WKB coordinates are read as the machine's own doubles");

using vibe::IsEmptyPoint;
using vibe::LoadDouble;
using vibe::TryReadPoint;
using vibe::WalkWkbLeaf;

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
	//! Leaves and vertices in XY have code of their own
	static constexpr bool SHORT = false;

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
	//! It throws instead
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

//! VisitWkb that also tells the tree: walker.Row(header) once, then for every node in preorder
//! walker.Node(type, children), a leaf node followed by Part and Ring as in VisitWkb
template <class WALKER>
void WalkWkb(const uint8_t *data, size_t size, WALKER &walker) {
	WkbCursor cursor(data, size);
	vibe::WalkWkb(cursor, walker);
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
