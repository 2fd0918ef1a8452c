// The door of libvibespatial_cuda.so.
#include "engine/gpu/device/device.hpp"

#include <cstdlib>
#include <cstring>

namespace {

vibespatial::CudaEngine *engine = nullptr;

//! Before CUDA's own libraries are taken down under the threads that use them
void ShutdownAtExit() {
	if (engine) {
		engine->Shutdown();
	}
}

} // namespace

extern "C" __attribute__((visibility("default"))) vibespatial::GpuEngine *
vibespatial_open_engine(const char *interface_version, const vibespatial::GpuOptions *options, const char **error) {
	if (std::strcmp(interface_version, VIBESPATIAL_ENGINE_INTERFACE) != 0) {
		*error = "the GPU plug-in is of another version than the extension (" VIBESPATIAL_ENGINE_INTERFACE ")";
		return nullptr;
	}
	static std::string problem;
	try {
		if (!engine) {
			engine = new vibespatial::CudaEngine(*options);
			std::atexit(ShutdownAtExit);
		}
		return engine;
	} catch (const std::exception &exception) {
		problem = exception.what();
		*error = problem.c_str();
		return nullptr;
	}
}
