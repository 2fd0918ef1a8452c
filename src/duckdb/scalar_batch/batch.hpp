//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/batch.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/scalar_batch/calls.hpp"
#include "duckdb/scalar_batch/dispatch.hpp"
#include "duckdb/scalar_batch/physical.hpp"
#include "duckdb/spatial_join/kept_rows.hpp"
#include "engine/shape/shape.hpp"

namespace duckdb {

//! Rows that are collected, computed by the device, and emitted. Rows that the device leaves open or fails on are computed by the
//! functions themselves.
class ScalarBatch {
public:
	ScalarBatch(ClientContext &context, const PhysicalScalarBatch &op, ScalarBatchDispatch &dispatch,
	            ScalarCalls &cpu_calls);
	~ScalarBatch();

	void Add(DataChunk &input);
	bool IsFull() const;
	//! Starts the device
	void Launch();
	//! Waits for the device, and computes what it left open
	void Finish();

	idx_t ChunkCount() const;
	void Emit(idx_t chunk, DataChunk &output);
	void Clear();

private:
	//! The input and output of one call
	struct Call {
		vibespatial::BulkSide left;
		vibespatial::BulkSide right;
		//! The constant side, if there is one, is a geometry that the device can read
		bool constant_is_known = true;
		std::vector<double> limits;
		vector<bool> is_null;
		//! Rows that the CPU computes in any case, in ascending order
		vector<uint32_t> cpu_rows;
		std::unique_ptr<vibespatial::GpuBulk> device;
		bool launched = false;
		//! The results, in the one that fits the return type: BOOLEAN, DOUBLE or GEOMETRY
		vector<uint8_t> answers;
		vector<double> numbers;
		vector<string_t> geometries;
		StringHeap heap;
	};

	//! Reserves the memory of the batch with DuckDB; without room for more the batch is full
	void CountMemory();
	//! Gets memory that the device can read
	void Prepare(idx_t number);
	void AddPairs(idx_t number, DataChunk &arguments, idx_t first);
	void AddRows(idx_t number, Vector &geometries, idx_t size);
	bool AddGeometry(vibespatial::BulkSide &side, const string_t &wkb);
	vibespatial::BulkInput Input(idx_t number, idx_t first, idx_t size) const;
	//! Computes rows in halves, quarters and so on until they fit into the memory of the device
	void RunHalves(idx_t number, idx_t first, idx_t size, idx_t depth);
	//! Takes the results for the rows [first, first + size)
	void Use(idx_t number, const vibespatial::BulkResult &result, idx_t first, idx_t size);
	void RunOnCpu(idx_t number, idx_t first, idx_t size);
	//! `some` is in ascending order
	void RunOnCpu(idx_t number, const vector<uint32_t> &some);

	ClientContext &context;
	const PhysicalScalarBatch &op;
	ScalarBatchDispatch &dispatch;
	ScalarCalls &cpu_calls;
	idx_t count = 0;
	vector<Call> calls;
	KeptRows kept;
	CountedMemory memory;
	bool has_room = true;
	vibespatial::GeometryBatch scratch;
	vibespatial::Shape shape;
};

} // namespace duckdb
