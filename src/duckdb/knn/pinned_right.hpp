//===----------------------------------------------------------------------===//
// duckdb/knn/pinned_right.hpp
//
// The right side of a search for neighbours, where it is a table whose points are pinned: the device searches among the rows that it has,
// and sends the values of those that it finds. The table is not scanned.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/knn/physical.hpp"
#include "duckdb/operators/counted_memory.hpp"
#include "duckdb/pinned/side.hpp"
#include "engine/gpu/interface/neighbours.hpp"
#include "engine/join/knn.hpp"

namespace duckdb {

class PinnedRight : public RowsElsewhere {
public:
	//! What is known when the query is planned
	struct Plan {
		PinnedScan scan;
		//! Of the scan's output: those that come out, and the types of all
		vector<idx_t> columns;
		vector<LogicalType> types;
		KnnRequest request;
		//! An estimate
		idx_t left_rows;
	};

	//! Looks for the table when the rows are about to be collected. Never null in modes that may use it: where it has no rows, the notes
	//! say why the table has to be scanned.
	static shared_ptr<PinnedRight> Find(ClientContext &context, const Plan &plan);
	//! For EXPLAIN: the table's name, where it is pinned now; else empty
	static string Describe(ClientContext &context, const Plan &plan);

	bool HasRows() const override {
		return rows != nullptr;
	}
	//! At the end of a query lets go of the rows: the plan of a prepared statement keeps what its last execution has found
	void Release();
	const string &Note() const {
		return note;
	}
	idx_t RowCount() const {
		return table->rows;
	}
	//! Bytes of the columns of one neighbour
	idx_t ColumnBytes() const;
	//! Throws GpuError
	std::unique_ptr<vibespatial::GpuSearch> NewSearch(uint32_t k, double most) const;
	void CountHit() const {
		table->hits++;
	}

	//! The points on the host, for rows of the left side that the device does not take. Made by whoever needs it first, in the order of
	//! the table. Throws GpuError where the device has failed, and its rows with it.
	struct HostPoints {
		explicit HostPoints(ClientContext &context) : memory(context) {
		}
		CountedMemory memory;
		unique_ptr<PinnedSide> side;
		unique_ptr<vibespatial::KnnIndex> index;
		//! By row of the index: as the device numbers the rows
		vector<uint32_t> numbers;
	};
	const HostPoints &Host(ClientContext &context);

private:
	friend class PinnedValues;

	explicit PinnedRight(const Plan &plan) : plan(plan) {
	}
	//! Why the table has to be scanned
	string WhyNot(ClientContext &context);
	//! The number of a column that comes out, or PinnedSearchInput::POINTS
	uint32_t NumberOf(idx_t column) const;

	const Plan &plan;
	shared_ptr<PinnedTable> table;
	std::shared_ptr<vibespatial::GpuPinned> device;
	std::shared_ptr<const vibespatial::PinnedRows> rows;
	vibespatial::PinnedTerms filter;
	vibespatial::PinnedNumbers numbers;
	string note;
	mutex host_lock;
	unique_ptr<HostPoints> host;
};

//! The columns of neighbours, for a chunk that comes out; of one thread
class PinnedValues {
public:
	explicit PinnedValues(const PinnedRight &right);

	void Clear();
	//! The next row of the chunk: neighbour n of a row that the device searched for
	void AddFound(const vibespatial::GpuNeighbours &found, idx_t row, idx_t n);
	//! One that was found on the host
	void AddOnHost(uint32_t number);
	void AddNone();
	//! Into the columns from `first` on
	void Write(ClientContext &context, DataChunk &result, idx_t first);

private:
	struct Column {
		uint32_t number;
		idx_t width;
		vector<uint8_t> values;
		vector<uint8_t> nulls;
		vector<vibe::Vec2> points;
	};
	void AddEmpty();

	const PinnedRight &right;
	vector<Column> columns;
	idx_t count = 0;
	//! Rows of the chunk whose values are on the host, and their numbers
	vector<std::pair<idx_t, uint32_t>> on_host;
	unique_ptr<PinnedSideReader> reader;
};

} // namespace duckdb
