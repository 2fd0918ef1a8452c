//===----------------------------------------------------------------------===//
// duckdb/scalar_batch/calls.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/scalar_batch/physical.hpp"

namespace duckdb {

//! What one thread computes on the CPU: the arguments of the calls, and the calls of rows that the device does not compute
class ScalarCalls {
public:
	ScalarCalls(ClientContext &context, const PhysicalScalarBatch &op);

	//! The arguments of all calls, one call after the other; valid until the next call of this
	DataChunk &Arguments(DataChunk &input);
	//! Whether the CPU is faster with these rows: all geometries are points, or points are related to a constant, which is prepared
	bool ArePoints(DataChunk &input);
	//! Computes one call for all rows of `input`
	void Execute(idx_t call, DataChunk &input, Vector &result);
	//! Computes all calls, and references the other output columns
	void Execute(DataChunk &input, DataChunk &output);

private:
	const PhysicalScalarBatch &op;
	ExpressionExecutor arguments_executor;
	DataChunk arguments;
	vector<unique_ptr<ExpressionExecutor>> executors;
};

} // namespace duckdb
