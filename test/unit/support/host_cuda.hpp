//===----------------------------------------------------------------------===//
// host_cuda.hpp
//
// Kernels on the host: the words of CUDA that the units use, and a grid that is a loop. Include a unit in a namespace of
// its own after its headers, so that helpers of two units do not clash.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

// NOLINTBEGIN(bugprone-reserved-identifier)
#define __global__ inline
#define __device__
// NOLINTEND(bugprone-reserved-identifier)

namespace host_cuda {

struct Index {
	unsigned x = 0;
};

inline thread_local Index block_index, thread_index, block_size, grid_size;

//! One thread after the other, last first where `backwards`: kernels promise that their order does not matter
template <class KERNEL, class... ARGUMENTS>
void Launch(KERNEL *kernel, uint64_t threads, bool backwards, ARGUMENTS... arguments) {
	block_size.x = 32;
	grid_size.x = static_cast<unsigned>((threads + block_size.x - 1) / block_size.x);
	const uint64_t all = uint64_t(grid_size.x) * block_size.x;
	for (uint64_t i = 0; i < all; i++) {
		const uint64_t at = backwards ? all - 1 - i : i;
		block_index.x = static_cast<unsigned>(at / block_size.x);
		thread_index.x = static_cast<unsigned>(at % block_size.x);
		kernel(arguments...);
	}
}

} // namespace host_cuda

#define blockIdx host_cuda::block_index
#define threadIdx host_cuda::thread_index
#define blockDim host_cuda::block_size
#define gridDim host_cuda::grid_size
