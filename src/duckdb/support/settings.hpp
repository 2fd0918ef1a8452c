//===----------------------------------------------------------------------===//
// duckdb/support/settings.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "engine/dispatch/dispatch.hpp"

namespace duckdb {

//! How long whoever asked for the GPU waits for the engine and its device
static constexpr double GPU_PATIENCE_SECONDS = 10;

enum class Precompile : uint8_t { AUTO, ALL, OFF };

//! The vibe_ settings, with their defaults from the environment
void RegisterSettings(ExtensionLoader &loader);
//! Opens the engine in the background where a device may be and the settings do not say no; returns at once
void StartGpu(ExtensionLoader &loader);

vibespatial::ExecutionMode GetExecutionMode(ClientContext &context);
Precompile GetPrecompile(ClientContext &context);
//! From so many rows on mode auto prefers the GPU; negative: as measured, kernel by kernel
int64_t GetGpuMinRows(ClientContext &context);
//! Rows come in a stable order, whatever the number of threads
bool GetDeterministic(ClientContext &context);
//! Expressions may be rewritten
bool GetRewrites(ClientContext &context);
//! Seconds that a query waits for its own kernels
double GetKernelTimeout(ClientContext &context);

//! The engine, with its device up. Without: nothing, and the reason, after so many seconds at most. Throws when the query is
//! cancelled.
vibespatial::GpuEngine *WaitForGpu(ClientContext &context, double seconds, string &why_not);
//! All kernels of the registry, by name
std::vector<std::string> AllKernels();

} // namespace duckdb
