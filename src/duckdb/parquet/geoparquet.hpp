//===----------------------------------------------------------------------===//
// duckdb/parquet/geoparquet.hpp
//
// What GeoParquet files say about themselves, read while a query is planned
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/open_file_info.hpp"
#include "geometry/geoparquet.hpp"

namespace duckdb {

struct GeoParquetFile {
	//! Empty for a file without the metadata
	vector<vibespatial::GeoParquetColumn> columns;

	optional_ptr<const vibespatial::GeoParquetColumn> Find(const string &name) const;
	//! Whether the file has a struct of that name with a field of floats or doubles
	bool HasNumber(const string &column, const string &field) const;
	//! Whether the file has a struct or list of that name
	bool HasNested(const string &column) const {
		return nested.count(column) > 0;
	}

private:
	friend class GeoParquetReader;
	unordered_set<string> numbers;
	unordered_set<string> nested;
};

//! One entry for each of the files, kept by the database for as long as they are not written again. False when that cannot be
//! known at little cost, or at all: then nothing may be concluded. Never throws for what is in the files or how they are
//! reached.
bool ReadGeoParquetFiles(ClientContext &context, const vector<OpenFileInfo> &files,
                         vector<shared_ptr<const GeoParquetFile>> &result);

//! The files that a path, a pattern or a list of them stands for; none when they cannot be listed
vector<OpenFileInfo> FindParquetFiles(ClientContext &context, const Value &paths);

} // namespace duckdb
