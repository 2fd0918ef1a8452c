//===----------------------------------------------------------------------===//
// duckdb/knn/left_tile.hpp
//
// Some chunks of the left side of a search for neighbours, whose rows a device may search for together
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/knn/dispatch.hpp"

namespace duckdb {

//! A chunk of the left side: the geometry, then the columns that come out
class LeftChunk {
public:
	explicit LeftChunk(const ColumnDataCollection &rows) {
		rows.InitializeScanChunk(chunk);
	}

	bool Fetch(const ColumnDataCollection &rows, ColumnDataParallelScanState &next);
	vibespatial::JoinRow GeometryOf(idx_t row) const;
	idx_t FirstRow() const {
		return scan.current_row_index;
	}

	DataChunk chunk;
	//! Where a device searches: the numbers of the rows among what it searches for, NONE for the CPU's
	vector<uint32_t> queries;
	static constexpr uint32_t NONE = NumericLimits<uint32_t>::Maximum();

private:
	ColumnDataLocalScanState scan;
	UnifiedVectorFormat geometries;
};

//! Of one thread, which has two: a device works on one of them while the rows of the other come out
class LeftTile {
public:
	//! Of the geometries of a tile; one chunk may have more
	static constexpr idx_t MOST_BYTES = idx_t(8) << 20;

	//! The first rows of the left side
	static std::vector<vibespatial::JoinRow> FirstRows(const ColumnDataCollection &rows, unique_ptr<LeftChunk> &first);

	//! The next chunks: at most so many, and fewer where their geometries are large. Starts the device's search.
	void Load(const ColumnDataCollection &rows, ColumnDataParallelScanState &next, idx_t most, KnnDispatch &dispatch);
	//! Waits for the device. The CPU searches for the rows that it failed for.
	void Finish(KnnDispatch &dispatch);
	void Clear() {
		size = 0;
	}
	idx_t Size() const {
		return size;
	}
	idx_t RowCount() const;
	const LeftChunk &Chunk(idx_t number) const {
		return *chunks[number];
	}
	LeftChunk &Chunk(idx_t number) {
		return *chunks[number];
	}
	//! What the device found for a row; false where the CPU has to search
	bool Neighbours(const LeftChunk &chunk, idx_t row, std::vector<vibespatial::Neighbour> &result) const;
	//! What Neighbours() reads, by LeftChunk::queries
	const vibespatial::GpuNeighbours &Found() const {
		return *found;
	}

private:
	//! Both return how many there are to search for
	bool AddPoints(bool takes_shapes, size_t &count);
	size_t AddShapes();
	void LeaveToCpu();

	vector<unique_ptr<LeftChunk>> chunks;
	idx_t size = 0;
	std::unique_ptr<vibespatial::GpuSearch> search;
	vibespatial::ShapeRows shapes;
	KnnDispatch::TimePoint begun;
	bool is_begun = false;
	const vibespatial::GpuNeighbours *found = nullptr;
};

} // namespace duckdb
