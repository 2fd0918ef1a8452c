#include "duckdb/tables/tables.hpp"

#include "duckdb/common/types/geometry_crs.hpp"
#include "duckdb/parquet/geoparquet.hpp"
#include "duckdb/tables/relation_argument.hpp"

namespace duckdb {

namespace {

//! Parameters that go on to read_parquet
const char *const PASSED_ON[] = {"union_by_name", "filename", "file_row_number", "hive_partitioning"};

string QuotedText(const string &text) {
	return "'" + StringUtil::Replace(text, "'", "''") + "'";
}

//! The column is the same in all files, or there is no one type for it
void RequireSame(const string &function, const string &name, const string &what, const string &path, const string &here,
                 const string &first) {
	if (here != first) {
		throw BinderException("%s: column \"%s\" %s %s in '%s', but %s in another file: read them apart, and unite the "
		                      "rows by UNION ALL",
		                      function, name, what, here.empty() ? "nothing" : here, path,
		                      first.empty() ? "nothing" : first);
	}
}

bool IsNative(const vibespatial::GeoParquetColumn &column) {
	return !column.encoding.empty() && column.encoding != "wkb";
}

//! The short name of a CRS where it has one
string CrsText(ClientContext &context, const vibespatial::GeoParquetColumn &column) {
	if (column.crs != vibespatial::GeoParquetColumn::Crs::GIVEN) {
		return column.crs == vibespatial::GeoParquetColumn::Crs::UNKNOWN ? "" : "OGC:CRS84";
	}
	auto crs = CoordinateReferenceSystem::TryIdentify(context, column.crs_text);
	auto named = crs ? CoordinateReferenceSystem::TryIdentify(context, crs->GetIdentifier()) : nullptr;
	return named && named->Equals(*crs) ? crs->GetIdentifier() : column.crs_text;
}

//! Of two descriptions of one CRS, which may have been written by different versions of PROJ
string CrsName(ClientContext &context, const vibespatial::GeoParquetColumn &column) {
	auto crs = column.crs == vibespatial::GeoParquetColumn::Crs::GIVEN
	               ? CoordinateReferenceSystem::TryIdentify(context, column.crs_text)
	               : nullptr;
	return crs && !crs->GetIdentifier().empty() ? crs->GetIdentifier() : CrsText(context, column);
}

//! vibe_from_native(..) AS column for the columns in a native encoding
string Replacements(ClientContext &context, const string &function, const vector<OpenFileInfo> &paths) {
	vector<shared_ptr<const GeoParquetFile>> files;
	if (!ReadGeoParquetFiles(context, paths, files)) {
		return string(); // read_parquet says what is wrong
	}
	// Of all files, each of which may have only some, and metadata of more than it has
	vector<reference<const vibespatial::GeoParquetColumn>> columns;
	for (idx_t i = 0; i < files.size(); i++) {
		for (auto &column : files[i]->columns) {
			if (IsNative(column) && !files[i]->HasNested(column.name)) {
				continue;
			}
			auto first = std::find_if(columns.begin(), columns.end(), [&](const vibespatial::GeoParquetColumn &other) {
				return other.name == column.name;
			});
			if (first == columns.end()) {
				columns.push_back(column);
				continue;
			}
			RequireSame(function, column.name, "is encoded as", paths[i].path, column.encoding, first->get().encoding);
			if (IsNative(column)) {
				RequireSame(function, column.name, "has the CRS", paths[i].path, CrsName(context, column),
				            CrsName(context, *first));
			}
		}
	}
	string result;
	for (auto &given : columns) {
		auto &column = given.get();
		if (!IsNative(column)) {
			continue;
		}
		auto name = QuotedName(column.name);
		result += (result.empty() ? "" : ", ") + ("vibe_from_native(" + name) + ", " + QuotedText(column.encoding);
		auto crs = CrsText(context, column);
		result += (crs.empty() ? "" : ", " + QuotedText(crs)) + ") AS " + name;
	}
	return result;
}

unique_ptr<TableRef> BindReadGeoParquet(ClientContext &context, TableFunctionBindInput &input) {
	auto &function = FunctionName(input);
	auto paths = NamesOf(function, "path", input.inputs[0]);
	string list;
	for (auto &path : paths) {
		list += (list.empty() ? "[" : ", ") + QuotedText(path);
	}
	list += "]";
	auto replacements = Replacements(context, function, FindParquetFiles(context, input.inputs[0]));
	string parameters;
	for (auto name : PASSED_ON) {
		if (auto value = NamedParameter(input, name)) {
			parameters += string(", ") + name + " := " + value->ToSQLString();
		}
	}
	auto query = "SELECT * " + (replacements.empty() ? "" : "REPLACE (" + replacements + ") ") + "FROM read_parquet(" +
	             list + parameters + ")";
	return ReplaceByQuery(context, function, query);
}

} // namespace

void RegisterReadGeoParquet(ExtensionLoader &loader) {
	TableFunction function("vibe_read_geoparquet", {LogicalType::ANY}, nullptr, nullptr);
	function.bind_replace = BindReadGeoParquet;
	for (auto name : PASSED_ON) {
		AddNamedParameter(function, name,
		                  string(name) == "filename" ? LogicalType(LogicalType::ANY)
		                                             : LogicalType(LogicalType::BOOLEAN));
	}
	RegisterRelationFunction(
	    loader, std::move(function), {"path"},
	    "The rows of GeoParquet files as read_parquet gives them, where columns in a native encoding (point, "
	    "linestring, "
	    "polygon, multi..) are GEOMETRY too. `path` is a file, a pattern or a list of them; union_by_name, filename, "
	    "file_row_number and hive_partitioning are those of read_parquet.",
	    {"count(*) FROM vibe_read_geoparquet('data/cities.parquet')"});
}

} // namespace duckdb
