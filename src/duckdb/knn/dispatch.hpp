//===----------------------------------------------------------------------===//
// duckdb/knn/dispatch.hpp
//
// Which engine searches for neighbours: decided once for the operator, and logged in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "engine/join/knn.hpp"

namespace duckdb {

class KnnDispatch : public OperatorDispatch {
public:
	explicit KnnDispatch(ClientContext &context);

	//! Once both sides are known. Uploads the index if the GPU is selected; mode gpu waits for the device.
	void Decide(const vibespatial::KnnIndex &index, idx_t left_rows, uint64_t k, vibespatial::Parallel &parallel);
	//! Points go to Find()
	bool OnGpu() const {
		return points && dispatch.OnGpu();
	}
	//! Any thread, several at a time. False where the device failed: the CPU searches from then on. In mode gpu a failure is an
	//! IOException.
	bool Find(const std::vector<vibe::Vec2> &points, uint64_t k, double most,
	          vibespatial::PackedNeighbours &neighbours);

	//! For EXPLAIN
	static string DescribePlan(ClientContext &context, idx_t left_rows);
	//! For EXPLAIN ANALYZE
	string Describe() const {
		return dispatch.Describe();
	}

private:
	void Fail(const std::exception &error);

	vibespatial::Dispatch dispatch;
	std::unique_ptr<vibespatial::GpuPoints> points;
};

} // namespace duckdb
