#include "catch.hpp"

#include "engine/arrow/arrow_files.hpp"
#include "engine/arrow/version.hpp"

#include <arrow/api.h>
#include <arrow/array/array_run_end.h>
#include <arrow/c/bridge.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <arrow/util/key_value_metadata.h>

#include <cstring>
#include <thread>

extern "C" const vibespatial::ArrowFiles *vibespatial_open_arrow(const char *interface_version, const char **why_not);

using namespace vibespatial;

namespace {

const ArrowFiles &Files() {
	const char *why_not = nullptr;
	auto files = vibespatial_open_arrow(VIBESPATIAL_ARROW_INTERFACE, &why_not);
	REQUIRE(files);
	return *files;
}

struct MemorySink final : ArrowSink {
	bool Write(const void *data, int64_t count, std::string &error) override {
		if (int64_t(bytes.size()) + count > limit) {
			error = "the disk is full";
			return false;
		}
		bytes.append(static_cast<const char *>(data), size_t(count));
		return true;
	}
	std::string bytes;
	int64_t limit = INT64_MAX;
};

struct MemoryBytes final : ArrowBytes {
	explicit MemoryBytes(std::string bytes_p) : bytes(std::move(bytes_p)) {
	}
	int64_t Size() const override {
		return int64_t(bytes.size());
	}
	bool Read(int64_t position, int64_t count, void *target, std::string &error) override {
		if (position + count > fails_from) {
			error = "the disk is gone";
			return false;
		}
		REQUIRE(position + count <= Size());
		std::memcpy(target, bytes.data() + position, size_t(count));
		return true;
	}
	std::string bytes;
	int64_t fails_from = INT64_MAX;
};

std::shared_ptr<const ArrowFile> Open(std::string bytes, std::string &error, int64_t memory_limit = 0) {
	ArrowInput input;
	input.name = "test.arrow";
	input.bytes = std::make_shared<MemoryBytes>(std::move(bytes));
	input.memory_limit = memory_limit;
	return Files().Open(input, error);
}

template <class BUILDER, class VALUE>
std::shared_ptr<arrow::Array> MakeArray(const std::vector<VALUE> &values) {
	BUILDER builder;
	for (size_t i = 0; i < values.size(); i++) {
		REQUIRE((i % 5 == 3 ? builder.AppendNull() : builder.Append(values[i])).ok());
	}
	return builder.Finish().ValueOrDie();
}

//! Numbers, text and a column with a CRS in its metadata
std::shared_ptr<arrow::RecordBatch> MakeBatch(int64_t begin, int64_t count) {
	std::vector<int64_t> numbers;
	std::vector<std::string> texts;
	for (auto i = begin; i < begin + count; i++) {
		numbers.push_back(i);
		texts.push_back("row " + std::to_string(i));
	}
	auto metadata = arrow::key_value_metadata(
	    {{"ARROW:extension:name", "geoarrow.wkb"}, {"ARROW:extension:metadata", "{\"crs\":\"OGC:CRS84\"}"}});
	auto schema = arrow::schema({arrow::field("i", arrow::int64()), arrow::field("s", arrow::utf8()),
	                             arrow::field("g", arrow::binary(), true, metadata)});
	return arrow::RecordBatch::Make(schema, count,
	                                {MakeArray<arrow::Int64Builder>(numbers), MakeArray<arrow::StringBuilder>(texts),
	                                 MakeArray<arrow::BinaryBuilder>(texts)});
}

std::string WriteWithArrow(const std::vector<std::shared_ptr<arrow::RecordBatch>> &batches, bool is_stream,
                           arrow::Compression::type compression = arrow::Compression::UNCOMPRESSED) {
	auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
	auto options = arrow::ipc::IpcWriteOptions::Defaults();
	if (compression != arrow::Compression::UNCOMPRESSED) {
		options.codec = arrow::util::Codec::Create(compression).ValueOrDie();
	}
	auto schema = batches[0]->schema();
	auto writer = is_stream ? arrow::ipc::MakeStreamWriter(sink, schema, options).ValueOrDie()
	                        : arrow::ipc::MakeFileWriter(sink, schema, options).ValueOrDie();
	for (auto &batch : batches) {
		REQUIRE(writer->WriteRecordBatch(*batch).ok());
	}
	REQUIRE(writer->Close().ok());
	return sink->Finish().ValueOrDie()->ToString();
}

//! All batches of a file, through the plug-in
std::vector<std::shared_ptr<arrow::RecordBatch>> ReadAll(const std::shared_ptr<const ArrowFile> &file,
                                                         const std::vector<int> &columns) {
	std::string error;
	auto layout = Files().Layout({file}, false, error);
	REQUIRE(layout);
	ArrowSchema exported;
	REQUIRE(layout->Schema(exported, error));
	auto all = arrow::ImportSchema(&exported).ValueOrDie();
	arrow::FieldVector fields;
	for (auto column : columns) {
		fields.push_back(all->field(column));
	}
	auto reader = layout->MakeReader(file, columns, error);
	INFO(error);
	REQUIRE(reader);
	std::vector<std::shared_ptr<arrow::RecordBatch>> result;
	for (int64_t i = 0;; i++) {
		ArrowArray array;
		bool is_end = false;
		if (file->IsStream()) {
			REQUIRE(reader->Next(array, is_end, error));
		} else if (i < file->BatchCount()) {
			REQUIRE(reader->Read(i, 0, 1, array, error));
		} else {
			is_end = true;
		}
		if (is_end) {
			return result;
		}
		result.push_back(arrow::ImportRecordBatch(&array, arrow::schema(fields)).ValueOrDie());
		REQUIRE(result.back()->ValidateFull().ok());
	}
}

std::shared_ptr<arrow::Array> ReadColumn(const std::shared_ptr<arrow::Array> &column) {
	auto batch =
	    arrow::RecordBatch::Make(arrow::schema({arrow::field("c", column->type())}), column->length(), {column});
	std::string error;
	auto file = Open(WriteWithArrow({batch}, false), error);
	INFO(error);
	REQUIRE(file);
	return ReadAll(file, {0})[0]->column(0);
}

} // namespace

