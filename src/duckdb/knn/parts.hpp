//===----------------------------------------------------------------------===//
// duckdb/knn/parts.hpp
//
// A device searches among a right side that is larger than its memory: part by part, for all rows of the left side, with the nearest of all
// parts so far kept on the host
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/knn/dispatch.hpp"
#include "duckdb/operators/counted_memory.hpp"

#include <atomic>

namespace duckdb {

class KnnParts {
public:
	KnnParts(ClientContext &context, KnnDispatch &dispatch, uint64_t k);

	//! Once, before Find(). Where the device fails or memory is short, nothing is found, and the CPU does all.
	//! `tile_bytes`: of the tiles of one thread.
	void Search(const vibespatial::KnnIndex &index, const ColumnDataCollection &left, idx_t tile_chunks,
	            idx_t tile_bytes, vibespatial::Parallel &parallel);
	//! What the device found for a row of the left side; false where the CPU has to search
	bool Find(idx_t left_row, std::vector<vibespatial::Neighbour> &result) const;
	//! Rows searched for, each once in every part
	idx_t RowsDone() const {
		return rows_done;
	}

private:
	//! Of counts: a row that the CPU has to search for
	static constexpr uint32_t OPEN = NumericLimits<uint32_t>::Maximum();

	//! The rows of the left side that no other thread has taken
	void SearchPart(idx_t first_row, const ColumnDataCollection &left, ColumnDataParallelScanState &scan,
	                idx_t tile_chunks);
	void Add(idx_t left_row, const std::vector<vibespatial::Neighbour> &found, idx_t first_row,
	         std::vector<vibespatial::Neighbour> &merged);
	void Drop();

	KnnDispatch &dispatch;
	CountedMemory memory;
	const uint64_t k;
	const std::function<void()> poll;
	//! How many neighbours a row has so far, and which; row n has the places from n * ranks on
	idx_t ranks = 0;
	vector<uint32_t> counts;
	vibespatial::UninitializedVector<double> distances;
	vibespatial::UninitializedVector<uint32_t> rows;
	std::atomic<idx_t> rows_done {0};
};

} // namespace duckdb
