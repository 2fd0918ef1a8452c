//===----------------------------------------------------------------------===//
// duckdb/spatial_join/index_dispatch.hpp
//
// Which engine packs the tree of a spatial join's build side: decided once for the operator, logged in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "engine/index/box_tree.hpp"

#include <atomic>

namespace duckdb {

class IndexDispatch : public OperatorDispatch {
public:
	//! Begins with the scan. `kernels`: what the join may need
	IndexDispatch(ClientContext &context, const vibespatial::KernelNames &kernels);

	//! When the rows of the build side are known, before Build(), which waits for the device in mode gpu
	void Decide(idx_t rows, idx_t bytes);
	//! Before the first row of the build side is stored
	void NoteFirstRow() {
		first_row = Now();
	}
	bool IsForDevice() const {
		return decision.IsGpu();
	}
	//! Where a device was decided for: the whole tree, or that of a part of the build side; any thread, several at a time. In mode
	//! auto the CPU does what the device cannot; in mode gpu that is an IOException.
	std::unique_ptr<vibespatial::BoxTree> Build(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel);
	//! The device has packed it for itself alone
	void NoteDevice(idx_t boxes, const vibespatial::GpuTimes &times);
	//! Where it was not: the CPU engine has indexed so many rows, with a tree or without one
	void NoteIndex(idx_t rows, double milliseconds);

	//! Mode gpu waits for it, and it may still come: what needs none is done before
	bool DeviceIsComing() const;
	//! Mode gpu promises a device, even where there was no tree to build: throws where it does not come
	void RequireDevice();

	//! For EXPLAIN ANALYZE: where the index was built, and why there
	string Describe();
	//! For EXPLAIN: what would be decided now, for so many rows
	static string DescribePlan(ClientContext &context, idx_t rows);

private:
	//! The dispatch of one tree, which follows a decision
	unique_ptr<vibespatial::Dispatch> NewTree(idx_t rows, const vibespatial::Decision &made) const;
	void EndTree(vibespatial::Dispatch &dispatch);
	//! Null where the device failed and the CPU may take over
	std::unique_ptr<vibespatial::BoxTree> BuildOnDevice(vibespatial::Dispatch &dispatch, const vibe::Box *boxes,
	                                                    size_t count, vibespatial::Parallel &parallel);

	//! When the scan began
	TimePoint begin;
	std::atomic<TimePoint> first_row {TimePoint()};
	//! For all trees
	vibespatial::Decision decision;

	mutex lock;
	//! The description of the last tree
	string last;
};

} // namespace duckdb
