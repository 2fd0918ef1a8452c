//===----------------------------------------------------------------------===//
// gpu_plugin/compile/faults.hpp
//
// Failures on demand, for tests of what happens then. VIBESPATIAL_GPU_FAULT names one and when it comes: "launch:3" is the
// third launch of the process, "allocation:1/4" every fourth allocation from the first on, "compile:2" the second kernel that
// is brought to the device. "lost:3" is the device itself: from the third wait on, everything fails. "address:3" gives the
// third launch addresses that are none, which the device does not survive.
//===----------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vibespatial {

enum class Fault : uint8_t { NONE, LAUNCH, ALLOCATION, WAIT, LOST, COMPILE, ADDRESS };

class Faults {
public:
	static Faults &Get();

	//! Throws GpuError when it is time
	void Check(Fault here) {
		if (fault != Fault::NONE) {
			CheckSlowly(here);
		}
	}

	//! Takes away the arguments of a launch when it is time
	void Spoil(void **arguments, size_t count) {
		if (fault == Fault::ADDRESS) {
			SpoilSlowly(arguments, count);
		}
	}

private:
	Faults();
	void CheckSlowly(Fault here);
	bool IsNow(uint64_t number) const;
	void SpoilSlowly(void **arguments, size_t count);

	Fault fault = Fault::NONE;
	uint64_t first = 0;
	uint64_t period = 0;
	std::atomic<uint64_t> seen {0};
};

} // namespace vibespatial
