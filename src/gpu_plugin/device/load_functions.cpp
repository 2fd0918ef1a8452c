#include "gpu_plugin/device/load_functions.hpp"

#include "gpu_plugin/device/check.hpp"

#include <vector>

namespace vibespatial {

void LoadFunctions(cudaLibrary_t library, const char *name) {
	unsigned count = 0;
	CheckCuda(cudaLibraryGetKernelCount(&count, library), name);
	std::vector<cudaKernel_t> kernels(count);
	CheckCuda(cudaLibraryEnumerateKernels(kernels.data(), count, library), name);
	for (auto kernel : kernels) {
		// To answer this, the driver loads the function
		cudaFuncAttributes attributes;
		CheckCuda(cudaFuncGetAttributes(&attributes, kernel), name);
	}
}

} // namespace vibespatial
