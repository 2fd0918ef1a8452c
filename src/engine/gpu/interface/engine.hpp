//===----------------------------------------------------------------------===//
// engine/gpu/interface/engine.hpp
//
// The interface between the extension and the GPU plug-in. The plug-in is a shared object, built from the same sources and opened at
// run time; a machine without CUDA does not need it. Both sides first compare VIBESPATIAL_ENGINE_INTERFACE, a hash of the headers in this
// folder and of what they include (scripts/hash_interface.py).
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/uninitialized.hpp"
#include "engine/gpu/interface/figures.hpp"
#include "vibe/box_node.h"
#include "vibe/views.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace vibespatial {

//! The device, its memory or its libraries failed. The CPU engine can do the work instead.
class GpuError : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

//! The device has too little memory. A smaller piece of work may fit.
class GpuMemoryError : public GpuError {
public:
	using GpuError::GpuError;
};

enum class MemoryTier : uint8_t { POOL, SAFE, MANAGED };
enum class KernelSource : uint8_t { AUTO, PACK, JIT };
enum class Fp32Filter : uint8_t { AUTO, ON, OFF };

//! The settings. All but the device and the filter may change while the engine is open.
struct GpuOptions {
	//! Folder of the plug-in, its libraries, the release pack and the compile helper
	std::string folder;
	//! Folders that are searched for libraries before all others
	std::vector<std::string> library_folders;
	int device = 0;
	//! Whether points are looked up with floats first; auto: on devices that are slow in double precision
	Fp32Filter fp32_filter = Fp32Filter::AUTO;
	MemoryTier memory_tier = MemoryTier::SAFE;
	//! In bytes; 0 means nine tenths of what is free
	uint64_t memory_limit = 0;
	KernelSource kernel_source = KernelSource::AUTO;
	//! Empty means the user's cache folder
	std::string cache_dir;
	uint64_t cache_limit = 256ull << 20;
	//! Device memory for build sides that are kept between queries
	uint64_t resident_limit = 2ull << 30;
	//! 0 means as many as cores and memory allow
	uint32_t compile_workers = 0;
	//! A helper process that takes longer is ended
	uint32_t compile_timeout_seconds = 180;
	//! How long an operator waits for its kernels before the CPU does the work
	double kernel_timeout_seconds = 2;
};

//! A library or file that was looked for
struct GpuComponent {
	std::string name;
	bool found = false;
	std::string path;
	std::string version;
	//! If it was not found: what is wrong, and how to get it
	std::string detail;
};

struct GpuDevice {
	bool present = false;
	std::string name;
	int capability = 0; // 90: sm_90
	//! Streaming multiprocessors
	int processors = 0;
	//! How many times as fast single precision is as double precision
	int fp64_ratio = 0;
	uint64_t total_memory = 0;
	uint64_t free_memory = 0;
	int driver_version = 0;
	//! Why there is none; empty while the device is starting
	std::string error;
	double driver_ms = 0;
	double context_ms = 0;
	double libraries_ms = 0;
	double memory_ms = 0;
};

enum class KernelState : uint8_t { IDLE, PENDING, COMPILING, READY, FAILED };

struct KernelStatus {
	std::string kind; // unit or spec
	std::string name;
	KernelState state = KernelState::IDLE;
	std::string source; // pack, disk, jit
	std::string requested_by;
	double queue_ms = 0;
	double wall_ms = 0;
	uint64_t bytes = 0;
	std::string error;
	//! When the work began and ended, in milliseconds since the engine was opened
	double begin_ms = 0;
	double end_ms = 0;
};

//! One bar of a timeline: how the device came up, and kernels that were loaded or compiled
struct GpuStep {
	std::string lane; // start, compile
	std::string name;
	//! Microseconds since 1970
	int64_t begin_us = 0;
	int64_t end_us = 0;
};

struct GpuMemoryRow {
	std::string name;
	std::string detail;
	uint64_t bytes = 0;
	uint64_t peak_bytes = 0;
	uint64_t count = 0;
};

//! Bytes and times of one piece of work on the device
struct GpuTimes {
	uint64_t bytes_to_device = 0;
	uint64_t bytes_from_device = 0;
	double wait_ms = 0; // for the context and the kernels
	double to_device_ms = 0;
	double kernel_ms = 0;
	double from_device_ms = 0;