TEST_CASE("arrow plug-in: what Arrow writes is read", "[arrow]") {
	std::vector<std::shared_ptr<arrow::RecordBatch>> batches {MakeBatch(0, 1000), MakeBatch(1000, 0),
	                                                          MakeBatch(1000, 2500)};
	for (bool is_stream : {false, true}) {
		for (auto compression :
		     {arrow::Compression::UNCOMPRESSED, arrow::Compression::ZSTD, arrow::Compression::LZ4_FRAME}) {
			std::string error;
			auto file = Open(WriteWithArrow(batches, is_stream, compression), error);
			INFO(error);
			REQUIRE(file);
			CHECK(file->IsStream() == is_stream);
			auto found = ReadAll(file, {0, 1, 2});
			REQUIRE(found.size() == 3);
			for (size_t i = 0; i < 3; i++) {
				CHECK(found[i]->Equals(*batches[i], /*check_metadata=*/true));
			}
			// Columns in another order, one twice
			auto some = ReadAll(file, {2, 0, 2});
			CHECK(some[2]->column(0)->Equals(batches[2]->column(2)));
			CHECK(some[2]->column(1)->Equals(batches[2]->column(0)));
			CHECK(some[2]->column(2)->Equals(batches[2]->column(2)));
			auto none = ReadAll(file, {});
			CHECK(none[2]->num_rows() == 2500);
			CHECK(none[2]->num_columns() == 0);
			int64_t rows = -1;
			if (!is_stream) {
				CHECK(file->BatchCount() == 3);
				REQUIRE(file->CountRows(rows, error));
				CHECK(rows == 3500);
			}
		}
	}
}

