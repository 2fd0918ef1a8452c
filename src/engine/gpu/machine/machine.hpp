//===----------------------------------------------------------------------===//
// engine/gpu/machine/machine.hpp
//
// A device as the chains of kernels in this folder see it. The GPU plug-in implements it with a CUDA stream
// (gpu_plugin/device/machine.cpp), the tests with loops on the host (test/unit/support/host_machine.hpp), so that both run
// the same chains.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/interface/shared_memory.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace vibespatial {

//! How much work a launch is given
struct MachineLimits {
	//! Launches consist of whole blocks of threads
	uint64_t block = 256;
	//! relate_pairs: one of how many parts of the threads that the device runs at once, since the tiles of other threads run beside it
	//! and each needs memory; memory of a thread that takes a pair alone, and of one of a warp; steps of such threads before they leave a
	//! pair
	uint64_t relate_part = 4;
	uint64_t relate_slab = 64 << 10;
	uint64_t relate_warp_slab = 16 << 10;
	uint32_t relate_steps = 16;
	uint32_t relate_warp_steps = 256;
	//! Points of a MULTIPOINT that one thread may locate
	uint32_t relate_points = 1024;
	//! Distances, and ST_Intersects by them: vertices of a pair that one thread may walk. A warp takes larger ones.
	uint32_t measure_vertices = 256;
	//! Pairs that a tile has room for at first
	uint64_t least_pairs = 16 << 10;
	//! Candidates that are refined between two polls: some tenths of a second at most
	uint64_t pairs_at_once = 4 << 20;
	//! Items of a tree that one thread looks at for a query. On an H200 one takes about a microsecond, so a query that meets 100,000
	//! would keep its tile waiting for a tenth of a second.
	uint32_t wide_visits = 256;
	//! The device is slow in double precision: points are looked up with a filter of floats in front (vibe/rough.h)
	bool rough_edges = false;
	//! Rows of a pinned table that a tile takes at once: enough to fill the device, and 64 MB of filtered points
	uint64_t pinned_rows = 4 << 20;
};

//! Memory of the device that is freed with its last owner
template <class T>
struct MachineArray {
	std::shared_ptr<void> held;
	T *at = nullptr;
	uint64_t count = 0;
};

//! One queue of work on a device: all that is asked for is done in that order. The destructor waits for it. One thread at a time
//! may use it, except where noted. Throws GpuError.
class Machine {
public:
	enum class Reduction : uint8_t { MIN, MAX };

	explicit Machine(const MachineLimits &limits = MachineLimits()) : limits(limits) {
	}
	virtual ~Machine() = default;
	Machine(const Machine &) = delete;
	Machine &operator=(const Machine &) = delete;

	const MachineLimits limits;

	//! To be called by a thread that did not make the machine, before it calls anything else
	virtual void Use() = 0;

	//===--------------------------------------------------------------------===//
	// Memory
	//===--------------------------------------------------------------------===//
	//! Memory of the device. Any thread may free it, and it may outlive the machine.
	virtual std::shared_ptr<void> Allocate(size_t bytes) = 0;
	//! Memory that is used by others, too: freed when the device has done all that was begun by then, on any queue
	virtual std::shared_ptr<void> AllocateShared(size_t bytes) = 0;
	//! Where the memory is
	virtual DeviceName Device() const = 0;
	template <class T>
	MachineArray<T> New(uint64_t count) {
		MachineArray<T> array;
		array.held = Allocate(std::max<uint64_t>(count * sizeof(T), 8));
		array.at = static_cast<T *>(array.held.get());
		array.count = count;
		return array;
	}
	template <class T>
	MachineArray<T> NewZeros(uint64_t count) {
		auto array = New<T>(count);
		Zero(array.at, count * sizeof(T));
		return array;
	}
	//! Memory of the device that stays for the next call with the same name, which may move and lose it to make it larger
	template <class T>
	T *Temporary(const std::string &name, uint64_t count) {
		return static_cast<T *>(DoTemporary(name, std::max<size_t>(count * sizeof(T), 8)));
	}
	template <class T>
	T *TemporaryZeros(const std::string &name, uint64_t count) {
		auto *at = Temporary<T>(name, count);
		Zero(at, count * sizeof(T));
		return at;
	}
	//! Bytes of the device that may be used
	virtual uint64_t MemoryLimit() const = 0;

	//! Memory of the host that the device copies from and to without help; stays, by number, as Temporary() does
	virtual void *Pinned(size_t number, size_t bytes) = 0;
	virtual uint64_t PinnedBytes() const = 0;
	//! That of one number
	virtual uint64_t PinnedSize(size_t number) const = 0;

