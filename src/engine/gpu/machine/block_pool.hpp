//===----------------------------------------------------------------------===//
// engine/gpu/machine/block_pool.hpp
//
// Memory of the host that takes long to get, pinned memory above all: in blocks of a few sizes, cut from ranges that stay for the next
// one who asks. A range that nobody uses goes back to the system where the pool has more than it may keep.
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace vibespatial {

class BlockPool {
public:
	static constexpr size_t BLOCK_BYTES = 1 << 20;
	static constexpr size_t LARGEST = 2 * BLOCK_BYTES;
	//! Ranges that blocks are cut from; a larger block is a range of its own, which nobody keeps
	static constexpr size_t RANGE_BYTES = 16 * BLOCK_BYTES;

	//! `kept`: bytes of ranges that stay although nobody uses them
	explicit BlockPool(size_t kept) : kept(kept) {
	}
	//! The memory of a pool is not given back at its end
	virtual ~BlockPool() = default;
	BlockPool(const BlockPool &) = delete;
	BlockPool &operator=(const BlockPool &) = delete;

	//! At least so many bytes; `bytes` becomes what they are. Throws what NewRange() throws.
	void *Take(size_t &bytes);
	//! A block of so many bytes, or null
	void Give(void *block, size_t bytes) noexcept;
	//! Of all ranges, now and at most so far
	uint64_t Bytes() const {
		return total;
	}
	uint64_t PeakBytes() const {
		return peak;
	}

protected:
	virtual char *NewRange(size_t bytes) = 0;
	virtual void FreeRange(char *range, size_t bytes) noexcept = 0;
	//! A range to cut from
	void AddRange(char *range, size_t bytes);

private:
	//! Results and row numbers of a tile; its rows; a slot for copies
	static constexpr std::array<size_t, 3> SIZES {BLOCK_BYTES / 8, BLOCK_BYTES, LARGEST};

	//! Each idle block begins with the address of the next of its size
	struct Range {
		char *begin;
		char *end;
		char *uncut;
		size_t blocks_in_use = 0;
		std::array<void *, SIZES.size()> idle {};
	};

	void Count(size_t bytes);
	//! With the lock: a block of the range, or null
	static void *TakeFrom(Range &range, size_t size);

	const size_t kept;
	std::mutex lock;
	std::vector<Range> ranges;
	std::atomic<uint64_t> total {0};
	std::atomic<uint64_t> peak {0};
};

//! Blocks of a pool by number, each as large as was last asked for
class NumberedBlocks {
public:
	explicit NumberedBlocks(BlockPool &pool) : pool(pool) {
	}
	~NumberedBlocks() {
		Clear();
	}
	NumberedBlocks(const NumberedBlocks &) = delete;
	NumberedBlocks &operator=(const NumberedBlocks &) = delete;

	//! At least so many bytes. The content is lost where the block has to grow.
	void *Get(size_t number, size_t bytes);
	uint64_t Bytes(size_t number) const {
		return number < blocks.size() ? blocks[number].bytes : 0;
	}
	uint64_t Bytes() const;
	//! Gives all of them to the pool
	void Clear() noexcept;

private:
	struct Block {
		void *at = nullptr;
		size_t bytes = 0;
	};

	BlockPool &pool;
	std::vector<Block> blocks;
};

} // namespace vibespatial
