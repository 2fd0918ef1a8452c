//===----------------------------------------------------------------------===//
// duckdb/pinned/polygons.hpp
//
// A pinned table whose geometries a query unites. Its rows come from memory instead of a scan, each with its number in the place of its
// geometry: so an aggregate keeps four bytes for each, and a union finds the rings of the row on the device.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/pinned/side.hpp"
#include "engine/common/pages_vector.hpp"
#include "engine/overlay/known_polygons.hpp"

namespace duckdb {

class PinnedPolygons {
public:
	//! What is known when the query is planned
	struct Plan {
		PinnedScan scan;
		//! Of the scan's output: the types of all columns, those that are read beside the geometry, and the geometry
		vector<LogicalType> types;
		vector<bool> needed;
		idx_t geometry;
		//! An estimate of its rows
		idx_t expected_rows;
	};

	//! Looks for the table when its first rows have come. Never null: where it has no rows, the note says why the table has to be
	//! scanned. They stay until the end of the query.
	static shared_ptr<PinnedPolygons> Find(ClientContext &context, const Plan &plan, vibespatial::Parallel &parallel);

	bool HasRows() const {
		return rows != nullptr;
	}
	const string &Note() const {
		return note;
	}
	//! At the end of the query
	void Release();

	//! The number of a row in the place of its geometry
	static constexpr idx_t NUMBER_BYTES = sizeof(uint32_t);
	static uint32_t NumberOf(vibespatial::WkbSlice geometry) {
		uint32_t number;
		memcpy(&number, geometry.data, sizeof(number));
		return number;
	}
	vibespatial::WkbSlice Wkb(uint32_t number) const {
		return wkb[number];
	}
	vibespatial::KnownRows Rows() const {
		return vibespatial::KnownRows {known.get(), wkb.data()};
	}
	//! The query is going to unite so many of their vertices
	void Expect(idx_t vertices) const {
		expected += vertices;
	}
	//! The rings of all rows; null where the device does not have them, and the query unites too few for them to be worth sending. Throws
	//! GpuError.
	std::shared_ptr<const vibespatial::GpuRings> Rings(vibespatial::Parallel &parallel,
	                                                   vibespatial::GpuTimes &times) const;

private:
	friend class PinnedPolygonsReader;

	//! A segment's WKB in memory that DuckDB does not move meanwhile
	struct HeldSegment {
		vector<BufferHandle> blocks;
		//! Of values that lie in the vectors themselves
		vector<unique_ptr<vector<uint8_t>>> small;
	};

	explicit PinnedPolygons(const Plan &plan) : plan(plan) {
	}
	//! Why the table has to be scanned; empty once it has rows
	string WhyNot(ClientContext &context, vibespatial::Parallel &parallel);
	string Bring(ClientContext &context, vibespatial::Parallel &parallel);
	//! Which rows pass the filter
	void Filter();
	//! Whether a query reads the rows of a chunk
	bool IsRead(idx_t segment, idx_t chunk) const;
	//! `all`: also of rows that do not pass
	void Hold(const HostColumn &shapes, idx_t segment, bool all);
	bool Passes(idx_t number) const {
		return (passing.empty() || passing[number] != 0) && (wkb[number].data || !plan.scan.only_present);
	}

	const Plan &plan;
	shared_ptr<PinnedTable> table;
	std::shared_ptr<vibespatial::GpuPinned> device;
	std::shared_ptr<const vibespatial::PinnedRows> rows;
	vibespatial::PinnedTerms filter;
	string note;
	unique_ptr<PinnedSide> side;
	//! The number of the first row of each segment
	vector<idx_t> first;
	//! By number: whether it passes the filter; empty where all do
	vibespatial::PagesVector<uint8_t> passing;
	//! By number, where the query reads it
	vibespatial::PagesVector<vibespatial::WkbSlice> wkb;
	vector<HeldSegment> held;
	shared_ptr<const vibespatial::KnownPolygons> known;
	mutable std::atomic<idx_t> expected {0};
	//! Segments and chunks of them that have rows that pass, in the order in which they are handed out
	vector<std::pair<idx_t, idx_t>> pieces;
	std::atomic<idx_t> next_piece {0};
};

//! Rows in chunks, for one thread of many
class PinnedPolygonsReader {
public:
	PinnedPolygonsReader(ClientContext &context, PinnedPolygons &polygons);

	//! The next rows that pass the filter; false where there are none left
	bool Next(DataChunk &chunk);

private:
	PinnedPolygons &polygons;
	PinnedSideReader values;
	//! Of the rows that pass
	SelectionVector passing;
};

//! Where the unions of a plan find the rows of the query that runs
class PinnedUnion {
public:
	void Set(shared_ptr<PinnedPolygons> polygons_p) {
		lock_guard<mutex> guard(lock);
		polygons = std::move(polygons_p);
	}
	//! Null before its first rows have come
	shared_ptr<PinnedPolygons> Get() {
		lock_guard<mutex> guard(lock);
		return polygons;
	}

private:
	mutex lock;
	shared_ptr<PinnedPolygons> polygons;
};

} // namespace duckdb
