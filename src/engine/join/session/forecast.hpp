//===----------------------------------------------------------------------===//
// engine/join/session/forecast.hpp
//
// How long the CPU would take for a join, or a search for neighbours: it is done for some of the first rows, and the result dropped.
//
// One huge row does not decide. Rows are taken from small to large. Each has a share of the time, after which what is left of it is
// estimated from the candidates that were looked at. Rows that there is no time for count by their bytes.
//
// A row is joined twice. The first time, the rows of the build side that it meets are read and kept, which no other row will pay for
// again: that part counts once for each row of the build side.
//
// Where one pair of each row is enough, the CPU stops there. A device looks at all pairs: what they would add to the time of the CPU is estimated in the
// same way, and a part of it counts against the device.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/dispatch/dispatch.hpp"
#include "engine/join/index.hpp"
#include "engine/join/knn.hpp"
#include "engine/join/session/host.hpp"

#include <functional>

namespace vibespatial {

struct ForecastInput {
	//! About how many rows the probe side has, and how many bytes the build side
	uint64_t probe_rows = 0;
	uint64_t build_bytes = 0;
	//! One pair of each row is enough
	bool first_only = false;
	//! The time in milliseconds, since whenever; none: a steady clock. Tests count work instead.
	std::function<double()> now_ms;
};

//! False where the build side has so many rows that the tree for the sample would cost more than it tells, or where a row of the sample is
//! invalid: the join will find out. The threads of the host that are free join rows of the sample, too.
bool ForecastJoin(JoinHost &host, JoinIndex &index, const JoinInput &first_rows, const ForecastInput &input,
                  Forecast &forecast);

//! The same for a search for neighbours: some of the first rows of the left side are searched for. False where there are none, or one of
//! them is invalid.
bool ForecastNeighbours(KnnSearch &search, const KnnIndex &index, const std::vector<JoinRow> &first_rows,
                        uint64_t left_rows, size_t threads, Forecast &forecast);

} // namespace vibespatial
