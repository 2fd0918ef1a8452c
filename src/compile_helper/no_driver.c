/* Stands in for libcuda where there is no driver: libcccl.c.parallel is linked with that, but compiling asks nothing of it.
 * Only the compile helper opens it. Every function answers that there is no driver behind it (error 34 of CUDA). */
#define STUB(NAME)                                                                                                     \
	__attribute__((visibility("default"))) int NAME(void) {                                                            \
		return 34;                                                                                                     \
	}
STUB(cuCtxGetCurrent)
STUB(cuCtxGetDevice)
STUB(cuCtxPopCurrent_v2)
STUB(cuCtxPushCurrent_v2)
STUB(cuDeviceGet)
STUB(cuDeviceGetAttribute)
STUB(cuDevicePrimaryCtxRetain)
STUB(cuFuncGetAttribute)
STUB(cuFuncSetAttribute)
STUB(cuGetErrorString)
STUB(cuInit)
STUB(cuKernelGetFunction)
STUB(cuLaunchKernel)
STUB(cuLaunchKernelEx)
STUB(cuLibraryGetKernel)
STUB(cuLibraryLoadData)
STUB(cuLibraryUnload)
STUB(cuMemcpyAsync)
STUB(cuMemsetD8Async)
STUB(cuOccupancyMaxActiveBlocksPerMultiprocessor)
