//===----------------------------------------------------------------------===//
// vibe/thread.h
//
// What a kernel knows about its place in the grid, and the one way in which threads share a counter. The tests compile
// kernels for the host, with a grid that is a loop (test/unit/host_cuda.hpp).
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

} // namespace vibe
