#include "arrow_plugin/plugin.hpp"

#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/key_value_metadata.h>

#include <cstring>
#include <mutex>
#include <unistd.h>

namespace vibespatial {

namespace {

using arrow::Result;
using arrow::Status;

//! As the format recommends; a damaged length above it would keep a query busy for ever
constexpr int64_t MOST_ROWS = INT32_MAX;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//
//! A file that the host reads
class HostFile final : public arrow::io::RandomAccessFile {
public:
	explicit HostFile(std::shared_ptr<ArrowBytes> bytes_p) : bytes(std::move(bytes_p)) {
	}
	~HostFile() override = default;

	Status Close() override {
		is_closed = true;
		return Status::OK();
	}
	bool closed() const override {
		return is_closed;
	}
	Result<int64_t> Tell() const override {
		return position;
	}
	Status Seek(int64_t to) override {
		position = to;
		return Status::OK();
	}
	Result<int64_t> GetSize() override {
		return bytes->Size();
	}
	Result<int64_t> ReadAt(int64_t at, int64_t count, void *out) override {
		if (at < 0 || count < 0) {
			return Status::Invalid("a negative position or length");
		}
		count = std::max<int64_t>(0, std::min(count, bytes->Size() - at));
		std::string error;
		if (count > 0 && !bytes->Read(at, count, out, error)) {
			return Status::IOError(error);
		}
		return count;
	}
	Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t at, int64_t count) override {
		// No more than there is, whatever the file claims
		if (at < 0 || count < 0 || at > bytes->Size()) {
			return Status::Invalid("a position or length outside of the file");
		}
		ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(std::min(count, bytes->Size() - at), ReadMemory()));
		ARROW_ASSIGN_OR_RAISE(auto read, ReadAt(at, buffer->size(), buffer->mutable_data()));
		static_cast<void>(read);
		return std::shared_ptr<arrow::Buffer>(std::move(buffer));
	}
	Result<int64_t> Read(int64_t count, void *out) override {
		ARROW_ASSIGN_OR_RAISE(auto read, ReadAt(position, count, out));
		position += read;
		return read;
	}
	Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override {
		ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position, count));
		position += buffer->size();
		return buffer;
	}

private:
	std::shared_ptr<ArrowBytes> bytes;
	int64_t position = 0;
	bool is_closed = false;
};

//! A range of a file that others read as well, with a position of its own
class SharedView final : public arrow::io::InputStream {
public:
	explicit SharedView(std::shared_ptr<arrow::io::RandomAccessFile> file_p) : file(std::move(file_p)) {
	}
	~SharedView() override = default;

	Status Close() override {
		is_closed = true;
		return Status::OK();
	}
	bool closed() const override {
		return is_closed;
	}
	Result<int64_t> Tell() const override {
		return position;
	}
	Result<int64_t> Read(int64_t count, void *out) override {
		ARROW_ASSIGN_OR_RAISE(auto read, file->ReadAt(position, count, out));
		position += read;
		return read;
	}
	Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override {
		ARROW_ASSIGN_OR_RAISE(auto buffer, file->ReadAt(position, count));
		position += buffer->size();
		return buffer;
	}
	bool supports_zero_copy() const override {
		return file->supports_zero_copy();
	}

private:
	std::shared_ptr<arrow::io::RandomAccessFile> file;
	int64_t position = 0;
	bool is_closed = false;
};

