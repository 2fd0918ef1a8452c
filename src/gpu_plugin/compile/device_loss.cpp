#include "gpu_plugin/compile/device_loss.hpp"

#include <atomic>
#include <mutex>

namespace vibespatial {

static std::atomic<bool> lost {false};
static std::mutex lock;

//! Never destroyed: threads of the engine may outlive it
static std::string &Reason() {
	static auto *reason = new std::string();
	return *reason;
}

void DeviceLoss::Report(const std::string &why) {
	std::lock_guard<std::mutex> guard(lock);
	if (!lost) {
		Reason() = why;
		lost = true;
	}
}

bool DeviceLoss::IsLost() {
	return lost;
}

std::string DeviceLoss::Text() {
	std::lock_guard<std::mutex> guard(lock);
	return lost ? "the device was lost: " + Reason() + "; restart the process to use it again" : "";
}

} // namespace vibespatial
