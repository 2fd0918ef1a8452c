//===----------------------------------------------------------------------===//
// engine/join/session/pinned.hpp
//
// A join whose probe side is on the device (engine/gpu/interface/pinned.hpp)
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/session/session.hpp"

namespace vibespatial {

//! The rows of a pinned table that pass a filter
struct PinnedProbe {
	std::shared_ptr<const PinnedRows> rows;
	PinnedTerms filter;
};

//! How many pairs each row of the build side has with them, segment by segment; to be called once, by one thread. Throws GpuError where the
//! device failed, and its rows with it: nothing was counted then, and the session looks for pairs without the device.
void CountPinned(JoinBuild &build, const PinnedProbe &probe);

} // namespace vibespatial
