#include "engine/dispatch/dispatch.hpp"

#include "engine/gpu/runtime/runtime.hpp"

#include <stdexcept>

namespace vibespatial {

const char *ToText(ExecutionMode mode) {
	switch (mode) {
	case ExecutionMode::CPU:
		return "cpu";
	case ExecutionMode::GPU:
		return "gpu";
	default:
		return "auto";
	}
}

const std::vector<KernelInfo> &Kernels() {
	static const std::vector<KernelInfo> kernels {
	    {"box_index", "the packed tree of boxes of a spatial join's build side",
	     "fp64 boxes, fp32 nodes rounded outward", "the same tree on both engines; misses no pair", 1000000,
	     "cpu, gpu"},
	    {"wkb_bounds", "the boxes of the geometries of a spatial join's build side", "fp64", "exact", 0, "cpu"},
	    {"cell_index", "the cells of a spatial join's areas, once many points meet them", "fp64", "exact", 0, "cpu"},
	    {"join_points", "the pairs of a spatial join whose probe side has points, by their number", "fp64, adaptive",
	     "exact", 10000, "cpu, gpu"},
	    {"join_shapes", "the same with other geometries", "fp64, adaptive", "exact", 30000, "cpu, gpu"},
	    {"knn", "vibe_knn: the nearest of points, up to 32 of them; all else is the CPU's", "fp64",
	     "the same neighbours and distances on both engines", 100000, "cpu, gpu"},
	    {"scalar_filter", "a filter by a predicate of a column and a constant geometry", "fp64, adaptive", "exact",
	     3000000, "cpu, gpu"},
	    {"scalar_pairs", "predicates and distances of two columns, row by row", "fp64, adaptive", "exact", 300000,
	     "cpu, gpu"},
	    {"scalar_rows", "areas, lengths, perimeters, centroids and flipped coordinates of a column, row by row", "fp64",
	     "the same bits on both engines", KernelInfo::NEVER, "cpu, gpu"},
	    {"union_agg", "ST_Union_Agg: what the polygons of a group have in all, by the number of their vertices",
	     "fp64, adaptive", "exact, but for crossings, which are rounded; the same bits on both engines", 100000,
	     "cpu, gpu"},
	    {"relate", "ST_Intersects and the other predicates, ST_Relate", "fp64, adaptive", "exact", 0, "cpu"},
	    {"distance", "ST_Distance and ST_DWithin", "fp64", "see docs/internals/exactness.md", 0, "cpu"},
	};
	return kernels;
}

const KernelInfo &FindKernel(const std::string &name) {
	for (auto &kernel : Kernels()) {
		if (name == kernel.name) {
			return kernel;
		}
	}
	throw std::invalid_argument("no kernel is called " + name);
}

Decision Decide(ExecutionMode mode, const KernelInfo &kernel, uint64_t rows, int64_t min_rows) {
	const uint64_t threshold = min_rows < 0 ? kernel.threshold_rows : static_cast<uint64_t>(min_rows);
	Decision decision;
	decision.requested = mode;
	if (mode == ExecutionMode::CPU) {
		decision.reason = "vibe_execution_mode is cpu";
		return decision;
	}
	if (!kernel.HasGpu()) {
		decision.reason = std::string(kernel.name) + " has no GPU variant";
		return decision;
	}
	auto engine = GpuRuntime::Get().IfOpen();
	if (mode == ExecutionMode::GPU) {
		decision.selected = ExecutionMode::GPU;
		decision.reason = "vibe_execution_mode is gpu";
		decision.engine = engine;
		return decision;
	}
	if (threshold == KernelInfo::NEVER) {
		decision.reason = std::to_string(rows) + " rows: the CPU is done sooner, however many there are";
		return decision;
	}
	if (rows < threshold) {
		decision.reason = std::to_string(rows) + " rows: below the threshold of " + std::to_string(threshold);
		return decision;
	}
	if (!engine) {
		decision.reason = "no GPU engine: " + GpuRuntime::Get().State();
		return decision;
	}
	std::string error;
	if (!engine->WaitForDevice(0, error)) {
		decision.reason = "no device: " + (error.empty() ? "it is not up yet" : error);
		return decision;
	}
	decision.selected = ExecutionMode::GPU;
	decision.engine = engine;
	decision.reason = std::to_string(rows) + " rows: not below the threshold of " + std::to_string(threshold);
	return decision;
}

} // namespace vibespatial
