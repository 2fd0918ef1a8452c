//===----------------------------------------------------------------------===//
// duckdb/operators/index_dispatch.hpp
//
// Which engine packs the tree of a spatial join's build side: decided once for the operator, told in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "engine/cpu/box_tree.hpp"
#include "engine/dispatch.hpp"
#include "engine/events.hpp"

namespace duckdb {

class IndexDispatch {
public:
	//! In mode gpu it waits for the device, and throws where there is none: before anything was scanned
	explicit IndexDispatch(ClientContext &context);

	//! When the rows of the build side are known, before Build()
	void Decide(idx_t rows);
	//! The whole tree, or that of a part of the build side; any thread, several at a time. In mode auto the CPU does what the
	//! device cannot; in mode gpu that is an IOException.
	std::unique_ptr<vibespatial::BoxTree> Build(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel);

	//! For EXPLAIN ANALYZE: where the index was built, and why there
	string Describe();
	//! For EXPLAIN: what would be decided now, for so many rows
	static string DescribePlan(ClientContext &context, idx_t rows);
	//! What the plan needs, before it runs; never waits
	static void RequestKernels(ClientContext &context);

private:
	vibespatial::DispatchEvent NewEvent(const char *kernel) const;
	unique_ptr<vibespatial::BoxTree> BuildOnDevice(const vibe::Box *boxes, size_t count,
	                                               vibespatial::DispatchEvent &event);
	//! Throws GpuError where they do not come in time; returns the milliseconds
	double WaitForKernels(vibespatial::GpuEngine &engine);

	ClientContext &context;
	vibespatial::ExecutionMode mode;
	double kernel_timeout;
	string query;
	vibespatial::Decision decision;

	mutex lock;
	//! Of the last tree
	vibespatial::DispatchEvent last;
	idx_t built = 0;
	idx_t fallbacks = 0;
};

} // namespace duckdb