	//===--------------------------------------------------------------------===//
	// Copies
	//===--------------------------------------------------------------------===//
	void Zero(void *at, size_t bytes) {
		if (bytes > 0) {
			DoZero(at, bytes);
		}
	}
	//! Returns when `from` may be changed. Several threads may call it.
	void Put(void *to, const void *from, size_t bytes, Parallel &parallel) {
		if (bytes > 0) {
			DoPut(to, from, bytes, parallel);
			bytes_to_device += bytes;
		}
	}
	void Put(void *to, const void *from, size_t bytes) {
		Serial serial;
		Put(to, from, bytes, serial);
	}
	//! Returns when `to` has it
	void Get(void *to, const void *from, size_t bytes, Parallel &parallel) {
		if (bytes > 0) {
			DoGet(to, from, bytes, parallel);
			bytes_from_device += bytes;
		}
	}
	void Get(void *to, const void *from, size_t bytes) {
		Serial serial;
		Get(to, from, bytes, serial);
	}
	template <class T>
	T Value(const T *at) {
		T value;
		Get(&value, at, sizeof(value));
		return value;
	}
	//! Sends what `write` leaves in the memory that it is given. Several threads may call it.
	void Write(void *to, size_t bytes, const std::function<void(void *)> &write) {
		DoWrite(to, bytes, write);
		bytes_to_device += bytes;
	}
	//! The most that one Write() sends
	static constexpr size_t MOST_WRITTEN = 2 << 20;
	//! Copies from and to pinned memory. Both return at once: the memory is in use until the machine has done it.
	void PutPinned(void *to, const void *from, size_t bytes) {
		if (bytes > 0) {
			DoPutPinned(to, from, bytes);
			bytes_to_device += bytes;
		}
	}
	void GetPinned(void *to, const void *from, size_t bytes) {
		if (bytes > 0) {
			DoGetPinned(to, from, bytes);
			bytes_from_device += bytes;
		}
	}
	//! Adds the bytes that were copied since the last call
	void AddBytes(GpuTimes &times) {
		times.bytes_to_device += bytes_to_device.exchange(0);
		times.bytes_from_device += bytes_from_device.exchange(0);
	}

	//===--------------------------------------------------------------------===//
	// Kernels and algorithms
	//===--------------------------------------------------------------------===//
	//! Runs an entry point of a unit. The arguments have the types of its parameters.
	template <class... ARGUMENTS>
	void Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments) {
		void *addresses[] = {static_cast<void *>(&arguments)...};
		constexpr size_t SIZES[] = {sizeof(ARGUMENTS)...}; // NOLINT(bugprone-sizeof-expression): pointers are meant
		if (threads > 0) {
			DoLaunch(unit, entry_point, threads, LaunchArguments {addresses, SIZES, sizeof...(ARGUMENTS)});
		}
	}
	//! Threads of an entry point that the device runs at once, in whole blocks: its multiprocessors, times the blocks that one of them
	//! has room for
	virtual uint64_t ThreadsAtOnce(const char *unit, const char *entry_point) = 0;
	//! Runs an entry point whose threads take items in turn, of which only the device knows the number: at most so many. Fills the device,
	//! whatever its size.
	template <class... ARGUMENTS>
	void LaunchLooping(const char *unit, const char *entry_point, uint64_t most_items, ARGUMENTS... arguments) {
		Launch(unit, entry_point, std::min(ThreadsAtOnce(unit, entry_point), most_items), arguments...);
	}
	//! For work of which a warp takes an item
	static constexpr uint64_t ANY_ITEMS = ~uint64_t(0);
	//! out[i] = in[0] + .. + in[i - 1]
	virtual void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) = 0;
	virtual void Scan(const vibe::i64 *in, vibe::i64 *out, uint64_t count) = 0;
	//! out[s] over in[begin[s], end[s])
	virtual void SegmentedReduce(Reduction reduction, const double *in, double *out, uint64_t segments,
	                             const vibe::i32 *begin, const vibe::i32 *end) = 0;
	//! Stable, by the lowest `bits` of the keys
	virtual void Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
	                  uint64_t count, int bits) = 0;

	//===--------------------------------------------------------------------===//
	// Time
	//===--------------------------------------------------------------------===//
	//! Events are numbered from 0 on. They are recorded when the machine has done all that was asked for before.
	virtual void Record(size_t event) = 0;
	virtual void Await(size_t event) = 0;
	//! Milliseconds between two events that were awaited
	virtual double Between(size_t begin, size_t end) = 0;
	//! Waits for all that was asked for
	virtual void Synchronize() = 0;
	//! Waits as well, and returns the milliseconds since `begin`
	double EndStep(std::chrono::steady_clock::time_point begin) {
		Synchronize();
		return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
	}

protected:
	//! As CUDA takes arguments, with their sizes
	struct LaunchArguments {
		void **addresses;
		const size_t *sizes;
		size_t count;
	};

	virtual void *DoTemporary(const std::string &name, size_t bytes) = 0;
	virtual void DoZero(void *at, size_t bytes) = 0;
	virtual void DoPut(void *to, const void *from, size_t bytes, Parallel &parallel) = 0;
	virtual void DoGet(void *to, const void *from, size_t bytes, Parallel &parallel) = 0;
	virtual void DoWrite(void *to, size_t bytes, const std::function<void(void *)> &write) = 0;
	virtual void DoPutPinned(void *to, const void *from, size_t bytes) = 0;
	virtual void DoGetPinned(void *to, const void *from, size_t bytes) = 0;
	virtual void DoLaunch(const char *unit, const char *entry_point, uint64_t threads,
	                      const LaunchArguments &arguments) = 0;

private:
	std::atomic<uint64_t> bytes_to_device {0};
	std::atomic<uint64_t> bytes_from_device {0};
};

//! Makes a machine for the calling thread
using MachineFactory = std::function<std::unique_ptr<Machine>()>;

} // namespace vibespatial
