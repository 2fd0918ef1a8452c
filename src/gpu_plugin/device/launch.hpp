//===----------------------------------------------------------------------===//
// gpu_plugin/device/launch.hpp
//
// How many threads kernels get, what each of them has, and how a launch takes its arguments
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cstdint>
#include <cuda_runtime_api.h>

namespace vibespatial {

constexpr uint64_t BLOCK = 256;
//! Threads of a launch whose work is known to the device alone
constexpr uint64_t LOOPING_THREADS = 132 * 1024;
//! Those of relate, each with a slab of memory, and the vertices of a pair that one thread may walk
constexpr uint64_t RELATE_THREADS = 8192;
constexpr uint64_t RELATE_SLAB = 64 << 10;
constexpr uint32_t RELATE_VERTICES = 1024;
//! Instead of that, where no pair can have so many
constexpr uint32_t ANY_VERTICES = ~uint32_t(0);

//! Threads for relating so many pairs, in whole blocks, whose slabs take no more than a share of the device's memory: tiles
//! of other threads want some
inline uint64_t RelateThreads(uint64_t pairs, uint64_t memory_limit) {
	constexpr uint64_t SHARE = 32;
	const uint64_t wanted = (std::min(pairs, RELATE_THREADS) + BLOCK - 1) / BLOCK;
	return std::max<uint64_t>(1, std::min(wanted, memory_limit / SHARE / (RELATE_SLAB * BLOCK))) * BLOCK;
}

//! The functions of a library onto the device: else each would be at its first launch
void LoadFunctions(cudaLibrary_t library, const char *name);

//! As a launch takes its arguments
template <class T>
void *Address(T &argument) {
	return static_cast<void *>(&argument);
}

} // namespace vibespatial
