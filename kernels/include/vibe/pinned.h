//===----------------------------------------------------------------------===//
// vibe/pinned.h
//
// Columns of a table that stays on the device, and which of its rows a filter keeps. Values are signed integers in the order of the SQL
// type; a filter is a conjunction of clauses, each of which is ranges of one column of which one has to hold.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

//! A range of a column: row numbers are indexes of both arrays
struct PinnedRange {
	const u8 *values;
	//! 1 where a row is NULL; null where none is
	const u8 *nulls;
	//! Empty where low > high
	i64 low;
	i64 high;
	//! Bytes of a value: 1, 2, 4 or 8
	u32 width;
	u8 null_passes;
	//! The last range of its clause
	u8 ends_clause;
};

//! An argument of a kernel
struct PinnedFilter {
	static constexpr u32 MAX_RANGES = 16;

	u32 count;
	PinnedRange ranges[MAX_RANGES];
};

VIBE_HD i64 PinnedValue(const PinnedRange &range, u64 row) {
	switch (range.width) {
	case 1:
		return reinterpret_cast<const signed char *>(range.values)[row];
	case 2:
		return reinterpret_cast<const short *>(range.values)[row];
	case 4:
		return reinterpret_cast<const i32 *>(range.values)[row];
	default:
		return reinterpret_cast<const i64 *>(range.values)[row];
	}
}

//! In the place of a point that meets nothing
VIBE_HD double NoCoordinate() {
	const u64 bits = 0x7ff8000000000000ULL;
	double value;
	CopyBytes(&value, &bits, sizeof(value));
	return value;
}

VIBE_HD bool PassesFilter(const PinnedFilter &filter, u64 row) {
	bool holds = false;
	for (u32 i = 0; i < filter.count; i++) {
		const PinnedRange &range = filter.ranges[i];
		if (!holds) {
			if (range.nulls && range.nulls[row] != 0) {
				holds = range.null_passes != 0;
			} else {
				const i64 value = PinnedValue(range, row);
				holds = range.low <= value && value <= range.high;
			}
		}
		if (range.ends_clause) {
			if (!holds) {
				return false;
			}
			holds = false;
		}
	}
	return true;
}

} // namespace vibe
