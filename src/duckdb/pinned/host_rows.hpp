//===----------------------------------------------------------------------===//
// duckdb/pinned/host_rows.hpp
//
// Columns of a pinned table in memory of the host, in the order in which the device has the rows. A join that returns rows finds their values
// here by the numbers that come from the device, and the CPU its points where the device fails: so nothing but pairs has to come back.
// A column is copied when a query needs it first; geometries other than points are kept from the start, since the device does not have
// their WKB. DuckDB counts the memory, and moves it to disk where it is short.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/gpu/interface/pinned.hpp"
#include "engine/overlay/known_polygons.hpp"

namespace duckdb {

//! A column, or the points as two: x and y, NaN for rows without. Chunks of a segment are full but for the last. The points have no
//! segments of shapes, and the shapes none of points.
struct HostColumn {
	vector<unique_ptr<ColumnDataCollection>> segments;

	//! The rows of a chunk of a segment; any thread may call it
	void Fetch(idx_t segment, idx_t chunk, DataChunk &result) const {
		result.Reset();
		segments[segment]->FetchChunk(chunk, result);
	}
	void Initialize(DataChunk &chunk) const {
		chunk.Initialize(Allocator::DefaultAllocator(), types);
	}
	vector<LogicalType> types;
};

//! Those of one table. Any thread may call any of it.
class HostRows {
public:
	//! The types of the columns beside the points
	explicit HostRows(vector<LogicalType> types) : types(std::move(types)) {
	}

	//! Rows that may outlive the connection
	static unique_ptr<ColumnDataCollection> NewRows(ClientContext &context, const vector<LogicalType> &types);
	//! In the place of the number of a column
	static constexpr idx_t POINTS = DConstants::INVALID_INDEX;
	//! These columns, each of which stays as long as somebody has it; copies those that are not here. Throws GpuError, and DuckDB's
	//! out-of-memory error.
	vector<shared_ptr<const HostColumn>> Bring(ClientContext &context, vibespatial::GpuPinned &device,
	                                           const std::shared_ptr<const vibespatial::PinnedRows> &rows,
	                                           const vector<idx_t> &columns, vibespatial::Parallel &parallel,
	                                           vibespatial::GpuTimes &times);
	//! The geometries of a segment of shapes
	void AddShapes(idx_t segment, unique_ptr<ColumnDataCollection> rows);
	//! Those of all such segments; null where there are none, or no more
	shared_ptr<const HostColumn> Shapes();
	//! What overlays have to know of the rows; null where nobody has made it
	shared_ptr<const vibespatial::KnownPolygons> Polygons();
	//! Makes it where nobody has; `wkb`: of all rows, by segment
	shared_ptr<const vibespatial::KnownPolygons>
	MakePolygons(ClientContext &context, const vibespatial::PagesVector<vibespatial::WkbSlice> &wkb,
	             vibespatial::Parallel &parallel);
	//! Lets go of all columns
	void Clear();
	idx_t Bytes();

private:
	void BringSegment(vibespatial::GpuPinned &device, const std::shared_ptr<const vibespatial::PinnedRows> &rows,
	                  idx_t segment, const vector<idx_t> &numbers, const vector<shared_ptr<HostColumn>> &columns,
	                  const std::function<void()> &poll, vibespatial::GpuTimes &times) const;

	unique_lock<mutex> Turn(ClientContext &context);

	const vector<LogicalType> types;
	//! Held by the thread that copies columns, or looks at polygons
	mutex copying;
	mutex lock;
	unordered_map<idx_t, shared_ptr<HostColumn>> brought;
	shared_ptr<HostColumn> shapes;
	shared_ptr<const vibespatial::KnownPolygons> polygons;
};

} // namespace duckdb
