#include "engine/common/library_folders.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <glob.h>
#include <link.h>
#include <unistd.h>

namespace vibespatial {

static std::string Variable(const char *name) {
	auto value = std::getenv(name);
	return value ? value : "";
}

std::string FolderVariable(const char *name) {
	auto value = Variable(name);
	return !value.empty() && value[0] == '/' ? value : "";
}

std::vector<std::string> SplitFolders(const std::string &list) {
	std::vector<std::string> result;
	for (size_t begin = 0; begin < list.size();) {
		auto end = std::min(list.find(':', begin), list.size());
		if (end > begin && list[begin] == '/') {
			result.push_back(list.substr(begin, end - begin));
		}
		begin = end + 1;
	}
	return result;
}

static void AddMatches(const std::string &pattern, std::vector<std::string> &result) {
	glob_t found;
	if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
		result.insert(result.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
	}
	globfree(&found);
}

std::vector<std::string> PackageFolders() {
	std::vector<std::string> result;
	std::ifstream maps("/proc/self/maps");
	for (std::string line; std::getline(maps, line);) {
		auto begin = line.find('/');
		auto end = line.find("-packages/");
		if (begin != std::string::npos && end != std::string::npos) {
			auto folder = line.substr(begin, end + sizeof("-packages") - 1 - begin);
			if (std::find(result.begin(), result.end(), folder) == result.end()) {
				result.push_back(folder);
			}
		}
	}
	for (auto &folder : SplitFolders(Variable("PYTHONPATH"))) {
		result.push_back(folder);
	}
	std::vector<std::string> roots {FolderVariable("VIRTUAL_ENV"), FolderVariable("CONDA_PREFIX")};
	if (!FolderVariable("HOME").empty()) {
		roots.push_back(FolderVariable("HOME") + "/.local");
	}
	roots.emplace_back("/usr/local");
	roots.emplace_back("/usr");
	for (auto &root : roots) {
		if (!root.empty()) {
			AddMatches(root + "/lib/python3*/site-packages", result);
			AddMatches(root + "/lib/python3*/dist-packages", result);
		}
	}
	return result;
}

//! The folder of the file that this code is in: the extension, or the program that it was linked into
static std::string OwnFolder() {
	static const char here = 0;
	Dl_info info;
	link_map *object = nullptr;
	char path[PATH_MAX];
	if (!dladdr1(&here, &info, reinterpret_cast<void **>(&object), RTLD_DL_LINKMAP) || !object) {
		return "";
	}
	// The name of the program itself is empty here, and whatever it was started by in dli_fname
	if (!realpath(object->l_name[0] ? object->l_name : "/proc/self/exe", path)) {
		return "";
	}
	std::string file = path;
	return file.substr(0, file.rfind('/'));
}

std::vector<std::string> PluginFolders() {
	std::vector<std::string> result;
	auto own = OwnFolder();
	if (!own.empty()) {
		auto parent = own.substr(0, own.rfind('/'));
		// In the Python package plug-ins are beside the folders of the DuckDB versions
		result = {own + "/vibespatial", own, parent + "/vibespatial"};
		// In DuckDB's build tree they are beside the loadable extension, and programs are in the folder above, or in one beside it
		for (auto &folder : {own, parent}) {
			result.push_back(folder + "/extension/vibespatial/vibespatial");
		}
	}
	// INSTALL copies the extension alone: the plug-ins of the Python package stay there
	for (auto &packages : PackageFolders()) {
		auto folder = packages + "/vibespatial/extensions/vibespatial";
		if (access(folder.c_str(), R_OK) == 0 && std::find(result.begin(), result.end(), folder) == result.end()) {
			result.push_back(std::move(folder));
		}
	}
	return result;
}

} // namespace vibespatial
