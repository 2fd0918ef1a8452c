#include "gpu_plugin/device/check.hpp"

#include "gpu_plugin/compile/device_loss.hpp"

#include <string>

namespace vibespatial {

//! Does it stay with the context?
static bool IsLoss(cudaError_t status) {
	switch (status) {
	case cudaErrorIllegalAddress:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorIllegalInstruction:
	case cudaErrorHardwareStackError:
	case cudaErrorLaunchFailure:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorContextIsDestroyed:
	case cudaErrorMpsClientTerminated:
	case cudaErrorExternalDevice:
	case cudaErrorUnknown:
		return true;
	default:
		return false;
	}
}

void ThrowCuda(cudaError_t status, const char *what) {
	// An error that does not stick must not be found by the next one who asks
	cudaGetLastError();
	const auto text = std::string(what) + ": " + cudaGetErrorString(status);
	if (status == cudaErrorMemoryAllocation) {
		// A launch, too: a kernel's stacks for all its threads are taken when it is first launched
		throw GpuMemoryError(text);
	}
	if (!IsLoss(status)) {
		throw GpuError(text);
	}
	DeviceLoss::Report(text);
	throw GpuError(DeviceLoss::Text());
}

void CheckLoss(const char *what) {
	const auto status = cudaGetLastError();
	if (IsLoss(status)) {
		ThrowCuda(status, what);
	}
}

} // namespace vibespatial
