//===----------------------------------------------------------------------===//
// duckdb/operators/spatial_build.hpp
//
// The build side of a spatial join, or one partition of it, ready to be probed
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/types/row/tuple_data_collection.hpp"
#include "duckdb/operators/spatial_join_physical.hpp"
#include "duckdb/storage/buffer_manager.hpp"

#include <atomic>

namespace duckdb {

//! Memory that is not DuckDB's own, counted with its manager. Growing throws DuckDB's out-of-memory error.
class CountedMemory {
public:
	explicit CountedMemory(ClientContext &context) : manager(BufferManager::GetBufferManager(context)) {
	}
	~CountedMemory() {
		manager.FreeReservedMemory(size);
	}
	void Resize(idx_t bytes) {
		if (bytes > size) {
			manager.ReserveMemory(bytes - size);
		} else {
			manager.FreeReservedMemory(size - bytes);
		}
		size = bytes;
	}
	idx_t Size() const {
		return size;
	}

private:
	BufferManager &manager;
	idx_t size = 0;
};

class SpatialBuild {
public:
	SpatialBuild(ClientContext &context, const PhysicalSpatialJoin &op, unique_ptr<TupleDataCollection> rows);

	//! Memory for so many rows beside their own
	static idx_t EstimateMemory(idx_t rows);
	//! Pins the rows and indexes them
	void Build(vibespatial::Parallel &parallel, idx_t expected_probes);
	//! Counts memory that grew while probing
	void CountMemory();

	vibespatial::JoinIndex &Index() {
		return *index;
	}
	idx_t Count() const {
		return locations.size();
	}
	idx_t Bytes() const {
		return rows->SizeInBytes();
	}
	const TupleDataCollection &Rows() const {
		return *rows;
	}
	data_ptr_t Location(idx_t row) const {
		return locations[row];
	}
	bool IsMatched(idx_t row) const {
		return matched[row].load(std::memory_order_relaxed) != 0;
	}
	void SetMatched(idx_t row) {
		matched[row].store(1, std::memory_order_relaxed);
	}

	double seconds = 0;
	//! With an aggregate: the group of each row
	vector<uint32_t> groups;

private:
	ClientContext &context;
	const PhysicalSpatialJoin &op;
	unique_ptr<TupleDataCollection> rows;
	vector<data_ptr_t> locations;
	vector<std::atomic<uint8_t>> matched;
	unique_ptr<vibespatial::JoinIndex> index;
	CountedMemory memory;
	mutex memory_lock;
};

//! Some columns of rows of a build side, into chunks
class BuildGather {
public:
	BuildGather(const TupleDataLayout &layout, vector<column_t> columns);

	//! Valid until the next call
	DataChunk &Gather(const SpatialBuild &build, const uint32_t *build_rows, idx_t count);

private:
	vector<column_t> columns;
	Vector locations;
	TupleDataChunkState state;
	DataChunk chunk;
};

} // namespace duckdb
