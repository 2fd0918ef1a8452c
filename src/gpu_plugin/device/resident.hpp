//===----------------------------------------------------------------------===//
// gpu_plugin/device/resident.hpp
//
// Build sides of joins that stay on the device for the next query that has the same one. They are known by all that is in
// them, so none is ever stale.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/join.hpp"

#include <list>
#include <mutex>

namespace vibespatial {

class ResidentBuilds {
public:
	explicit ResidentBuilds(uint64_t limit) : limit(limit) {
	}

	std::shared_ptr<GpuBuild> Find(const BuildKey &key);
	//! Those that were not used for longest make room
	void Keep(const BuildKey &key, const std::shared_ptr<GpuBuild> &build);
	void SetLimit(uint64_t bytes);
	//! Lets go of all that no query uses now; the bytes that this frees
	size_t Free();
	void Report(std::vector<GpuMemoryRow> &rows);

private:
	struct Entry {
		BuildKey key;
		std::shared_ptr<GpuBuild> build;
	};
	uint64_t Bytes() const;
	//! What has to go, for the caller to let go without the lock
	std::list<Entry> TakeOverLimit();

	std::mutex lock;
	//! Last used first
	std::list<Entry> entries;
	uint64_t limit;
	uint64_t found = 0;
	uint64_t peak = 0;
};

} // namespace vibespatial
