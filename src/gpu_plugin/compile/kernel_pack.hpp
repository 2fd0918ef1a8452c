//===----------------------------------------------------------------------===//
// gpu_plugin/compile/kernel_pack.hpp
//
// The kernels that come with a release, compiled when it was built: one file of envelopes with an index in front, mapped
// into memory. A device takes the kernels of its own major version with a minor version not above its own.
//===----------------------------------------------------------------------===//
#pragma once

#include "gpu_plugin/compile/envelope.hpp"

#include <map>
#include <string>
#include <vector>

namespace vibespatial {

class KernelPack {
public:
	KernelPack() = default;
	~KernelPack();
	KernelPack(const KernelPack &) = delete;
	KernelPack &operator=(const KernelPack &) = delete;

	//! False, with Problem(), when there is none or it is not whole
	bool Open(const std::string &path);
	//! The same where the file is trusted (engine/common/trusted_file.hpp)
	bool OpenTrusted(const std::string &path);
	const std::string &Problem() const {
		return problem;
	}
	bool IsOpen() const {
		return data != nullptr;
	}
	const std::string &Path() const {
		return path;
	}
	size_t Count() const;
	std::vector<int> Capabilities() const;

	//! The best kernel of that name for the device, when it was made from this source with these options. Another version
	//! of NVRTC or CCCL may have made it: `used` tells which.
	bool Load(const KernelKey &key, std::string &payload, std::string &used, std::string &error) const;

	//! Only what the same compilers made for the same architecture
	bool LoadSame(const KernelKey &key, std::string &payload) const;

	//! Whether a device runs what was compiled for `compiled`: same major version, minor not above the device's
	static bool Runs(int device, int compiled) {
		return device / 10 == compiled / 10 && device % 10 >= compiled % 10;
	}

	struct Item {
		KernelKey key;
		std::string payload;
	};
	//! Throws std::runtime_error
	static void Write(const std::string &path, const std::vector<Item> &items);

private:
	struct Place {
		uint64_t offset;
		uint64_t size;
	};
	std::string path;
	std::string problem;
	const char *data = nullptr;
	size_t size = 0;
	//! By name and capability
	std::map<std::string, std::map<int, Place>> places;
};

} // namespace vibespatial
