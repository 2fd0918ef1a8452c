#include "gpu_plugin/device/pinned.hpp"

#include "gpu_plugin/device/check.hpp"

#include <sys/mman.h>

namespace vibespatial {

namespace {

//! The slots, and what a first query takes besides
constexpr size_t FIRST_RANGE = CopySlots::SLOTS * CopySlots::SLOT_BYTES + 48 * PinnedBlocks::BLOCK_BYTES;
//! The first range, and two more
constexpr size_t KEPT = FIRST_RANGE + 2 * PinnedBlocks::RANGE_BYTES;
constexpr size_t LARGE_PAGE = 2 << 20;

//! Untouched memory of its own, in large pages where the system has them: they are pinned in a third of the time. Null where
//! there is none.
char *Map(size_t bytes) {
	void *memory = mmap(nullptr, bytes + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		return nullptr;
	}
	const auto past = reinterpret_cast<uintptr_t>(memory) % LARGE_PAGE;
	auto *aligned = static_cast<char *>(memory) + (LARGE_PAGE - past) % LARGE_PAGE;
	madvise(aligned, bytes, MADV_HUGEPAGE);
	// A child has no use for it, and what is pinned would be copied for one
	madvise(aligned, bytes, MADV_DONTFORK);
	return aligned;
}

//! The range, or one of the driver's own where it pins no other
char *Pin(char *range, size_t bytes) {
	if (range && cudaHostRegister(range, bytes, cudaHostRegisterPortable) == cudaSuccess) {
		return range;
	}
	cudaGetLastError();
	if (range) {
		munmap(range, bytes);
	}
	void *own = nullptr;
	CheckCuda(cudaMallocHost(&own, bytes), "pinned memory");
	return static_cast<char *>(own);
}

} // namespace

PinnedBlocks::PinnedBlocks() : BlockPool(KEPT) {
}

char *PinnedBlocks::NewRange(size_t bytes) {
	return Pin(Map(bytes), bytes);
}

void PinnedBlocks::FreeRange(char *range, size_t bytes) noexcept {
	if (cudaHostUnregister(range) == cudaSuccess) {
		munmap(range, bytes);
		return;
	}
	// The driver's own
	cudaGetLastError();
	cudaFreeHost(range);
}

void PinnedBlocks::Prepare() {
	prepared = Map(FIRST_RANGE);
	constexpr size_t PAGE = 4096;
	for (size_t at = 0; prepared && at < FIRST_RANGE; at += PAGE) {
		static_cast<volatile char *>(prepared)[at] = 0;
	}
}

void PinnedBlocks::DropPrepared() {
	if (prepared) {
		munmap(prepared, FIRST_RANGE);
		prepared = nullptr;
	}
}

void PinnedBlocks::PinPrepared() {
	auto *range = Pin(prepared, FIRST_RANGE);
	prepared = nullptr;
	AddRange(range, FIRST_RANGE);
}

CopySlots::~CopySlots() {
	for (auto &slot : idle) {
		cudaEventDestroy(slot.done);
		blocks.Give(slot.at, SLOT_BYTES);
	}
}

CopySlots::Slot CopySlots::Take() {
	Slot slot;
	{
		std::lock_guard<std::mutex> guard(lock);
		if (made >= SLOTS && !idle.empty()) {
			slot = idle.front();
			idle.pop_front();
		} else {
			size_t bytes = SLOT_BYTES;
			CheckCuda(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "an event");
			slot.at = static_cast<char *>(blocks.Take(bytes));
			made++;
		}
	}
	const auto status = cudaEventSynchronize(slot.done);
	if (status != cudaSuccess) {
		Give(slot);
		ThrowCuda(status, "the device");
	}
	return slot;
}

void CopySlots::Give(Slot slot) {
	std::lock_guard<std::mutex> guard(lock);
	idle.push_back(slot);
}

} // namespace vibespatial
