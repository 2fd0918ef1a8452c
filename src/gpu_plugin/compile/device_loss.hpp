//===----------------------------------------------------------------------===//
// gpu_plugin/compile/device_loss.hpp
//
// Some errors stay with the context of a process: an address that is none, memory that fails, a device that is gone. Nothing can be
// done on the device from then on, and only a new process gets it back.
//===----------------------------------------------------------------------===//
#pragma once

#include <string>

namespace vibespatial {

class DeviceLoss {
public:
	//! The first reason is kept
	static void Report(const std::string &why);
	static bool IsLost();
	//! What happened and what to do; empty while nothing has
	static std::string Text();
};

} // namespace vibespatial
