#include "engine/gpu/machine/block_pool.hpp"

#include <cstring>

namespace vibespatial {

void BlockPool::Count(size_t bytes) {
	const uint64_t now = total += bytes;
	uint64_t before = peak;
	while (before < now && !peak.compare_exchange_weak(before, now)) {
	}
}

void BlockPool::AddRange(char *range, size_t bytes) {
	std::lock_guard<std::mutex> guard(lock);
	ranges.push_back(Range {range, range + bytes, range});
	Count(bytes);
}

void *BlockPool::TakeFrom(Range &range, size_t size) {
	void *block = range.idle[size];
	if (block) {
		std::memcpy(static_cast<void *>(&range.idle[size]), block, sizeof(void *));
	} else if (static_cast<size_t>(range.end - range.uncut) >= SIZES[size]) {
		block = range.uncut;
		range.uncut += SIZES[size];
	} else {
		return nullptr;
	}
	range.blocks_in_use++;
	return block;
}

void *BlockPool::Take(size_t &bytes) {
	size_t size = 0;
	while (size < SIZES.size() && SIZES[size] < bytes) {
		size++;
	}
	if (size == SIZES.size()) {
		bytes = (bytes + LARGEST - 1) / LARGEST * LARGEST;
		auto *range = NewRange(bytes);
		Count(bytes);
		return range;
	}
	bytes = SIZES[size];
	std::lock_guard<std::mutex> guard(lock);
	// The first range that has one, so that the last ones get idle
	for (auto &range : ranges) {
		if (auto *block = TakeFrom(range, size)) {
			return block;
		}
	}
	ranges.reserve(ranges.size() + 1);
	auto *begin = NewRange(RANGE_BYTES);
	ranges.push_back(Range {begin, begin + RANGE_BYTES, begin});
	Count(RANGE_BYTES);
	return TakeFrom(ranges.back(), size);
}

void BlockPool::Give(void *block, size_t bytes) noexcept {
	if (!block) {
		return;
	}
	if (bytes > LARGEST) {
		FreeRange(static_cast<char *>(block), bytes);
		total -= bytes;
		return;
	}
	size_t size = 0;
	while (SIZES[size] < bytes) {
		size++;
	}
	std::lock_guard<std::mutex> guard(lock);
	size_t number = 0;
	while (block < ranges[number].begin || block >= ranges[number].end) {
		number++;
	}
	auto &range = ranges[number];
	if (--range.blocks_in_use > 0) {
		std::memcpy(block, static_cast<const void *>(&range.idle[size]), sizeof(void *));
		range.idle[size] = block;
		return;
	}
	const size_t range_bytes = range.end - range.begin;
	if (total - range_bytes >= kept) {
		FreeRange(range.begin, range_bytes);
		total -= range_bytes;
		ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(number));
	} else {
		// To be cut anew
		range.uncut = range.begin;
		range.idle = {};
	}
}

void *NumberedBlocks::Get(size_t number, size_t bytes) {
	if (blocks.size() <= number) {
		blocks.resize(number + 1);
	}
	auto &block = blocks[number];
	if (block.bytes < bytes) {
		pool.Give(block.at, block.bytes);
		block = Block {};
		size_t taken = bytes;
		block.at = pool.Take(taken);
		block.bytes = taken;
	}
	return block.at;
}

uint64_t NumberedBlocks::Bytes() const {
	uint64_t bytes = 0;
	for (auto &block : blocks) {
		bytes += block.bytes;
	}
	return bytes;
}

void NumberedBlocks::Clear() noexcept {
	for (auto &block : blocks) {
		pool.Give(block.at, block.bytes);
		block = Block {};
	}
}

} // namespace vibespatial
