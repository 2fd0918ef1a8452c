#include "duckdb/arrow_files/arrow_files.hpp"

#include "duckdb/arrow/geoarrow.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/support/register_once.hpp"
#include "duckdb/common/arrow/arrow_appender.hpp"
#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/common/types/geometry.hpp"
#include "duckdb/common/types/uuid.hpp"
#include "duckdb/function/copy_function.hpp"
#include "duckdb/function/table/arrow.hpp"

namespace duckdb {

namespace {

using vibespatial::ArrowCompression;
using vibespatial::ArrowFiles;
using vibespatial::ArrowPiece;
using vibespatial::ArrowWriter;

//! As many as DuckDB has in a row group of its own
constexpr idx_t DEFAULT_BATCH_SIZE = 122880;
constexpr idx_t MOST_BATCH_SIZE = idx_t(1) << 31;

//===----------------------------------------------------------------------===//
// Bind
//===----------------------------------------------------------------------===//
struct CopyArrowData : public TableFunctionData {
	explicit CopyArrowData(const ArrowFiles &files_p) : files(files_p) {
	}

	const ArrowFiles &files;
	vector<string> names;
	//! Of the rows, and as they are written
	vector<LogicalType> row_types;
	vector<LogicalType> types;
	//! The geometries whose native encoding is chosen once all rows are known
	vector<idx_t> native_columns;
	vibespatial::ArrowWriteOptions options;
	//! None where the user did not say it, or where DuckDB itself, since 2.0, gives batches that have it
	optional_idx batch_size;

