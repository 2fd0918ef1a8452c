#include "gpu_plugin/compile/faults.hpp"

#include "engine/gpu/interface/engine.hpp"
#include "gpu_plugin/compile/device_loss.hpp"

#include <cstdlib>
#include <cstring>

namespace vibespatial {

static constexpr const char *NAMES[] = {"none", "launch", "allocation", "wait", "lost", "compile", "address"};

Faults &Faults::Get() {
	static Faults faults;
	return faults;
}

Faults::Faults() {
	const char *text = std::getenv("VIBESPATIAL_GPU_FAULT");
	const char *colon = text ? std::strchr(text, ':') : nullptr;
	if (!colon) {
		return;
	}
	for (size_t i = 1; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		if (std::string(text, colon) == NAMES[i]) {
			fault = static_cast<Fault>(i);
		}
	}
	char *end = nullptr;
	first = std::strtoull(colon + 1, &end, 10);
	if (*end == '/') {
		period = std::strtoull(end + 1, nullptr, 10);
	}
}

void Faults::CheckSlowly(Fault here) {
	const bool counts = here == fault || (fault == Fault::LOST && here == Fault::WAIT);
	const uint64_t now = counts ? ++seen : seen.load();
	if (fault == Fault::LOST) {
		if (now >= first) {
			DeviceLoss::Report("VIBESPATIAL_GPU_FAULT asked for it");
			throw GpuError(DeviceLoss::Text());
		}
		return;
	}
	if (counts && IsNow(now)) {
		const auto message = std::string("a failed ") + NAMES[static_cast<uint8_t>(fault)] + " (VIBESPATIAL_GPU_FAULT)";
		if (fault == Fault::ALLOCATION) {
			throw GpuMemoryError(message);
		}
		throw GpuError(message);
	}
}

bool Faults::IsNow(uint64_t number) const {
	return number == first || (period > 0 && number > first && (number - first) % period == 0);
}

void Faults::SpoilSlowly(void **arguments, size_t count) {
	//! More than any argument has: large numbers, and addresses that are none
	static unsigned char nowhere[512];
	if (IsNow(++seen)) {
		std::memset(nowhere, 0x10, sizeof(nowhere));
		for (size_t i = 0; i < count; i++) {
			arguments[i] = static_cast<void *>(nowhere);
		}
	}
}

} // namespace vibespatial
