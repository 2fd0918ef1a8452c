#include "engine/library_folders.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <glob.h>

namespace vibespatial {

static std::string Variable(const char *name) {
	auto value = std::getenv(name);
	return value ? value : "";
}

std::vector<std::string> SplitFolders(const std::string &list) {
	std::vector<std::string> result;
	for (size_t begin = 0; begin < list.size();) {
		auto end = std::min(list.find(':', begin), list.size());
		if (end > begin) {
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
	std::vector<std::string> roots {Variable("VIRTUAL_ENV"), Variable("CONDA_PREFIX")};
	if (!Variable("HOME").empty()) {
		roots.push_back(Variable("HOME") + "/.local");
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

} // namespace vibespatial
