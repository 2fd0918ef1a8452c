#include "engine/join/session/content_hash.hpp"

#include "catch.hpp"

#include <numeric>
#include <set>

using vibespatial::ContentHash;

namespace {

std::pair<uint64_t, uint64_t> HashOf(const std::vector<uint8_t> &bytes) {
	ContentHash hash;
	hash.Add(bytes.data(), bytes.size());
	const auto key = hash.Key();
	return {key.low, key.high};
}

} // namespace

TEST_CASE("A content hash tells apart what differs in one bit, in size or in order") {
	for (size_t size : {1, 7, 8, 33, 255, 256, 300, 1024}) {
		std::vector<uint8_t> bytes(size);
		std::iota(bytes.begin(), bytes.end(), uint8_t(1));
		std::set<std::pair<uint64_t, uint64_t>> seen {HashOf(bytes)};
		REQUIRE(HashOf(bytes) == *seen.begin());
		size_t others = 1;
		for (size_t bit = 0; bit < 8 * size; bit++, others++) {
			bytes[bit / 8] ^= uint8_t(1 << bit % 8);
			seen.insert(HashOf(bytes));
			bytes[bit / 8] ^= uint8_t(1 << bit % 8);
		}
		// Words that change places, those of one lane and those of two
		for (size_t word = 0; word + 16 <= size; word += 8) {
			for (size_t other = word + 8; other + 8 <= size && other <= word + 64; other += 8, others++) {
				std::swap_ranges(bytes.begin() + word, bytes.begin() + word + 8, bytes.begin() + other);
				seen.insert(HashOf(bytes));
				std::swap_ranges(bytes.begin() + word, bytes.begin() + word + 8, bytes.begin() + other);
			}
		}
		// Bytes that are zero count, too
		bytes.push_back(0);
		seen.insert(HashOf(bytes));
		CHECK(seen.size() == others + 1);
	}
}
