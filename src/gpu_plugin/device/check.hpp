//===----------------------------------------------------------------------===//
// gpu_plugin/device/check.hpp
//
// What CUDA says is wrong becomes a GpuError. An error that sticks to the context is a loss (gpu_plugin/compile/device_loss.hpp).
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <cuda_runtime_api.h>

namespace vibespatial {

[[noreturn]] void ThrowCuda(cudaError_t status, const char *what);

inline void CheckCuda(cudaError_t status, const char *what) {
	if (status != cudaSuccess) {
		ThrowCuda(status, what);
	}
}

//! Throws where the device was lost meanwhile, by calls that do not say so themselves
void CheckLoss(const char *what);

} // namespace vibespatial
