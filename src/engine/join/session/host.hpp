//===----------------------------------------------------------------------===//
// engine/join/session/host.hpp
//
// What a join asks of the program around it: threads, memory, cancellation, and the device
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/shared_work.hpp"
#include "engine/gpu/interface/engine.hpp"
#include "engine/input/row.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vibespatial {

//! Rows of a chunk that a join takes at once; results come back in chunks of the same size
static constexpr size_t JOIN_CHUNK_ROWS = 2048;

//! A chunk of probe rows. A host may derive from it to add what TilePayload::Keep() needs.
struct JoinInput {
	const JoinRow *rows = nullptr;
	size_t count = 0;
	//! Total size of the geometries
	size_t bytes = 0;
	//! The distance limits of the rows, or null
	const double *limits = nullptr;
	//! The coordinates, where every row is a point with finite coordinates or NULL (as NaN); or null
	const double *x = nullptr;
	const double *y = nullptr;
	//! Only meaningful with coordinates
	bool has_nulls = false;
};

//! Reads the coordinates of a JoinInput. False where a row is neither NULL nor a point with finite coordinates.
bool ReadPoints(const JoinRow *rows, size_t count, double *x, double *y, bool &has_nulls);

//! What the host keeps of the rows of a tile until their pairs are known. One thread at a time uses it.
class TilePayload {
public:
	virtual ~TilePayload() = default;

	//! Keeps rows [begin, begin + count) of the input as rows `at`, `at` + 1 ... of the tile
	virtual void Keep(const JoinInput &input, size_t begin, size_t count, size_t at) = 0;
	//! Forgets the rows
	virtual void Clear() = 0;
	//! Accounts for the rows and for `tile_bytes` of the tile itself. False, with nothing changed, without room for that.
	virtual bool CountMemory(uint64_t tile_bytes) = 0;
	//! The same; throws the host's error without room
	virtual void RequireMemory(uint64_t tile_bytes) = 0;
	//! What is accounted for
	virtual uint64_t CountedBytes() const = 0;
};

//! Any thread may call any of it
class JoinHost {
public:
	virtual ~JoinHost() = default;

	//! Throws where the query was cancelled
	virtual void Poll() = 0;
	virtual size_t Threads() const = 0;
	//! Runs work on the threads that are free; returns when it is done
	virtual void Run(const std::function<void(Parallel &)> &work) = 0;
	//! Asks free threads to help with work that the caller runs; waits for nothing
	virtual void Invite(const std::shared_ptr<SharedWork> &work) = 0;
	virtual std::unique_ptr<TilePayload> NewPayload() = 0;

	//! Whether rows should be collected for a device that is still starting
	virtual bool DeviceIsStarting() = 0;
	//! Waits until the device is ready. Throws GpuError.
	virtual void WaitForDevice() = 0;
	//! Waits until these kernels are ready. Throws GpuError.
	virtual void WaitForKernels(const std::vector<std::string> &names) = 0;
	//! A tile, or a piece of it, that the device began then
	virtual void TileFinished(std::chrono::system_clock::time_point begin, const GpuTimes &times) = 0;
	//! The device failed. Throws where the CPU must not take over.
	virtual void DeviceFailed(const std::string &reason) = 0;
	//! The CPU will do so many rows or pairs ("rows", "pairs") of the device's work. Throws where it must not.
	virtual void LeftToCpu(size_t count, const char *what, const char *why) = 0;
};

//! The upload of a build side's rows, or of its cells
struct UploadReport {
	const char *what = "build side";
	uint64_t bytes = 0;
	std::chrono::system_clock::time_point begin;
	std::chrono::system_clock::time_point end;
	//! Boxes of the tree that the device packed, and how long that took; none where it had the tree already
	size_t boxes = 0;
	GpuTimes tree_times;
};

} // namespace vibespatial
