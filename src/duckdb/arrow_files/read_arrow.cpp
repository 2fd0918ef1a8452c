#include "duckdb/arrow_files/arrow_files.hpp"

#include "duckdb/support/compat.hpp"
#include "duckdb/support/register_once.hpp"
#include "duckdb/common/types/decimal.hpp"
#include "duckdb/common/multi_file/multi_file_reader.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"
#include "duckdb/storage/buffer_manager.hpp"

namespace duckdb {

namespace {

using vibespatial::ArrowFile;
using vibespatial::ArrowFiles;
using vibespatial::ArrowInput;
using vibespatial::ArrowLayout;
using vibespatial::ArrowReader;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//
//! What DuckDB's file systems read: remote files, and whatever else cannot be mapped
class HandleBytes final : public vibespatial::ArrowBytes {
public:
	explicit HandleBytes(unique_ptr<FileHandle> handle_p)
	    : handle(std::move(handle_p)), size(NumericCast<int64_t>(handle->GetFileSize())) {
	}
	int64_t Size() const override {
		return size;
	}
	bool Read(int64_t position, int64_t count, void *target, std::string &error) override {
		try {
			// Not every handle can be read by several threads
			lock_guard<mutex> guard(lock);
			handle->Read(target, NumericCast<idx_t>(count), NumericCast<idx_t>(position));
			return true;
		} catch (const std::exception &thrown) {
			error = ErrorData(thrown).RawMessage();
		}
		return false;
	}

private:
	mutex lock;
	unique_ptr<FileHandle> handle;
	int64_t size;
};

[[noreturn]] void ThrowFileError(const string &path, const string &error) {
	throw IOException("vibe_read_arrow, file '%s': %s", path, error);
}

std::shared_ptr<const ArrowFile> OpenFile(ClientContext &context, const ArrowFiles &files, const OpenFileInfo &info) {
	auto &fs = FileSystem::GetFileSystem(context);
	// Also where it is mapped: this is what asks for permission
	auto handle = fs.OpenFile(info, FileFlags::FILE_FLAGS_READ);
	ArrowInput input;
	input.name = info.path;
	input.memory_limit = NumericCast<int64_t>(
	    MinValue<idx_t>(BufferManager::GetBufferManager(context).GetMaxMemory(), NumericLimits<int64_t>::Maximum()));
	const bool is_regular = handle->GetType() == FileType::FILE_TYPE_REGULAR;
	if (handle->OnDiskFile() && !is_regular) {
		ThrowFileError(info.path, "a pipe or device cannot be read, only a file");
	}
	auto path = handle->GetPath();
	if (handle->OnDiskFile() && !StringUtil::StartsWith(path, "file:")) {
		input.map_path = std::move(path);
	} else {
		input.bytes = std::make_shared<HandleBytes>(std::move(handle));
	}
	string error;
	auto file = files.Open(input, error);
	if (!file) {
		ThrowFileError(info.path, error);
	}
	return file;
}

//===----------------------------------------------------------------------===//
// Bind
//===----------------------------------------------------------------------===//
struct ReadArrowData : public TableFunctionData {
	explicit ReadArrowData(const ArrowFiles &files_p) : files(files_p) {
	}

