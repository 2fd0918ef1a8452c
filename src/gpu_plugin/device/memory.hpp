//===----------------------------------------------------------------------===//
// gpu_plugin/device/memory.hpp
//
// Device memory comes from RMM and from nowhere else. A tier is a stack of resources, outermost first:
//
//   pool     statistics, limit, pool, cuda
//   safe     statistics, failure callback, limit, pool, cuda: when memory is short, caches are freed and the allocation is
//            tried again, at most three times
//   managed  statistics, managed: more than the device has, slowly; the system's limits hold, not ours
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <atomic>
#include <cuda/memory_resource>
#include <functional>
#include <memory>
#include <mutex>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

namespace vibespatial {

class DeviceMemory {
public:
	//! `free_caches` gives back what can be computed again: the number of bytes
	DeviceMemory(MemoryTier tier, uint64_t limit, std::function<size_t()> free_caches);
	~DeviceMemory();

	//! Throws GpuError when there is not enough
	rmm::device_buffer Allocate(size_t bytes, rmm::cuda_stream_view stream);

	MemoryTier Tier() const {
		return tier;
	}
	uint64_t Limit() const {
		return limit;
	}
	//! Bytes that are handed out now
	uint64_t Used() const;
	void Report(std::vector<GpuMemoryRow> &rows) const;

private:
	static bool OnFailure(std::size_t bytes, void *self);

	const MemoryTier tier;
	const uint64_t limit;
	std::function<size_t()> free_caches;
	std::atomic<uint64_t> failures {0};
	std::atomic<uint64_t> recovered_bytes {0};
	std::function<size_t()> pool_size;
	std::unique_ptr<rmm::mr::statistics_resource_adaptor> statistics;
};

} // namespace vibespatial
