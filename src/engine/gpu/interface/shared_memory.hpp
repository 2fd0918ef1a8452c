//===----------------------------------------------------------------------===//
// engine/gpu/interface/shared_memory.hpp
//
// Memory of the device that others in the process go on with, after a query has ended: cuDF, CuPy and the like.
// Promise: it stays until its last owner lets go of it, and is not used for anything else before the device has done all work that was
// begun by then, on whatever stream.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <memory>

namespace vibespatial {

//! Where memory is, as the Arrow C device interface numbers it
struct DeviceName {
	enum Type : int32_t { CPU = 1, CUDA = 2, CUDA_MANAGED = 13 };

	int32_t type = CPU;
	//! -1 where there is one of the type alone
	int64_t number = -1;
};

//! The memory of one result. For one thread; what New() returned may be freed by any, and may outlive this object.
class GpuSharedMemory {
public:
	virtual ~GpuSharedMemory() = default;

	virtual DeviceName Device() const = 0;
	//! In a process that was forked later, letting go of it does nothing. Throws GpuMemoryError.
	virtual std::shared_ptr<void> New(size_t bytes) = 0;
	//! Returns when `from` may be changed. Throws GpuError.
	virtual void Put(void *to, const void *from, size_t bytes) = 0;
	//! Waits until all is there. Throws GpuError.
	virtual void Finish() = 0;
};

} // namespace vibespatial
