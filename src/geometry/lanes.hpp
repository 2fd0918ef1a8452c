//===----------------------------------------------------------------------===//
// geometry/lanes.hpp
//
// Two doubles in one register, for the loops that see every vertex of a column
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

#include <cstring>

namespace vibespatial {

typedef double Lanes __attribute__((vector_size(16)));

//! Two doubles from any address
inline Lanes LoadLanes(const void *from) {
	Lanes lanes;
	std::memcpy(&lanes, from, sizeof(lanes));
	return lanes;
}

//! The running minimum and maximum of two columns or of the two axes of a vertex. A NaN never enters it,
//! as in vibe::Box::Add.
struct LaneRange {
	Lanes min {__builtin_inf(), __builtin_inf()};
	Lanes max {-__builtin_inf(), -__builtin_inf()};

	void Add(Lanes value) {
		min = value < min ? value : min;
		max = value > max ? value : max;
	}
	void Add(const LaneRange &other) {
		min = other.min < min ? other.min : min;
		max = other.max > max ? other.max : max;
	}
};

} // namespace vibespatial
