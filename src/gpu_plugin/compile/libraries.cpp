#include "gpu_plugin/compile/libraries.hpp"

#include "gpu_plugin/compile/sha256.hpp"
#include "engine/common/library_folders.hpp"
#include "engine/common/trusted_file.hpp"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace vibespatial {

namespace {

std::string Below(const std::string &folder, const std::string &name) {
	std::string path = folder;
	path += '/';
	path += name;
	return path;
}

bool Exists(const std::string &path) {
	return access(path.c_str(), F_OK) == 0;
}

//! Folders in `folder` whose name begins with `prefix`
std::vector<std::string> Children(const std::string &folder, const char *prefix) {
	std::vector<std::string> found;
	if (DIR *dir = opendir(folder.c_str())) {
		while (auto *item = readdir(dir)) {
			if (std::strncmp(item->d_name, prefix, std::strlen(prefix)) == 0) {
				found.push_back(folder + "/" + item->d_name);
			}
		}
		closedir(dir);
	}
	return found;
}

//! Where a loaded library lies
std::string PathOf(void *handle) {
	link_map *map = nullptr;
	if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void *>(&map)) != 0 || !map || !map->l_name) {
		return "";
	}
	char resolved[PATH_MAX];
	return realpath(map->l_name, resolved) ? resolved : map->l_name;
}

bool FileDigest(const std::string &path, std::string &hex) {
	FILE *file = std::fopen(path.c_str(), "rb");
	if (!file) {
		return false;
	}
	Sha256 hash;
	std::vector<char> block(1 << 16);
	size_t got;
	while ((got = std::fread(block.data(), 1, block.size(), file)) > 0) {
		hash.Add(block.data(), got);
	}
	std::fclose(file);
	hex = Sha256::Hex(hash.Finish());
	return true;
}

} // namespace

void *SharedLibrary::Symbol(const char *name) const {
	return handle ? dlsym(handle, name) : nullptr;
}

const char *Libraries::CcclVersion() {
	return VIBESPATIAL_CCCL_VERSION;
}

Libraries::Libraries(const GpuOptions &options, bool compile_only)
    : compile_only(compile_only), folder(options.folder), roots(PackageFolders()) {
	for (auto &path : options.library_folders) {
		if (!path.empty() && path[0] == '/') {
			named.push_back(path);
		}
	}
	const char *list = std::getenv("VIBESPATIAL_LIBRARY_PATH");
	for (auto &path : SplitFolders(list ? list : "")) {
		named.push_back(path);
	}
}

std::vector<std::string> Libraries::Folders(const std::vector<std::string> &below) const {
	auto folders = named;
	if (!folder.empty()) {
		folders.push_back(folder);
	}
	for (auto &root : roots) {
		for (auto &path : below) {
			folders.push_back(Below(root, path));
		}
	}
	for (const char *variable : {"CUDA_HOME", "CUDA_PATH"}) {
		const auto home = FolderVariable(variable);
		if (!home.empty()) {
			folders.push_back(home + "/lib64");
			folders.push_back(home + "/lib");
		}
	}
	for (auto &cuda : {std::string("/usr/local/cuda-13"), std::string("/usr/local/cuda")}) {
		folders.push_back(cuda + "/lib64");
	}
	for (auto &cuda : Children("/usr/local", "cuda-13.")) {
		folders.push_back(cuda + "/lib64");
	}
	return folders;
}

bool Libraries::Open(SharedLibrary &library, const std::string &name, const std::vector<std::string> &folders,
                     bool system, const char *digest) {
	std::string failure;
	// A library runs code as soon as it is opened
	auto check = [&](const std::string &path) {
		std::string found;
		if (!IsTrustedLibrary(path, failure)) {
			return false;
		}
		if (digest && (!FileDigest(path, found) || found != digest)) {
			failure = path + " is not the one of cuda-cccl " VIBESPATIAL_CCCL_VERSION;
			return false;
		}
		return true;
	};
	auto attempt = [&](const std::string &path) {
		library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
		if (!library.handle) {
			const char *text = dlerror();
			failure = text ? text : path;
			return false;
		}
		library.component.found = true;
		library.component.path = PathOf(library.handle);
		return true;
	};
	for (auto &path : folders) {
		const auto file = Below(path, name);
		if (Exists(file) && check(file) && attempt(file)) {
			return true;
		}
	}
	if (system && IsSafeForLoader(name, failure) && attempt(name)) {
		return true;
	}
	library.component.detail = failure.empty() ? name + " was not found" : failure;
	return false;
}

SharedLibrary &Libraries::Driver() {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!looked_driver) {
		looked_driver = true;
		driver.component.name = "libcuda";
		if (Open(driver, "libcuda.so.1", named, true)) {
			int version = 0;
			if (auto get = driver.Get<int (*)(int *)>("cuDriverGetVersion")) {
				get(&version);
			}
			driver.component.version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
		} else {
			driver.component.detail += "; it comes with the NVIDIA driver: without one there is no GPU to use";
		}
	}
	return driver;
}

