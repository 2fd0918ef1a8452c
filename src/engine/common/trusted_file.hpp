//===----------------------------------------------------------------------===//
// engine/common/trusted_file.hpp
//
// Whether the code in a file may be run. Asked before a file is opened as a library or started as a program.
//===----------------------------------------------------------------------===//
#pragma once

#include <string>

namespace vibespatial {

//! Of vibespatial itself: the plug-ins, the compile helper, the release pack. True for the absolute path of a plain file that belongs to
//! the user or to root and that not everybody can write or replace; else false and why.
bool IsTrustedFile(const std::string &path, std::string &why_not);
//! Of another package: the same, but whoever installed it may own it
bool IsTrustedLibrary(const std::string &path, std::string &why_not);
//! Whether the bytes of a file contain a text: which interface a plug-in was built with is known before it is opened
bool FileContains(const std::string &path, const std::string &text);
//! The loader looks for a library without a path in the folders of LD_LIBRARY_PATH. False, and why, where one of them is relative and
//! has a file of that name.
bool IsSafeForLoader(const std::string &name, std::string &why_not);

} // namespace vibespatial
