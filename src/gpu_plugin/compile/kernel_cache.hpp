//===----------------------------------------------------------------------===//
// gpu_plugin/compile/kernel_cache.hpp
//
// Compiled kernels on disk, one file each. The folder belongs to the user alone: whoever can write into it can run code on
// the user's device. Any number of processes may use it at once: files appear whole, by a rename, and a file that is wrong
// in any way is removed and made anew. A cache that cannot be used says why and is then as good as empty.
//===----------------------------------------------------------------------===//
#pragma once

#include "gpu_plugin/compile/envelope.hpp"

#include <mutex>
#include <string>

namespace vibespatial {

class KernelCache {
public:
	//! `folder` is made where it is missing; empty: vibespatial/kernels in the user's cache folder
	KernelCache(std::string folder, uint64_t limit);

	//! Why the cache is not used, or the last thing that went wrong in it; empty when all is well
	std::string Problem() const;
	bool Usable() const {
		return usable;
	}
	const std::string &Folder() const {
		return folder;
	}

	//! Marks what it finds as used now
	bool Load(const KernelKey &key, std::string &payload);
	//! Removes the files that were not used for longest when there are more bytes than the limit
	void Store(const KernelKey &key, const std::string &payload);

	struct Contents {
		uint64_t files = 0;
		uint64_t bytes = 0;
	};
	Contents Measure() const;

private:
	bool Prepare();
	void Trim();
	void Note(const std::string &what);

	std::string folder;
	uint64_t limit;
	bool usable = false;
	mutable std::mutex lock;
	std::string problem;
};

} // namespace vibespatial
