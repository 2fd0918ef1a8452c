//===----------------------------------------------------------------------===//
// engine/gpu/device/check.hpp
//
// What CUDA says is wrong becomes a GpuError.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/engine.hpp"

#include <cuda_runtime_api.h>
#include <string>

namespace vibespatial {

inline void CheckCuda(cudaError_t status, const char *what) {
	if (status != cudaSuccess) {
		// An error that does not stick must not be found by the next one who asks
		cudaGetLastError();
		throw GpuError(std::string(what) + ": " + cudaGetErrorString(status));
	}
}

} // namespace vibespatial
