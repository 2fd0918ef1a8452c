//===----------------------------------------------------------------------===//
// duckdb/spatial_join/physical/probe_filters.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/spatial_join/physical.hpp"

namespace duckdb {

//! Gives the scans of the probe side the box of the build side as a dynamic filter, so that they can skip row groups in which no row
//! can match. The filters are optional: rows that pass them are still joined.
void PushProbeFilters(ClientContext &context, const PhysicalSpatialJoin &op, vibe::Box build_bounds);
//! Removes the filters of an earlier execution of the plan
void ClearProbeFilters(const PhysicalSpatialJoin &op);

} // namespace duckdb