TEST_CASE("arrow plug-in: what it writes is read by Arrow", "[arrow]") {
	std::vector<std::shared_ptr<arrow::RecordBatch>> batches {MakeBatch(0, 1000), MakeBatch(1000, 1),
	                                                          MakeBatch(1001, 50)};
	for (bool is_stream : {false, true}) {
		for (auto compression : {ArrowCompression::NONE, ArrowCompression::ZSTD, ArrowCompression::LZ4}) {
			auto sink = std::make_shared<MemorySink>();
			std::string error;
			ArrowSchema schema;
			REQUIRE(arrow::ExportSchema(*batches[0]->schema(), &schema).ok());
			auto writer = Files().Create(schema, sink, ArrowWriteOptions {compression, is_stream}, error);
			REQUIRE(writer);
			std::vector<std::unique_ptr<ArrowPiece>> pieces(batches.size());
			std::vector<std::thread> threads;
			for (size_t i = 0; i < batches.size(); i++) {
				threads.emplace_back([&, i] {
					ArrowArray array;
					std::string unused;
					if (arrow::ExportRecordBatch(*batches[i], &array).ok()) {
						pieces[i] = writer->Prepare(array, unused);
					}
				});
			}
			for (auto &thread : threads) {
				thread.join();
			}
			for (auto &piece : pieces) {
				REQUIRE(piece);
				REQUIRE(writer->Write(*piece, error));
			}
			REQUIRE(writer->Close(error));
			auto buffer = std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(sink->bytes));
			arrow::RecordBatchVector found;
			if (is_stream) {
				found = arrow::ipc::RecordBatchStreamReader::Open(buffer).ValueOrDie()->ToRecordBatches().ValueOrDie();
			} else {
				found = arrow::ipc::RecordBatchFileReader::Open(buffer).ValueOrDie()->ToRecordBatches().ValueOrDie();
			}
			REQUIRE(found.size() == batches.size());
			for (size_t i = 0; i < found.size(); i++) {
				CHECK(found[i]->Equals(*batches[i], /*check_metadata=*/true));
			}
		}
	}
}

