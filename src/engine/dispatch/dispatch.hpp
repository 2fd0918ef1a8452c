//===----------------------------------------------------------------------===//
// engine/dispatch/dispatch.hpp
//
// Which engine does a piece of work, and why. One decision for each operator, when its rows are known.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vibespatial {

enum class ExecutionMode : uint8_t { AUTO, CPU, GPU };

const char *ToText(ExecutionMode mode);

//! A piece of work that an engine does
struct KernelInfo {
	const char *name;
	const char *operation;
	const char *precision;
	const char *guarantee;
	//! From so many rows on AUTO prefers the device; 0: there is no device variant
	uint64_t threshold_rows;
	//! However many there are
	static constexpr uint64_t NEVER = ~uint64_t(0);
	const char *variants;

	bool HasGpu() const {
		return threshold_rows > 0;
	}
};

const std::vector<KernelInfo> &Kernels();
//! Throws std::invalid_argument for a name that is not there
const KernelInfo &FindKernel(const std::string &name);

struct Decision {
	ExecutionMode requested = ExecutionMode::AUTO;
	//! CPU or GPU
	ExecutionMode selected = ExecutionMode::CPU;
	std::string reason;
	//! Where the GPU is selected and there is one
	GpuEngine *engine = nullptr;
};

//! Never blocks. AUTO selects the device where an engine is open, its device up and the rows many. GPU selects it wherever the
//! kernel has a variant for it, device or not: who finds no engine then fails. What has no variant is done by the CPU, and the
//! reason says so.
//! `min_rows` stands for the kernel's own threshold where it is not negative.
Decision Decide(ExecutionMode mode, const KernelInfo &kernel, uint64_t rows, int64_t min_rows = -1);

} // namespace vibespatial
