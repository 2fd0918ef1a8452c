#include "gpu_plugin/device/resident.hpp"

#include <algorithm>

namespace vibespatial {

uint64_t ResidentBuilds::Bytes() const {
	uint64_t bytes = 0;
	for (auto &entry : entries) {
		bytes += entry.build->Bytes();
	}
	return bytes;
}

std::shared_ptr<GpuBuild> ResidentBuilds::Find(const BuildKey &key) {
	std::lock_guard<std::mutex> guard(lock);
	for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
		if (entry->key == key) {
			entries.splice(entries.begin(), entries, entry);
			found++;
			return entry->build;
		}
	}
	return nullptr;
}

std::list<ResidentBuilds::Entry> ResidentBuilds::TakeOverLimit() {
	std::list<Entry> gone;
	peak = std::max(peak, std::min(Bytes(), limit));
	while (!entries.empty() && Bytes() > limit) {
		gone.splice(gone.begin(), entries, std::prev(entries.end()));
	}
	return gone;
}

void ResidentBuilds::Keep(const BuildKey &key, const std::shared_ptr<GpuBuild> &build) {
	std::list<Entry> gone;
	std::lock_guard<std::mutex> guard(lock);
	auto same = std::find_if(entries.begin(), entries.end(), [&](const Entry &entry) { return entry.key == key; });
	if (same != entries.end()) {
		// Its parts may have come since: it is the same, or as good
		entries.splice(entries.begin(), entries, same);
	} else {
		entries.push_front(Entry {key, build});
	}
	gone = TakeOverLimit();
}

void ResidentBuilds::SetLimit(uint64_t bytes) {
	std::list<Entry> gone;
	std::lock_guard<std::mutex> guard(lock);
	limit = bytes;
	gone = TakeOverLimit();
}

size_t ResidentBuilds::Free() {
	std::list<Entry> gone;
	std::lock_guard<std::mutex> guard(lock);
	size_t bytes = 0;
	for (auto entry = entries.begin(); entry != entries.end();) {
		auto next = std::next(entry);
		if (entry->build.use_count() == 1) {
			bytes += entry->build->Bytes();
			gone.splice(gone.begin(), entries, entry);
		}
		entry = next;
	}
	return bytes;
}

void ResidentBuilds::Report(std::vector<GpuMemoryRow> &rows) {
	std::lock_guard<std::mutex> guard(lock);
	rows.push_back(GpuMemoryRow {"resident build sides",
	                             "vibe_cache: " + std::to_string(entries.size()) + " kept; count: times one was reused",
	                             Bytes(), peak, found});
}

} // namespace vibespatial
