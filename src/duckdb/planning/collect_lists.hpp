//===----------------------------------------------------------------------===//
// duckdb/planning/collect_lists.hpp
//
// ST_Collect(list(geom)) without a list
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/planner/logical_operator.hpp"

namespace duckdb {

//! list(geom) and array_agg(geom) become vibe_collect_list(geom) where ST_Collect alone takes their lists
void CollectWithoutLists(ClientContext &context, LogicalOperator &plan);

} // namespace duckdb