	const ArrowFiles &files;
	vector<OpenFileInfo> paths;
	std::shared_ptr<const ArrowLayout> layout;
	ArrowSchemaWrapper schema;
	ArrowTableSchema table;
	vector<LogicalType> types;
	//! The column that holds the file's name
	optional_idx filename_column;
	//! Of all files, from the rows of those that were opened; none where that is not known
	optional_idx estimated_rows;
};

//! What DuckDB's own reading of a schema takes for granted
void CheckSchema(const ArrowSchema &schema, const string &path) {
	auto name = schema.name ? schema.name : "";
	if (!Value::StringIsValid(name, strlen(name))) {
		ThrowFileError(path, "the name of a column is not UTF-8");
	}
	int width, scale;
	if (sscanf(schema.format, "d:%d,%d", &width, &scale) == 2 &&
	    (width < 1 || width > Decimal::MAX_WIDTH_DECIMAL || scale < 0 || scale > width)) {
		ThrowFileError(path,
		               StringUtil::Format("column %s is a decimal of %d digits with %d of them after the point; DuckDB "
		                                  "has 1 to 38 digits, and at most all of them after it",
		                                  name, width, scale));
	}
	int size;
	if (sscanf(schema.format, "w:%d", &size) == 1 && size < 0) {
		ThrowFileError(path, StringUtil::Format("column %s has values of %d bytes", name, size));
	}
	if (sscanf(schema.format, "+w:%d", &size) == 1 && (size < 1 || size > int(ArrayType::MAX_ARRAY_SIZE))) {
		ThrowFileError(path, StringUtil::Format("column %s has lists of %d values each; DuckDB has arrays of 1 to %d",
		                                        name, size, int(ArrayType::MAX_ARRAY_SIZE)));
	}
	for (int64_t i = 0; i < schema.n_children; i++) {
		CheckSchema(*schema.children[i], path);
	}
	if (schema.dictionary) {
		CheckSchema(*schema.dictionary, path);
	}
}

unique_ptr<FunctionData> BindReadArrow(ClientContext &context, TableFunctionBindInput &input,
                                       vector<LogicalType> &return_types, vector<Identifier> &names) {
	if (input.inputs[0].IsNull()) {
		throw BinderException("vibe_read_arrow: the name of a file is wanted, not NULL");
	}
	auto file_reader = MultiFileReader::CreateDefault("vibe_read_arrow");
	auto paths = file_reader->CreateFileList(context, input.inputs[0])->GetAllFiles();

	bool by_name = false;
	string filename_name;
	for (auto &parameter : input.named_parameters) {
		auto &value = parameter.second;
		if (value.IsNull()) {
			throw BinderException("vibe_read_arrow: %s cannot be NULL", NameOf(parameter.first));
		}
		if (StringUtil::CIEquals(NameOf(parameter.first), "union_by_name")) {
			by_name = BooleanValue::Get(value);
		} else if (StringUtil::CIEquals(NameOf(parameter.first), "filename")) {
			// A flag, or the name of the column
			auto text = value.ToString();
			filename_name = StringUtil::CIEquals(text, "true")    ? "filename"
			                : StringUtil::CIEquals(text, "false") ? ""
			                                                      : text;
		}
	}

	// The file's own errors come first: no library is opened for a file that is not there
	auto &fs = FileSystem::GetFileSystem(context);
	fs.OpenFile(paths[0], FileFlags::FILE_FLAGS_READ);
	auto result = make_uniq<ReadArrowData>(GetArrowFiles(context));
	result->paths = std::move(paths);

	vector<std::shared_ptr<const ArrowFile>> opened;
	idx_t rows = 0;
	bool rows_are_known = true;
	for (auto &path : result->paths) {
		auto file = OpenFile(context, result->files, path);
		int64_t of_file = 0;
		string error;
		if (file->IsStream()) {
			rows_are_known = false;
		} else if (!file->CountRows(of_file, error)) {
			ThrowFileError(path.path, error);
		}
		rows += NumericCast<idx_t>(of_file);
		opened.push_back(std::move(file));
		if (!by_name) {
			break;
		}
	}
	if (rows_are_known) {
		result->estimated_rows = rows / opened.size() * result->paths.size();
	}
	string error;
	result->layout = result->files.Layout(opened, by_name, error);
	if (!result->layout || !result->layout->Schema(result->schema.arrow_schema, error)) {
		ThrowFileError(result->paths[0].path, error);
	}
	CheckSchema(result->schema.arrow_schema, result->paths[0].path);
	ArrowTableFunction::PopulateArrowTableSchema(context, result->table, result->schema.arrow_schema);
	for (auto &name : result->table.GetNames()) {
		names.emplace_back(name);
	}
	return_types = result->table.GetTypes();
	if (return_types.empty()) {
		ThrowFileError(result->paths[0].path, "it has no columns");
	}
	result->types = return_types;
	if (!filename_name.empty()) {
		for (auto &name : names) {
			if (StringUtil::CIEquals(NameOf(name), filename_name)) {
				throw BinderException("vibe_read_arrow: the files have a column \"%s\" already; filename := 'other "
				                      "name' gives the name of the file another one",
				                      filename_name);
			}
		}
		result->filename_column = names.size();
		names.emplace_back(filename_name);
		return_types.emplace_back(LogicalType::VARCHAR);
	}
	return std::move(result);
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//
//! As many rows as DuckDB's own row groups have are worth a thread
constexpr int64_t ROWS_OF_PART = 122880;
constexpr int64_t MOST_PARTS = 1024;

//! What a thread scans next
struct ArrowWork {
	//! A batch of a file, or a part of it, read by the thread itself
	std::shared_ptr<const ArrowFile> file;
	int64_t batch = 0;
	int64_t part = 0;
	int64_t parts = 1;
	//! The file of this work
	idx_t file_index = 0;
	//! Rows without columns
	idx_t rows = 0;
	//! The order of rows
	idx_t batch_index = 0;
};

struct ReadArrowGlobal : public GlobalTableFunctionState {
	//! What an output column is made from: a column of the scan, the file's name, or nothing
	static constexpr idx_t FILENAME = DConstants::INVALID_INDEX - 1;
	static constexpr idx_t NOTHING = DConstants::INVALID_INDEX - 2;

	idx_t MaxThreads() const override {
		return max_threads;
	}

	//! Of the layout, in the order of the scan
	std::vector<int> columns;
	vector<column_t> column_ids;
	vector<LogicalType> types;
	//! For each output column its source
	vector<idx_t> sources;
	idx_t max_threads = 1;

	mutex lock;
	idx_t next_file = 0;
	//! The file whose batches are handed out, and its reader if it is a stream
	std::shared_ptr<const ArrowFile> file;
	std::unique_ptr<ArrowReader> stream;
	int64_t next_batch = 0;
	//! Large batches are cut, so that no thread is left without work
	int64_t next_part = 0;
	int64_t parts = 1;
	idx_t batch_index = 0;
	//! Of all files, for the progress bar
	atomic<double> done {0};
};

struct ReadArrowLocal : public LocalTableFunctionState {
	explicit ReadArrowLocal(ClientContext &context) : scan(make_uniq<ArrowArrayWrapper>(), context) {
	}

	ArrowScanLocalState scan;
	ArrowWork work;
	//! Of the file of the last batch
	std::shared_ptr<const ArrowFile> reader_file;
	std::unique_ptr<ArrowReader> reader;
	idx_t rows = 0;
	idx_t offset = 0;
	DataChunk chunk;
};

std::unique_ptr<ArrowReader> MakeReader(const ReadArrowData &data, const ReadArrowGlobal &global,
                                        const std::shared_ptr<const ArrowFile> &file, idx_t file_index) {
	string error;
	auto reader = data.layout->MakeReader(file, global.columns, error);
	if (!reader) {
		ThrowFileError(data.paths[file_index].path, error);
	}
	return reader;
}

//! Into how many parts the batches of a file are cut
int64_t CountParts(const ArrowFile &file, const string &path) {
	if (file.IsStream() || file.BatchCount() == 0) {
		return 1;
	}
	int64_t rows = 0;
	string error;
	if (!file.CountRows(rows, error)) {
		ThrowFileError(path, error);
	}
	return MinValue(MOST_PARTS, 1 + rows / file.BatchCount() / ROWS_OF_PART);
}

//! Opens the next file where none is open; false after the last
bool NextFile(ClientContext &context, const ReadArrowData &data, ReadArrowGlobal &global) {
	if (global.file) {
		return true;
	}
	if (global.next_file >= data.paths.size()) {
		return false;
	}
	auto index = global.next_file++;
	auto file = OpenFile(context, data.files, data.paths[index]);
	if (file->IsStream()) {
		global.stream = MakeReader(data, global, file, index);
	} else {
		// Says that a file is another one than the first before rows are made from it
		MakeReader(data, global, file, index);
	}
	global.parts = global.columns.empty() ? 1 : CountParts(*file, data.paths[index].path);
	global.file = std::move(file);
	global.next_batch = 0;
	global.next_part = 0;
	return true;
}

//! Hands out work in the order of rows; a batch of a stream is read here
bool NextWork(ClientContext &context, const ReadArrowData &data, ReadArrowGlobal &global, ReadArrowLocal &local) {
	lock_guard<mutex> guard(global.lock);
	const auto finish_file = [&] {
		global.file.reset();
		global.stream.reset();
		global.done = double(global.next_file) / double(data.paths.size());
	};
	while (NextFile(context, data, global)) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		auto &work = local.work;
		work = ArrowWork();
		work.file_index = global.next_file - 1;
		double part = 0;
		if (global.stream) {
			auto array = make_shared_ptr<ArrowArrayWrapper>();
			bool is_end = false;
			string error;
			if (!global.stream->Next(array->arrow_array, is_end, error)) {
				ThrowFileError(data.paths[work.file_index].path, error);
			}
			if (is_end) {
				finish_file();
				continue;
			}
			if (array->arrow_array.length == 0) {
				continue;
			}
			work.rows = NumericCast<idx_t>(array->arrow_array.length);
			local.scan.chunk = std::move(array);
			part = double(global.stream->Position()) / double(global.file->ByteCount());
		} else if (global.columns.empty()) {
			int64_t rows = 0;
			string error;
			if (!global.file->CountRows(rows, error)) {
				ThrowFileError(data.paths[work.file_index].path, error);
			}
			finish_file();
			if (rows == 0) {
				continue;
			}
			work.rows = NumericCast<idx_t>(rows);
		} else {
			if (global.next_batch >= global.file->BatchCount()) {
				finish_file();
				continue;
			}
			work.file = global.file;
			work.batch = global.next_batch;
			work.part = global.next_part;
			work.parts = global.parts;
			if (++global.next_part == global.parts) {
				global.next_batch++;
				global.next_part = 0;
			}
			part = double(global.next_batch) / double(global.file->BatchCount());
		}
		work.batch_index = global.batch_index++;
		global.done = (double(work.file_index) + part) / double(data.paths.size());
		return true;
	}
	return false;
}

//! Makes rows of the thread's next work ready; false where there is none
bool NextRows(ClientContext &context, const ReadArrowData &data, ReadArrowGlobal &global, ReadArrowLocal &local) {
	do {
		if (!NextWork(context, data, global, local)) {
			return false;
		}
		// A dictionary is known by its address, which the next one may have as well
		local.scan.array_states.clear();
		local.scan.Reset();
		local.rows = local.work.rows;
		local.offset = 0;
		if (local.work.file) {
			if (local.reader_file != local.work.file) {
				local.reader = MakeReader(data, global, local.work.file, local.work.file_index);
				local.reader_file = local.work.file;
			}
			auto array = make_shared_ptr<ArrowArrayWrapper>();
			string error;
			if (!local.reader->Read(local.work.batch, local.work.part, local.work.parts, array->arrow_array, error)) {
				ThrowFileError(data.paths[local.work.file_index].path, error);
			}
			local.rows = NumericCast<idx_t>(array->arrow_array.length);
			local.scan.chunk = std::move(array);
			local.work.file.reset();
		}
	} while (local.rows == 0);
	return true;
}

unique_ptr<GlobalTableFunctionState> InitReadArrow(ClientContext &context, TableFunctionInitInput &input) {
	auto &data = input.bind_data->Cast<ReadArrowData>();
	auto result = make_uniq<ReadArrowGlobal>();
	for (auto column : input.column_ids) {
		if (IsVirtualColumn(column)) {
			result->sources.push_back(ReadArrowGlobal::NOTHING);
		} else if (data.filename_column.IsValid() && column == data.filename_column.GetIndex()) {
			result->sources.push_back(ReadArrowGlobal::FILENAME);
		} else {
			data.table.GetColumns().at(column)->ThrowIfInvalid();
			result->sources.push_back(result->columns.size());
			result->columns.push_back(NumericCast<int>(column));
			result->column_ids.push_back(column);
			result->types.push_back(data.types[column]);
		}
	}
	lock_guard<mutex> guard(result->lock);
	result->max_threads = 1;
	if (data.paths.size() > 1) {
		result->max_threads = context.db->NumberOfThreads();
	} else if (NextFile(context, data, *result)) {
		result->max_threads = result->stream ? context.db->NumberOfThreads()
		                      : result->columns.empty()
		                          ? 1
		                          : NumericCast<idx_t>(result->file->BatchCount() * result->parts);
		result->max_threads = MaxValue<idx_t>(1, result->max_threads);
	}
	return std::move(result);
}

unique_ptr<LocalTableFunctionState> InitReadArrowLocal(ExecutionContext &context, TableFunctionInitInput &,
                                                       GlobalTableFunctionState *global_state) {
	auto &global = global_state->Cast<ReadArrowGlobal>();
	auto result = make_uniq<ReadArrowLocal>(context.client);
	result->scan.column_ids = global.column_ids;
	if (!global.types.empty()) {
		result->chunk.Initialize(context.client, global.types);
	}
	return std::move(result);
}

void ReadArrow(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &data = input.bind_data->Cast<ReadArrowData>();
	auto &global = input.global_state->Cast<ReadArrowGlobal>();
	auto &local = input.local_state->Cast<ReadArrowLocal>();
	if (local.offset >= local.rows && !NextRows(context, data, global, local)) {
		SetRowCount(output, 0);
		return;
	}
	const auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, local.rows - local.offset);
	if (!global.types.empty()) {
		local.chunk.Reset();
		SetRowCount(local.chunk, count);
		local.scan.chunk_offset = local.offset;
		ArrowTableFunction::ArrowToDuckDB(local.scan, data.table.GetColumns(), local.chunk);
	}
	for (idx_t i = 0; i < global.sources.size(); i++) {
		if (global.sources[i] == ReadArrowGlobal::FILENAME) {
			ReferenceValue(output.data[i], Value(data.paths[local.work.file_index].path), count);
		} else if (global.sources[i] == ReadArrowGlobal::NOTHING) {
			ReferenceValue(output.data[i], Value(output.data[i].GetType()), count);
		} else {
			output.data[i].Reference(local.chunk.data[global.sources[i]]);
		}
	}
	SetRowCount(output, count);
	local.offset += count;
}

//===----------------------------------------------------------------------===//
// What the planner and EXPLAIN ask
//===----------------------------------------------------------------------===//
unique_ptr<NodeStatistics> Cardinality(ClientContext &, const FunctionData *bind_data) {
	auto &data = bind_data->Cast<ReadArrowData>();
	return data.estimated_rows.IsValid() ? make_uniq<NodeStatistics>(data.estimated_rows.GetIndex())
	                                     : make_uniq<NodeStatistics>();
}

double Progress(ClientContext &, const FunctionData *, const GlobalTableFunctionState *global_state) {
	return 100.0 * global_state->Cast<ReadArrowGlobal>().done;
}

OperatorPartitionData GetPartition(ClientContext &, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw NotImplementedException("vibe_read_arrow has no partition columns");
	}
	return OperatorPartitionData(input.local_state->Cast<ReadArrowLocal>().work.batch_index);
}

