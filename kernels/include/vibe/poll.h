//===----------------------------------------------------------------------===//
// vibe/poll.h
//
// Long loops of the core call poll() for each item. The CPU looks there whether its query was cancelled.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/real.h"

namespace vibe {

//! On a device, where a launch is short
struct NoPoll {
	VIBE_HD void operator()() const {
	}
};

} // namespace vibe
