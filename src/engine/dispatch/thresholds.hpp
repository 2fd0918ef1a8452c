//===----------------------------------------------------------------------===//
// engine/dispatch/thresholds.hpp
//
// From how many rows on mode auto prefers the GPU. kernels/operations.json has the numbers of one machine, the reference; where the device at
// hand was measured (engine/gpu/interface/figures.hpp), they are converted to it. No threshold changes a result.
//
// The model: the CPU's time for a row goes down with its cores. Copies and kernels take parts of that time on the reference machine
// (OperationInfo::copy_share, kernel_share), and more with a slower bus or device; the longer of the two counts, since they overlap. What is
// left is gained with each row, and pays for what the device costs in any case, of which a part is launches.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/dispatch/operation.hpp"
#include "engine/gpu/interface/figures.hpp"

#include <vector>

namespace vibespatial {

class Thresholds {
public:
	//! Those of the reference machine
	Thresholds();
	//! Those of a machine with such figures; as above where they cannot be used
	explicit Thresholds(const GpuFigures &figures);

	//! Those of the open engine's device; until it was measured, the reference's. Costs nothing. Figures that cannot be used leave an
	//! event, once.
	static const Thresholds &Current();
	//! The machine that the numbers in kernels/operations.json were measured on
	static const GpuFigures &Reference();

	//! OperationInfo::NEVER and NO_GPU as there
	uint64_t Rows(Operation operation) const {
		return rows[static_cast<size_t>(operation)];
	}
	//! From how many milliseconds of the CPU on a device pays that is sent so many bytes, for work that takes the CPU so long
	double PaysFrom(double bytes, double cpu_ms) const {
		return fixed_ms + bytes * ms_per_byte + cpu_ms * slower_kernels;
	}
	//! They are of this machine
	bool AreCalibrated() const {
		return calibrated;
	}

	//! What a device costs a join of shapes on the reference machine before it is ahead: a constant part, and bytes of both sides per
	//! millisecond. Measured with the real layers of measurements/gpu.md: the pair with which the better engine is taken most often.
	static constexpr double DEVICE_MS = 2;
	static constexpr double DEVICE_BYTES_PER_MS = 10e6;

private:
	std::vector<uint64_t> rows;
	double fixed_ms = DEVICE_MS;
	double ms_per_byte = 1 / DEVICE_BYTES_PER_MS;
	//! What slow kernels add for each millisecond of the CPU
	double slower_kernels = 0;
	bool calibrated = false;
};

} // namespace vibespatial