InsertionOrderPreservingMap<string> ToText(TableFunctionToStringInput &input) {
	constexpr idx_t MOST = 5;
	InsertionOrderPreservingMap<string> result;
	auto &paths = input.bind_data->Cast<ReadArrowData>().paths;
	string text;
	for (idx_t i = 0; i < MinValue(MOST, paths.size()); i++) {
		text += (i ? ", " : "") + paths[i].path;
	}
	if (paths.size() > MOST) {
		text += StringUtil::Format(" and %d more", paths.size() - MOST);
	}
	result["Function"] = "vibe_read_arrow";
	result[paths.size() == 1 ? "File" : "Files"] = text;
	return result;
}

virtual_column_map_t VirtualColumns(ClientContext &, optional_ptr<FunctionData>) {
	virtual_column_map_t result;
	result.emplace(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN));
	return result;
}

} // namespace

void RegisterReadArrow(ExtensionLoader &loader) {
	TableFunctionSet set("vibe_read_arrow");
	vector<FunctionDescription> descriptions;
	for (auto &type : vector<LogicalType> {LogicalType::VARCHAR, LogicalType::LIST(LogicalType::VARCHAR)}) {
		TableFunction function("vibe_read_arrow", {type}, ReadArrow, BindReadArrow, InitReadArrow, InitReadArrowLocal);
		AddNamedParameter(function, "filename", LogicalType::ANY);
		AddNamedParameter(function, "union_by_name", LogicalType::BOOLEAN);
		function.projection_pushdown = true;
		function.cardinality = Cardinality;
		function.table_scan_progress = Progress;
		function.get_partition_data = GetPartition;
		function.to_string = ToText;
		function.get_virtual_columns = VirtualColumns;

		FunctionDescription description;
		description.parameter_names = {"files"};
		NameParameters(function, description.parameter_names);
		DescribeParameters(function, description);
		description.description =
		    "The rows of Arrow files: the IPC file and stream formats and Feather V2, plain or compressed by zstd or "
		    "lz4. `files` is a path, a pattern or a list of them. `filename := true` adds the path of a row's file, "
		    "`union_by_name := true` takes files that have not all the same columns. Needs Apache Arrow C++ (pyarrow).";
		description.examples = {"* FROM vibe_read_arrow('data/*.arrow')"};
		description.categories = {"arrow"};
		descriptions.push_back(std::move(description));
		set.AddFunction(std::move(function));
	}
	CreateTableFunctionInfo info(std::move(set));
	info.descriptions = std::move(descriptions);
	RegisterOnce(loader, "vibe_read_arrow", [&] { loader.RegisterFunction(std::move(info)); });
}

} // namespace duckdb
