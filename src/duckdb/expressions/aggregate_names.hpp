//===----------------------------------------------------------------------===//
// duckdb/expressions/aggregate_names.hpp
//
// DuckDB merges scalar functions of one name, but a second aggregate of a name makes the LOAD that brings it fail. So the
// ST_ names of aggregates that `spatial` has too are ours only until it is loaded.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/function/aggregate_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! Takes the aggregates of these names that are bound by `bind` out of the catalog when `spatial` begins to load, and puts
//! back what it has not brought, which is all of them should it fail
void YieldAggregates(ExtensionLoader &loader, vector<string> names, bind_aggregate_function_t bind);

} // namespace duckdb
