#include "gpu_plugin/compile/kernel_cache.hpp"

#include "gpu_plugin/compile/write_all.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace vibespatial {

namespace {

//! Kernels are a few hundred kilobytes
constexpr off_t LARGEST_FILE = 256 << 20;

std::string ErrorText() {
	return std::strerror(errno);
}

std::string DefaultFolder() {
	const char *base = std::getenv("XDG_CACHE_HOME");
	if (base && *base == '/') {
		return std::string(base) + "/vibespatial/kernels";
	}
	const char *home = std::getenv("HOME");
	return home && *home == '/' ? std::string(home) + "/.cache/vibespatial/kernels" : "";
}

//! Makes the folder and those above it; the ones it makes are the user's alone
bool MakeFolders(const std::string &path) {
	for (size_t at = 1; at != std::string::npos;) {
		at = path.find('/', at + 1);
		if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) {
			return false;
		}
	}
	return true;
}

class File {
public:
	explicit File(int fd) : fd(fd) {
	}
	~File() {
		if (fd >= 0) {
			close(fd);
		}
	}
	File(const File &) = delete;
	File &operator=(const File &) = delete;
	int fd;
};

bool ReadAll(int fd, size_t size, std::string &bytes) {
	bytes.resize(size);
	size_t done = 0;
	while (done < size) {
		const auto got = read(fd, &bytes[done], size - done);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return false;
		}
		done += static_cast<size_t>(got);
	}
	return true;
}

bool EndsWith(const std::string &text, const char *end) {
	const size_t size = std::strlen(end);
	return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

bool IsHex(char digit) {
	return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f');
}

bool IsNumber(const std::string &text) {
	return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

//! Of KernelKey::FileName(): <name>-sm<number>-<24 hex digits>.kernel
bool IsKernelName(const std::string &name) {
	constexpr const char *END = ".kernel";
	constexpr size_t DIGITS = 24;
	if (!EndsWith(name, END) || name.size() < DIGITS + std::strlen(END) + 1) {
		return false;
	}
	const size_t digits = name.size() - std::strlen(END) - DIGITS;
	const auto capability = name.rfind("-sm", digits);
	return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(digits),
	                   name.begin() + static_cast<std::ptrdiff_t>(digits + DIGITS), IsHex) &&
	       name[digits - 1] == '-' && capability != std::string::npos && capability > 0 &&
	       IsNumber(name.substr(capability + 3, digits - 1 - capability - 3));
}

//! Of Store(): the name of a kernel, a process, a number, .part
bool IsPartName(const std::string &name) {
	constexpr const char *END = ".part";
	if (!EndsWith(name, END)) {
		return false;
	}
	const auto rest = name.substr(0, name.size() - std::strlen(END));
	const auto serial = rest.rfind('.');
	const auto process = serial == std::string::npos || serial == 0 ? serial : rest.rfind('.', serial - 1);
	return process != std::string::npos && process < serial && IsNumber(rest.substr(serial + 1)) &&
	       IsNumber(rest.substr(process + 1, serial - process - 1)) && IsKernelName(rest.substr(0, process));
}

//! Whether the beginning of a file of that name in the folder is a kernel's, as far as it was written
bool IsKernelContent(int folder, const char *name) {
	File file(openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
	struct stat info;
	if (file.fd < 0 || fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
		return false;
	}
	std::string begin;
	return ReadAll(file.fd, std::min<size_t>(static_cast<size_t>(info.st_size), KERNEL_MARK_SIZE), begin) &&
	       BeginsAsKernel(begin);
}

struct Entry {
	std::string name;
	uint64_t size;
	timespec used;
};

//! The kernels in the folder; unfinished files of processes long gone are removed on the way. Files that are not ours by name and
//! content are none of our business.
std::vector<Entry> List(const std::string &folder) {
	std::vector<Entry> entries;
	DIR *dir = opendir(folder.c_str());
	if (!dir) {
		return entries;
	}
	const time_t now = time(nullptr);
	while (auto *item = readdir(dir)) {
		const std::string name = item->d_name;
		struct stat info;
		if (fstatat(dirfd(dir), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
			continue;
		}
		const bool is_kernel = IsKernelName(name);
		const bool is_old_part = !is_kernel && IsPartName(name) && now - info.st_mtim.tv_sec > 3600;
		if ((!is_kernel && !is_old_part) || !IsKernelContent(dirfd(dir), item->d_name)) {
			continue;
		}
		if (is_kernel) {
			entries.push_back(Entry {name, static_cast<uint64_t>(info.st_size), info.st_mtim});
		} else {
			unlinkat(dirfd(dir), item->d_name, 0);
		}
	}
	closedir(dir);
	return entries;
}

} // namespace

KernelCache::KernelCache(std::string folder_p, uint64_t limit) : folder(std::move(folder_p)), limit(limit) {
	if (folder.empty()) {
		folder = DefaultFolder();
	}
	usable = Prepare();
}

bool KernelCache::Prepare() {
	if (folder.empty()) {
		problem = "no cache folder: neither XDG_CACHE_HOME nor HOME is set; SET vibe_cache_dir names one";
		return false;
	}
	if (folder[0] != '/') {
		problem = "'" + folder + "': the cache folder must be an absolute path";
		return false;
	}
	if (!MakeFolders(folder)) {
		problem = folder + " cannot be made: " + ErrorText();
		return false;
	}
	struct stat info;
	if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
		problem = folder + " is no folder";
		return false;
	}
	if (info.st_uid != geteuid()) {
		problem = folder + " belongs to another user (id " + std::to_string(info.st_uid) +
		          "): kernels from it are not run, and none are put there";
		return false;
	}
	if (info.st_mode & (S_IWGRP | S_IWOTH)) {
		problem = folder + " can be written by others: kernels from it are not run; chmod go-w makes it private";
		return false;
	}
	if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
		problem = folder + " cannot be used: " + ErrorText();
		return false;
	}
	return true;
}