TEST_CASE("arrow plug-in: layouts that DuckDB reads wrongly become plain", "[arrow]") {
	auto words = MakeArray<arrow::StringBuilder>(std::vector<std::string> {"a", "b", "c", "", "e"});
	auto codes = MakeArray<arrow::Int8Builder>(std::vector<int8_t> {4, 0, 1, 0, 3, 2, 2, 1, 0, 4});
	auto dictionary =
	    arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int8(), arrow::utf8()), codes, words).ValueOrDie();
	auto texts =
	    MakeArray<arrow::StringBuilder>(std::vector<std::string> {"e", "a", "b", "", "", "c", "c", "b", "", "e"});
	// Of the dictionary: null where the code is, or where the word is
	std::vector<std::string> plain_texts {"e", "a", "b", "", "", "c", "c", "b", "", "e"};
	arrow::StringBuilder expected;
	for (size_t i = 0; i < 10; i++) {
		const bool is_null = i % 5 == 3 || plain_texts[i].empty();
		REQUIRE((is_null ? expected.AppendNull() : expected.Append(plain_texts[i])).ok());
	}
	// Code 0 is "a", which comes as null in row 8
	REQUIRE(codes->IsNull(8));
	auto decoded = expected.Finish().ValueOrDie();

	SECTION("a dictionary of its own stays") {
		auto found = ReadColumn(dictionary);
		CHECK(found->Equals(dictionary));
		CHECK(found->null_count() == codes->null_count());
	}
	SECTION("one in a list does not") {
		auto offsets = MakeArray<arrow::Int32Builder>(std::vector<int32_t> {0, 4, 10});
		auto list = arrow::ListArray::FromArrays(*offsets, *dictionary).ValueOrDie();
		auto found = ReadColumn(list);
		REQUIRE(found->type()->Equals(arrow::list(arrow::utf8())));
		auto &values = *static_cast<const arrow::ListArray &>(*found).values();
		CHECK(values.length() == 10);
		for (int64_t i = 0; i < 10; i++) {
			CHECK(values.IsNull(i) == decoded->IsNull(i));
		}
		CHECK(static_cast<const arrow::StringArray &>(values).GetView(5) == "c");
	}
	SECTION("list views, out of order and overlapping") {
		auto offsets = MakeArray<arrow::Int32Builder>(std::vector<int32_t> {7, 0, 5});
		auto sizes = MakeArray<arrow::Int32Builder>(std::vector<int32_t> {3, 2, 4});
		auto view = arrow::ListViewArray::FromArrays(*offsets, *sizes, *texts).ValueOrDie();
		auto found = ReadColumn(view);
		REQUIRE(found->type()->Equals(arrow::list(arrow::utf8())));
		for (int64_t i = 0; i < 3; i++) {
			CHECK(static_cast<const arrow::ListArray &>(*found).value_slice(i)->Equals(
			    static_cast<const arrow::ListViewArray &>(*view).value_slice(i)));
		}
	}
	SECTION("runs in a struct") {
		auto ends = arrow::Int16Builder();
		REQUIRE(ends.AppendValues(std::vector<int16_t> {2, 3, 7, 8, 10}).ok());
		auto runs = arrow::RunEndEncodedArray::Make(10, ends.Finish().ValueOrDie(), words).ValueOrDie();
		auto structs = arrow::StructArray::Make({runs}, {"r"}).ValueOrDie();
		auto found = ReadColumn(structs);
		REQUIRE(found->type()->field(0)->type()->Equals(arrow::utf8()));
		auto &values =
		    static_cast<const arrow::StringArray &>(*static_cast<const arrow::StructArray &>(*found).field(0));
		std::string text;
		for (int64_t i = 0; i < 10; i++) {
			text += values.IsNull(i) ? "-" : values.GetString(i);
		}
		CHECK(text == "aabcccc-ee");
	}
}

TEST_CASE("arrow plug-in: parts of a batch are the batch", "[arrow]") {
	auto batch = MakeBatch(0, 1000);
	for (auto compression : {arrow::Compression::UNCOMPRESSED, arrow::Compression::ZSTD}) {
		std::string error;
		auto file = Open(WriteWithArrow({batch, batch}, false, compression), error);
		auto layout = Files().Layout({file}, false, error);
		auto reader = layout->MakeReader(file, {0, 1, 2}, error);
		for (int64_t parts : {1, 2, 7, 1000, 1500}) {
			for (int64_t number : {0, 1}) {
				arrow::RecordBatchVector found;
				for (int64_t part = 0; part < parts; part++) {
					ArrowArray array;
					REQUIRE(reader->Read(number, part, parts, array, error));
					found.push_back(arrow::ImportRecordBatch(&array, batch->schema()).ValueOrDie());
				}
				auto table = arrow::Table::FromRecordBatches(found).ValueOrDie()->CombineChunksToBatch().ValueOrDie();
				CHECK(table->Equals(*batch));
			}
		}
		ArrowArray array;
		CHECK(!reader->Read(0, 2, 2, array, error));
		CHECK(!reader->Read(0, -1, 2, array, error));
	}
}

TEST_CASE("arrow plug-in: counts of nulls are counted", "[arrow]") {
	auto batch = MakeBatch(0, 100);
	std::string error;
	auto file = Open(WriteWithArrow({batch}, false), error);
	auto layout = Files().Layout({file}, false, error);
	auto reader = layout->MakeReader(file, {0, 1}, error);
	ArrowArray array;
	REQUIRE(reader->Read(0, 0, 1, array, error));
	CHECK(array.children[0]->null_count == 20);
	CHECK(array.children[1]->null_count == 20);
	array.release(&array);
}

