//===----------------------------------------------------------------------===//
// engine/common/pages_vector.hpp
//
// Vectors for large arrays that come and go: their memory comes from the system and goes back to it at once. The C library
// would keep what is freed between what is in use. Of what is reserved, only what was written is resident.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/uninitialized.hpp"

#include <sys/mman.h>

namespace vibespatial {

template <class T>
struct PagesAllocator : UninitializedAllocator<T> {
	//! Bytes from which on it is so
	static constexpr size_t LEAST = size_t(1) << 22;

	template <class U>
	struct rebind { // NOLINT: the name is the standard's
		using other = PagesAllocator<U>;
	};

	PagesAllocator() = default;
	template <class U>
	PagesAllocator(const PagesAllocator<U> &) { // NOLINT: allocators convert
	}
	T *allocate(size_t count) {
		if (count < LEAST / sizeof(T)) {
			return UninitializedAllocator<T>::allocate(count);
		}
		auto *at = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED) {
			throw std::bad_alloc();
		}
		return static_cast<T *>(at);
	}
	void deallocate(T *at, size_t count) {
		if (count < LEAST / sizeof(T)) {
			UninitializedAllocator<T>::deallocate(at, count);
		} else {
			munmap(at, count * sizeof(T));
		}
	}
};

template <class T>
using PagesVector = std::vector<T, PagesAllocator<T>>;

} // namespace vibespatial
