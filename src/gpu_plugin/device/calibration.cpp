// What the device at hand can do: read from the cache of kernels, or measured once, when nobody works on it.
#include "engine/gpu/interface/version.hpp"
#include "engine/gpu/machine/calibrate.hpp"
#include "gpu_plugin/compile/device_loss.hpp"
#include "gpu_plugin/compile/sha256.hpp"
#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"
#include "gpu_plugin/device/machine.hpp"

#include <thread>

namespace vibespatial {

namespace {

constexpr const char *UNIT = "calibration";
//! Nobody has worked for so long, and how often that is looked at
constexpr auto QUIET = std::chrono::milliseconds(100);
//! Work that began meanwhile spoils a measurement
constexpr int TRIES = 3;

} // namespace

const GpuFigures *CudaEngine::Figures() {
	return figures.load(std::memory_order_acquire);
}

void CudaEngine::Calibrate(const std::string &identity) {
	KernelKey key;
	key.name = "figures";
	// Of the kernel and of all that measures with it
	key.source = Sha256::HexOf(std::string(VIBESPATIAL_ENGINE_INTERFACE) + FindUnit(UNIT)->source);
	key.options = Sha256::HexOf(identity) + " cores " + std::to_string(std::thread::hardware_concurrency());
	{
		std::lock_guard<std::mutex> guard(lock);
		key.capability = device.capability;
	}
	const auto cache = precompiler.Cache();
	auto found = std::make_unique<GpuFigures>();
	std::string text;
	if (cache->Load(key, text) && GpuFigures::FromText(text, *found) && found->Problem().empty()) {
		found->source = "disk cache";
	} else {
		const auto begin = std::chrono::steady_clock::now();
		try {
			*found = MeasureWhenIdle();
		} catch (const std::exception &exception) {
			*found = GpuFigures();
			found->error = std::string("the device could not be measured: ") + exception.what();
		}
		{
			std::lock_guard<std::mutex> guard(lock);
			if (stop_calibrating) {
				return;
			}
		}
		if (found->Problem().empty()) {
			EndStep("start", "calibration", begin);
			cache->Store(key, found->ToText());
		}
	}
	figures.store(found.release(), std::memory_order_release);
}

bool CudaEngine::WaitUntilIdle(StreamPool::Use &use) {
	std::unique_lock<std::mutex> guard(lock);
	while (true) {
		const auto before = streams->CurrentUse();
		if (changed.wait_for(guard, QUIET, [&] { return stop_calibrating; })) {
			return false;
		}
		use = streams->CurrentUse();
		const bool loading = loading_functions || (!no_more_ahead && !loaded.empty());
		if (use.streams == 0 && use.taken == before.taken && !loading) {
			return true;
		}
	}
}

GpuFigures CudaEngine::MeasureWhenIdle() {
	StreamPool::Use use;
	const auto stopped = [] { return GpuError("the engine ends"); };
	if (!WaitUntilIdle(use)) {
		throw stopped();
	}
	precompiler.Request({UNIT}, "calibration", false);
	const auto is_ready = [&] {
		for (auto &status : precompiler.Status()) {
			if (status.name == UNIT && status.state == KernelState::FAILED) {
				throw GpuError(std::string("kernel ") + UNIT + ": " + status.error);
			}
			if (status.name == UNIT && status.state == KernelState::READY) {
				return true;
			}
		}
		return false;
	};
	while (!is_ready()) {
		if (!WaitUntilIdle(use)) {
			throw stopped();
		}
	}
	GpuFigures measured;
	for (int i = 0; i < TRIES; i++) {
		if (!WaitUntilIdle(use)) {
			throw stopped();
		}
		if (DeviceLoss::IsLost()) {
			throw GpuError(DeviceLoss::Text());
		}
		// Not UseDevice(), which is for work that nothing is loaded beside
		CheckCuda(cudaSetDevice(options.device), "the device");
		{
			CudaMachine machine(*this);
			measured = MeasureFigures(machine);
		}
		if (streams->CurrentUse().taken == use.taken + 1) {
			break;
		}
	}
	return measured;
}

} // namespace vibespatial
