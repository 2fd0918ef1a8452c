#include "gpu_plugin/device/stream.hpp"

#include "gpu_plugin/device/check.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

static constexpr size_t SLOT = CopySlots::SLOT_BYTES;

DeviceStream::DeviceStream(PinnedBlocks &blocks, CopySlots &slots) : pinned(blocks), slots(slots) {
	CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
}

DeviceStream::~DeviceStream() {
	temporaries.clear();
	cudaStreamDestroy(stream);
}

void DeviceStream::Synchronize() {
	CheckCuda(cudaStreamSynchronize(stream), "the device");
}

template <class USE>
void DeviceStream::WithSlot(USE &&use) {
	const auto slot = slots.Take();
	try {
		use(slot.at, slot.done);
	} catch (...) {
		slots.Give(slot);
		throw;
	}
	slots.Give(slot);
}

void DeviceStream::WriteToDevice(void *to, size_t bytes, const std::function<void(void *)> &write) {
	WithSlot([&](char *slot, cudaEvent_t done) {
		write(slot);
		CheckCuda(cudaMemcpyAsync(to, slot, bytes, cudaMemcpyHostToDevice, stream), "a copy to the device");
		CheckCuda(cudaEventRecord(done, stream), "an event");
	});
}

void DeviceStream::CopyToDevice(void *to, const void *from, size_t bytes, Parallel &parallel) {
	const size_t steps = (bytes + SLOT - 1) / SLOT;
	int device = 0;
	CheckCuda(cudaGetDevice(&device), "the device");
	parallel.For(steps, [&](size_t step) {
		const size_t at = step * SLOT, size = std::min(SLOT, bytes - at);
		CheckCuda(cudaSetDevice(device), "the device");
		WriteToDevice(static_cast<char *>(to) + at, size,
		              [&](void *slot) { std::memcpy(slot, static_cast<const char *>(from) + at, size); });
	});
}

void DeviceStream::CopyFromDevice(void *to, const void *from, size_t bytes, Parallel &parallel) {
	const size_t steps = (bytes + SLOT - 1) / SLOT;
	int device = 0;
	CheckCuda(cudaGetDevice(&device), "the device");
	parallel.For(steps, [&](size_t step) {
		const size_t at = step * SLOT, size = std::min(SLOT, bytes - at);
		CheckCuda(cudaSetDevice(device), "the device");
		WithSlot([&](char *slot, cudaEvent_t done) {
			CheckCuda(cudaMemcpyAsync(slot, static_cast<const char *>(from) + at, size, cudaMemcpyDeviceToHost, stream),
			          "a copy from the device");
			CheckCuda(cudaEventRecord(done, stream), "an event");
			CheckCuda(cudaEventSynchronize(done), "the device");
			std::memcpy(static_cast<char *>(to) + at, slot, size);
		});
	});
}

void DeviceStream::CopyToDevice(void *to, const void *from, size_t bytes) {
	Serial serial;
	CopyToDevice(to, from, bytes, serial);
}

void DeviceStream::CopyFromDevice(void *to, const void *from, size_t bytes) {
	Serial serial;
	CopyFromDevice(to, from, bytes, serial);
}

void *DeviceStream::Temporary(const std::string &name, size_t bytes, DeviceMemory &memory) {
	{
		std::lock_guard<std::mutex> guard(temporaries_lock);
		auto found = temporaries.find(name);
		if (found != temporaries.end() && found->second.size() >= bytes) {
			return found->second.data();
		}
		// Freed first: there may be no room for both at once
		temporaries.erase(name);
	}
	// Not under the lock: an allocation that fails frees the temporaries of other streams
	auto buffer = memory.Allocate(std::max<size_t>(bytes, 1), View());
	std::lock_guard<std::mutex> guard(temporaries_lock);
	return temporaries.emplace(name, std::move(buffer)).first->second.data();
}

size_t DeviceStream::FreeTemporaries() {
	std::lock_guard<std::mutex> guard(temporaries_lock);
	size_t freed = 0;
	for (auto &entry : temporaries) {
		freed += entry.second.size();
	}
	temporaries.clear();
	return freed;
}

void DeviceStream::ReportTemporaries(std::map<std::string, GpuMemoryRow> &rows) {
	std::lock_guard<std::mutex> guard(temporaries_lock);
	for (auto &entry : temporaries) {
		auto &row = rows[entry.first];
		row.bytes += entry.second.size();
		row.count++;
	}
}

StreamPool::Lease::~Lease() {
	if (!stream) {
		return;
	}
	// Others need it, or nobody
	stream->pinned.Clear();
	try {
		std::lock_guard<std::mutex> guard(pool.lock);
		pool.in_use--;
		std::map<std::string, GpuMemoryRow> held;
		stream->ReportTemporaries(held);
		for (auto &entry : held) {
			auto &peak = pool.peaks[entry.first];
			peak = std::max(peak, entry.second.bytes);
		}
		pool.idle.push_back(std::move(stream));
	} catch (const std::bad_alloc &) { // NOLINT: the stream goes, then
	}
}

StreamPool::Lease StreamPool::Take() {
	{
		std::lock_guard<std::mutex> guard(lock);
		in_use++;
		taken++;
		if (!idle.empty()) {
			auto stream = std::move(idle.back());
			idle.pop_back();
			return Lease(*this, std::move(stream));
		}
		made++;
	}
	try {
		return Lease(*this, std::make_unique<DeviceStream>(blocks, slots));
	} catch (...) {
		std::lock_guard<std::mutex> guard(lock);
		in_use--;
		throw;
	}
}

StreamPool::Use StreamPool::CurrentUse() {
	std::lock_guard<std::mutex> guard(lock);
	return Use {in_use, taken};
}

size_t StreamPool::FreeTemporaries() {
	std::lock_guard<std::mutex> guard(lock);
	size_t freed = 0;
	for (auto &stream : idle) {
		freed += stream->FreeTemporaries();
	}
	return freed;
}

void StreamPool::Report(std::vector<GpuMemoryRow> &rows) {
	std::lock_guard<std::mutex> guard(lock);
	std::map<std::string, GpuMemoryRow> held;
	for (auto &stream : idle) {
		stream->ReportTemporaries(held);
	}
	for (auto &peak : peaks) {
		held[peak.first].peak_bytes = peak.second;
	}
	for (auto &entry : held) {
		entry.second.name = "temporary storage";
		entry.second.detail = entry.first;
		rows.push_back(entry.second);
	}
	rows.push_back(GpuMemoryRow {"pinned staging", "host memory of streams", blocks.Bytes(), blocks.PeakBytes(), made});
}

} // namespace vibespatial
