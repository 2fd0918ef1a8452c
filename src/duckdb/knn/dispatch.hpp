//===----------------------------------------------------------------------===//
// duckdb/knn/dispatch.hpp
//
// Which engine searches for neighbours: decided once for the operator, told in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "engine/join/knn.hpp"

#include <atomic>

namespace duckdb {

class KnnDispatch : public OperatorDispatch {
public:
	explicit KnnDispatch(ClientContext &context);
	//! Writes down what was done
	~KnnDispatch();

	//! When both sides are known; brings the index to the device that was chosen. In mode gpu it waits for the device.
	void Decide(const vibespatial::KnnIndex &index, idx_t left_rows, uint64_t k, vibespatial::Parallel &parallel);
	//! Points go to Find()
	bool OnDevice() const {
		return on_device;
	}
	//! Any thread, several at a time. False where the device failed: from then on the CPU searches; in mode gpu that is an
	//! IOException.
	bool Find(const std::vector<vibe::Vec2> &points, uint64_t k, double most,
	          vibespatial::PackedNeighbours &neighbours);

	//! For EXPLAIN ANALYZE: which engine searched, and why
	string Describe();

private:
	//! The device failed at something
	void Fail(const std::exception &error);

	std::atomic<bool> on_device {false};
	std::unique_ptr<vibespatial::GpuPoints> points;
	vibespatial::Decision decision;
	std::chrono::steady_clock::time_point begin;
	mutex lock;
	vibespatial::DispatchEvent event;
	bool decided = false;
};

} // namespace duckdb
