//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/dispatch.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "engine/gpu/interface/bulk.hpp"

namespace duckdb {

class PhysicalScalarBatch;

//! Decides for all threads of a VIBE_SCALAR_BATCH which engine computes its rows, and logs what became of that
class ScalarBatchDispatch : public OperatorDispatch {
public:
	ScalarBatchDispatch(ClientContext &context, const PhysicalScalarBatch &op);
	~ScalarBatchDispatch();

	//! Decides once, with the first rows; the other threads wait. Waits for the kernels, and in mode gpu for the device.
	void Start();
	//! Whether rows go to the device
	bool IsActive() const {
		return active;
	}
	//! Throws GpuError
	std::unique_ptr<vibespatial::GpuBulk> NewDeviceBatch(const vibespatial::BulkTask &task);
	//! The device has failed: the CPU computes the rest, or in mode gpu the query fails
	void Fail(const std::exception &error);
	//! In modes other than gpu, chunks of points stay on the CPU: they cost less there than their upload
	bool LeavesPoints() const {
		return mode != vibespatial::ExecutionMode::GPU;
	}

	// For the event
	void AddDone(idx_t rows, idx_t open, const vibespatial::GpuTimes &times);
	void AddForLackOfMemory();
	void AddPoints(idx_t rows);
	//! When all rows have passed: logs the event
	void Finish();

	//! For EXPLAIN: what would be decided now
	static string DescribePlan(ClientContext &context, const char *kernel, idx_t rows);

private:
	const PhysicalScalarBatch &op;
	vibespatial::Decision decision;
	std::atomic<bool> started {false};
	std::atomic<bool> active {false};
	mutex start_lock;

	//! Guards the event and what goes into it
	mutex lock;
	vibespatial::DispatchEvent event;
	idx_t batches_done = 0;
	idx_t batches_on_cpu = 0;
	idx_t open_rows = 0;
	std::atomic<idx_t> point_rows {0};
	string failure;
	bool finished = false;
	std::chrono::steady_clock::time_point begin;
};

} // namespace duckdb
