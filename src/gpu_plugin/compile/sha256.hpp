//===----------------------------------------------------------------------===//
// gpu_plugin/compile/sha256.hpp
//
// SHA-256 (FIPS 180-4), for cached kernels: what is read back is what was written.
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace vibespatial {

class Sha256 {
public:
	using Digest = std::array<uint8_t, 32>;

	Sha256();
	void Add(const void *data, size_t size);
	void Add(const std::string &text) {
		Add(text.data(), text.size());
	}
	Digest Finish();

	static std::string Hex(const Digest &digest);
	static std::string HexOf(const std::string &text);

private:
	void Blocks(const uint8_t *data, size_t count);

	uint32_t state[8];
	uint8_t buffer[64];
	uint64_t total = 0;
};

} // namespace vibespatial
