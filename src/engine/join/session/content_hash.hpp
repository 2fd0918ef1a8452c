//===----------------------------------------------------------------------===//
// engine/join/session/content_hash.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/join.hpp"

#include <cstring>
#include <iterator>
#include <random>

namespace vibespatial {

//! A hash of 128 bits over everything that is added, with folded multiplications of 64 bits. Two different build sides collide with
//! a probability below 2^-64.
class ContentHash {
public:
	ContentHash() : low(Seed() ^ 0x9e3779b97f4a7c15ULL), high(~Seed() * 0xc2b2ae3d27d4eb4fULL | 1) {
	}
	void Add(uint64_t word) {
		low = Fold(low ^ word, 0xe7037ed1a0b428dbULL ^ high);
		high = Fold(high + word, 0x8ebc6af09c88c6e3ULL ^ low);
	}
	void Add(double value) {
		uint64_t bits;
		std::memcpy(&bits, &value, sizeof(bits));
		Add(bits);
	}
	void Add(const uint8_t *data, size_t size) {
		Add(uint64_t(size));
		uint64_t word;
		if (size >= MIN_LANE_BYTES) {
			// A chain waits for its multiplications, word by word: several chains at once
			ContentHash lanes[] = {Lane(0), Lane(1), Lane(2), Lane(3)};
			constexpr size_t STEP = sizeof(word) * std::size(lanes);
			for (; size >= STEP; size -= STEP) {
				for (auto &lane : lanes) {
					std::memcpy(&word, data, sizeof(word));
					data += sizeof(word);
					lane.Add(word);
				}
			}
			for (auto &lane : lanes) {
				Add(lane.Key());
			}
		}
		for (; size >= sizeof(word); data += sizeof(word), size -= sizeof(word)) {
			std::memcpy(&word, data, sizeof(word));
			Add(word);
		}
		word = 0;
		if (size > 0) {
			std::memcpy(&word, data, size);
		}
		Add(word);
	}
	void Add(const BuildKey &key) {
		Add(key.low);
		Add(key.high);
	}
	BuildKey Key() const {
		return BuildKey {low, high};
	}

private:
	static constexpr size_t MIN_LANE_BYTES = 256;

	ContentHash(uint64_t low, uint64_t high) : low(low), high(high) {
	}
	ContentHash Lane(uint64_t number) const {
		return ContentHash(low ^ number, high + number);
	}
	//! Different in every process, so that nobody can prepare data that collides
	static uint64_t Seed() {
		static const uint64_t seed = (uint64_t(std::random_device()()) << 32) ^ std::random_device()();
		return seed;
	}
	static uint64_t Fold(uint64_t a, uint64_t b) {
		const auto product = static_cast<unsigned __int128>(a) * b;
		return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
	}
	uint64_t low;
	uint64_t high;
};

} // namespace vibespatial