TEST_CASE("arrow plug-in: errors are text", "[arrow]") {
	const char *why_not = nullptr;
	CHECK(!vibespatial_open_arrow(VIBESPATIAL_ARROW_INTERFACE "x", &why_not));
	CHECK(std::string(why_not).find("of another version than the extension") != std::string::npos);

	std::string error;
	CHECK(!Open("", error));
	CHECK(error.find("no Arrow IPC file") != std::string::npos);
	CHECK(!Open("FEA1 and more", error));
	CHECK(error.find("Feather V1") != std::string::npos);

	auto bytes = WriteWithArrow({MakeBatch(0, 100000)}, false, arrow::Compression::ZSTD);
	CHECK(!Open(bytes.substr(0, bytes.size() / 2), error));

	auto file = Open(bytes, error, 1000000);
	REQUIRE(file);
	auto layout = Files().Layout({file}, false, error);
	auto reader = layout->MakeReader(file, {1}, error);
	ArrowArray array;
	array.release = nullptr;
	CHECK(!reader->Read(0, 0, 1, array, error));
	CHECK(error.find("memory_limit") != std::string::npos);
	CHECK(!reader->Read(1, 0, 1, array, error));
	CHECK(!reader->Read(-1, 0, 1, array, error));
	CHECK(!array.release);

	ArrowInput input;
	auto failing = std::make_shared<MemoryBytes>(bytes);
	failing->fails_from = int64_t(bytes.size()) - 1;
	input.bytes = failing;
	CHECK(!Files().Open(input, error));
	CHECK(error.find("the disk is gone") != std::string::npos);

	auto sink = std::make_shared<MemorySink>();
	sink->limit = 2000;
	auto batch = MakeBatch(0, 1000);
	ArrowSchema schema;
	REQUIRE(arrow::ExportSchema(*batch->schema(), &schema).ok());
	auto writer = Files().Create(schema, sink, ArrowWriteOptions(), error);
	REQUIRE(writer);
	REQUIRE(arrow::ExportRecordBatch(*batch, &array).ok());
	auto piece = writer->Prepare(array, error);
	REQUIRE(piece);
	CHECK(!writer->Write(*piece, error));
	CHECK(error.find("the disk is full") != std::string::npos);
	// An array of another schema
	auto other = MakeArray<arrow::Int64Builder>(std::vector<int64_t> {1});
	REQUIRE(arrow::ExportArray(*other, &array).ok());
	CHECK(!writer->Prepare(array, error));
}

TEST_CASE("arrow plug-in: files of other columns", "[arrow]") {
	auto a = MakeBatch(0, 10);
	std::string error;
	auto first = Open(WriteWithArrow({a}, false), error);
	auto swapped =
	    arrow::RecordBatch::Make(arrow::schema({a->schema()->field(2), a->schema()->field(0), a->schema()->field(1)}),
	                             10, {a->column(2), a->column(0), a->column(1)});
	auto second = Open(WriteWithArrow({swapped}, true), error);
	auto layout = Files().Layout({first}, false, error);
	CHECK(layout->MakeReader(second, {0}, error));
	auto fewer = Open(WriteWithArrow({a->RemoveColumn(1).ValueOrDie()}, false), error);
	CHECK(!layout->MakeReader(fewer, {0}, error));
	CHECK(error.find("no column s") != std::string::npos);
	auto no_crs = Open(WriteWithArrow({a->ReplaceSchemaMetadata(nullptr)
	                                       ->SetColumn(2, arrow::field("g", arrow::binary()), a->column(2))
	                                       .ValueOrDie()},
	                                  false),
	                   error);
	CHECK(!layout->MakeReader(no_crs, {0}, error));
	CHECK(error.find("column g") != std::string::npos);
	auto by_name = Files().Layout({fewer, first}, true, error);
	auto reader = by_name->MakeReader(fewer, {2, 0}, error);
	REQUIRE(reader);
	ArrowArray array;
	REQUIRE(reader->Read(0, 0, 1, array, error));
	CHECK(array.children[0]->null_count == 10);
	CHECK(array.children[1]->null_count == 2);
	array.release(&array);
}
