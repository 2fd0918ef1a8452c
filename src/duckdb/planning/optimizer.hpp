//===----------------------------------------------------------------------===//
// duckdb/planning/optimizer.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! Registers the rules that rewrite expressions and put our operators into plans
void RegisterOptimizer(ExtensionLoader &loader);

} // namespace duckdb