arrow::ipc::IpcReadOptions ReadOptions() {
	auto options = arrow::ipc::IpcReadOptions::Defaults();
	options.memory_pool = ReadMemory();
	// The threads are DuckDB's
	options.use_threads = false;
	options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
	return options;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//
class OpenFile final : public ArrowFile {
public:
	bool IsStream() const override {
		return is_stream;
	}
	int64_t BatchCount() const override {
		return batches;
	}
	int64_t ByteCount() const override {
		return size;
	}
	bool CountRows(int64_t &rows, std::string &error) const override {
		return Guarded(error, [&]() -> Status {
			ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, ReadOptions()));
			ARROW_ASSIGN_OR_RAISE(rows, reader->CountRows());
			if (rows < 0 || rows / MOST_ROWS > batches) {
				return Status::Invalid("a record batch with an impossible number of rows");
			}
			return Status::OK();
		});
	}

	Status Open(const ArrowInput &input) {
		name = input.name;
		if (!input.map_path.empty()) {
			ARROW_ASSIGN_OR_RAISE(file, arrow::io::MemoryMappedFile::Open(input.map_path, arrow::io::FileMode::READ));
			ARROW_ASSIGN_OR_RAISE(size, file->GetSize());
			if (size % sysconf(_SC_PAGESIZE) == 0) {
				// DuckDB may read the byte after a bitmap, which after the last page would end the process
				ARROW_ASSIGN_OR_RAISE(file, arrow::io::ReadableFile::Open(input.map_path, ReadMemory()));
			}
		} else {
			file = std::make_shared<HostFile>(input.bytes);
			ARROW_ASSIGN_OR_RAISE(size, file->GetSize());
		}
		char head[8] = {};
		ARROW_ASSIGN_OR_RAISE(auto read, file->ReadAt(0, std::min<int64_t>(size, sizeof(head)), head));
		if (read >= 4 && std::memcmp(head, "FEA1", 4) == 0) {
			return Status::Invalid("this is a file of Feather V1, which is not read; Feather V2 is an Arrow file");
		}
		is_stream = read < 6 || std::memcmp(head, "ARROW1", 6) != 0;
		if (is_stream) {
			int32_t first = 0;
			std::memcpy(&first, head, sizeof(first));
			// A message begins with its mark, or in old files with the length of its metadata
			if (read < 8 || (first != -1 && (first <= 0 || first > size))) {
				return Status::Invalid("this is no Arrow IPC file or stream");
			}
			auto stream = std::make_shared<SharedView>(file);
			ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(stream, ReadOptions()));
			schema = reader->schema();
		} else {
			ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, ReadOptions()));
			schema = reader->schema();
			batches = reader->num_record_batches();
		}
		for (auto &field : schema->fields()) {
			plain.push_back(PlainField(field));
		}
		return Status::OK();
	}

	std::string name;
	std::shared_ptr<arrow::io::RandomAccessFile> file;
	std::shared_ptr<arrow::Schema> schema;
	//! The fields as DuckDB gets them
	arrow::FieldVector plain;
	int64_t size = 0;
	int64_t batches = 0;
	bool is_stream = false;
};

//===----------------------------------------------------------------------===//
// Readers
//===----------------------------------------------------------------------===//
//! A column of a batch that was asked for: its place among the fields that are read, or none and its type
struct Wanted {
	int place;
	std::shared_ptr<arrow::Field> plain;
};

class Reader final : public ArrowReader {
public:
	Reader(std::shared_ptr<const OpenFile> file_p, std::vector<Wanted> wanted_p)
	    : file(std::move(file_p)), wanted(std::move(wanted_p)) {
	}

	Status Open(std::vector<int> fields) {
		auto options = ReadOptions();
		options.included_fields = std::move(fields);
		if (file->is_stream) {
			view = std::make_shared<SharedView>(file->file);
			ARROW_ASSIGN_OR_RAISE(stream, arrow::ipc::RecordBatchStreamReader::Open(view, options));
		} else {
			ARROW_ASSIGN_OR_RAISE(batches, arrow::ipc::RecordBatchFileReader::Open(file->file, options));
		}
		return Status::OK();
	}

	bool Read(int64_t batch, int64_t part, int64_t parts, ArrowArray &result, std::string &error) override {
		return Guarded(error, [&]() -> Status {
			if (!batches || batch < 0 || batch >= batches->num_record_batches() || part < 0 || part >= parts) {
				return Status::IndexError("there is no part ", part, " of ", parts, " of a record batch ", batch);
			}
			if (batch != last_number || !last) {
				last.reset();
				ARROW_ASSIGN_OR_RAISE(auto read, batches->ReadRecordBatch(int(batch)));
				ARROW_RETURN_NOT_OK(Take(std::move(read)));
				last_number = batch;
			}
			auto status = Export(part, parts, result);
			if (part + 1 == parts) {
				last.reset();
				whole.clear();
			}
			return status;
		});
	}

	bool Next(ArrowArray &result, bool &is_end, std::string &error) override {
		return Guarded(error, [&]() -> Status {
			std::shared_ptr<arrow::RecordBatch> read;
			ARROW_RETURN_NOT_OK(stream->ReadNext(&read));
			is_end = !read;
			if (is_end) {
				return Status::OK();
			}
			ARROW_RETURN_NOT_OK(Take(std::move(read)));
			return Export(0, 1, result);
		});
	}

	int64_t Position() const override {
		return view ? view->Tell().ValueOr(0) : 0;
	}

private:
	//! Makes a batch ready to be cut
	Status Take(std::shared_ptr<arrow::RecordBatch> batch) {
		if (batch->num_rows() > MOST_ROWS) {
			return Status::Invalid("a record batch of ", batch->num_rows(), " rows; ", MOST_ROWS, " is the most");
		}
		ARROW_RETURN_NOT_OK(batch->Validate());
		whole.assign(wanted.size(), nullptr);
		for (size_t i = 0; i < wanted.size(); i++) {
			auto &column = wanted[i];
			// What is inside of a list belongs to no part: it is done once
			if (column.place >= 0 && batch->column(column.place)->data()->child_data.size() > 0) {
				ARROW_ASSIGN_OR_RAISE(whole[i], Valid(batch->column(column.place), *column.plain));
			}
		}
		last = std::move(batch);
		return Status::OK();
	}

