//===----------------------------------------------------------------------===//
// engine/gpu/interface/engine.hpp
//
// Where the extension and the GPU plug-in meet. The plug-in is a shared object of its own, built from the same sources and
// opened at run time, so that a machine without CUDA never notices it. Both sides first compare VIBESPATIAL_ENGINE_INTERFACE, a hash of
// the headers in this folder and of what they include (scripts/hash_interface.py).
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/uninitialized.hpp"
#include "vibe/box_node.h"
#include "vibe/views.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace vibespatial {

//! The device, its memory or its libraries failed; the CPU engine can do the work instead
class GpuError : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

//! There is not enough memory on the device: less at a time may do
class GpuMemoryError : public GpuError {
public:
	using GpuError::GpuError;
};

enum class MemoryTier : uint8_t { POOL, SAFE, MANAGED };
enum class KernelSource : uint8_t { AUTO, PACK, JIT };

//! What the settings say. Everything may change while the engine is open, but for the device.
struct GpuOptions {
	//! The folder of the plug-in, its libraries, the release pack and the compile helper
	std::string folder;
	//! More folders to look for libraries in, before all others
	std::vector<std::string> library_folders;
	int device = 0;
	MemoryTier memory_tier = MemoryTier::SAFE;
	//! Bytes; 0: nine tenths of what is free
	uint64_t memory_limit = 0;
	KernelSource kernel_source = KernelSource::AUTO;
	//! Empty: the user's cache folder
	std::string cache_dir;
	uint64_t cache_limit = 256ull << 20;
	//! Of device memory, for build sides that are kept between queries
	uint64_t resident_limit = 2ull << 30;
	//! 0: as many as cores and memory allow
	uint32_t compile_workers = 0;
	//! After this long a helper process is ended
	uint32_t compile_timeout_seconds = 180;
	//! How long a consumer waits for its own kernels before it does the work on the CPU
	double kernel_timeout_seconds = 2;
};

//! A library or file that was looked for
struct GpuComponent {
	std::string name;
	bool found = false;
	std::string path;
	std::string version;
	//! What is wrong and how to get it, when it is not found
	std::string detail;
};

struct GpuDevice {
	bool present = false;
	std::string name;
	int capability = 0; // 90: sm_90
	uint64_t total_memory = 0;
	uint64_t free_memory = 0;
	int driver_version = 0;
	//! Why there is none; empty while it is still coming up
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
	//! Milliseconds since the engine was opened: when the work began and ended
	double begin_ms = 0;
	double end_ms = 0;
};

//! Something that took time, for a picture of what overlapped what
struct GpuStep {
	std::string lane; // start, kernels, query
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

//! What one piece of device work came to
struct GpuTimes {
	uint64_t bytes_to_device = 0;
	uint64_t bytes_from_device = 0;
	double wait_ms = 0; // for the context and the kernels
	double to_device_ms = 0;
	double kernel_ms = 0;
	double from_device_ms = 0;
};

//! Packed as BoxTree packs it
struct PackedBoxes {
	UninitializedVector<uint32_t> ids;
	UninitializedVector<vibe::PackedNode> nodes;
};

struct BuildKey;
class GpuBuild;
class GpuTile;
class GpuBulk;
struct JoinCondition;
struct OverlayNet;
struct BulkTask;
struct UnitedNet;

//! Neighbours of many points: number n of point i is at [n * count + i]
struct PackedNeighbours {
	size_t count = 0;
	//! How many each point has
	UninitializedVector<uint32_t> found;
	UninitializedVector<uint32_t> rows;
	UninitializedVector<double> distances;
};

//! A packed tree of points on the device. Any thread may search at any time.
class GpuPoints {
public:
	virtual ~GpuPoints() = default;

	//! A device's thread keeps its list in its own part of the result
	static constexpr uint32_t MAX_K = 32;

	//! The k (at most MAX_K) that come first by (distance, row), none farther than `most`, as vibe::FindNearestPoints() finds
	//! them. Adds to the times. Throws GpuError.
	virtual void Find(const vibe::Vec2 *points, size_t count, uint32_t k, double most, PackedNeighbours &neighbours,
	                  GpuTimes &times) = 0;
};

//! Any thread may call anything at any time
class GpuEngine {
public:
	virtual ~GpuEngine() = default;

	//! Blocks until the device is up or is known not to come, at most so long; `error` tells why it is not there
	virtual bool WaitForDevice(double timeout_seconds, std::string &error) = 0;
	virtual GpuDevice Device() = 0;
	virtual std::vector<GpuComponent> Components() = 0;
	virtual void Configure(const GpuOptions &options) = 0;

	//! Never blocks; names already asked for only move up
	virtual void Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent) = 0;
	//! Waits; returns those that are not ready
	virtual std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout_seconds) = 0;
	virtual std::vector<KernelStatus> Status() = 0;
	virtual std::vector<GpuMemoryRow> Memory() = 0;
	//! Bytes of the device that may be used; 0 while it is not up
	virtual uint64_t MemoryLimit() = 0;
	//! Before the process may end: waits, at most so long, until no thread is inside of CUDA that cannot be stopped there
	virtual void Quiesce(double timeout_seconds) = 0;

	//! The last steps, of the engine itself and of those who add to them
	virtual std::vector<GpuStep> Steps() = 0;
	virtual void AddStep(const GpuStep &step) = 0;

	//! The same tree as BoxTree builds; `parallel` copies on the host's side. Throws GpuError.
	virtual PackedBoxes PackBoxes(const vibe::Box *boxes, size_t count, Parallel &parallel, GpuTimes &times) = 0;

	//! The build side of a join (engine/gpu/interface/join.hpp): one that is kept from before, or null
	virtual std::shared_ptr<GpuBuild> FindBuild(const BuildKey &key) = 0;
	virtual std::shared_ptr<GpuBuild> NewBuild() = 0;
	//! For the next join with the same build side, as long as there is room (GpuOptions::resident_limit)
	virtual void KeepBuild(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) = 0;
	//! Throws GpuError, also where the condition is none that the device knows
	virtual std::unique_ptr<GpuTile> NewTile(const std::shared_ptr<GpuBuild> &build,
	                                         const JoinCondition &condition) = 0;
	//! Brings a tree of points to the device: the parts of a BoxTree, and the points as vibe::FindNearestPoints() takes them.
	//! Throws GpuError.
	virtual std::unique_ptr<GpuPoints> KnnPoints(const float *nodes, const UninitializedVector<uint32_t> &ids,
	                                             const UninitializedVector<double> &leaves, Parallel &parallel,
	                                             GpuTimes &times) = 0;

	//! A function of one geometry or two, row by row (engine/gpu/interface/bulk.hpp). Throws GpuError.
	virtual std::unique_ptr<GpuBulk> NewBulk(const BulkTask &task) = 0;

	//! The union of a net, as far as the device can do it (engine/gpu/interface/overlay.hpp); `parallel` copies on the host's side.
	//! Throws GpuError.
	virtual void UniteNet(const OverlayNet &net, Parallel &parallel, UnitedNet &united, GpuTimes &times) = 0;

	//! Runs every primitive on the device against the host: one line for each that is wrong
	virtual std::vector<std::string> SelfTest() = 0;
};

//! What the plug-in exports under the name vibespatial_open_engine
using OpenEngineFunction = GpuEngine *(*)(const char *interface_version, const GpuOptions *options, const char **error);

} // namespace vibespatial
