//===----------------------------------------------------------------------===//
// duckdb/spatial_join/partitions.hpp
//
// A build side that does not fit into memory, and the rows that probe it: both cut by place, and joined part by part
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/types/row/tuple_data_iterator.hpp"
#include "duckdb/spatial_join/build.hpp"
#include "engine/index/partition_grid.hpp"

#include <atomic>

namespace duckdb {

//! Rows, as many collections as there are parts
class PartRows {
public:
	PartRows(ClientContext &context, shared_ptr<TupleDataLayout> layout, idx_t parts);

	//! Appends rows of a chunk: rows[i] to part parts[i]
	void Append(DataChunk &chunk, const vector<uint32_t> &parts, const vector<sel_t> &rows);
	//! Lets go of the blocks that were written
	void Flush();
	void Combine(PartRows &other);
	unique_ptr<TupleDataCollection> &Part(idx_t part) {
		return collections[part];
	}

private:
	vector<unique_ptr<TupleDataCollection>> collections;
	vector<unique_ptr<TupleDataAppendState>> states;
	vector<SelectionVector> selections;
	vector<idx_t> counts;
};

//! Reads a collection chunk by chunk
class RowReader {
public:
	explicit RowReader(const TupleDataLayout &layout);

	//! Valid until the next call
	DataChunk &Fetch(TupleDataCollection &rows, idx_t chunk_index);
	data_ptr_t *Locations() {
		return iterator->GetRowLocations();
	}

private:
	vector<column_t> columns;
	TupleDataChunkState state;
	unique_ptr<TupleDataChunkIterator> iterator;
	DataChunk chunk;
};

//! How both sides are cut
class SpatialPartitions {
public:
	SpatialPartitions(ClientContext &context, const PhysicalSpatialJoin &op, const std::vector<vibe::Box> &sample,
	                  const std::vector<double> &weights, idx_t parts);

	//! Moves all rows of the build side into their parts
	void CutBuild(vibespatial::Parallel &parallel, unique_ptr<TupleDataCollection> rows);
	//! The parts of a chunk of the probe side: appended to `local`, with the numbers of the rows
	void CutProbe(DataChunk &input, const vibespatial::JoinRow *geometries, const double *limits, PartRows &local);

	//! Of a part that has been joined, keeps the rows that are at home there and may have to come out when all parts have been
	void KeepRest(const SpatialBuild &build, uint32_t part);

	//! One of the parts that a row is in: there it is dealt with once more, when what it met is known
	uint32_t HomeOf(const vibe::Box &reach) const {
		return reach.IsEmpty() ? 0 : grid.PartOf(reach.min_x, reach.min_y);
	}
	vibe::Box ProbeReach(const vibespatial::JoinRow &row, const double *limit) const;
	vibe::Box BuildReach(data_ptr_t row) const;

	vibespatial::PartitionGrid grid;
	shared_ptr<TupleDataLayout> probe_layout;
	PartRows build_rows;
	PartRows probe_rows;
	std::atomic<idx_t> probe_count {0};
	mutex lock;

private:
	template <class F>
	void VisitParts(const vibe::Box &reach, bool is_null, F &&use) const;

	ClientContext &context;
	const PhysicalSpatialJoin &op;
};

} // namespace duckdb