	static Result<std::shared_ptr<arrow::Array>> Valid(const std::shared_ptr<arrow::Array> &array,
	                                                   const arrow::Field &plain) {
		ARROW_RETURN_NOT_OK(array->ValidateFull());
		return PlainArray(array, plain, ReadMemory());
	}

	Status Export(int64_t part, int64_t parts, ArrowArray &result) const {
		auto begin = last->num_rows() * part / parts, end = last->num_rows() * (part + 1) / parts;
		if (begin == end) {
			// Consumers take an array without rows to have no offset either
			begin = end = 0;
		}
		arrow::FieldVector fields;
		arrow::ArrayVector arrays;
		for (size_t i = 0; i < wanted.size(); i++) {
			auto &column = wanted[i];
			std::shared_ptr<arrow::Array> array;
			if (whole[i]) {
				array = whole[i]->Slice(begin, end - begin);
			} else if (column.place >= 0) {
				ARROW_ASSIGN_OR_RAISE(array,
				                      Valid(last->column(column.place)->Slice(begin, end - begin), *column.plain));
			} else {
				ARROW_ASSIGN_OR_RAISE(array, arrow::MakeArrayOfNull(column.plain->type(), end - begin, ReadMemory()));
			}
			// DuckDB trusts the count of nulls, and a slice has none until somebody asks
			array->null_count();
			fields.push_back(column.plain);
			arrays.push_back(std::move(array));
		}
		auto plain = arrow::RecordBatch::Make(arrow::schema(std::move(fields)), end - begin, std::move(arrays));
		return arrow::ExportRecordBatch(*plain, &result);
	}

	std::shared_ptr<const OpenFile> file;
	std::vector<Wanted> wanted;
	std::shared_ptr<SharedView> view;
	std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream;
	std::shared_ptr<arrow::ipc::RecordBatchFileReader> batches;
	//! The batch whose parts are being read, and those of its columns that were validated and made plain as a whole
	std::shared_ptr<arrow::RecordBatch> last;
	arrow::ArrayVector whole;
	int64_t last_number = -1;
};

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//
std::string ExtensionKey(const arrow::Field &field, const char *key) {
	return field.metadata() ? field.metadata()->Get(key).ValueOr("") : "";
}

//! The same to DuckDB: types, and the extension types (with their CRS) on every level
bool IsSame(const arrow::Field &left, const arrow::Field &right) {
	for (auto key : {"ARROW:extension:name", "ARROW:extension:metadata"}) {
		if (ExtensionKey(left, key) != ExtensionKey(right, key)) {
			return false;
		}
	}
	auto &a = *left.type(), &b = *right.type();
	if (a.id() != b.id() || a.num_fields() != b.num_fields()) {
		return false;
	}
	for (int i = 0; i < a.num_fields(); i++) {
		const bool has_names = a.id() == arrow::Type::STRUCT || arrow::is_union(a.id());
		if (!IsSame(*a.field(i), *b.field(i)) || (has_names && a.field(i)->name() != b.field(i)->name())) {
			return false;
		}
	}
	return a.num_fields() > 0 && a.id() != arrow::Type::FIXED_SIZE_LIST && !arrow::is_union(a.id())
	           ? true
	           : a.Equals(b, /*check_metadata=*/false);
}

std::string Describe(const arrow::Field &field) {
	auto extension = ExtensionKey(field, "ARROW:extension:name");
	if (extension.empty()) {
		return field.type()->ToString();
	}
	auto metadata = ExtensionKey(field, "ARROW:extension:metadata");
	return extension + " (" + field.type()->ToString() + (metadata.empty() ? "" : ", " + metadata.substr(0, 80)) + ")";
}

class Layout final : public ArrowLayout {
public:
	Status Build(const std::vector<std::shared_ptr<const ArrowFile>> &files, bool by_name_p) {
		by_name = by_name_p;
		for (auto &file : files) {
			auto &open = static_cast<const OpenFile &>(*file);
			if (fields.empty()) {
				fields = open.plain;
				first_file = open.name;
				continue;
			}
			for (auto &field : open.plain) {
				auto place = Find(fields, field->name());
				if (place == AMBIGUOUS) {
					return Status::Invalid(open.name, ": there are several columns ", field->name(),
					                       ", which cannot be told apart by name");
				}
				if (place == ABSENT) {
					fields.push_back(field);
				}
			}
		}
		return Status::OK();
	}

