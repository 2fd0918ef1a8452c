#include "engine/common/uninitialized.hpp"

#include <sys/mman.h>

namespace vibespatial {

static constexpr size_t LINE = 64;
static constexpr size_t LARGE_PAGE = 2 << 20;
//! For arrays from 4 MB on nothing more was gained
static constexpr size_t LEAST_LARGE = 8 * LARGE_PAGE;

static std::align_val_t Alignment(size_t bytes) {
	return std::align_val_t {bytes < LEAST_LARGE ? LINE : LARGE_PAGE};
}

void *AllocateUninitialized(size_t bytes) {
	void *at = ::operator new(bytes, Alignment(bytes));
	if (bytes >= LEAST_LARGE) {
		// Whole ones: the rest may be shared with others. A system without large pages says no, and nothing changes.
		madvise(at, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
	}
	return at;
}

void FreeUninitialized(void *at, size_t bytes) {
	::operator delete(at, Alignment(bytes));
}

} // namespace vibespatial
