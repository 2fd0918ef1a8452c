//===----------------------------------------------------------------------===//
// duckdb/planning/engines.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

//! Has EXPLAIN name the engine of unions beside the aggregate, since the operator is DuckDB's
void NameEngines(ClientContext &context, LogicalOperator &plan);
//! With vibe_gpu_strict in mode gpu: throws for the first function of ours that the CPU would compute for rows of the plan
void RequireGpuFunctions(ClientContext &context, LogicalOperator &plan);

} // namespace duckdb
