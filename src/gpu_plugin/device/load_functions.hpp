//===----------------------------------------------------------------------===//
// gpu_plugin/device/load_functions.hpp
//
// What is done before a first launch
//===----------------------------------------------------------------------===//
#pragma once

#include <cuda_runtime_api.h>

namespace vibespatial {

//! Loads all functions of a library onto the device: otherwise the first launch of each would
void LoadFunctions(cudaLibrary_t library, const char *name);

} // namespace vibespatial
