//===----------------------------------------------------------------------===//
// engine/common/library_folders.hpp
//
// Where shared libraries of other packages may lie: the runtime looks there before the plug-in is open, the plug-in after. All of these
// are absolute paths: what lies in the current folder must not be run by chance.
//===----------------------------------------------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace vibespatial {

//! The folder that an environment variable names; empty where it is relative
std::string FolderVariable(const char *name);
//! The folders of a list such as PATH, without those that are relative
std::vector<std::string> SplitFolders(const std::string &list);
//! Where pip puts packages; first the folder that this very process has its modules from
std::vector<std::string> PackageFolders();
//! Where a plug-in may lie if nobody says where: beside the extension, beside the folder of its DuckDB version, in the Python package
std::vector<std::string> PluginFolders();

} // namespace vibespatial
