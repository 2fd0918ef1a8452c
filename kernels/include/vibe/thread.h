//===----------------------------------------------------------------------===//
// vibe/thread.h
//
// What a kernel knows about its place in the grid, and the ways in which threads share a counter. The tests compile
// kernels for the host, with a grid that is a loop (test/unit/support/host_cuda.hpp).
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

//! The number of this thread in the grid
__device__ inline u64 ThreadIndex() {
	return (u64)blockIdx.x * blockDim.x + threadIdx.x;
}

//! The threads of the grid
__device__ inline u64 ThreadCount() {
	return (u64)gridDim.x * blockDim.x;
}

//! Adds and returns what was there before
__device__ inline u32 AtomicAdd(u32 *counter, u32 value) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
	return atomicAdd(counter, value);
#else
	const u32 before = *counter;
	*counter += value;
	return before;
#endif
}
__device__ inline u64 AtomicAdd(u64 *counter, u64 value) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
	return atomicAdd(counter, value);
#else
	const u64 before = *counter;
	*counter += value;
	return before;
#endif
}

//! Threads that run in step: all of them are there when one calls Reserve()
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
constexpr u32 WARP = 32;
#else
constexpr u32 WARP = 1;
#endif

//! Room for `count` items of this thread behind a counter: where it begins. One addition for all threads of a warp.
__device__ inline u64 Reserve(u64 *counter, u64 count) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
	constexpr u32 ALL = 0xffffffffu;
	const u32 lane = threadIdx.x % WARP;
	u64 sum = count;
	for (u32 by = 1; by < WARP; by *= 2) {
		const u64 before = __shfl_up_sync(ALL, sum, by);
		sum += lane >= by ? before : 0;
	}
	u64 begin = 0;
	if (lane == WARP - 1 && sum > 0) {
		begin = atomicAdd(counter, sum);
	}
	return __shfl_sync(ALL, begin, WARP - 1) + sum - count;
#else
	return AtomicAdd(counter, count);
#endif
}

//! Adds one to counters[at]; threads of a warp that come here together for the same counter add once
__device__ inline void CountOne(u32 *counters, u32 at) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
	const u32 same = __match_any_sync(__activemask(), at);
	if ((u32)__ffs((int)same) - 1 == threadIdx.x % WARP) {
		atomicAdd(counters + at, (u32)__popc(same));
	}
#else
	counters[at]++;
#endif
}

} // namespace vibe
