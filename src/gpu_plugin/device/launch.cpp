#include "gpu_plugin/device/launch.hpp"

#include "gpu_plugin/device/check.hpp"

#include <vector>

namespace vibespatial {

void LoadFunctions(cudaLibrary_t library, const char *name) {
	unsigned count = 0;
	CheckCuda(cudaLibraryGetKernelCount(&count, library), name);
	std::vector<cudaKernel_t> kernels(count);
	CheckCuda(cudaLibraryEnumerateKernels(kernels.data(), count, library), name);
	for (auto kernel : kernels) {
		// The driver knows what is asked for only of a function that is there
		cudaFuncAttributes attributes;
		CheckCuda(cudaFuncGetAttributes(&attributes, kernel), name);
	}
}

} // namespace vibespatial
