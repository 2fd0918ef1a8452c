//===----------------------------------------------------------------------===//
// arrow_plugin/plugin.hpp
//
// The parts of the Arrow plug-in. Inside, errors are arrow::Status; they become text where the interface begins.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/arrow/arrow_files.hpp"

#include <arrow/api.h>

namespace vibespatial {

//! DuckDB's scan reads some layouts wrongly where they are nested, or cannot read them: list views, and dictionaries and
//! runs below the first level. They become plain lists and plain values. Extension types become their storage, with the
//! name in the field's metadata: what a registered type would do is DuckDB's to do.
std::shared_ptr<arrow::Field> PlainField(const std::shared_ptr<arrow::Field> &field);
//! Extension types alone become their storage
std::shared_ptr<arrow::Field> StorageField(const std::shared_ptr<arrow::Field> &field);
//! An array of a field in the type of its plain field; valid input is expected
arrow::Result<std::shared_ptr<arrow::Array>> PlainArray(const std::shared_ptr<arrow::Array> &array,
                                                        const arrow::Field &plain, arrow::MemoryPool *pool);

//! The memory of all files that are read; more than the limit is an error instead of the end of the process
arrow::MemoryPool *ReadMemory();
void SetReadLimit(int64_t bytes);

std::shared_ptr<const ArrowFile> OpenArrowFile(const ArrowInput &input, std::string &error);
std::unique_ptr<ArrowLayout> MakeArrowLayout(const std::vector<std::shared_ptr<const ArrowFile>> &files, bool by_name,
                                             std::string &error);
std::unique_ptr<ArrowWriter> MakeArrowWriter(ArrowSchema &schema, std::shared_ptr<ArrowSink> sink,
                                             const ArrowWriteOptions &options, std::string &error);

//! What a status says, without the name of its code where that says nothing
std::string StatusText(const arrow::Status &status);

//! Runs what returns a Status and may throw; false and the text where it failed
template <class RUN>
bool Guarded(std::string &error, RUN &&run) {
	arrow::Status status;
	try {
		status = run();
	} catch (const std::bad_alloc &) {
		status = arrow::Status::OutOfMemory("out of memory");
	} catch (const std::exception &thrown) {
		status = arrow::Status::UnknownError(thrown.what());
	} catch (...) {
		status = arrow::Status::UnknownError("an error without a text");
	}
	if (!status.ok()) {
		error = StatusText(status);
	}
	return status.ok();
}

} // namespace vibespatial
