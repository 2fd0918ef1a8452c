//===----------------------------------------------------------------------===//
// gpu_plugin/device/device.hpp
//
// The GPU engine: a device that comes up in the background, the kernels that were loaded onto it, and its work.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
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

class CudaEngine : public GpuEngine {
public:
	explicit CudaEngine(const GpuOptions &options);
	//! Ends the background work at the end of the process; what is on the device goes with it
	void Shutdown();

	bool WaitForDevice(double timeout_seconds, std::string &error) override;
	GpuDevice Device() override;
	std::vector<GpuComponent> Components() override;
	void Configure(const GpuOptions &options) override;
	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) override;
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout_seconds) override;
	std::vector<KernelStatus> Status() override;
	std::vector<GpuMemoryRow> Memory() override;
	uint64_t MemoryLimit() override;
	void Quiesce(double timeout_seconds) override;
	std::vector<GpuStep> Steps() override;
	void AddStep(const GpuStep &step) override;
	void ReadShapes(const ShapeRows &rows, PackedShapes &shapes, std::vector<uint32_t> &left) override;
	PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) override;
	std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) override;
	std::shared_ptr<GpuBuild> NewBuild() override;
	void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) override;
	std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &build, const JoinCondition &condition) override;
	std::unique_ptr<GpuPoints> KnnPoints(const float *nodes, const UninitializedVector<uint32_t> &ids,
	                                     const UninitializedVector<double> &leaves, Parallel &parallel,
	                                     GpuTimes &times) override;
	std::unique_ptr<GpuBulk> NewBulk(const BulkTask &task) override;
	void UniteNet(const OverlayNet &net, Parallel &parallel, UnitedNet &united, GpuTimes &times) override;
	std::vector<std::string> SelfTest() override;

	// For the work that is done in other files
	std::shared_ptr<DeviceMemory> CurrentMemory();
	StreamPool &Streams() {
		return *streams;
	}
	Primitives &Algorithms() {
		return primitives;
	}
	//! Waits for the device and these kernels as long as a consumer may; throws GpuError
	void Need(const std::vector<std::string> &names, const char *requested_by, GpuTimes &times);
	cudaKernel_t Kernel(const char *unit, const char *entry_point);
	//! One thread for each of `threads`
	void Launch(const char *unit, const char *entry_point, uint64_t threads, DeviceStream &stream, void **arguments);
	//! Of this thread, the device that the engine works on
	void UseDevice();
	//! The packed tree over these boxes, EMPTY ones left out, on the device
	struct DeviceTree {
		size_t items = 0;
		size_t node_count = 0;
		rmm::device_buffer boxes;
		rmm::device_buffer ids;
		rmm::device_buffer nodes;
	};
	DeviceTree PackTree(const vibe::Box *boxes, size_t count, DeviceStream &stream, DeviceMemory &held,
	                    Parallel &parallel, GpuTimes &times);

private:
	friend class DeviceOverlayMachine;
	friend class DevicePoints;

	enum class State { COMING, UP, ABSENT };

	//! Adds the step from then to now, and gives its milliseconds
	double EndStep(const char *lane, const std::string &name, std::chrono::steady_clock::time_point begin);
	int64_t MicrosOf(std::chrono::steady_clock::time_point at) const;

	void BringUp();
	//! The payload of a kernel onto the device
	void Load(const std::string &name, bool is_unit, const std::string &payload);
	//! The functions of what was loaded, until there is work for the device: the driver does one thing at a time, and work
	//! brings what it needs
	void LoadAhead();
	void StopLoadingAhead();
	void MakeMemory();
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
	//! Loaded, their functions not yet
	std::deque<std::pair<std::string, cudaLibrary_t>> loaded;
	//! Work has begun, or there will be none
	std::atomic<bool> no_more_ahead {false};
	bool loading_functions = false;
	Primitives primitives;
	std::unique_ptr<StreamPool> streams;
	ResidentBuilds resident;
	std::mutex steps_lock;
	std::deque<GpuStep> steps;
	bool libraries_open = false;
	std::atomic<bool> shut_down {false};
	BackgroundThread coming_up;
	BackgroundThread opening_libraries;
	BackgroundThread loading_ahead;
};

} // namespace vibespatial
