//===----------------------------------------------------------------------===//
// duckdb/settings.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! vibe_execution_mode: auto, cpu or gpu; the environment variable VIBESPATIAL_EXECUTION_MODE gives the default
void RegisterSettings(ExtensionLoader &loader);

} // namespace duckdb