	bool Schema(ArrowSchema &result, std::string &error) const override {
		return Guarded(error, [&] { return arrow::ExportSchema(*arrow::schema(fields), &result); });
	}

	std::unique_ptr<ArrowReader> MakeReader(std::shared_ptr<const ArrowFile> file, const std::vector<int> &columns,
	                                        std::string &error) const override {
		std::unique_ptr<Reader> result;
		auto open = std::static_pointer_cast<const OpenFile>(std::move(file));
		const bool made = Guarded(error, [&]() -> Status {
			ARROW_ASSIGN_OR_RAISE(auto places, Places(*open));
			std::vector<int> read;
			for (auto column : columns) {
				auto place = places.at(column);
				if (place >= 0) {
					read.push_back(place);
				}
			}
			std::sort(read.begin(), read.end());
			read.erase(std::unique(read.begin(), read.end()), read.end());
			std::vector<Wanted> wanted;
			for (auto column : columns) {
				auto place = places.at(column);
				auto among = std::lower_bound(read.begin(), read.end(), place) - read.begin();
				wanted.push_back(Wanted {place >= 0 ? int(among) : -1, fields[column]});
			}
			// No field at all would mean all of them
			if (read.empty() && !open->plain.empty()) {
				read.push_back(Cheapest(*open));
			}
			result = std::make_unique<Reader>(open, std::move(wanted));
			return result->Open(std::move(read));
		});
		return made ? std::move(result) : nullptr;
	}

private:
	static constexpr int ABSENT = -1;
	static constexpr int AMBIGUOUS = -2;

	static int Find(const arrow::FieldVector &among, const std::string &name) {
		int found = ABSENT;
		for (size_t i = 0; i < among.size(); i++) {
			if (among[i]->name() == name) {
				found = found == ABSENT ? int(i) : AMBIGUOUS;
			}
		}
		return found;
	}

	//! For each column of the layout its place in the file
	Result<std::vector<int>> Places(const OpenFile &file) const {
		std::vector<int> result;
		bool is_in_order = file.plain.size() == fields.size();
		for (size_t i = 0; is_in_order && i < fields.size(); i++) {
			is_in_order = file.plain[i]->name() == fields[i]->name();
		}
		for (size_t i = 0; i < fields.size(); i++) {
			auto &field = *fields[i];
			auto place = is_in_order ? int(i) : Find(file.plain, field.name());
			if (place == AMBIGUOUS || (place == ABSENT && !by_name)) {
				return Status::Invalid(place == ABSENT ? "it has no column " : "it has several columns ", field.name(),
				                       ", unlike ", first_file,
				                       by_name ? "" : "; union_by_name := true makes missing columns NULL");
			}
			if (place >= 0 && !IsSame(*file.plain[place], field)) {
				return Status::Invalid("its column ", field.name(), " is of type ", Describe(*file.plain[place]),
				                       ", which is ", Describe(field), " in ", first_file);
			}
			result.push_back(place);
		}
		if (!by_name && file.plain.size() > fields.size()) {
			for (auto &field : file.plain) {
				if (Find(fields, field->name()) == ABSENT) {
					return Status::Invalid("it has a column ", field->name(), " that ", first_file,
					                       " has not; union_by_name := true makes missing columns NULL");
				}
			}
		}
		return result;
	}

	static int Cheapest(const OpenFile &file) {
		int best = 0, least = INT32_MAX;
		for (size_t i = 0; i < file.plain.size(); i++) {
			auto &type = *file.plain[i]->type();
			auto width = type.id() == arrow::Type::NA ? 0 : arrow::is_fixed_width(type) ? type.bit_width() : 1000000;
			if (width < least) {
				best = int(i);
				least = width;
			}
		}
		return best;
	}

	arrow::FieldVector fields;
	std::string first_file;
	bool by_name = false;
};

} // namespace

std::shared_ptr<const ArrowFile> OpenArrowFile(const ArrowInput &input, std::string &error) {
	SetReadLimit(input.memory_limit);
	auto file = std::make_shared<OpenFile>();
	return Guarded(error, [&] { return file->Open(input); }) ? file : nullptr;
}

std::unique_ptr<ArrowLayout> MakeArrowLayout(const std::vector<std::shared_ptr<const ArrowFile>> &files, bool by_name,
                                             std::string &error) {
	auto layout = std::make_unique<Layout>();
	return Guarded(error, [&] { return layout->Build(files, by_name); }) ? std::move(layout) : nullptr;
}

} // namespace vibespatial
