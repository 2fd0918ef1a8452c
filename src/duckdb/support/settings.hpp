//===----------------------------------------------------------------------===//
// duckdb/support/settings.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "engine/dispatch/dispatch.hpp"

#include <functional>

namespace duckdb {

//! How long a query in mode gpu waits for the engine and its device
static constexpr double GPU_PATIENCE_SECONDS = 10;

enum class Precompile : uint8_t { AUTO, ALL, OFF };

//! Registers the vibe_ settings; environment variables override their defaults
void RegisterSettings(ExtensionLoader &loader);
//! The default of a setting: its environment variable (VIBESPATIAL_CACHE_DIR of vibe_cache_dir), which must have the type of `value`, else
//! `value`. `check` throws for what the setting does not take, and names the variable.
Value SettingDefault(const char *name, Value value,
                     const std::function<void(const string &variable, Value &value)> &check = nullptr);
//! Opens the GPU engine in the background if there may be a device and the settings allow it; returns at once
void StartGpu(ExtensionLoader &loader);

vibespatial::ExecutionMode GetExecutionMode(ClientContext &context);
//! The same as GetExecutionMode(), in one load where no connection of the process was in mode gpu
bool IsModeGpu(ClientContext &context);
//! Whether, in mode gpu, the CPU may do nothing
bool GetGpuStrict(ClientContext &context);
Precompile GetPrecompile(ClientContext &context);
//! Number of rows from which mode auto prefers the GPU; negative: the measured threshold of each operation
int64_t GetGpuMinRows(ClientContext &context);
//! Whether rows must come in a stable order for any number of threads
bool GetDeterministic(ClientContext &context);
//! Whether expressions may be rewritten
bool GetRewrites(ClientContext &context);
//! Seconds that a query in mode auto waits for its kernels
double GetKernelTimeout(ClientContext &context);

//! Whether enable_external_access is on
bool HasExternalAccess(ClientContext &context);
//! Whether the files that a path names may be read and written: enable_external_access, allowed_directories and allowed_paths say so
bool MayAccess(ClientContext &context, const string &path);
//! False, and why, while enable_external_access is off and the engine is not open: then no library is opened
bool MayOpenGpu(ClientContext &context, string &why_not);

//! The numbers of this database and connection, for the log of decisions; the text is empty
vibespatial::QueryText QueryOf(ClientContext &context);
//! The same with the text
vibespatial::QueryText LoggedQuery(ClientContext &context);
//! Whether this connection may see the text of a query: of its own, and with vibe_log_queries = 'all' of its database
bool MaySee(ClientContext &context, const vibespatial::QueryText &query);

//! Waits up to `seconds` for the engine, whose device may still be coming up. Returns null and the reason if it is not open by then.
//! Throws when the query is cancelled.
vibespatial::GpuEngine *WaitForGpuEngine(ClientContext &context, double seconds, string &why_not);
//! Waits up to `seconds` for the engine and its device. Returns null and the reason if they are not there by then. Throws when
//! the query is cancelled.
vibespatial::GpuEngine *WaitForGpu(ClientContext &context, double seconds, string &why_not);
//! The names of all kernels in the registry that an operator needs
std::vector<std::string> AllKernels();

} // namespace duckdb
