//===----------------------------------------------------------------------===//
// engine/input/row.hpp
//
// The geometry of one row of a join or a function, as the caller holds it: its WKB
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/uninitialized.hpp"
#include "geometry/lanes.hpp"
#include "geometry/wkb.hpp"

#include <array>
#include <cstdint>
#include <cstring>

namespace vibespatial {

//! A point as WKB
typedef std::array<uint8_t, 21> PointBytes;
PointBytes WritePoint(const vibe::Vec2 &point);

//! The bytes of one geometry; no data: NULL
struct JoinRow {
	const uint8_t *data;
	uint32_t size;
};

//! Reads rows that are mostly a POINT in XY with finite coordinates, and tells afterwards whether all of them were
class PlainPoints {
public:
	//! False: it is not. True: it may be, and where all are, x and y are its own.
	bool Read(const JoinRow &row, double &x, double &y) {
		if (row.size != sizeof(PointBytes)) {
			return false;
		}
		// The byte order and the type code, in front of three bytes of x
		uint64_t head;
		std::memcpy(&head, row.data, sizeof(head));
		odd |= (head & 0xffffffffffU) ^ 0x0101;
		const Lanes point = LoadLanes(row.data + vibe::WKB_HEADER_BYTES);
		rest += point - point;
		x = point[0];
		y = point[1];
		return true;
	}
	bool All() const {
		return odd == 0 && rest[0] + rest[1] == 0;
	}

private:
	uint64_t odd = 0;
	Lanes rest {0, 0}; // of finite numbers
};

typedef UninitializedVector<JoinRow> JoinRows;

} // namespace vibespatial
