#include "engine/arrow/arrow_runtime.hpp"

#include "engine/arrow/version.hpp"
#include "engine/common/library_folders.hpp"
#include "engine/common/trusted_file.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace vibespatial {

namespace {

constexpr const char *PLUGIN = "libvibespatial_arrow.so";
//! What the name of every libarrow begins with; the digits behind it are its version
constexpr const char *STEM = "libarrow.so.";

std::string Variable(const char *name) {
	auto value = std::getenv(name);
	return value ? value : "";
}

bool IsFile(const std::string &path) {
	struct stat found;
	return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && access(path.c_str(), R_OK) == 0;
}

bool IsFolder(const std::string &path) {
	struct stat found;
	return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

std::string FindPlugin(std::string &why_not) {
	std::vector<std::string> folders;
	auto given = Variable("VIBESPATIAL_ARROW_FOLDER");
	if (!given.empty()) {
		folders = {given};
	} else {
		folders = PluginFolders();
	}
	std::string searched;
	for (auto &folder : folders) {
		// The loader would look for a relative path in the current folder
		if (folder[0] == '/' && IsFile(folder + "/" + PLUGIN)) {
			return folder + "/" + PLUGIN;
		}
		searched += (searched.empty() ? "" : " or ") + folder;
	}
	why_not = std::string(PLUGIN) + " was not found in " + searched +
	          ": this installation has no Arrow plug-in; 'make' builds it, and VIBESPATIAL_ARROW_FOLDER names another "
	          "folder (an absolute path)";
	return "";
}

//! The name of the libarrow that a plug-in was linked with, which stands in it as text
std::string WantedLibrary(const std::string &plugin) {
	std::ifstream file(plugin, std::ios::binary);
	std::string bytes {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
	const std::string stem = STEM;
	for (auto at = bytes.find(stem); at != std::string::npos; at = bytes.find(stem, at + 1)) {
		auto end = at + stem.size();
		while (end < bytes.size() && bytes[end] >= '0' && bytes[end] <= '9') {
			end++;
		}
		if (end > at + stem.size() && end < bytes.size() && bytes[end] == 0) {
			return bytes.substr(at, end - at);
		}
	}
	return "";
}

//! libarrow.so.2600 is of version 26
std::string MajorVersion(const std::string &library) {
	auto digits = library.substr(library.rfind('.') + 1);
	return digits.size() > 2 ? digits.substr(0, digits.size() - 2) : digits;
}

//! The files of libarrow that the process has loaded, of any version
std::vector<std::string> LoadedLibraries() {
	std::vector<std::string> result;
	dl_iterate_phdr(
	    [](dl_phdr_info *info, size_t, void *found) {
		    std::string path = info->dlpi_name ? info->dlpi_name : "";
		    if (path.find(std::string("/") + STEM) != std::string::npos) {
			    static_cast<std::vector<std::string> *>(found)->push_back(path);
		    }
		    return 0;
	    },
	    &result);
	return result;
}

//! Where libarrow may lie, the likeliest first
std::vector<std::string> LibraryFolders(const std::string &plugin_folder) {
	std::vector<std::string> folders;
	for (auto &path : LoadedLibraries()) {
		folders.push_back(path.substr(0, path.rfind('/')));
	}
	folders.push_back(plugin_folder);
	for (auto &folder : SplitFolders(Variable("VIBESPATIAL_LIBRARY_PATH"))) {
		folders.push_back(folder);
	}
	for (auto &packages : PackageFolders()) {
		folders.push_back(packages + "/pyarrow");
	}
	if (!FolderVariable("CONDA_PREFIX").empty()) {
		folders.push_back(FolderVariable("CONDA_PREFIX") + "/lib");
	}
	std::vector<std::string> result;
	for (auto &folder : folders) {
		if (folder[0] == '/' && std::find(result.begin(), result.end(), folder) == result.end()) {
			result.push_back(folder);
		}
	}
	return result;
}

//! Other versions of libarrow in a folder, for the message
std::vector<std::string> OtherLibraries(const std::string &folder) {
	std::vector<std::string> result;
	glob_t found;
	// A folder with characters of patterns in its name finds nothing, which only makes the message shorter
	if (glob((folder + "/" + STEM + "*").c_str(), 0, nullptr, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			result.emplace_back(found.gl_pathv[i]);
		}
	}
	globfree(&found);
	return result;
}

std::string LoaderError() {
	auto error = dlerror();
	return error ? error : "the loader does not say why";
}

std::string Advice(const std::string &wanted) {
	return "'pip install \"pyarrow==" + MajorVersion(wanted) +
	       ".*\"' gets it; SET vibe_arrow_library = '<folder>' (an absolute path) names the folder of another " +
	       wanted;
}

} // namespace

ArrowRuntime &ArrowRuntime::Get() {
	static auto *runtime = new ArrowRuntime();
	return *runtime;
}

ArrowRuntime::ArrowRuntime() {
	// A child must not find the lock of a thread that it does not have
	pthread_atfork([] { Get().lock.lock(); }, [] { Get().lock.unlock(); }, [] { Get().lock.unlock(); });
}

const ArrowFiles *ArrowRuntime::IfOpen() {
	std::lock_guard<std::mutex> guard(lock);
	return files;
}

std::string ArrowRuntime::LibraryPath() {
	std::lock_guard<std::mutex> guard(lock);
	return library_path;
}

const ArrowFiles *ArrowRuntime::Files(const std::string &library, std::string &why_not) {
	std::lock_guard<std::mutex> guard(lock);
	if (!files) {
		files = Open(library, why_not);
	}
	return files;
}

const ArrowFiles *ArrowRuntime::Open(const std::string &library, std::string &why_not) {
	auto plugin = FindPlugin(why_not);
	if (plugin.empty()) {
		return nullptr;
	}
	if (!IsTrustedFile(plugin, why_not)) {
		why_not = "the Arrow plug-in is not used: " + why_not;
		return nullptr;
	}
	auto wanted = WantedLibrary(plugin);
	if (wanted.empty()) {
		why_not = plugin + " does not say which libarrow it needs: it is no Arrow plug-in of vibespatial";
		return nullptr;
	}
	std::string path, seen;
	if (!library.empty()) {
		path = IsFolder(library) ? library + "/" + wanted : library;
		if (path[0] != '/' || !IsFile(path) || path.substr(path.rfind('/') + 1) != wanted) {
			why_not = "vibe_arrow_library = '" + library + "' is neither the absolute path of a " + wanted +
			          " nor of a folder that holds it. " + wanted + " is of Apache Arrow C++ " + MajorVersion(wanted) +
			          ": " + Advice(wanted);
			return nullptr;
		}
	} else {
		for (auto &folder : LibraryFolders(plugin.substr(0, plugin.rfind('/')))) {
			if (IsFile(folder + "/" + wanted)) {
				path = folder + "/" + wanted;
				break;
			}
			for (auto &other : OtherLibraries(folder)) {
				seen += (seen.empty() ? "" : ", ") + other + " (version " + MajorVersion(other) + ")";
			}
		}
	}
	if (!FileContains(plugin, VIBESPATIAL_ARROW_INTERFACE)) {
		why_not = plugin + " was built with another interface than the extension (" + VIBESPATIAL_ARROW_INTERFACE +
		          "): install both from the same package";
		return nullptr;
	}
	// Without a path the loader looks in the folders of the system
	if (path.empty() ? !IsSafeForLoader(wanted, why_not) : !IsTrustedLibrary(path, why_not)) {
		why_not = "libarrow is not used: " + why_not + ". " + Advice(wanted);
		return nullptr;
	}
	auto handle = dlopen(path.empty() ? wanted.c_str() : path.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		auto reason = LoaderError();
		if (path.empty()) {
			why_not = "Arrow files need Apache Arrow C++ " + MajorVersion(wanted) + " (" + wanted +
			          "), which was not found" +
			          (seen.empty() ? std::string() : "; found was what is of another version: " + seen) + ". " +
			          Advice(wanted);
		} else {
			why_not = "libarrow could not be loaded: " + reason + ". " + Advice(wanted);
		}
		return nullptr;
	}
	// Stays open from here on, as the plug-in does: its arrays are released by its own code
	if (!dlsym(handle, "_ZN5arrow12GetBuildInfoEv")) {
		why_not = (path.empty() ? wanted : path) + " is no library of Apache Arrow C++: " + LoaderError() + ". " +
		          Advice(wanted);
		return nullptr;
	}
	auto opened = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!opened) {
		why_not = "the Arrow plug-in could not be loaded: " + LoaderError() + ". It was built with " + wanted + ": " +
		          Advice(wanted);
		return nullptr;
	}
	auto open = reinterpret_cast<OpenArrowFunction>(dlsym(opened, OPEN_ARROW_FUNCTION));
	if (!open) {
		why_not = plugin + " is no Arrow plug-in of vibespatial: " + LoaderError();
		return nullptr;
	}
	const char *reason = nullptr;
	auto result = open(VIBESPATIAL_ARROW_INTERFACE, &reason);
	if (!result) {
		why_not = plugin + ": " + (reason ? reason : "it does not say why it does not open") + ". " + Advice(wanted);
		return nullptr;
	}
	Dl_info info;
	auto symbol = dlsym(handle, "_ZN5arrow12GetBuildInfoEv");
	library_path = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : path;
	return result;
}

} // namespace vibespatial
