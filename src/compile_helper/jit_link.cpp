// Algorithms of CCCL refer to a thousand variables of its headers that no kernel reads. libcccl.c.parallel lets the linker keep
// them, and the driver takes 4 to 18 ms to load an algorithm with them, less than 1 without. So the linker is told to leave
// them out here: a function of the program comes before one of the same name in a library.
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <vector>

extern "C" __attribute__((visibility("default"))) int nvJitLinkCreate(void **handle, uint32_t count,
                                                                      const char **options) {
	using Create = int (*)(void **, uint32_t, const char **);
	constexpr int INTERNAL_ERROR = 6;
	// It was opened by its full path
	void *linker = dlopen("libnvJitLink.so.13", RTLD_NOW | RTLD_NOLOAD);
	const auto create = linker ? reinterpret_cast<Create>(dlsym(linker, "nvJitLinkCreate")) : nullptr;
	if (!create) {
		return INTERNAL_ERROR;
	}
	std::vector<const char *> all(options, options + count);
	bool is_text = false;
	for (auto *option : all) {
		is_text = is_text || std::strcmp(option, "-ptx") == 0;
	}
	if (!is_text) {
		all.push_back("-optimize-unused-variables");
	}
	return create(handle, static_cast<uint32_t>(all.size()), all.data());
}
