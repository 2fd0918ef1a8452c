//===----------------------------------------------------------------------===//
// engine/arrow/arrow_runtime.hpp
//
// Opens the Arrow plug-in, once a query asks for it: first the libarrow that it was built with, from the user's pyarrow or the
// system, then the plug-in, whose need of that library is met by then. There is nothing of Arrow C++ here.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/arrow/arrow_files.hpp"

#include <mutex>

namespace vibespatial {

class ArrowRuntime {
public:
	static ArrowRuntime &Get();

	//! The plug-in, opened where nobody has yet; nothing, and what to do about it, where that fails, which is tried anew
	//! each time. `library` is the file or folder to take libarrow from, empty: wherever it is found.
	const ArrowFiles *Files(const std::string &library, std::string &why_not);
	//! The plug-in where it is open already
	const ArrowFiles *IfOpen();
	//! The file of libarrow that is used; empty while none is
	std::string LibraryPath();

private:
	ArrowRuntime();
	const ArrowFiles *Open(const std::string &library, std::string &why_not);

	std::mutex lock;
	const ArrowFiles *files = nullptr;
	std::string library_path;
};

} // namespace vibespatial