SharedLibrary &Libraries::Nvrtc() {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!looked_nvrtc) {
		looked_nvrtc = true;
		nvrtc.component.name = "libnvrtc";
		if (Open(nvrtc, "libnvrtc.so.13", Folders({"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}), true)) {
			int major = 0, minor = 0;
			if (auto get = nvrtc.Get<int (*)(int *, int *)>("nvrtcVersion")) {
				get(&major, &minor);
			}
			nvrtc_version = std::to_string(major) + "." + std::to_string(minor);
			nvrtc.component.version = nvrtc_version;
		} else {
			nvrtc.component.detail += "; pip install nvidia-cuda-nvrtc brings it, as does the CUDA 13 toolkit";
		}
	}
	return nvrtc;
}

const std::string &Libraries::NvrtcVersion() {
	Nvrtc();
	return nvrtc_version;
}

SharedLibrary &Libraries::NvJitLink() {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!looked_jitlink) {
		looked_jitlink = true;
		jitlink.component.name = "libnvJitLink";
		if (Open(jitlink, "libnvJitLink.so.13", Folders({"nvidia/cu13/lib", "nvidia/nvjitlink/lib"}), true)) {
			unsigned major = 0, minor = 0;
			if (auto get = jitlink.Get<int (*)(unsigned *, unsigned *)>("nvJitLinkVersion")) {
				get(&major, &minor);
			}
			jitlink.component.version = std::to_string(major) + "." + std::to_string(minor);
		} else {
			jitlink.component.detail += "; pip install nvidia-nvjitlink brings it, as does the CUDA 13 toolkit";
		}
	}
	return jitlink;
}

SharedLibrary &Libraries::Cccl() {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!looked_cccl) {
		looked_cccl = true;
		cccl.component.name = "libcccl.c.parallel";
		const std::string hint = "; pip install cuda-cccl==" VIBESPATIAL_CCCL_VERSION " brings it";
		// It is linked with these two: opened from where we found them, the loader takes them by their names
		if (!Nvrtc() || !NvJitLink()) {
			cccl.component.detail = "needs libnvrtc and libnvJitLink";
			return cccl;
		}
		// And with the driver's library, of which compiling uses nothing
		const auto stand_in = folder + "/no-driver/libcuda.so.1";
		std::string unused;
		if (!Driver() &&
		    (!compile_only || !IsTrustedFile(stand_in, unused) || !dlopen(stand_in.c_str(), RTLD_NOW | RTLD_GLOBAL))) {
			cccl.component.detail = "needs libcuda, the NVIDIA driver";
			return cccl;
		}
		// Its interface changes from version to version without a sign: the one this was built with, or none
		if (!Open(cccl, "libcccl.c.parallel.so", Folders({"cuda/compute/cu13/cccl"}), false, VIBESPATIAL_CCCL_SHA256)) {
			cccl.component.detail += hint;
			return cccl;
		}
		cccl.component.version = VIBESPATIAL_CCCL_VERSION;
	}
	return cccl;
}

const GpuComponent &Libraries::CcclHeaders() {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!looked_headers) {
		looked_headers = true;
		headers.name = "CCCL headers";
		auto folders = named;
		folders.push_back(folder + "/cccl");
		for (auto &root : roots) {
			folders.push_back(root + "/cuda/cccl/headers/include");
		}
		for (auto &path : folders) {
			if (Exists(path + "/cub/version.cuh")) {
				headers.found = true;
				headers.path = path;
				headers.version = VIBESPATIAL_CCCL_VERSION;
				return headers;
			}
		}
		headers.detail = "cub/version.cuh was not found; pip install cuda-cccl==" VIBESPATIAL_CCCL_VERSION
		                 " brings it; only algorithms that the release pack does not have need it";
	}
	return headers;
}

const GpuComponent &Libraries::Helper() {
	std::lock_guard<std::recursive_mutex> guard(lock);
	if (!looked_helper) {
		looked_helper = true;
		helper.name = "vibespatial-compile";
		const char *given = std::getenv("VIBESPATIAL_COMPILE_HELPER");
		helper.path = given && *given ? given : folder + "/vibespatial-compile";
		std::string problem;
		if (!IsTrustedFile(helper.path, problem)) {
			helper.detail = problem;
		} else if (access(helper.path.c_str(), X_OK) != 0) {
			helper.detail = helper.path + " cannot be run";
		}
		helper.found = helper.detail.empty();
		if (helper.found) {
			helper.version = VIBESPATIAL_VERSION;
		} else {
			helper.detail += "; algorithms come from the release pack alone";
		}
	}
	return helper;
}

} // namespace vibespatial
