// The pool of pinned memory, with memory of the C library in its place.
#include "engine/gpu/machine/block_pool.hpp"

#include <catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <vector>

using namespace vibespatial;

namespace {

struct TestPool : BlockPool {
	using BlockPool::BlockPool;
	char *NewRange(size_t bytes) override {
		if (fails) {
			throw std::bad_alloc();
		}
		auto *range = static_cast<char *>(std::malloc(bytes));
		ranges[range] = bytes;
		return range;
	}
	void FreeRange(char *range, size_t bytes) noexcept override {
		CHECK(ranges.at(range) == bytes);
		ranges.erase(range);
		std::free(range);
	}
	~TestPool() override {
		for (auto &range : ranges) {
			std::free(range.first);
		}
	}
	using BlockPool::AddRange;
	bool fails = false;
	std::map<char *, size_t> ranges;
};

constexpr size_t BLOCK = BlockPool::BLOCK_BYTES;
constexpr size_t RANGE = BlockPool::RANGE_BYTES;

} // namespace

TEST_CASE("A pool gives ranges back that nobody uses, down to what it keeps", "[block_pool]") {
	TestPool pool(2 * RANGE);
	std::vector<std::pair<void *, size_t>> taken;
	for (size_t i = 0; i < 5 * RANGE / BLOCK; i++) {
		size_t bytes = BLOCK - 1;
		taken.emplace_back(pool.Take(bytes), bytes);
		CHECK(bytes == BLOCK);
	}
	CHECK(pool.Bytes() == 5 * RANGE);
	CHECK(pool.ranges.size() == 5);
	for (auto &block : taken) {
		pool.Give(block.first, block.second);
	}
	CHECK(pool.Bytes() == 2 * RANGE);
	CHECK(pool.PeakBytes() == 5 * RANGE);
	CHECK(pool.ranges.size() == 2);
	// What stays is cut anew, in other sizes
	size_t bytes = BlockPool::LARGEST;
	auto *block = pool.Take(bytes);
	CHECK(pool.ranges.size() == 2);
	pool.Give(block, bytes);
}

TEST_CASE("A large block is a range of its own, and goes back at once", "[block_pool]") {
	TestPool pool(4 * RANGE);
	NumberedBlocks blocks(pool);
	blocks.Get(3, 100 * BLOCK + 1);
	CHECK(blocks.Bytes(3) > 100 * BLOCK);
	CHECK(blocks.Bytes() == pool.Bytes());
	blocks.Get(3, 200 * BLOCK);
	CHECK(pool.ranges.size() == 1);
	blocks.Clear();
	CHECK(pool.Bytes() == 0);
	CHECK(blocks.Bytes() == 0);
	pool.fails = true;
	CHECK_THROWS_AS(blocks.Get(3, 200 * BLOCK), std::bad_alloc);
	CHECK_THROWS_AS(blocks.Get(4, 1), std::bad_alloc);
	CHECK(blocks.Bytes() == 0);
}

TEST_CASE("Blocks do not overlap, in whatever order they are taken and given", "[block_pool]") {
	TestPool pool(RANGE);
	std::mt19937 random(5);
	struct Block {
		unsigned char *at;
		size_t bytes;
		unsigned char mark;
	};
	std::vector<Block> taken;
	for (int step = 0; step < 4000; step++) {
		if (taken.size() < 60 && random() % 5 > 1) {
			size_t bytes = 1 + random() % (random() % 50 == 0 ? 3 * BLOCK : BLOCK / 4);
			auto *at = static_cast<unsigned char *>(pool.Take(bytes));
			const auto mark = static_cast<unsigned char>(random());
			at[0] = at[bytes / 2] = at[bytes - 1] = mark;
			taken.push_back(Block {at, bytes, mark});
		} else if (!taken.empty()) {
			const auto block = taken[random() % taken.size()];
			std::swap(*std::find_if(taken.begin(), taken.end(), [&](const Block &b) { return b.at == block.at; }),
			          taken.back());
			taken.pop_back();
			REQUIRE((block.at[0] == block.mark && block.at[block.bytes / 2] == block.mark &&
			         block.at[block.bytes - 1] == block.mark));
			pool.Give(block.at, block.bytes);
		}
	}
	for (auto &block : taken) {
		pool.Give(block.at, block.bytes);
	}
	CHECK(pool.Bytes() <= RANGE);
}
