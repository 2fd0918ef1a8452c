//===----------------------------------------------------------------------===//
// engine/gpu/machine/shared_memory.hpp
//
// Memory for others on a machine, and how much of it there is
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/shared_memory.hpp"
#include "engine/gpu/machine/machine.hpp"

#include <atomic>

namespace vibespatial {

//! All memory of a device that others have. Lives as long as the process.
class MachineShares {
public:
	std::unique_ptr<GpuSharedMemory> New(std::unique_ptr<Machine> machine);
	void Report(std::vector<GpuMemoryRow> &rows) const;

	void Add(uint64_t bytes);
	void Remove(uint64_t bytes);

private:
	std::atomic<uint64_t> used {0};
	std::atomic<uint64_t> peak {0};
	std::atomic<uint64_t> count {0};
};

} // namespace vibespatial
