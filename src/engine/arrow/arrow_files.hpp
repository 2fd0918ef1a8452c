//===----------------------------------------------------------------------===//
// engine/arrow/arrow_files.hpp
//
// Where the extension and its Arrow plug-in meet. Schemas and batches cross as structs of the Arrow C data interface, so the
// extension knows nothing of Arrow C++. Nothing here throws: what fails returns false (or nothing) and says why in `error`. Both sides
// first compare VIBESPATIAL_ARROW_INTERFACE, a hash of the headers in this folder (scripts/hash_interface.py).
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct ArrowSchema;
struct ArrowArray;

namespace vibespatial {

//! What the host reads for the plug-in where a file cannot be mapped
class ArrowBytes {
public:
	virtual ~ArrowBytes() = default;
	virtual int64_t Size() const = 0;
	//! Reads exactly so many bytes; any thread may call it
	virtual bool Read(int64_t position, int64_t count, void *target, std::string &error) = 0;
};

//! What the host writes for the plug-in
class ArrowSink {
public:
	virtual ~ArrowSink() = default;
	virtual bool Write(const void *data, int64_t count, std::string &error) = 0;
};

struct ArrowInput {
	//! The file as the user knows it
	std::string name;
	//! The path to map into memory; empty: `bytes` are read
	std::string map_path;
	std::shared_ptr<ArrowBytes> bytes;
	//! Bytes that the plug-in may hold beside the mapped file
	int64_t memory_limit = 0;
};

//! An open file of the IPC file or stream format. Never changes, so threads share it.
class ArrowFile {
public:
	virtual ~ArrowFile() = default;
	//! A stream is read from its begin to its end; the batches of a file in any order
	virtual bool IsStream() const = 0;
	virtual int64_t BatchCount() const = 0;
	//! As the metadata have it; not of a stream
	virtual bool CountRows(int64_t &rows, std::string &error) const = 0;
	virtual int64_t ByteCount() const = 0;
};

//! Reads batches of one file; each thread has its own. A batch was validated in full: no offset and no index in it leads
//! out of its buffers, and its strings are UTF-8. It keeps what it needs alive after the reader is gone.
class ArrowReader {
public:
	virtual ~ArrowReader() = default;
	//! One of so many equal parts of a batch, for threads that share it; parts of one batch in turn read it once
	virtual bool Read(int64_t batch, int64_t part, int64_t parts, ArrowArray &result, std::string &error) = 0;
	//! The next batch of a stream; `is_end` after the last
	virtual bool Next(ArrowArray &result, bool &is_end, std::string &error) = 0;
	//! Bytes of a stream that were read
	virtual int64_t Position() const = 0;
};

//! The columns of one or more files
class ArrowLayout {
public:
	virtual ~ArrowLayout() = default;
	//! The caller releases it
	virtual bool Schema(ArrowSchema &result, std::string &error) const = 0;
	//! A reader of these columns, in that order, and of nothing else; with no column, batches have a length alone. Fails
	//! where the file has other columns than the layout.
	virtual std::unique_ptr<ArrowReader> MakeReader(std::shared_ptr<const ArrowFile> file,
	                                                const std::vector<int> &columns, std::string &error) const = 0;
};

enum class ArrowCompression : uint8_t { NONE, LZ4, ZSTD };

struct ArrowWriteOptions {
	ArrowCompression compression = ArrowCompression::NONE;
	bool is_stream = false;
};

//! A record batch as the bytes of a file
class ArrowPiece {
public:
	virtual ~ArrowPiece() = default;
};

class ArrowWriter {
public:
	virtual ~ArrowWriter() = default;
	//! Takes the array over and compresses it; any thread may call it
	virtual std::unique_ptr<ArrowPiece> Prepare(ArrowArray &array, std::string &error) const = 0;
	//! One at a time
	virtual bool Write(const ArrowPiece &piece, std::string &error) = 0;
	//! Writes what ends the file
	virtual bool Close(std::string &error) = 0;
};

class ArrowFiles {
public:
	//! Of Apache Arrow C++, such as 26.0.1
	virtual std::string Version() const = 0;
	virtual std::shared_ptr<const ArrowFile> Open(const ArrowInput &input, std::string &error) const = 0;
	//! The columns of the files: all have to have the same, in whatever order; by name: each has some of them
	virtual std::unique_ptr<ArrowLayout> Layout(const std::vector<std::shared_ptr<const ArrowFile>> &files,
	                                            bool by_name, std::string &error) const = 0;
	//! Takes the schema over
	virtual std::unique_ptr<ArrowWriter> Create(ArrowSchema &schema, std::shared_ptr<ArrowSink> sink,
	                                            const ArrowWriteOptions &options, std::string &error) const = 0;

protected:
	//! Lives as long as the process
	~ArrowFiles() = default;
};

//! The one function of the plug-in: nothing and the reason where it was made for another interface or another Arrow
using OpenArrowFunction = const ArrowFiles *(*)(const char *interface_version, const char **why_not);
constexpr const char *OPEN_ARROW_FUNCTION = "vibespatial_open_arrow";

} // namespace vibespatial
