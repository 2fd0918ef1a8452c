#include "engine/gpu/device/stream.hpp"

#include "engine/gpu/device/check.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

DeviceStream::DeviceStream() {
	CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
	for (int i = 0; i < SLOTS; i++) {
		void *slot = nullptr;
		CheckCuda(cudaMallocHost(&slot, SLOT_BYTES), "pinned memory");
		slots[i] = static_cast<char *>(slot);
		CheckCuda(cudaEventCreateWithFlags(&slot_done[i], cudaEventDisableTiming), "an event");
	}
}

DeviceStream::~DeviceStream() {
	temporaries.clear();
	for (int i = 0; i < SLOTS; i++) {
		cudaEventDestroy(slot_done[i]);
		cudaFreeHost(slots[i]);
	}
	cudaStreamDestroy(stream);
}

void DeviceStream::Synchronize() {
	CheckCuda(cudaStreamSynchronize(stream), "the device");
}

void DeviceStream::CopyToDevice(void *to, const void *from, size_t bytes) {
	// While one slot is on its way the other is filled
	for (size_t at = 0, i = 0; at < bytes; at += SLOT_BYTES, i = (i + 1) % SLOTS) {
		const size_t size = std::min(SLOT_BYTES, bytes - at);
		CheckCuda(cudaEventSynchronize(slot_done[i]), "the device");
		std::memcpy(slots[i], static_cast<const char *>(from) + at, size);
		CheckCuda(cudaMemcpyAsync(static_cast<char *>(to) + at, slots[i], size, cudaMemcpyHostToDevice, stream),
		          "a copy to the device");
		CheckCuda(cudaEventRecord(slot_done[i], stream), "an event");
	}
}

void DeviceStream::CopyFromDevice(void *to, const void *from, size_t bytes) {
	const size_t steps = (bytes + SLOT_BYTES - 1) / SLOT_BYTES;
	auto size_of = [&](size_t step) { return std::min(SLOT_BYTES, bytes - step * SLOT_BYTES); };
	for (size_t step = 0; step < steps + SLOTS - 1; step++) {
		if (step < steps) {
			const size_t i = step % SLOTS;
			CheckCuda(cudaMemcpyAsync(slots[i], static_cast<const char *>(from) + step * SLOT_BYTES, size_of(step),
			                          cudaMemcpyDeviceToHost, stream),
			          "a copy from the device");
			CheckCuda(cudaEventRecord(slot_done[i], stream), "an event");
		}
		if (step + 1 >= SLOTS) {
			const size_t ready = step + 1 - SLOTS;
			CheckCuda(cudaEventSynchronize(slot_done[ready % SLOTS]), "the device");
			std::memcpy(static_cast<char *>(to) + ready * SLOT_BYTES, slots[ready % SLOTS], size_of(ready));
		}
	}
}

void *DeviceStream::Temporary(const std::string &primitive, size_t bytes, DeviceMemory &memory) {
	{
		std::lock_guard<std::mutex> guard(temporaries_lock);
		auto found = temporaries.find(primitive);
		if (found != temporaries.end() && found->second.size() >= bytes) {
			return found->second.data();
		}
		// The smaller one first: both at once might be too much
		temporaries.erase(primitive);
	}
	// Not under the lock: an allocation that fails frees the temporaries of others
	auto buffer = memory.Allocate(std::max<size_t>(bytes, 1), View());
	std::lock_guard<std::mutex> guard(temporaries_lock);
	return temporaries.emplace(primitive, std::move(buffer)).first->second.data();
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
	std::lock_guard<std::mutex> guard(pool.lock);
	std::map<std::string, GpuMemoryRow> held;
	stream->ReportTemporaries(held);
	for (auto &entry : held) {
		auto &peak = pool.peaks[entry.first];
		peak = std::max(peak, entry.second.bytes);
	}
	pool.idle.push_back(std::move(stream));
}

StreamPool::Lease StreamPool::Take() {
	{
		std::lock_guard<std::mutex> guard(lock);
		if (!idle.empty()) {
			auto stream = std::move(idle.back());
			idle.pop_back();
			return Lease(*this, std::move(stream));
		}
		made++;
	}
	return Lease(*this, std::make_unique<DeviceStream>());
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
	const uint64_t pinned = made * DeviceStream::SLOTS * DeviceStream::SLOT_BYTES;
	rows.push_back(GpuMemoryRow {"pinned staging", "host memory of streams", pinned, pinned, made});
}

} // namespace vibespatial
