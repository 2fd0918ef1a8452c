//===----------------------------------------------------------------------===//
// engine/gpu/device/faults.hpp
//
// Failures on demand, for tests of what happens then. VIBESPATIAL_GPU_FAULT names one and when it comes: "launch:3" is the
// third launch of the process, "allocation:1/4" every fourth allocation from the first on. "lost:3" is the device itself:
// from the third wait on, everything fails.
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstdint>

namespace vibespatial {

enum class Fault : uint8_t { NONE, LAUNCH, ALLOCATION, WAIT, LOST };

class Faults {
public:
	static Faults &Get();

	//! Throws GpuError when it is time
	void Check(Fault here) {
		if (fault != Fault::NONE) {
			CheckSlowly(here);
		}
	}

private:
	Faults();
	void CheckSlowly(Fault here);

	Fault fault = Fault::NONE;
	uint64_t first = 0;
	uint64_t period = 0;
	std::atomic<uint64_t> seen {0};
};

} // namespace vibespatial
