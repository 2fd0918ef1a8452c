#include "engine/common/trusted_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace vibespatial {

namespace {

bool IsChecked(const std::string &path, bool of_us, std::string &why_not) {
	if (path.empty() || path[0] != '/') {
		why_not = "'" + path + "' is not an absolute path";
		return false;
	}
	struct stat file, folder;
	if (stat(path.c_str(), &file) != 0) {
		why_not = path + ": " + std::strerror(errno);
		return false;
	}
	if (!S_ISREG(file.st_mode)) {
		why_not = path + " is not a file";
		return false;
	}
	if (of_us && file.st_uid != 0 && file.st_uid != geteuid()) {
		why_not = path + " belongs to another user (id " + std::to_string(file.st_uid) +
		          "): it must belong to you or to root";
		return false;
	}
	if (file.st_mode & S_IWOTH) {
		why_not = path + " can be written by everybody: 'chmod o-w' makes it usable";
		return false;
	}
	const auto parent = path.substr(0, std::max<size_t>(1, path.rfind('/')));
	if (stat(parent.c_str(), &folder) != 0) {
		why_not = parent + ": " + std::strerror(errno);
		return false;
	}
	if ((folder.st_mode & S_IWOTH) && !(folder.st_mode & S_ISVTX)) {
		why_not = parent + " can be written by everybody: 'chmod o-w' makes " + path + " usable";
		return false;
	}
	return true;
}

} // namespace

bool IsTrustedFile(const std::string &path, std::string &why_not) {
	return IsChecked(path, true, why_not);
}

bool IsTrustedLibrary(const std::string &path, std::string &why_not) {
	return IsChecked(path, false, why_not);
}

bool FileContains(const std::string &path, const std::string &text) {
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return false;
	}
	bool found = text.empty();
	// The end of the last block may be the beginning of the text
	std::vector<char> block(1 << 16);
	size_t kept = 0;
	while (!found) {
		if (block.size() - kept < text.size()) {
			block.resize(kept + 2 * text.size());
		}
		const auto got = read(fd, block.data() + kept, block.size() - kept);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			break;
		}
		const auto end = block.begin() + static_cast<std::ptrdiff_t>(kept + static_cast<size_t>(got));
		found = std::search(block.begin(), end, text.begin(), text.end()) != end;
		kept = std::min(text.size() - 1, static_cast<size_t>(end - block.begin()));
		std::copy(end - static_cast<std::ptrdiff_t>(kept), end, block.begin());
	}
	close(fd);
	return found;
}

bool IsSafeForLoader(const std::string &name, std::string &why_not) {
	const char *list = std::getenv("LD_LIBRARY_PATH");
	if (!list || !*list) {
		return true;
	}
	// Both separate, and an empty entry is the current folder
	for (const char *begin = list;; begin++) {
		const auto length = std::strcspn(begin, ":;");
		if (*begin != '/') {
			const auto folder = length == 0 ? std::string(".") : std::string(begin, length);
			const auto path = folder + "/" + name;
			if (access(path.c_str(), F_OK) == 0) {
				why_not = name + " is in '" + folder +
				          "', a relative folder of LD_LIBRARY_PATH: libraries are not searched for there";
				return false;
			}
		}
		begin += length;
		if (!*begin) {
			return true;
		}
	}
}

} // namespace vibespatial
