//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/device.hpp
//
// Functions of one geometry or two for many rows on the GPU: rows are collected into batches that the device works on while the next
// ones come. Rows that it leaves open or fails on are computed by the functions themselves.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/scalar_batch/physical.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/spatial_join/index_dispatch.hpp"
#include "duckdb/spatial_join/kept_rows.hpp"
#include "engine/gpu/interface/bulk.hpp"
#include "engine/shape/shape.hpp"

namespace duckdb {

//! Of all threads
class DeviceBulk : public OperatorDispatch {
public:
	DeviceBulk(ClientContext &context, const PhysicalBulk &op);
	~DeviceBulk();

	//! With the first rows: the one decision. Waits for the device in mode gpu, and for the kernels; all threads at once.
	void Start();
	//! Rows go to the device
	bool IsActive() const {
		return active;
	}
	//! Throws GpuError
	std::unique_ptr<vibespatial::GpuBulk> NewBulk(const vibespatial::BulkTask &task);
	//! The device failed: in mode gpu an error, else the CPU does the rest
	void Fail(const std::exception &error);
	void AddDone(idx_t rows, idx_t open, const vibespatial::GpuTimes &times);
	void AddForLackOfMemory();
	//! Points that are less work than the way to the device stay with the CPU, but for mode gpu
	bool LeavesPoints() const {
		return mode != vibespatial::ExecutionMode::GPU;
	}
	void AddPoints(idx_t rows);

	//! When all rows have passed: one event
	void Finish();
	//! For EXPLAIN: what would be decided now
	static string DescribePlan(ClientContext &context, const char *kernel, idx_t rows);

private:
	const PhysicalBulk &op;
	vibespatial::Decision decision;
	std::atomic<bool> started {false};
	std::atomic<bool> active {false};
	mutex start_lock;

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

//! What one thread computes itself: the arguments of the calls, and the calls of rows that are not for the device
class BulkRows {
public:
	BulkRows(ClientContext &context, const PhysicalBulk &op);

	//! Of all calls, one after the other; valid until the next call
	DataChunk &Arguments(DataChunk &input);
	//! Each call is for points alone, or for where points lie in a constant, which one that is prepared knows at once
	bool ArePoints(DataChunk &input);
	//! One call for all rows of `input`
	void Execute(idx_t call, DataChunk &input, Vector &result);
	//! All calls, and the columns beside them
	void Execute(DataChunk &input, DataChunk &output);

private:
	const PhysicalBulk &op;
	ExpressionExecutor arguments_executor;
	DataChunk arguments;
	vector<unique_ptr<ExpressionExecutor>> executors;
};

//! Some rows: collected, computed, given out
class BulkBatch {
public:
	BulkBatch(ClientContext &context, const PhysicalBulk &op, DeviceBulk &device, BulkRows &rows);
	~BulkBatch();

	void Add(DataChunk &input);
	bool IsFull() const;
	//! Starts the device on it
	void Launch();
	//! Waits, and computes what is left
	void Finish();

	idx_t ChunkCount() const;
	void Emit(idx_t chunk, DataChunk &output);
	void Clear();

private:
	//! The rows of one call
	struct Call {
		vibespatial::BulkSide left;
		vibespatial::BulkSide right;
		//! A side that is a constant could be read
		bool constant_is_known = true;
		std::vector<double> limits;
		vector<bool> is_null;
		//! That the device is not asked about
		vector<uint32_t> own_rows;
		std::unique_ptr<vibespatial::GpuBulk> device;
		bool launched = false;
		//! What came out, for each row: a BOOLEAN, a DOUBLE or a GEOMETRY
		vector<uint8_t> answers;
		vector<double> numbers;
		vector<string_t> geometries;
		StringHeap heap;
	};

	//! Tells DuckDB of the memory of the batch; without room for more it is full
	void CountMemory();
	void Prepare(idx_t number);
	void AddPairs(idx_t number, DataChunk &arguments, idx_t first);
	void AddRows(idx_t number, Vector &geometries, idx_t size);
	bool AddGeometry(vibespatial::BulkSide &side, const string_t &wkb);
	vibespatial::BulkInput Input(idx_t number, idx_t first, idx_t size) const;
	//! Half as much at a time, and less, until it fits
	void RunHalves(idx_t number, idx_t first, idx_t size, idx_t depth);
	//! Of the rows [first, first + size)
	void Use(idx_t number, const vibespatial::BulkResult &result, idx_t first, idx_t size);
	void RunOnCpu(idx_t number, idx_t first, idx_t size);
	//! Rows in ascending order
	void RunOnCpu(idx_t number, const vector<uint32_t> &rows);

	ClientContext &context;
	const PhysicalBulk &op;
	DeviceBulk &device;
	BulkRows &rows;
	idx_t count = 0;
	vector<Call> calls;
	KeptRows kept;
	CountedMemory memory;
	bool has_room = true;
	vibespatial::GeometryBatch scratch;
	vibespatial::Shape shape;
};

} // namespace duckdb
