//===----------------------------------------------------------------------===//
// gpu_plugin/compile/compilers.hpp
//
// From source to what a device loads; no device is needed. Units go through NVRTC and may be compiled by several threads
// at once; specs go through libcccl.c.parallel, which is serial within a process and prints to standard output, so they
// are compiled in a helper process (helper_process.hpp).
//===----------------------------------------------------------------------===//
#pragma once

#include "gpu_plugin/compile/envelope.hpp"
#include "gpu_plugin/compile/libraries.hpp"
#include "engine/dispatch/kernel_registry.hpp"

#include <atomic>
#include <string>

namespace vibespatial {

KernelKey UnitKey(const KernelUnit &unit, int capability, Libraries &libraries);
KernelKey SpecKey(const KernelSpec &spec, int capability, Libraries &libraries);

//! A cubin; false and why not. `cancel` stops it at the compiler's next step.
bool CompileUnit(const KernelUnit &unit, int capability, Libraries &libraries, const std::atomic<bool> *cancel,
                 std::string &payload, std::string &error);
//! What c.parallel serializes. `precompiled_headers`: several specs of one algorithm follow each other.
bool CompileSpec(const KernelSpec &spec, int capability, Libraries &libraries, bool precompiled_headers,
                 std::string &payload, std::string &error);

} // namespace vibespatial
