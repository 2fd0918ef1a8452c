//===----------------------------------------------------------------------===//
// engine/gpu/device/stream.hpp
//
// One line of work on the device, used by one thread at a time: a stream, pinned memory to copy through, and temporary
// storage of the primitives, which grows to the largest that was asked for and stays.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/parallel.hpp"
#include "engine/gpu/device/memory.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vibespatial {

//! Pinned memory of the host, in blocks. Taking it from the system takes milliseconds, so that it stays, and the first
//! blocks are there before a query asks.
class PinnedBlocks {
public:
	static constexpr size_t BLOCK_BYTES = 1 << 20;
	static constexpr size_t FIRST_BLOCKS = 48;

	PinnedBlocks() = default;
	PinnedBlocks(const PinnedBlocks &) = delete;
	PinnedBlocks &operator=(const PinnedBlocks &) = delete;

	//! The first blocks, all at once
	void Fill();
	//! At least so many bytes; `bytes` becomes what they are
	void *Take(size_t &bytes);
	void Give(void *block, size_t bytes);
	uint64_t Bytes() const {
		return total;
	}

private:
	std::mutex lock;
	std::vector<void *> blocks;
	std::atomic<uint64_t> total {0};
};

class DeviceStream {
public:
	explicit DeviceStream(PinnedBlocks &blocks);
	~DeviceStream();
	DeviceStream(const DeviceStream &) = delete;
	DeviceStream &operator=(const DeviceStream &) = delete;

	cudaStream_t Handle() const {
		return stream;
	}
	rmm::cuda_stream_view View() const {
		return rmm::cuda_stream_view(stream);
	}
	//! Both return when the host's memory may be used again; the copy to the device may still be under way
	void CopyToDevice(void *to, const void *from, size_t bytes);
	void CopyFromDevice(void *to, const void *from, size_t bytes);
	//! The same with several threads on the host's side, where there is much to copy
	void CopyToDevice(void *to, const void *from, size_t bytes, Parallel &parallel);
	void CopyFromDevice(void *to, const void *from, size_t bytes, Parallel &parallel);
	//! What `write` leaves in pinned memory, at most SLOT_BYTES of it
	void WriteToDevice(void *to, size_t bytes, const std::function<void(char *slot)> &write);
	void Synchronize();

	//! Pinned memory of the host that stays with the stream, by number; what was there is lost when it has to grow
	void *Pinned(size_t number, size_t bytes);

	//! Of all that, and of the slots
	uint64_t PinnedBytes() const;

	bool HasSlots() const {
		return slots[0] != nullptr;
	}
	//! Temporary storage of a primitive; valid until the next call for the same one
	void *Temporary(const std::string &primitive, size_t bytes, DeviceMemory &memory);
	size_t FreeTemporaries();
	//! Adds the bytes of each primitive
	void ReportTemporaries(std::map<std::string, GpuMemoryRow> &rows);

	static constexpr size_t SLOT_BYTES = 2ull << 20;
	static constexpr size_t SLOTS = 16;

private:
	void MakeSlots();
	//! Uses a slot, when the device is done with it
	template <class USE>
	void WithSlot(USE &&use);

	cudaStream_t stream = nullptr;
	std::mutex slots_lock;
	std::condition_variable slot_free;
	std::vector<size_t> free_slots;
	//! Taken from the system when the first of them is used
	char *slots[SLOTS] = {};
	cudaEvent_t slot_done[SLOTS] = {};
	struct PinnedMemory {
		void *at = nullptr;
		size_t bytes = 0;
	};
	PinnedBlocks &blocks;
	std::vector<PinnedMemory> pinned;
	std::mutex temporaries_lock;
	std::map<std::string, rmm::device_buffer> temporaries;
};

//! The streams of a device: as many as threads work at the same time
class StreamPool {
public:
	class Lease {
	public:
		Lease(StreamPool &pool, std::unique_ptr<DeviceStream> stream) : pool(pool), stream(std::move(stream)) {
		}
		~Lease();
		Lease(const Lease &) = delete;
		Lease &operator=(const Lease &) = delete;
		DeviceStream *operator->() {
			return stream.get();
		}
		DeviceStream &operator*() {
			return *stream;
		}

	private:
		StreamPool &pool;
		std::unique_ptr<DeviceStream> stream;
	};

	Lease Take();
	PinnedBlocks &Blocks() {
		return blocks;
	}
	//! Of the streams that nobody uses now
	size_t FreeTemporaries();
	void Report(std::vector<GpuMemoryRow> &rows);

private:
	//! Before the streams that use them
	PinnedBlocks blocks;
	std::mutex lock;
	std::vector<std::unique_ptr<DeviceStream>> idle;
	size_t made = 0;
	//! High-water marks of primitives, over all streams
	std::map<std::string, uint64_t> peaks;
};

} // namespace vibespatial
