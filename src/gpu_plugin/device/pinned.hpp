//===----------------------------------------------------------------------===//
// gpu_plugin/device/pinned.hpp
//
// Pinned memory of the host, which the device copies from and to without help. Pinning takes milliseconds for each megabyte
// that was never touched, so that it stays, and the first of it is there before a query asks.
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <deque>
#include <mutex>
#include <vector>

namespace vibespatial {

//! In blocks of a few sizes, which are cut from large ranges
class PinnedBlocks {
public:
	static constexpr size_t BLOCK_BYTES = 1 << 20;
	static constexpr size_t LARGEST = 2 * BLOCK_BYTES;

	PinnedBlocks() = default;
	PinnedBlocks(const PinnedBlocks &) = delete;
	PinnedBlocks &operator=(const PinnedBlocks &) = delete;

	//! The first range: touched, which is most of the work and needs no device, ..
	void Prepare();
	//! .. and pinned, which does
	void PinPrepared();
	//! There will be no device
	void DropPrepared();
	//! At least so many bytes; `bytes` becomes what they are
	void *Take(size_t &bytes);
	void Give(void *block, size_t bytes);
	uint64_t Bytes() const {
		return total;
	}

private:
	//! Results and row numbers of a tile; its rows; a slot
	static constexpr std::array<size_t, 3> SIZES {BLOCK_BYTES / 8, BLOCK_BYTES, LARGEST};

	//! With the lock: the range to cut from now on, and nothing of it has been used yet
	void Add(char *range, size_t bytes);

	std::mutex lock;
	std::array<std::vector<void *>, SIZES.size()> idle;
	char *prepared = nullptr;
	char *uncut = nullptr;
	char *end = nullptr;
	std::atomic<uint64_t> total {0};
};

//! What copies of all streams go through, slot by slot
class CopySlots {
public:
	static constexpr size_t SLOT_BYTES = PinnedBlocks::LARGEST;
	//! As many copies as are under way at the same time; threads beyond that get more
	static constexpr size_t SLOTS = 16;

	struct Slot {
		char *at = nullptr;
		//! The device has used it
		cudaEvent_t done = nullptr;
	};

	explicit CopySlots(PinnedBlocks &blocks) : blocks(blocks) {
	}
	~CopySlots();
	CopySlots(const CopySlots &) = delete;
	CopySlots &operator=(const CopySlots &) = delete;

	//! One that the device is done with, the one that was used longest ago
	Slot Take();
	void Give(Slot slot);

private:
	PinnedBlocks &blocks;
	std::mutex lock;
	std::deque<Slot> idle;
	size_t made = 0;
};

} // namespace vibespatial
