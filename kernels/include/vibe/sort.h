//===----------------------------------------------------------------------===//
// vibe/sort.h
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

//! Shell sort (Ciura's gaps): no memory, short, good on short or nearly sorted arrays
template <class ARRAY, class LESS>
VIBE_HD_NOINLINE void Sort(ARRAY &a, u32 begin, u32 end, const LESS &less) {
	const u32 gaps[] = {1576091, 700485, 311326, 138367, 61496, 27331, 12147, 5398, 2399, 1066,
	                    474,     211,    94,     42,     18,    8,     4,     2,    1};
	constexpr u32 GAPS = sizeof(gaps) / sizeof(gaps[0]);
	u32 n = end - begin;
	VIBE_LOOP
	for (u32 g = n <= 8 ? GAPS - 1 : 0; g < GAPS; g++) {
		u32 gap = gaps[g];
		VIBE_LOOP
		for (u32 i = gap; i < n; i++) {
			auto item = a[begin + i];
			u32 j = i;
			VIBE_LOOP
			while (j >= gap && less(item, a[begin + j - gap])) {
				a[begin + j] = a[begin + j - gap];
				j -= gap;
			}
			a[begin + j] = item;
		}
	}
}

} // namespace vibe
