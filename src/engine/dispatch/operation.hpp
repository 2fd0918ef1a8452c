//===----------------------------------------------------------------------===//
// engine/dispatch/operation.hpp
//
// The operations: pieces of work that the CPU or the GPU does. kernels/operations.json lists them; the build makes the enums and the
// table from it (scripts/embed_operations.py).
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/dispatch/operation_names.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vibespatial {

struct OperationInfo {
	const char *name;
	const char *description;
	const char *precision;
	const char *guarantee;
	//! Mode auto prefers the GPU from this number of rows on the machine that it was measured on (Thresholds::Reference())
	uint64_t gpu_from_rows;
	//! What the operation needs on the device
	KernelSet kernels;
	//! The parts of the CPU's time for a row that copies and kernels take there; both 0 where the threshold is the same everywhere
	double copy_share;
	double kernel_share;

	//! There is no variant for the GPU
	static constexpr uint64_t NO_GPU = 0;
	//! There is one, but the CPU is faster at any number of rows
	static constexpr uint64_t NEVER = ~uint64_t(0);

	bool HasGpu() const {
		return gpu_from_rows != NO_GPU;
	}
};

//! In the order of the enum
const std::vector<OperationInfo> &Operations();
inline const OperationInfo &InfoOf(Operation operation) {
	return Operations()[static_cast<size_t>(operation)];
}

//! In the order of the enum; the name of NONE is empty
const std::vector<const char *> &KernelSetNames();
//! The units and specs of a set, units first
std::vector<std::string> KernelNeeds(KernelSet set);
inline std::vector<std::string> KernelNeeds(Operation operation) {
	return KernelNeeds(InfoOf(operation).kernels);
}
//! The set with this name; NONE if there is none
KernelSet FindKernelSet(const std::string &name);

} // namespace vibespatial
