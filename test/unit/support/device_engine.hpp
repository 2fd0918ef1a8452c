//===----------------------------------------------------------------------===//
// device_engine.hpp
//
// The engine of the plug-in in the folder that VIBESPATIAL_GPU_FOLDER names
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/interface/version.hpp"

#include <catch.hpp>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace vibespatial {

inline GpuOptions TestOptions() {
	GpuOptions options;
	const char *folder = std::getenv("VIBESPATIAL_GPU_FOLDER");
	options.folder = folder ? folder : "";
	options.kernel_timeout_seconds = 120;
	const char *source = std::getenv("VIBESPATIAL_KERNEL_SOURCE");
	if (source && std::strcmp(source, "jit") == 0) {
		options.kernel_source = KernelSource::JIT;
	}
	const char *filter = std::getenv("VIBESPATIAL_GPU_FP32");
	if (filter && std::strcmp(filter, "on") == 0) {
		options.fp32_filter = Fp32Filter::ON;
	}
	return options;
}

//! Null, with a message, where there is no device
inline GpuEngine *Device() {
	static GpuEngine *engine = []() -> GpuEngine * {
		const auto options = TestOptions();
		if (options.folder.empty()) {
			WARN("VIBESPATIAL_GPU_FOLDER is not set: nothing is tested on a device");
			return nullptr;
		}
		void *plugin = dlopen((options.folder + "/libvibespatial_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
		if (!plugin) {
			FAIL(dlerror());
		}
		auto open = reinterpret_cast<OpenEngineFunction>(dlsym(plugin, "vibespatial_open_engine"));
		REQUIRE(open);
		const char *error = nullptr;
		REQUIRE(open("another interface", &options, &error) == nullptr);
		REQUIRE(error);
		auto *made = open(VIBESPATIAL_ENGINE_INTERFACE, &options, &error);
		REQUIRE(made);
		std::string why;
		if (!made->WaitForDevice(60, why)) {
			WARN("no device: " << why);
			return nullptr;
		}
		return made;
	}();
	return engine;
}

} // namespace vibespatial
