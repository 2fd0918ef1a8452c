#include "gpu_plugin/device/memory.hpp"

#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/compile/faults.hpp"

#include <algorithm>
#include <rmm/error.hpp>
#include <rmm/logger.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/managed_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace vibespatial {

namespace {

//! The pool begins with this, or a share of a small device, and grows
constexpr size_t POOL_BEGIN = 1ull << 30;
constexpr size_t SHARE_TO_BEGIN = 16;
constexpr size_t ALIGNMENT = 256;
constexpr int MAX_RETRIES = 3;

//! Retries of the allocation that this thread is in
thread_local int retries = 0;

} // namespace

DeviceMemory::DeviceMemory(MemoryTier tier, uint64_t limit, std::function<size_t()> free_caches)
    : tier(tier), limit(limit / ALIGNMENT * ALIGNMENT), free_caches(std::move(free_caches)) {
	using Resource = cuda::mr::any_resource<cuda::mr::device_accessible>;
	// It writes to the terminal what is told here by an error, or not at all where another try succeeds
	rmm::default_logger().set_level(rapids_logger::level_enum::off);
	try {
		if (tier == MemoryTier::MANAGED) {
			statistics =
			    std::make_unique<rmm::mr::statistics_resource_adaptor>(Resource(rmm::mr::managed_memory_resource()));
			return;
		}
		// The limit is below the pool, which would else take half of it at its first growth, in many milliseconds and from all
		// others on the device; so it doubles, and takes less where the limit is near
		rmm::mr::limiting_resource_adaptor limiting(Resource(rmm::mr::cuda_memory_resource()), this->limit);
		rmm::mr::pool_memory_resource pool(
		    Resource(limiting), std::min<size_t>(POOL_BEGIN, this->limit / SHARE_TO_BEGIN / ALIGNMENT * ALIGNMENT));
		pool_size = [pool] { return pool.pool_size(); };
		if (tier == MemoryTier::POOL) {
			statistics = std::make_unique<rmm::mr::statistics_resource_adaptor>(Resource(pool));
			return;
		}
		rmm::mr::failure_callback_resource_adaptor<rmm::out_of_memory> safe(Resource(pool), OnFailure, this);
		statistics = std::make_unique<rmm::mr::statistics_resource_adaptor>(Resource(safe));
	} catch (const std::exception &exception) {
		throw GpuError(std::string("device memory: ") + exception.what());
	}
}

DeviceMemory::~DeviceMemory() = default;

bool DeviceMemory::OnFailure(std::size_t, void *self) {
	auto &memory = *static_cast<DeviceMemory *>(self);
	memory.failures++;
	if (++retries > MAX_RETRIES) {
		return false;
	}
	const size_t freed = memory.free_caches ? memory.free_caches() : 0;
	memory.recovered_bytes += freed;
	return freed > 0;
}

rmm::device_buffer DeviceMemory::Allocate(size_t bytes, rmm::cuda_stream_view stream) {
	retries = 0;
	Faults::Get().Check(Fault::ALLOCATION);
	try {
		return rmm::device_buffer(bytes, stream, *statistics);
	} catch (const rmm::bad_alloc &) {
		CheckLoss("device memory");
		throw GpuMemoryError("the device has no " + std::to_string(bytes) + " bytes left: " + std::to_string(Used()) +
		                     " of " + std::to_string(limit) + " are in use (SET vibe_gpu_memory_limit)");
	} catch (const std::exception &exception) {
		CheckLoss("device memory");
		throw GpuError(std::string("device memory: ") + exception.what());
	}
}

uint64_t DeviceMemory::Used() const {
	return static_cast<uint64_t>(statistics->get_bytes_counter().value);
}

void DeviceMemory::Report(std::vector<GpuMemoryRow> &rows) const {
	static const char *const TIERS[] = {"pool", "safe", "managed"};
	const auto bytes = statistics->get_bytes_counter();
	const auto allocations = statistics->get_allocations_counter();
	GpuMemoryRow row;
	row.name = "device memory";
	row.detail = std::string("tier ") + TIERS[static_cast<int>(tier)] + ", in use";
	row.bytes = static_cast<uint64_t>(bytes.value);
	row.peak_bytes = static_cast<uint64_t>(bytes.peak);
	row.count = static_cast<uint64_t>(allocations.total);
	rows.push_back(row);
	if (pool_size) {
		rows.push_back(GpuMemoryRow {"device pool", "taken from the driver", pool_size(), pool_size(), 1});
	}
	if (tier != MemoryTier::MANAGED) {
		rows.push_back(GpuMemoryRow {"device limit", "vibe_gpu_memory_limit", limit, limit, 0});
	}
	rows.push_back(GpuMemoryRow {"failed allocations", "bytes: freed from caches to try again", recovered_bytes.load(),
	                             recovered_bytes.load(), failures.load()});
}

} // namespace vibespatial
