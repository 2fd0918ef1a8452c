//===----------------------------------------------------------------------===//
// duckdb/operators/kept_rows.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"

namespace duckdb {

//! Rows that wait for what a device finds out about them: the columns that are needed then, a standard chunk at a time
class KeptRows {
public:
	KeptRows(ClientContext &context, const vector<bool> &columns) : context(context), columns(columns) {
	}

	//! Rows [begin, begin + size) of a chunk are the rows from `at` on
	void Add(DataChunk &input, idx_t begin, idx_t size, idx_t at);
	DataChunk &Chunk(idx_t number) {
		return *chunks[number];
	}
	//! Of memory: vectors, and the strings in them
	idx_t Bytes() const {
		return vector_bytes + string_bytes;
	}
	//! Keeps the memory of the vectors
	void Clear();

private:
	void CountStrings(Vector &column, idx_t begin, idx_t end);

	ClientContext &context;
	const vector<bool> &columns;
	vector<unique_ptr<DataChunk>> chunks;
	idx_t vector_bytes = 0;
	idx_t string_bytes = 0;
};

} // namespace duckdb
