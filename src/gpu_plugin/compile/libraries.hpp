//===----------------------------------------------------------------------===//
// gpu_plugin/compile/libraries.hpp
//
// Finds and opens the shared libraries of the GPU engine: in folders that were named, beside the plug-in, in pip's
// folders of nvidia packages, and where the system keeps them. What is found, where, and what to do about what is not,
// stays visible. That a library is there says nothing about a device. A file is checked before it is opened
// (engine/common/trusted_file.hpp), and no relative path is searched.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <mutex>
#include <string>
#include <vector>

namespace vibespatial {

class SharedLibrary {
public:
	//! Null when the library or the symbol is not there
	void *Symbol(const char *name) const;
	template <class FUNCTION>
	FUNCTION Get(const char *name) const {
		return reinterpret_cast<FUNCTION>(Symbol(name));
	}
	explicit operator bool() const {
		return handle != nullptr;
	}

	GpuComponent component;

private:
	friend class Libraries;
	//! Never closed: CUDA's libraries do not take that well
	void *handle = nullptr;
};

class Libraries {
public:
	//! `compile_only`: a process that launches nothing, which does without a driver
	explicit Libraries(const GpuOptions &options, bool compile_only = false);

	SharedLibrary &Driver();    // libcuda
	SharedLibrary &Nvrtc();     // libnvrtc
	SharedLibrary &NvJitLink(); // libnvJitLink
	SharedLibrary &Cccl();      // libcccl.c.parallel, with the two above
	//! The headers that CCCL compiles its algorithms from
	const GpuComponent &CcclHeaders();
	//! The program that compiles specs in a process of its own
	const GpuComponent &Helper();
	//! "13.0"
	const std::string &NvrtcVersion();
	static const char *CcclVersion();

private:
	//! `system`: the loader may look for it, too; `digest`: the only file that is taken
	bool Open(SharedLibrary &library, const std::string &name, const std::vector<std::string> &folders, bool system,
	          const char *digest = nullptr);
	std::vector<std::string> Folders(const std::vector<std::string> &below) const;

	std::recursive_mutex lock;
	const bool compile_only;
	std::string folder;
	std::vector<std::string> roots; // site-packages and the like
	std::vector<std::string> named;
	SharedLibrary driver, nvrtc, jitlink, cccl;
	GpuComponent headers, helper;
	std::string nvrtc_version;
	bool looked_driver = false, looked_nvrtc = false, looked_jitlink = false, looked_cccl = false;
	bool looked_headers = false, looked_helper = false;
};

} // namespace vibespatial