	void Add(const GpuTimes &other) {
		bytes_to_device += other.bytes_to_device;
		bytes_from_device += other.bytes_from_device;
		wait_ms += other.wait_ms;
		to_device_ms += other.to_device_ms;
		kernel_ms += other.kernel_ms;
		from_device_ms += other.from_device_ms;
	}
};

//! A tree, packed as BoxTree packs it
struct PackedBoxes {
	UninitializedVector<uint32_t> ids;
	UninitializedVector<vibe::PackedNode> nodes;
};

struct BuildKey;
class GpuBuild;
class GpuPinned;
class GpuTile;
class GpuScalarBatch;
class GpuSearch;
class GpuSharedMemory;
class GpuUnion;
struct JoinCondition;
struct OverlayNet;
struct PinnedLayout;
struct ScalarTask;

//! Any thread may call any of it at any time
class GpuEngine {
public:
	virtual ~GpuEngine() = default;

	//! Waits, up to the timeout, until the device is ready or has failed to start; `error` says why it is not ready
	virtual bool WaitForDevice(double timeout_seconds, std::string &error) = 0;
	virtual GpuDevice Device() = 0;
	virtual std::vector<GpuComponent> Components() = 0;
	//! Points are looked up with floats first (vibe/rough.h); known when the device is up
	virtual bool UsesRoughEdges() = 0;
	//! Null until the device was measured, which is done when it has nothing else to do; then the same for good
	virtual const GpuFigures *Figures() = 0;
	virtual void Configure(const GpuOptions &options) = 0;

	//! Asks for kernels and returns at once. Kernels that were asked for before only move up in the queue.
	virtual void Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) = 0;
	//! Waits, up to the timeout; returns the kernels that are not ready
	virtual std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout_seconds) = 0;
	virtual std::vector<KernelStatus> Status() = 0;
	virtual std::vector<GpuMemoryRow> Memory() = 0;
	//! Bytes of device memory that may be used; 0 while the device is not ready
	virtual uint64_t MemoryLimit() = 0;
	//! Before the process ends: waits, up to the timeout, until no thread is inside a CUDA call that cannot be interrupted
	virtual void Quiesce(double timeout_seconds) = 0;

	//! The last steps of the engine, and those that were added; those of queries are in engine/dispatch/timeline.hpp
	virtual std::vector<GpuStep> Steps() = 0;
	virtual void AddStep(const GpuStep &step) = 0;

	//! Builds the tree that BoxTree builds; `parallel` copies on the host. Throws GpuError.
	virtual PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) = 0;

	//! The build side of a join (engine/gpu/interface/join.hpp) that an earlier join left on the device, or null
	virtual std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) = 0;
	virtual std::shared_ptr<GpuBuild> NewBuild() = 0;
	//! Keeps it for the next join with the same build side, within GpuOptions::resident_limit
	virtual void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) = 0;
	//! Throws GpuError, also for a condition that the device cannot evaluate
	virtual std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &build,
	                                         const JoinCondition &condition) = 0;
	//! A table that stays on the device (engine/gpu/interface/pinned.hpp), without rows yet
	virtual std::shared_ptr<GpuPinned> NewPinned(const PinnedLayout &layout) = 0;
	//! Memory for a result that others go on with (engine/gpu/interface/shared_memory.hpp). The device must be up. Throws GpuError.
	virtual std::unique_ptr<GpuSharedMemory> NewSharedMemory() = 0;
	//! A search for the first k neighbours (engine/gpu/interface/neighbours.hpp) among the rows of a build side that has its tree. Throws
	//! GpuError.
	virtual std::unique_ptr<GpuSearch> NewSearch(const std::shared_ptr<GpuBuild> &build, uint32_t k, double most) = 0;

	//! A function of one geometry or two, row by row (engine/gpu/interface/scalar.hpp). Throws GpuError.
	virtual std::unique_ptr<GpuScalarBatch> NewScalarBatch(const ScalarTask &task) = 0;

	//! Uploads a net (engine/gpu/interface/overlay.hpp); `net` and `parallel` must outlive the union. Throws GpuError.
	virtual std::unique_ptr<GpuUnion> BeginUnion(const OverlayNet &net, Parallel &parallel) = 0;

	//! Compares every primitive of the device with the host; one line for each that differs
	virtual std::vector<std::string> SelfTest() = 0;
};

//! The function that the plug-in exports as vibespatial_open_engine
using OpenEngineFunction = GpuEngine *(*)(const char *interface_version, const GpuOptions *options, const char **error);

} // namespace vibespatial
