//===----------------------------------------------------------------------===//
// gpu_plugin/compile/envelope.hpp
//
// A compiled kernel with all that it depends on: neither NVRTC's nor CCCL's bytes say for which source, options or versions
// they were made, nor notice a flipped bit.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vibespatial {

//! All that matters to the bytes of a compiled kernel
struct KernelKey {
	std::string name;
	//! SHA-256 of the sources, or what tells one spec from another
	std::string source;
	std::string options;
	int capability = 0; // 90: sm_90
	std::string nvrtc;
	//! Specs only
	std::string cccl;

	std::string Text() const;
	//! Of a file in the cache
	std::string FileName() const;
};

//! Of what every sealed kernel begins with, in all versions
constexpr size_t KERNEL_MARK_SIZE = 7;
//! Whether these bytes are the beginning of a sealed kernel, or all of one that was cut short
bool BeginsAsKernel(const std::string &bytes);
//! Whether these bytes were written as a kernel of that key, even if they are damaged or cut short now
bool WasKernelOf(const std::string &bytes, const KernelKey &key);

//! Header, key and payload in one
std::string SealKernel(const KernelKey &key, const std::string &payload);
//! The payload, when the bytes are whole and made for that key; else false and why
bool OpenKernel(const char *data, size_t size, const KernelKey &key, std::string &payload, std::string &error);
//! The same for whatever key it has
bool OpenKernel(const char *data, size_t size, std::string &key_text, std::string &payload, std::string &error);

} // namespace vibespatial
