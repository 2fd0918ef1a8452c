//===----------------------------------------------------------------------===//
// gpu_plugin/device/stream.hpp
//
// A CUDA stream that one thread at a time uses, with pinned memory to copy through, and temporary storage of the device, which grows to
// the largest size that was asked for and stays.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "gpu_plugin/device/memory.hpp"
#include "gpu_plugin/device/pinned.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vibespatial {

class DeviceStream {
public:
	DeviceStream(PinnedBlocks &blocks, CopySlots &slots);
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
	//! The same with several threads on the host's side, for large copies
	void CopyToDevice(void *to, const void *from, size_t bytes, Parallel &parallel);
	void CopyFromDevice(void *to, const void *from, size_t bytes, Parallel &parallel);
	//! Copies what `write` leaves in pinned memory, at most CopySlots::SLOT_BYTES of it
	void WriteToDevice(void *to, size_t bytes, const std::function<void(void *)> &write);
	void Synchronize();

	//! Pinned memory of the host, until the stream is leased to another
	NumberedBlocks pinned;

	//! Temporary storage of the device, by name; valid until the next call with the same name
	void *Temporary(const std::string &name, size_t bytes, DeviceMemory &memory);
	size_t FreeTemporaries();
	//! Adds the bytes of each name
	void ReportTemporaries(std::map<std::string, GpuMemoryRow> &rows);

private:
	//! Waits for a free slot and uses it
	template <class USE>
	void WithSlot(USE &&use);

	cudaStream_t stream = nullptr;
	CopySlots &slots;
	std::mutex temporaries_lock;
	std::map<std::string, rmm::device_buffer> temporaries;
};

//! The streams of a device: one for each thread that works on it
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
	//! How many are in use, and how often one was taken so far
	struct Use {
		size_t streams = 0;
		uint64_t taken = 0;
	};
	Use CurrentUse();
	PinnedBlocks &Blocks() {
		return blocks;
	}
	//! Frees the temporary storage of idle streams; the bytes that this frees
	size_t FreeTemporaries();
	void Report(std::vector<GpuMemoryRow> &rows);

private:
	//! Before the streams that use them
	PinnedBlocks blocks;
	CopySlots slots {blocks};
	std::mutex lock;
	std::vector<std::unique_ptr<DeviceStream>> idle;
	size_t made = 0;
	size_t in_use = 0;
	uint64_t taken = 0;
	//! High-water marks of temporary storage by name, over all streams
	std::map<std::string, uint64_t> peaks;
};

} // namespace vibespatial
