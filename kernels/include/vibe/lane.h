//===----------------------------------------------------------------------===//
// vibe/lane.h
//
// Threads that work on one thing together. On a device they are a warp; on the host one thread works alone, but for tests, whose
// threads meet in a LaneGroup.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

#if !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
//! Threads of the host that are lanes
class LaneGroup {
public:
	virtual ~LaneGroup() = default;
	//! Waits for all, each with a value of its own; returns those of all by number
	virtual const double *Share(u32 number, double value) = 0;
};
#endif

//! Which of several threads this is. All of them call what is said of all, and in the same order.
struct Lane {
	u32 number;
	u32 count;
#if !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
	LaneGroup *group = nullptr;
#endif

	//! Is it so for one of them?
	VIBE_HD bool Any(bool value) const {
		return First(value) < count;
	}
	//! The first of them for which it is so; `count` where there is none
	VIBE_HD u32 First(bool value) const {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
		if (count > 1) {
			const u32 lanes = __ballot_sync(ALL, value);
			return lanes == 0 ? count : (u32)__ffs((int)lanes) - 1;
		}
#else
		if (group) {
			const double *values = group->Share(number, value ? 1 : 0);
			u32 first = 0;
			while (first < count && values[first] == 0) {
				first++;
			}
			return first;
		}
#endif
		return value ? 0 : count;
	}
	//! The least value of all of them
	VIBE_HD double Least(double value) const {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
		for (u32 by = count / 2; by > 0; by /= 2) {
			const double other = __shfl_xor_sync(ALL, value, by);
			value = other < value ? other : value;
		}
#else
		if (group) {
			const double *values = group->Share(number, value);
			for (u32 i = 0; i < count; i++) {
				value = values[i] < value ? values[i] : value;
			}
		}
#endif
		return value;
	}
	//! All bits that one of them has
	VIBE_HD u32 Union(u32 bits) const {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
		for (u32 by = count / 2; by > 0; by /= 2) {
			bits |= __shfl_xor_sync(ALL, bits, by);
		}
#else
		if (group) {
			const double *values = group->Share(number, bits);
			for (u32 i = 0; i < count; i++) {
				bits |= (u32)values[i];
			}
		}
#endif
		return bits;
	}
	//! The sum of the values of those before this one; `total` that of all
	VIBE_HD u32 Before(u32 value, u32 &total) const {
		u32 sum = value;
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
		for (u32 by = 1; by < count; by *= 2) {
			const u32 before = __shfl_up_sync(ALL, sum, by);
			sum += number >= by ? before : 0;
		}
		total = count > 1 ? __shfl_sync(ALL, sum, (int)count - 1) : sum;
#else
		total = value;
		if (group) {
			const double *values = group->Share(number, value);
			total = 0;
			for (u32 i = 0; i < count; i++) {
				total += (u32)values[i];
				sum = i == number ? total : sum;
			}
		}
#endif
		return sum - value;
	}
	//! What one has written before, the others can read afterwards
	VIBE_HD void Sync() const {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
		if (count > 1) {
			__syncwarp(ALL);
		}
#else
		if (group) {
			group->Share(number, 0);
		}
#endif
	}
	//! Adds to a counter that several of them use, and returns what was there before
	VIBE_HD static u32 Add(u32 *counter, u32 value) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
		return atomicAdd(counter, value);
#else
		return __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
#endif
	}

private:
	static constexpr u32 ALL = 0xffffffffu;
};

} // namespace vibe
