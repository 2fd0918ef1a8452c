//===----------------------------------------------------------------------===//
// duckdb/pinned/side.hpp
//
// A pinned table as a side of a join that returns its rows: their columns, and which of them a filter keeps, by the numbers that rows have on
// the device
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/pinned/tables.hpp"
#include "engine/join/session/pinned.hpp"

namespace duckdb {

class PinnedSide {
public:
	//! Why the columns that are needed of the scan's output cannot be had; empty if they can. `keeps`: also those of rows that meet nothing.
	static string WhyNot(const PinnedTable &table, const PinnedScan &scan, const vector<bool> &needed, bool keeps);

	//! `types`: of the scan's output; `needed` none: rows are only counted, and the host needs no points. Copies what is not in host memory
	//! yet. `shapes`: of the table. Throws GpuError, and DuckDB's out-of-memory error.
	PinnedSide(ClientContext &context, PinnedTable &table, vibespatial::GpuPinned &device, const PinnedScan &scan,
	           const vector<LogicalType> &types, const vector<bool> &needed,
	           const std::shared_ptr<const vibespatial::PinnedRows> &rows, shared_ptr<const HostColumn> shapes,
	           const vibespatial::PinnedTerms &filter, vibespatial::Parallel &parallel, vibespatial::GpuTimes &times);

	//! Points of a segment from a chunk's first on, NaN for rows that do not pass; any thread may call it
	void ReadPoints(idx_t segment, idx_t begin, idx_t count, vibe::Vec2 *to) const;
	//! Rows of a segment of shapes, in ascending order; any thread may call it
	void ReadShapes(idx_t segment, const std::vector<size_t> &rows, const vibespatial::PinnedProbe::Visit &visit) const;
	//! Whether there are rows that do not pass
	bool HasFilter() const {
		return only_present || !filter.empty();
	}

private:
	friend class PinnedSideReader;

	//! A column of the scan's output; none of the table's columns: the geometry
	struct Source {
		idx_t column;
		shared_ptr<const HostColumn> from;
	};
	//! Whether the geometries of a segment are shapes
	bool HasShapes(idx_t segment) const {
		return shapes && segment < shapes->segments.size() && shapes->segments[segment];
	}

	const vector<LogicalType> types;
	const vibespatial::PinnedTerms filter;
	const bool only_present;
	vector<Source> sources;
	shared_ptr<const HostColumn> points;
	const shared_ptr<const HostColumn> shapes;
	//! By their number in the table; null where the filter does not read them
	vector<shared_ptr<const HostColumn>> filter_columns;
};

//! Points as WKB; NULL where there is none
void WritePinnedPoints(const vibe::Vec2 *points, idx_t count, Vector &result);

//! Chunks of one thread
class PinnedSideReader {
public:
	PinnedSideReader(ClientContext &context, const PinnedSide &side);

	//! The needed columns of a chunk of a segment, in a chunk of the scan's output; valid until the next call. `is_empty`: nobody reads
	//! them, only their number is asked for.
	DataChunk &Read(idx_t segment, idx_t chunk, idx_t count, bool is_empty);
	//! Which rows of a chunk do not pass
	void FindDropped(idx_t segment, idx_t chunk, idx_t count, bool *dropped) const;

private:
	const PinnedSide &side;
	DataChunk result;
	//! By source; for the geometry, its points, and its shapes beside them
	vector<DataChunk> fetched;
	DataChunk fetched_shapes;
};

} // namespace duckdb
