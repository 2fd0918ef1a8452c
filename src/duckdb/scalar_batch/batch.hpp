//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/batch.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/operators/kept_rows.hpp"
#include "duckdb/scalar_batch/calls.hpp"
#include "duckdb/scalar_batch/dispatch.hpp"
#include "duckdb/scalar_batch/physical.hpp"
#include "engine/scalar/column.hpp"

namespace duckdb {

//! Rows that are collected, computed by the device, and emitted. Rows that the device leaves to the CPU are computed by the functions
//! themselves.
class ScalarBatch {
public:
	ScalarBatch(ClientContext &context, const PhysicalScalarBatch &op, ScalarBatchDispatch &dispatch,
	            ScalarCalls &cpu_calls);
	~ScalarBatch();

	void Add(DataChunk &input);
	bool IsFull() const;
	//! Starts the device
	void Launch();
	//! Waits for the device, and computes what it left to the CPU
	void Finish();

	idx_t ChunkCount() const;
	void Emit(idx_t chunk, DataChunk &output);
	void Clear();

private:
	//! Reserves the memory of the batch with DuckDB; without room for more the batch is full
	void CountMemory();
	void AddPairs(idx_t number, DataChunk &arguments, idx_t first);
	void AddRows(idx_t number, DataChunk &arguments, idx_t first);
	//! `some` is in ascending order
	void RunOnCpu(idx_t number, const std::vector<uint32_t> &some);

	ClientContext &context;
	const PhysicalScalarBatch &op;
	ScalarCalls &cpu_calls;
	idx_t count = 0;
	//! The input and output of each call
	vector<unique_ptr<vibespatial::ScalarColumn>> columns;
	KeptRows kept;
	CountedMemory memory;
	bool has_room = true;
};

} // namespace duckdb
