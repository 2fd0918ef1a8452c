//===----------------------------------------------------------------------===//
// gpu_plugin/device/device.hpp
//
// The GPU engine: a device that comes up in the background, the kernels that were loaded onto it, and its work.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/machine/pinned.hpp"
#include "engine/gpu/machine/shared_memory.hpp"
#include "gpu_plugin/device/memory.hpp"
#include "gpu_plugin/device/resident.hpp"
#include "gpu_plugin/device/primitives.hpp"
#include "gpu_plugin/device/stream.hpp"
#include "gpu_plugin/compile/libraries.hpp"
#include "gpu_plugin/compile/precompiler.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cuda_runtime_api.h>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace vibespatial {

class Machine;

class CudaEngine : public GpuEngine {
public:
	explicit CudaEngine(const GpuOptions &options);
	//! Ends the background threads at the end of the process, which frees the memory of the device
	void Shutdown();

	bool WaitForDevice(double timeout_seconds, std::string &error) override;
	GpuDevice Device() override;
	std::vector<GpuComponent> Components() override;
	bool UsesRoughEdges() override {
		return rough_edges;
	}
	const GpuFigures *Figures() override;
	void Configure(const GpuOptions &options) override;
	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) override;
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout_seconds) override;
	std::vector<KernelStatus> Status() override;
	std::vector<GpuMemoryRow> Memory() override;
	uint64_t MemoryLimit() override;
	void Quiesce(double timeout_seconds) override;
	std::vector<GpuStep> Steps() override;
	void AddStep(const GpuStep &step) override;
	PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) override;
	std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) override;
	std::shared_ptr<GpuBuild> NewBuild() override;
	void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) override;
	std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &build, const JoinCondition &condition) override;
	std::shared_ptr<GpuPinned> NewPinned(const PinnedLayout &layout) override;
	std::unique_ptr<GpuSharedMemory> NewSharedMemory() override;
	std::unique_ptr<GpuSearch> NewSearch(const std::shared_ptr<GpuBuild> &build, uint32_t k, double most) override;
	std::unique_ptr<GpuScalarBatch> NewScalarBatch(const ScalarTask &task) override;
	std::unique_ptr<GpuUnion> BeginUnion(const OverlayNet &net, Parallel &parallel) override;
	std::vector<std::string> SelfTest() override;

	// For the work that is done in other files
	std::shared_ptr<DeviceMemory> CurrentMemory();
	StreamPool &Streams() {
		return *streams;
	}
	Primitives &Algorithms() {
		return primitives;
	}
	//! Waits for the device and these kernels, as long as the setting allows. Throws GpuError.
	void Need(const std::vector<std::string> &names, const char *requested_by, GpuTimes &times);
	cudaKernel_t Kernel(const char *unit, const char *entry_point);
	//! Threads that the device runs at once, in blocks of so many
	uint64_t ThreadsAtOnce(cudaKernel_t kernel, uint64_t block);
	//! Makes the engine's device the one of the calling thread
	void UseDevice();
	int DeviceNumber() const {
		return options.device;
	}
	//! Logs the step from then to now, and returns its milliseconds
	double EndStep(const char *lane, const std::string &name, std::chrono::steady_clock::time_point begin);

private:
	enum class State { COMING, UP, ABSENT };

	std::unique_ptr<Machine> NewMachine();
	int64_t MicrosOf(std::chrono::steady_clock::time_point at) const;

	void BringUp();
	void SetAbsent(GpuDevice found, const std::string &why);
	//! Loads the payload of a kernel onto the device
	void Load(const std::string &name, bool is_unit, const std::string &payload);
	//! Loads the functions of kernels ahead of their first launch, until there is work: the driver does one thing at a time, and work
	//! loads the functions that it needs
	void LoadAhead();
	void StopLoadingAhead();
	void MakeMemory();
	//! Finds the figures of the device in the cache, or measures them as soon as nobody works; `device` says which it is
	void Calibrate(const std::string &device);
	GpuFigures MeasureWhenIdle();
	//! False where the engine ends first
	bool WaitUntilIdle(StreamPool::Use &use);
	size_t FreeCaches();

	const std::chrono::steady_clock::time_point epoch;
	const int64_t epoch_us;
	Libraries libraries;
	Precompiler precompiler;

	std::mutex lock;
	std::condition_variable changed;
	State state = State::COMING;
	GpuOptions options;
	GpuDevice device;
	std::shared_ptr<DeviceMemory> memory;
	std::map<std::string, cudaLibrary_t> units;
	//! Blocks that a multiprocessor runs at once: it takes the driver longer than looking here
	std::map<cudaKernel_t, uint64_t> blocks_at_once;
	//! Kernels whose functions are not loaded yet
	std::deque<std::pair<std::string, cudaLibrary_t>> loaded;
	//! Work has begun, or there will be none
	std::atomic<bool> no_more_ahead {false};
	bool loading_functions = false;
	//! Null until they are known. Never freed: who reads them holds no lock.
	std::atomic<const GpuFigures *> figures {nullptr};
	std::atomic<bool> rough_edges {false};
	//! The end is near: nothing is measured any more
	bool stop_calibrating = false;
	Primitives primitives;
	std::unique_ptr<StreamPool> streams;
	ResidentBuilds resident;
	MachinePins pins;
	MachineShares shares;
	std::mutex steps_lock;
	std::deque<GpuStep> steps;
	bool libraries_open = false;
	std::atomic<bool> shut_down {false};
	BackgroundThread coming_up;
	BackgroundThread opening_libraries;
	BackgroundThread loading_ahead;
	BackgroundThread calibrating;
};

} // namespace vibespatial
