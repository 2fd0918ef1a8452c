//===----------------------------------------------------------------------===//
// gpu_plugin/device/pinned.hpp
//
// Pinned memory of the host, which the device copies from and to without help. Pinning takes milliseconds for each megabyte
// that was never touched, so that some of it stays, and the first of it is there before a query asks.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/machine/block_pool.hpp"

#include <cstddef>
#include <cuda_runtime_api.h>
#include <deque>
#include <mutex>

namespace vibespatial {

class PinnedBlocks : public BlockPool {
public:
	PinnedBlocks();

	//! The first range: touched, which is most of the work and needs no device, ..
	void Prepare();
	//! .. and pinned, which does
	void PinPrepared();
	//! There will be no device
	void DropPrepared();

private:
	char *NewRange(size_t bytes) override;
	void FreeRange(char *range, size_t bytes) noexcept override;

	char *prepared = nullptr;
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
