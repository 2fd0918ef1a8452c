//===----------------------------------------------------------------------===//
// geometry/lanes.hpp
//
// Two doubles in one register, for the loops that see every vertex of a column
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/views.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

typedef double Lanes __attribute__((vector_size(16)));

//! Two doubles from any address, in one load: what memcpy leads to goes by way of the stack in some loops
inline Lanes LoadLanes(const void *from) {
	typedef double Anywhere __attribute__((vector_size(16), aligned(1), may_alias));
	return *static_cast<const Anywhere *>(from);
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

//! Of the vertices from `coords` on, so many bytes apart. Each is shown to `see`, too.
template <class SEE>
LaneRange VertexRange(const uint8_t *coords, uint32_t count, size_t stride, const SEE &see) {
	// Two chains for each of minimum and maximum: one alone waits for itself at every vertex
	LaneRange range, odd;
	uint32_t i = 0;
	for (; i + 2 <= count; i += 2, coords += 2 * stride) {
		const Lanes vertex = LoadLanes(coords), next = LoadLanes(coords + stride);
		see(vertex);
		see(next);
		range.Add(vertex);
		odd.Add(next);
	}
	if (i < count) {
		const Lanes vertex = LoadLanes(coords);
		see(vertex);
		range.Add(vertex);
	}
	range.Add(odd);
	return range;
}

//! Minimum and maximum of a column's slice
inline void ColumnRange(const double *values, size_t count, double &min, double &max) {
	// Four chains: one alone waits for itself at every step
	LaneRange even, odd;
	size_t i = 0;
	for (; i + 4 <= count; i += 4) {
		even.Add(LoadLanes(values + i));
		odd.Add(LoadLanes(values + i + 2));
	}
	for (; i < count; i++) {
		even.Add(Lanes {values[i], values[i]});
	}
	even.Add(odd);
	min = vibe::Min(even.min[0], even.min[1]);
	max = vibe::Max(even.max[0], even.max[1]);
}

} // namespace vibespatial
