//===----------------------------------------------------------------------===//
// engine/gpu/interface/figures.hpp
//
// What was measured of a device and of the machine around it: enough to tell from how many rows on it pays (engine/dispatch/thresholds.hpp)
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace vibespatial {

struct GpuFigures {
	//! A launch and the wait for its end
	double launch_us = 0;
	//! Copies from and to pinned memory, in 10^9 bytes per second
	double to_device_gbs = 0;
	double from_device_gbs = 0;
	//! Exact tests of a point and an edge, with all the threads that the device runs at once (kernels/calibration.cu)
	double edges_per_us = 0;
	//! Of the host, that the process may use
	uint32_t cores = 0;
	//! Where they come from
	std::string source;
	//! Why they could not be measured
	std::string error;

	//! Why they cannot be used; empty where they can
	std::string Problem() const;
	//! For people
	std::string Describe() const;
	//! For a file, and back; false where the text is no such file's
	std::string ToText() const;
	static bool FromText(const std::string &text, GpuFigures &figures);
};

} // namespace vibespatial
