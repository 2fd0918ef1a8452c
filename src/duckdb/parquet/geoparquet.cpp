#include "duckdb/parquet/geoparquet.hpp"

#include "duckdb/common/file_system.hpp"
#include "duckdb/common/multi_file/multi_file_reader.hpp"
#include "duckdb/common/types/timestamp.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/connection.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/storage/object_cache.hpp"
#include "geometry/error.hpp"

namespace duckdb {

namespace {

//! Of more files than this the footers are not read while a query is planned
constexpr idx_t MAX_FILES = 1000;

string TextList(const vector<string> &texts) {
	string result;
	for (auto &text : texts) {
		result += (result.empty() ? "['" : ", '") + StringUtil::Replace(text, "'", "''") + "'";
	}
	return result + "]";
}

string NumberKey(const string &column, const string &field) {
	return column + '\0' + field;
}

struct FileStamp {
	timestamp_t modified;
	idx_t size;

	bool operator==(const FileStamp &other) const {
		return modified == other.modified && size == other.size;
	}
};

//! By path, of one database
class GeoParquetCache : public ObjectCacheEntry {
public:
	static string ObjectType() {
		return "vibespatial_geoparquet";
	}
	string GetObjectType() override {
		return ObjectType();
	}
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx();
	}

	shared_ptr<const GeoParquetFile> Get(const string &path, const FileStamp &stamp) {
		lock_guard<mutex> guard(lock);
		auto entry = files.find(path);
		return entry != files.end() && entry->second.first == stamp ? entry->second.second : nullptr;
	}
	void Put(const string &path, const FileStamp &stamp, shared_ptr<const GeoParquetFile> file) {
		//! Some file systems count whole seconds: a file may be written again without a new stamp
		constexpr int64_t SETTLED = 2 * Interval::MICROS_PER_SEC;
		if (Timestamp::GetCurrentTimestamp().value - stamp.modified.value < SETTLED) {
			return;
		}
		lock_guard<mutex> guard(lock);
		if (files.size() >= 10 * MAX_FILES) {
			files.clear();
		}
		files[path] = make_pair(stamp, std::move(file));
	}

private:
	mutex lock;
	unordered_map<string, std::pair<FileStamp, shared_ptr<const GeoParquetFile>>> files;
};

FileStamp ReadStamp(ClientContext &context, const OpenFileInfo &file) {
	auto &system = FileSystem::GetFileSystem(context);
	auto handle = system.OpenFile(file, FileFlags::FILE_FLAGS_READ);
	return FileStamp {system.GetLastModifiedTime(*handle), NumericCast<idx_t>(system.GetFileSize(*handle))};
}

} // namespace

//! Asks DuckDB's own functions about Parquet files
class GeoParquetReader {
public:
	GeoParquetReader(ClientContext &context, const vector<string> &paths)
	    : connection(DatabaseInstance::GetDatabase(context)), list(TextList(paths)) {
		for (auto &path : paths) {
			files.emplace(path, GeoParquetFile());
		}
	}

	bool Read() {
		return ReadMetadata() && ReadSchemas();
	}

	unordered_map<string, GeoParquetFile> files;

private:
	template <class F>
	bool ForRows(const string &query, const F &row) {
		auto result = connection.Query(query);
		if (result->HasError()) {
			return false;
		}
		for (auto &chunk : result->Collection().Chunks()) {
			for (idx_t i = 0; i < chunk.size(); i++) {
				auto file = files.find(chunk.GetValue(0, i).ToString());
				if (file == files.end()) {
					return false;
				}
				row(file->second, chunk, i);
			}
		}
		return true;
	}

	bool ReadMetadata() {
		return ForRows("SELECT file_name, value FROM parquet_kv_metadata(" + list + ") WHERE key = 'geo'::BLOB",
		               [](GeoParquetFile &file, DataChunk &chunk, idx_t row) {
			               auto value = chunk.GetValue(1, row);
			               if (!value.IsNull()) {
				               auto &text = StringValue::Get(value);
				               file.columns = vibespatial::ReadGeoParquet(text.data(), text.size());
			               }
		               });
	}

	//! The schema is a tree in preorder
	bool ReadSchemas() {
		optional_ptr<GeoParquetFile> of;
		vector<int64_t> left; // children to come, of each node that is open
		string column;
		return ForRows("SELECT file_name, name, type, coalesce(num_children, 0)::BIGINT FROM parquet_schema(" + list +
		                   ") ORDER BY file_name, column_id",
		               [&](GeoParquetFile &file, DataChunk &chunk, idx_t row) {
			               if (of.get() != &file) {
				               of = &file;
				               left.clear();
			               }
			               auto name = chunk.GetValue(1, row).ToString();
			               auto type = chunk.GetValue(2, row);
			               auto children = BigIntValue::Get(chunk.GetValue(3, row));
			               if (left.size() == 1) {
				               column = name;
				               if (children > 0) {
					               file.nested.insert(name);
				               }
			               } else if (left.size() == 2 && children == 0 && !type.IsNull() &&
			                          (StringValue::Get(type) == "FLOAT" || StringValue::Get(type) == "DOUBLE")) {
				               file.numbers.insert(NumberKey(column, name));
			               }
			               if (!left.empty()) {
				               left.back()--;
			               }
			               left.push_back(children);
			               while (!left.empty() && left.back() <= 0) {
				               left.pop_back();
			               }
		               });
	}

	Connection connection;
	string list;
};

optional_ptr<const vibespatial::GeoParquetColumn> GeoParquetFile::Find(const string &name) const {
	for (auto &column : columns) {
		if (column.name == name) {
			return &column;
		}
	}
	return nullptr;
}

bool GeoParquetFile::HasNumber(const string &column, const string &field) const {
	return numbers.count(NumberKey(column, field));
}

bool ReadGeoParquetFiles(ClientContext &context, const vector<OpenFileInfo> &files,
                         vector<shared_ptr<const GeoParquetFile>> &result) {
	if (files.empty() || files.size() > MAX_FILES) {
		return false;
	}
	try {
		auto cache = ObjectCache::GetObjectCache(context).GetOrCreate<GeoParquetCache>(GeoParquetCache::ObjectType());
		result.assign(files.size(), nullptr);
		vector<FileStamp> stamps;
		vector<string> missing;
		for (idx_t i = 0; i < files.size(); i++) {
			stamps.push_back(ReadStamp(context, files[i]));
			result[i] = cache->Get(files[i].path, stamps[i]);
			if (!result[i]) {
				missing.push_back(files[i].path);
			}
		}
		if (missing.empty()) {
			return true;
		}
		GeoParquetReader reader(context, missing);
		if (!reader.Read()) {
			return false;
		}
		for (idx_t i = 0; i < files.size(); i++) {
			if (!result[i]) {
				result[i] = make_shared_ptr<GeoParquetFile>(reader.files.at(files[i].path));
				cache->Put(files[i].path, stamps[i], result[i]);
			}
		}
		return true;
	} catch (const InterruptException &) {
		throw;
	} catch (const std::exception &) {
		return false; // the scan itself tells what is wrong with a file
	}
}

vector<OpenFileInfo> FindParquetFiles(ClientContext &context, const Value &paths) {
	try {
		return MultiFileReader::CreateDefault("read_parquet")->CreateFileList(context, paths)->GetAllFiles();
	} catch (const InterruptException &) {
		throw;
	} catch (const std::exception &) {
		return {}; // the scan itself tells what is wrong
	}
}

} // namespace duckdb
