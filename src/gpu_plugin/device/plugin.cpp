// What libvibespatial_cuda.so exports.
#include "engine/gpu/interface/version.hpp"
#include "gpu_plugin/device/device.hpp"

#include <cstring>

extern "C" __attribute__((visibility("default"))) vibespatial::GpuEngine *
vibespatial_open_engine(const char *interface_version, const vibespatial::GpuOptions *options, const char **error) {
	if (std::strcmp(interface_version, VIBESPATIAL_ENGINE_INTERFACE) != 0) {
		*error = "the GPU plug-in is of another version than the extension (" VIBESPATIAL_ENGINE_INTERFACE ")";
		return nullptr;
	}
	static auto &problem = *new std::string();
	try {
		// One for the process, never destroyed: its threads may outlive every database
		static auto *engine = new vibespatial::CudaEngine(*options);
		return engine;
	} catch (const std::exception &exception) {
		problem = exception.what();
		*error = problem.c_str();
		return nullptr;
	}
}