std::string KernelCache::Problem() const {
	std::lock_guard<std::mutex> guard(lock);
	return problem;
}

void KernelCache::Note(const std::string &what) {
	std::lock_guard<std::mutex> guard(lock);
	problem = what;
}

bool KernelCache::Load(const KernelKey &key, std::string &payload) {
	if (!usable) {
		return false;
	}
	const auto path = folder + "/" + key.FileName();
	File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
	if (file.fd < 0) {
		if (errno != ENOENT) {
			Note(path + ": " + ErrorText());
		}
		return false;
	}
	struct stat info;
	std::string bytes, error;
	if (fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
	    info.st_size > LARGEST_FILE) {
		Note(path + " is no kernel of this user; it is left alone");
		return false;
	}
	if (!ReadAll(file.fd, static_cast<size_t>(info.st_size), bytes)) {
		error = "cannot be read: " + ErrorText();
	} else if (OpenKernel(bytes.data(), bytes.size(), key, payload, error)) {
		futimens(file.fd, nullptr);
		return true;
	}
	if (!WasKernelOf(bytes, key)) {
		Note(path + " " + error + "; it is left alone");
		return false;
	}
	// Another process may have put a good one in its place by now: losing that costs a compile, no more
	unlink(path.c_str());
	Note(path + " " + error + "; it was removed");
	return false;
}

void KernelCache::Store(const KernelKey &key, const std::string &payload) {
	if (!usable) {
		return;
	}
	static std::atomic<uint32_t> serial {0};
	const auto path = folder + "/" + key.FileName();
	struct stat there;
	// Asked twice: another process may remove a kernel in between
	if (lstat(path.c_str(), &there) == 0 && !IsKernelContent(AT_FDCWD, path.c_str()) &&
	    lstat(path.c_str(), &there) == 0) {
		Note(path + " is no kernel; it is left alone");
		return;
	}
	const auto part = path + "." + std::to_string(getpid()) + "." + std::to_string(serial++) + ".part";
	bool written = false;
	{
		File file(open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
		written = file.fd >= 0 && WriteAll(file.fd, SealKernel(key, payload));
		if (!written) {
			Note(part + " cannot be written: " + ErrorText());
		} else if (close(file.fd) != 0) {
			// A full disk may be told only here
			written = false;
			Note(part + " cannot be written: " + ErrorText());
			file.fd = -1;
		} else {
			file.fd = -1;
		}
	}
	if (!written) {
		unlink(part.c_str());
		return;
	}
	if (rename(part.c_str(), path.c_str()) != 0) {
		Note(path + " cannot be put in place: " + ErrorText());
		unlink(part.c_str());
		return;
	}
	Trim();
}

void KernelCache::Trim() {
	auto entries = List(folder);
	uint64_t total = 0;
	for (auto &entry : entries) {
		total += entry.size;
	}
	if (total <= limit) {
		return;
	}
	std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
		return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec : a.used.tv_nsec < b.used.tv_nsec;
	});
	for (auto &entry : entries) {
		if (total <= limit) {
			return;
		}
		unlink((folder + "/" + entry.name).c_str());
		total -= entry.size;
	}
}

KernelCache::Contents KernelCache::Measure() const {
	Contents contents;
	if (usable) {
		for (auto &entry : List(folder)) {
			contents.files++;
			contents.bytes += entry.size;
		}
	}
	return contents;
}

} // namespace vibespatial
