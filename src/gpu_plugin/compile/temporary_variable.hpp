//===----------------------------------------------------------------------===//
// gpu_plugin/compile/temporary_variable.hpp
//
// An environment variable for as long as the object lives, unless the user has set it. setenv() and putenv() may free the list of
// variables while getenv() of another thread reads it. This puts a longer copy in its place and frees nothing, so other threads read
// the old list or the new one. A setenv() of another thread at the very same moment may be lost.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace vibespatial {

class TemporaryVariable {
public:
	//! Does nothing where there is no memory
	TemporaryVariable(const char *name, const char *value) {
		if (std::getenv(name)) {
			return;
		}
		const std::string text = std::string(name) + "=" + value;
		auto *made = static_cast<char *>(std::malloc(text.size() + 1)); // NOLINT: stays in the list, under another name
		if (!made) {
			return;
		}
		std::memcpy(made, text.c_str(), text.size() + 1);
		char **before = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
		while (true) {
			size_t count = 0;
			while (before && before[count]) {
				count++;
			}
			auto **longer = static_cast<char **>(std::malloc((count + 2) * sizeof(char *))); // NOLINT: others read it
			if (!longer) {
				std::free(made); // NOLINT
				return;
			}
			for (size_t i = 0; i < count; i++) {
				longer[i] = before[i];
			}
			longer[count] = made;
			longer[count + 1] = nullptr;
			if (__atomic_compare_exchange_n(&environ, &before, longer, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
				entry = made;
				return;
			}
			std::free(static_cast<void *>(longer)); // NOLINT
		}
	}
	~TemporaryVariable() {
		if (entry) {
			// Renamed: taking it out would move entries that other threads may be reading
			entry[0] = '_';
		}
	}
	TemporaryVariable(const TemporaryVariable &) = delete;
	TemporaryVariable &operator=(const TemporaryVariable &) = delete;

private:
	char *entry = nullptr;
};

} // namespace vibespatial
