#include "arrow_plugin/plugin.hpp"

#include <arrow/c/bridge.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>

namespace vibespatial {

namespace {

using arrow::Result;
using arrow::Status;

class HostSink final : public arrow::io::OutputStream {
public:
	explicit HostSink(std::shared_ptr<ArrowSink> sink_p) : sink(std::move(sink_p)) {
	}
	~HostSink() override = default;

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
	Status Write(const void *data, int64_t count) override {
		std::string error;
		if (!sink->Write(data, count, error)) {
			return Status::IOError(error);
		}
		position += count;
		return Status::OK();
	}
	using arrow::io::OutputStream::Write;

private:
	std::shared_ptr<ArrowSink> sink;
	int64_t position = 0;
	bool is_closed = false;
};

struct Piece final : public ArrowPiece {
	std::shared_ptr<arrow::RecordBatch> batch;
	arrow::ipc::IpcPayload payload;
};

//! What Arrow's own RecordBatchWriter does, cut in two: compression runs on many threads, writing on one
class Writer final : public ArrowWriter {
public:
	Status Open(ArrowSchema &given, std::shared_ptr<ArrowSink> host, const ArrowWriteOptions &write_options) {
		ARROW_ASSIGN_OR_RAISE(auto imported, arrow::ImportSchema(&given));
		arrow::FieldVector fields;
		for (auto &field : imported->fields()) {
			// A registered extension type is written as any other: its storage, and its name in the metadata
			fields.push_back(StorageField(field));
		}
		schema = arrow::schema(std::move(fields), imported->metadata());
		options = arrow::ipc::IpcWriteOptions::Defaults();
		options.use_threads = false;
		if (write_options.compression != ArrowCompression::NONE) {
			ARROW_ASSIGN_OR_RAISE(options.codec,
			                      arrow::util::Codec::Create(write_options.compression == ArrowCompression::ZSTD
			                                                     ? arrow::Compression::ZSTD
			                                                     : arrow::Compression::LZ4_FRAME));
		}
		mapper = std::make_unique<arrow::ipc::DictionaryFieldMapper>(*schema);
		sink = std::make_shared<HostSink>(std::move(host));
		if (write_options.is_stream) {
			ARROW_ASSIGN_OR_RAISE(writer, arrow::ipc::internal::MakePayloadStreamWriter(sink.get(), options));
		} else {
			ARROW_ASSIGN_OR_RAISE(writer, arrow::ipc::internal::MakePayloadFileWriter(sink.get(), schema, options));
		}
		ARROW_RETURN_NOT_OK(writer->Start());
		arrow::ipc::IpcPayload payload;
		ARROW_RETURN_NOT_OK(arrow::ipc::GetSchemaPayload(*schema, options, *mapper, &payload));
		return writer->WritePayload(payload);
	}

	std::unique_ptr<ArrowPiece> Prepare(ArrowArray &array, std::string &error) const override {
		auto piece = std::make_unique<Piece>();
		const bool made = Guarded(error, [&]() -> Status {
			ARROW_ASSIGN_OR_RAISE(piece->batch, arrow::ImportRecordBatch(&array, schema));
			return arrow::ipc::GetRecordBatchPayload(*piece->batch, options, &piece->payload);
		});
		return made ? std::move(piece) : nullptr;
	}

	bool Write(const ArrowPiece &given, std::string &error) override {
		auto &piece = static_cast<const Piece &>(given);
		return Guarded(error, [&]() -> Status {
			if (!has_dictionaries) {
				// A dictionary is an ENUM, which has the same values in every batch
				ARROW_ASSIGN_OR_RAISE(auto dictionaries, arrow::ipc::CollectDictionaries(*piece.batch, *mapper));
				for (auto &dictionary : dictionaries) {
					arrow::ipc::IpcPayload payload;
					ARROW_RETURN_NOT_OK(
					    arrow::ipc::GetDictionaryPayload(dictionary.first, dictionary.second, options, &payload));
					ARROW_RETURN_NOT_OK(writer->WritePayload(payload));
				}
				has_dictionaries = true;
			}
			return writer->WritePayload(piece.payload);
		});
	}

	bool Close(std::string &error) override {
		return Guarded(error, [&] { return writer->Close(); });
	}

private:
	std::shared_ptr<arrow::Schema> schema;
	arrow::ipc::IpcWriteOptions options;
	std::unique_ptr<arrow::ipc::DictionaryFieldMapper> mapper;
	std::shared_ptr<HostSink> sink;
	std::unique_ptr<arrow::ipc::internal::IpcPayloadWriter> writer;
	bool has_dictionaries = false;
};

} // namespace

std::unique_ptr<ArrowWriter> MakeArrowWriter(ArrowSchema &schema, std::shared_ptr<ArrowSink> sink,
                                             const ArrowWriteOptions &options, std::string &error) {
	auto writer = std::make_unique<Writer>();
	return Guarded(error, [&] { return writer->Open(schema, std::move(sink), options); }) ? std::move(writer) : nullptr;
}

} // namespace vibespatial
