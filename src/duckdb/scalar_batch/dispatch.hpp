//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/dispatch.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/operator_dispatch.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/scalar/column.hpp"

namespace duckdb {

class PhysicalScalarBatch;

vibespatial::Operation OperationOf(const vibespatial::ScalarTask &task);

//! Decides for all threads of a VIBE_SCALAR_BATCH which engine computes its rows, and logs what became of that
class ScalarBatchDispatch : public OperatorDispatch, public vibespatial::ScalarHost {
public:
	ScalarBatchDispatch(ClientContext &context, const PhysicalScalarBatch &op);
	~ScalarBatchDispatch() override;

	//! Decides once, with the first rows; the other threads wait. In mode gpu waits for the device.
	void Start();

	// What the engine asks of DuckDB
	void Poll() override;
	bool IsActive() const override {
		return active;
	}
	void WaitForKernels(const std::vector<std::string> &names) override;
	std::unique_ptr<vibespatial::GpuScalarBatch> NewDeviceBatch(const vibespatial::ScalarTask &task) override;
	//! In mode gpu the query fails
	void DeviceFailed(const vibespatial::GpuError &error) override;
	void DeviceFinished(size_t rows, size_t open, TimePoint begin, const vibespatial::GpuTimes &times) override;
	void LackedMemory(size_t rows) override;

	//! In modes other than gpu, chunks of points stay on the CPU: they cost less there than their upload
	bool LeavesPoints() const {
		return mode != vibespatial::ExecutionMode::GPU;
	}

	//! For the event: rows that stay on the CPU, because they are points or because the device failed
	void AddRowsOnCpu(idx_t rows, bool points);
	//! When all rows have passed: logs the event
	void Finish();

	//! The kernels that these may need
	static vibespatial::KernelNames Needs(const vector<vibespatial::ScalarTask> &tasks);
	//! For EXPLAIN: what would be decided now
	static string DescribePlan(ClientContext &context, vibespatial::Operation operation, idx_t rows);

private:
	//! With one of the calls
	string Name() const;

	const PhysicalScalarBatch &op;
	vibespatial::Dispatch dispatch;
	TaskThreads threads;
	std::atomic<bool> started {false};
	std::atomic<bool> active {false};
	mutex start_lock;
	//! Held by the thread that waits for kernels
	mutex kernel_lock;
	TimePoint begin;
	std::atomic<bool> has_open_rows {false};
	std::atomic<bool> has_points {false};
	//! Not counted by the engine
	std::atomic<idx_t> rows_on_cpu {0};
};

} // namespace duckdb
