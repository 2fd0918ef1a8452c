//===----------------------------------------------------------------------===//
// gpu_plugin/compile/write_all.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include <cerrno>
#include <string>
#include <unistd.h>

namespace vibespatial {

//! Into a file or pipe; false, with errno, when it does not take all of it
inline bool WriteAll(int fd, const std::string &bytes) {
	size_t done = 0;
	while (done < bytes.size()) {
		const auto put = write(fd, bytes.data() + done, bytes.size() - done);
		if (put < 0 && errno == EINTR) {
			continue;
		}
		if (put <= 0) {
			return false;
		}
		done += static_cast<size_t>(put);
	}
	return true;
}

} // namespace vibespatial
