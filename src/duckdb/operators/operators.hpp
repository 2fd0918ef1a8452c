//===----------------------------------------------------------------------===//
// duckdb/operators/operators.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! The rule that puts VIBE_SPATIAL_JOIN into plans
void RegisterSpatialJoin(ExtensionLoader &loader);

} // namespace duckdb