	idx_t BatchSize() const {
		return batch_size.IsValid() ? batch_size.GetIndex() : DEFAULT_BATCH_SIZE;
	}
};

void CopyOptions(ClientContext &, CopyOptionsInput &input) {
	auto &options = input.options;
	options["compression"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	options["encoding"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	options["row_group_size"] = CopyOption(LogicalType::UBIGINT, CopyOptionMode::WRITE_ONLY);
	options["batch_size"] = CopyOption(LogicalType::UBIGINT, CopyOptionMode::WRITE_ONLY);
	options["stream"] = CopyOption(LogicalType::BOOLEAN, CopyOptionMode::WRITE_ONLY);
}

Value SingleOption(const string &name, const vector<Value> &values, const LogicalType &type) {
	// An option without a value is a flag
	if (values.empty() && type.id() == LogicalTypeId::BOOLEAN) {
		return Value::BOOLEAN(true);
	}
	if (values.size() != 1 || values[0].IsNull()) {
		throw BinderException("COPY (FORMAT vibe_arrow): %s wants one %s", StringUtil::Upper(name), type.ToString());
	}
	return values[0].DefaultCastAs(type);
}

ArrowCompression ParseCompression(const string &text) {
	if (text == "none" || text == "uncompressed") {
		return ArrowCompression::NONE;
	}
	if (text == "zstd") {
		return ArrowCompression::ZSTD;
	}
	if (text == "lz4") {
		return ArrowCompression::LZ4;
	}
	throw BinderException("COPY (FORMAT vibe_arrow): COMPRESSION '%s' is not known; 'zstd', 'lz4' and 'none' are",
	                      text);
}

void SetEncoding(CopyArrowData &data, const string &encoding) {
	if (encoding != "native") {
		// Also where there is no geometry, an encoding that does not exist is an error
		GeoArrowColumnType(LogicalType::GEOMETRY(), encoding);
	}
	for (idx_t i = 0; i < data.types.size(); i++) {
		auto &type = data.types[i];
		if (type.id() != LogicalTypeId::GEOMETRY) {
			continue;
		}
		if (encoding == "native") {
			data.native_columns.push_back(i);
		} else {
			type = GeoArrowColumnType(type, encoding);
		}
	}
}

unique_ptr<FunctionData> BindCopyArrow(ClientContext &context, CopyFunctionBindInput &input,
                                       const vector<Identifier> &names, const vector<LogicalType> &types) {
	auto result = make_uniq<CopyArrowData>(GetArrowFiles(context));
	result->names = NamesOf(names);
	result->row_types = types;
	result->types = types;
	Value setting;
	context.TryGetCurrentSetting("vibe_arrow_encoding", setting);
	string encoding = setting.IsNull() ? "wkb" : StringValue::Get(setting);
	for (auto &option : input.info.options) {
		auto name = StringUtil::Lower(NameOf(option.first));
		auto &values = option.second;
		if (name == "compression") {
			auto text = SingleOption(name, values, LogicalType::VARCHAR);
			result->options.compression = ParseCompression(StringUtil::Lower(StringValue::Get(text)));
		} else if (name == "encoding") {
			encoding = StringUtil::Lower(StringValue::Get(SingleOption(name, values, LogicalType::VARCHAR)));
		} else if (name == "row_group_size" || name == "batch_size") {
			auto batch_size = UBigIntValue::Get(SingleOption(name, values, LogicalType::UBIGINT));
			if (batch_size == 0 || batch_size >= MOST_BATCH_SIZE) {
				throw BinderException("COPY (FORMAT vibe_arrow): %s is at least 1 and below %d",
				                      StringUtil::Upper(name), MOST_BATCH_SIZE);
			}
			result->batch_size = batch_size;
		} else if (name == "stream") {
			result->options.is_stream = BooleanValue::Get(SingleOption(name, values, LogicalType::BOOLEAN));
		} else {
			throw BinderException("COPY (FORMAT vibe_arrow): the option %s is not known; COMPRESSION, ENCODING, "
			                      "BATCH_SIZE (or ROW_GROUP_SIZE) and STREAM are",
			                      StringUtil::Upper(name));
		}
	}
	SetEncoding(*result, encoding);
	return std::move(result);
}

//===----------------------------------------------------------------------===//
// The native encoding of a column
//===----------------------------------------------------------------------===//
//! The kinds and dimensions of the geometries of a column, as bits
struct GeometryKinds {
	uint8_t kinds = 0;
	uint8_t dimensions = 0;

	void Add(Vector &geometries, idx_t count) {
		UnifiedVectorFormat format;
		geometries.ToUnifiedFormat(count, format);
		auto values = UnifiedVectorFormat::GetData<string_t>(format);
		for (idx_t i = 0; i < count; i++) {
			auto row = format.sel->get_index(i);
			if (format.validity.RowIsValid(row)) {
				auto type = Geometry::GetType(values[row]);
				kinds |= uint8_t(1U << uint8_t(type.first));
				dimensions |= uint8_t(1U << uint8_t(type.second));
			}
		}
	}
	void Add(const GeometryKinds &other) {
		kinds |= other.kinds;
		dimensions |= other.dimensions;
	}

	//! The encoding that takes them all; wkb where there is no geometry
	string Encoding(const string &column) const {
		static const char *const NAMES[] = {"point", "linestring", "polygon"};
		static const char *const DIMENSIONS[] = {"", "_z", "_m", "_zm"};
		if (kinds == 0) {
			return "wkb";
		}
		for (uint8_t kind = 0; kind < 3; kind++) {
			for (uint8_t dimension = 0; dimension < 4; dimension++) {
				const auto single = uint8_t(1U << (kind + 1)), multi = uint8_t(1U << (kind + 4));
				if ((kinds & ~(single | multi)) == 0 && dimensions == 1U << dimension) {
					return string((kinds & multi) ? "multi" : "") + NAMES[kind] + DIMENSIONS[dimension];
				}
			}
		}
		static const char *const ALL_NAMES[] = {"",           "POINT",           "LINESTRING",   "POLYGON",
		                                        "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"};
		static const char *const ALL_DIMENSIONS[] = {"XY", "XYZ", "XYM", "XYZM"};
		string found;
		for (idx_t i = 0; i < 8; i++) {
			found += (kinds >> i) & 1 ? (found.empty() ? "" : ", ") + string(ALL_NAMES[i]) : "";
		}
		for (idx_t i = 0; i < 4; i++) {
			found += (dimensions >> i) & 1 ? string(" ") + ALL_DIMENSIONS[i] : "";
		}
		throw InvalidInputException(
		    "COPY (FORMAT vibe_arrow, ENCODING 'native'): column %s has geometries of several kinds or "
		    "dimensions (%s), and native GeoArrow columns have one; ENCODING 'wkb' takes any",
		    column, found);
	}
};

//! Rows that wait until all are known
struct WaitingRows {
	unique_ptr<ColumnDataCollection> rows;
	//! They came as the rows of one batch
	bool is_batch = false;
	//! One for each native column
	vector<GeometryKinds> kinds;

	void Add(const CopyArrowData &data, DataChunk &chunk) {
		kinds.resize(data.native_columns.size());
		for (idx_t i = 0; i < kinds.size(); i++) {
			kinds[i].Add(chunk.data[data.native_columns[i]], chunk.size());
		}
	}
};

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//
//! Bytes on their way to a file, which has another name until it is whole
class FileSink final : public vibespatial::ArrowSink {
public:
	FileSink(ClientContext &context, string path_p) : fs(FileSystem::GetFileSystem(context)), path(std::move(path_p)) {
		// A pipe cannot be renamed, and a remote file appears when it is closed
		is_renamed = !FileSystem::IsRemoteFile(path) && !fs.IsPipe(path) && !StringUtil::StartsWith(path, "/dev/");
		written_path = is_renamed ? path + "." + UUID::ToString(UUID::GenerateRandomUUID()) + ".tmp" : path;
		handle = fs.OpenFile(written_path, FileFlags::FILE_FLAGS_WRITE | FileFlags::FILE_FLAGS_FILE_CREATE_NEW |
		                                       FileLockType::WRITE_LOCK);
	}
	~FileSink() override {
		if (is_done) {
			return;
		}
		try {
			handle.reset();
			if (is_renamed) {
				fs.TryRemoveFile(written_path);
			}
		} catch (...) { // NOLINT: what went wrong before is the error to report
		}
	}

	bool Write(const void *data, int64_t count, std::string &error) override {
		try {
			auto from = static_cast<const char *>(data);
			for (auto left = count; left > 0;) {
				auto written = handle->Write(const_cast<char *>(from), NumericCast<idx_t>(left));
				if (written <= 0) {
					error = "nothing more could be written to " + written_path;
					return false;
				}
				from += written;
				left -= written;
			}
			bytes += NumericCast<idx_t>(count);
			return true;
		} catch (const std::exception &thrown) {
			error = ErrorData(thrown).RawMessage();
		}
		return false;
	}

	void Finish() {
		handle->Close();
		handle.reset();
		if (is_renamed) {
			fs.MoveFile(written_path, path);
		}
		is_done = true;
	}

	idx_t bytes = 0;

private:
	FileSystem &fs;
	string path;
	string written_path;
	bool is_renamed;
	bool is_done = false;
	unique_ptr<FileHandle> handle;
};

struct CopyArrowGlobal : public GlobalFunctionData {
	std::shared_ptr<FileSink> sink;
	std::unique_ptr<ArrowWriter> writer;
	string path;
	mutex lock;
	vector<WaitingRows> waiting;

	[[noreturn]] void Throw(const string &error) const {
		throw IOException("COPY (FORMAT vibe_arrow), file '%s': %s", path, error);
	}
};

void OpenWriter(ClientContext &context, const CopyArrowData &data, const vector<LogicalType> &types,
                CopyArrowGlobal &global) {
	auto properties = context.GetClientProperties();
	ArrowSchemaWrapper schema;
	ArrowConverter::ToArrowSchema(&schema.arrow_schema, types, data.names, properties);
	string error;
	global.writer = data.files.Create(schema.arrow_schema, global.sink, data.options, error);
	if (!global.writer) {
		global.Throw(error);
	}
}

unique_ptr<GlobalFunctionData> InitCopyArrow(ClientContext &context, FunctionData &bind_data, const string &path) {
	auto &data = bind_data.Cast<CopyArrowData>();
	auto result = make_uniq<CopyArrowGlobal>();
	result->path = path;
	result->sink = std::make_shared<FileSink>(context, path);
	if (data.native_columns.empty()) {
		OpenWriter(context, data, data.types, *result);
	}
	return std::move(result);
}

//===----------------------------------------------------------------------===//
// Batches
//===----------------------------------------------------------------------===//
//! Rows that become a record batch
class BatchMaker {
public:
	BatchMaker(ClientContext &context, const vector<LogicalType> &row_types, vector<LogicalType> types_p,
	           idx_t batch_size)
	    : types(std::move(types_p)), properties(context.GetClientProperties()),
	      extensions(ArrowTypeExtensionData::GetExtensionTypes(context, types)), limit(batch_size) {
		for (idx_t i = 0; i < types.size(); i++) {
			if (types[i].id() != row_types[i].id()) {
				encoded.push_back(i);
			}
		}
		if (!encoded.empty()) {
			encoded_rows.Initialize(context, types);
		}
	}

	//! Calls emit(ArrowArray &) for every batch that is full
	template <class EMIT>
	void Append(DataChunk &rows, EMIT &&emit) {
		auto &chunk = encoded.empty() ? rows : Encode(rows);
		for (idx_t from = 0; from < chunk.size();) {
			if (!appender) {
				appender = make_uniq<ArrowAppender>(types, MinValue(limit, idx_t(STANDARD_VECTOR_SIZE)), properties,
				                                    extensions);
			}
			auto to = MinValue(chunk.size(), from + limit - appender->RowCount());
			appender->Append(chunk, from, to, chunk.size());
			from = to;
			if (appender->RowCount() == limit) {
				Flush(emit);
			}
		}
	}
	template <class EMIT>
	void Flush(EMIT &&emit) {
		if (!appender || appender->RowCount() == 0) {
			return;
		}
		ArrowArrayWrapper array;
		array.arrow_array = appender->Finalize();
		appender.reset();
		emit(array.arrow_array);
	}

private:
	//! The rows with geometries in the encoding of their columns
	DataChunk &Encode(DataChunk &rows) {
		encoded_rows.Reset();
		for (idx_t i = 0, next = 0; i < types.size(); i++) {
			if (next < encoded.size() && encoded[next] == i) {
				GeometryToGeoArrow(rows.data[i], encoded_rows.data[i], rows.size());
				next++;
			} else {
				encoded_rows.data[i].Reference(rows.data[i]);
			}
		}
		SetRowCount(encoded_rows, rows.size());
		return encoded_rows;
	}

	vector<LogicalType> types;
	//! The columns that are written in another type than they have
	vector<idx_t> encoded;
	DataChunk encoded_rows;
	ClientProperties properties;
	unordered_map<idx_t, const shared_ptr<ArrowTypeExtensionData>> extensions;
	idx_t limit;
	unique_ptr<ArrowAppender> appender;
};

std::unique_ptr<ArrowPiece> Prepare(const CopyArrowGlobal &global, ArrowArray &array) {
	string error;
	auto piece = global.writer->Prepare(array, error);
	if (!piece) {
		global.Throw(error);
	}
	return piece;
}

void Write(CopyArrowGlobal &global, const ArrowPiece &piece) {
	lock_guard<mutex> guard(global.lock);
	string error;
	if (!global.writer->Write(piece, error)) {
		global.Throw(error);
	}
}

struct CopyArrowLocal : public LocalFunctionData {
	CopyArrowLocal(ClientContext &context, const CopyArrowData &data)
	    : maker(context, data.row_types, data.types, data.BatchSize()) {
	}
	BatchMaker maker;
	WaitingRows waiting;
};

unique_ptr<LocalFunctionData> InitCopyArrowLocal(ExecutionContext &context, FunctionData &bind_data) {
	return make_uniq<CopyArrowLocal>(context.client, bind_data.Cast<CopyArrowData>());
}

void CopyArrowSink(ExecutionContext &context, FunctionData &bind_data, GlobalFunctionData &global_state,
                   LocalFunctionData &local_state, DataChunk &input) {
	auto &data = bind_data.Cast<CopyArrowData>();
	auto &global = global_state.Cast<CopyArrowGlobal>();
	auto &local = local_state.Cast<CopyArrowLocal>();
	if (data.native_columns.empty()) {
		local.maker.Append(input, [&](ArrowArray &array) { Write(global, *Prepare(global, array)); });
		return;
	}
	if (!local.waiting.rows) {
		local.waiting.rows = make_uniq<ColumnDataCollection>(context.client, data.row_types);
	}
	local.waiting.Add(data, input);
	local.waiting.rows->Append(input);
}

void CopyArrowCombine(ExecutionContext &, FunctionData &, GlobalFunctionData &global_state,
                      LocalFunctionData &local_state) {
	auto &global = global_state.Cast<CopyArrowGlobal>();
	auto &local = local_state.Cast<CopyArrowLocal>();
	local.maker.Flush([&](ArrowArray &array) { Write(global, *Prepare(global, array)); });
	if (local.waiting.rows) {
		lock_guard<mutex> guard(global.lock);
		global.waiting.push_back(std::move(local.waiting));
	}
}

//! Rows that come as one batch are one, unless the user said otherwise
idx_t BatchLimit(const CopyArrowData &data, bool is_batch, const ColumnDataCollection &rows) {
	if (!is_batch || data.batch_size.IsValid()) {
		return data.BatchSize();
	}
	return MaxValue<idx_t>(1, MinValue(rows.Count(), MOST_BATCH_SIZE - 1));
}

//! Chooses the encodings and writes the rows that waited for that
void WriteWaiting(ClientContext &context, const CopyArrowData &data, CopyArrowGlobal &global) {
	auto types = data.types;
	for (idx_t i = 0; i < data.native_columns.size(); i++) {
		GeometryKinds kinds;
		for (auto &waiting : global.waiting) {
			kinds.Add(waiting.kinds[i]);
		}
		auto column = data.native_columns[i];
		types[column] = GeoArrowColumnType(types[column], kinds.Encoding(data.names[column]));
	}
	OpenWriter(context, data, types, global);
	const auto limit_of = [&](const WaitingRows &waiting) { return BatchLimit(data, waiting.is_batch, *waiting.rows); };
	const auto write = [&](ArrowArray &array) { Write(global, *Prepare(global, array)); };
	unique_ptr<BatchMaker> maker;
	for (auto &waiting : global.waiting) {
		if (!maker) {
			maker = make_uniq<BatchMaker>(context, data.row_types, types, limit_of(waiting));
		}
		for (auto &chunk : waiting.rows->Chunks()) {
			if (context.IsInterrupted()) {
				throw InterruptException();
			}
			maker->Append(chunk, write);
		}
		if (waiting.is_batch) {
			maker->Flush(write);
			maker.reset();
		}
		waiting.rows.reset();
	}
	if (maker) {
		maker->Flush(write);
	}
}

void CopyArrowFinalize(ClientContext &context, FunctionData &bind_data, GlobalFunctionData &global_state) {
	auto &data = bind_data.Cast<CopyArrowData>();
	auto &global = global_state.Cast<CopyArrowGlobal>();
	if (!data.native_columns.empty()) {
		WriteWaiting(context, data, global);
	}
	string error;
	if (!global.writer->Close(error)) {
		global.Throw(error);
	}
	global.sink->Finish();
}

//===----------------------------------------------------------------------===//
// Rows in order, prepared by many threads
//===----------------------------------------------------------------------===//
struct PreparedPieces : public PreparedBatchData {
	vector<std::unique_ptr<ArrowPiece>> pieces;
	WaitingRows waiting;
};

unique_ptr<PreparedBatchData> PrepareBatch(ClientContext &context, FunctionData &bind_data,
                                           GlobalFunctionData &global_state,
                                           unique_ptr<ColumnDataCollection> collection) {
	auto &data = bind_data.Cast<CopyArrowData>();
	auto &global = global_state.Cast<CopyArrowGlobal>();
	auto result = make_uniq<PreparedPieces>();
	if (!data.native_columns.empty()) {
		for (auto &chunk : collection->Chunks()) {
			result->waiting.Add(data, chunk);
		}
		result->waiting.rows = std::move(collection);
		result->waiting.is_batch = true;
		return std::move(result);
	}
	BatchMaker maker(context, data.row_types, data.types, BatchLimit(data, true, *collection));
	const auto keep = [&](ArrowArray &array) { result->pieces.push_back(Prepare(global, array)); };
	for (auto &chunk : collection->Chunks()) {
		maker.Append(chunk, keep);
	}
	maker.Flush(keep);
	return std::move(result);
}

void FlushBatch(ClientContext &, FunctionData &, GlobalFunctionData &global_state, PreparedBatchData &batch) {
	auto &global = global_state.Cast<CopyArrowGlobal>();
	auto &prepared = batch.Cast<PreparedPieces>();
	for (auto &piece : prepared.pieces) {
		Write(global, *piece);
		piece.reset();
	}
	if (prepared.waiting.rows && prepared.waiting.rows->Count() > 0) {
		lock_guard<mutex> guard(global.lock);
		global.waiting.push_back(std::move(prepared.waiting));
	}
}

//! A number, or one that may be missing, as DuckDB has it
using DesiredSize = std::invoke_result_t<copy_desired_batch_size_t, ClientContext &, FunctionData &>;

DesiredSize DesiredBatchSize(ClientContext &, FunctionData &bind_data) {
	return bind_data.Cast<CopyArrowData>().BatchSize();
}

CopyFunctionExecutionMode ExecutionMode(bool preserve_insertion_order, bool supports_batch_index) {
	if (!preserve_insertion_order) {
		return CopyFunctionExecutionMode::PARALLEL_COPY_TO_FILE;
	}
	return supports_batch_index ? CopyFunctionExecutionMode::BATCH_COPY_TO_FILE
	                            : CopyFunctionExecutionMode::REGULAR_COPY_TO_FILE;
}

} // namespace

void RegisterCopyArrow(ExtensionLoader &loader) {
	CopyFunction function("vibe_arrow");
	function.extension = "arrow";
	function.copy_options = CopyOptions;
	function.copy_to_bind = BindCopyArrow;
	function.copy_to_initialize_global = InitCopyArrow;
	function.copy_to_initialize_local = InitCopyArrowLocal;
	function.copy_to_sink = CopyArrowSink;
	function.copy_to_combine = CopyArrowCombine;
	function.copy_to_finalize = CopyArrowFinalize;
	function.execution_mode = ExecutionMode;
	function.prepare_batch = PrepareBatch;
	function.flush_batch = FlushBatch;
	function.desired_batch_size = DesiredBatchSize;
	RegisterOnce(loader, "COPY", [&] { loader.RegisterFunction(std::move(function)); });
}

} // namespace duckdb
