//===----------------------------------------------------------------------===//
// engine/common/uninitialized.hpp
//
// Vectors that grow without writing: large arrays that several threads fill are touched first by those threads. Memory is
// aligned to a cache line; much of it is in large pages where the system has them, as touching small ones costs more than what is
// written to them.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace vibespatial {

void *AllocateUninitialized(size_t bytes);
void FreeUninitialized(void *at, size_t bytes);

template <class T>
struct UninitializedAllocator {
	using value_type = T;

	UninitializedAllocator() = default;
	template <class U>
	UninitializedAllocator(const UninitializedAllocator<U> &) { // NOLINT: allocators convert
	}
	T *allocate(size_t count) {
		return static_cast<T *>(AllocateUninitialized(count * sizeof(T)));
	}
	void deallocate(T *at, size_t count) {
		FreeUninitialized(static_cast<void *>(at), count * sizeof(T));
	}
	template <class U>
	void construct(U *at) {
		::new (static_cast<void *>(at)) U;
	}
	template <class U, class... ARGUMENTS>
	void construct(U *at, ARGUMENTS &&...arguments) {
		::new (static_cast<void *>(at)) U(std::forward<ARGUMENTS>(arguments)...);
	}
	template <class U>
	bool operator==(const UninitializedAllocator<U> &) const {
		return true;
	}
	template <class U>
	bool operator!=(const UninitializedAllocator<U> &) const {
		return false;
	}
};

template <class T>
using UninitializedVector = std::vector<T, UninitializedAllocator<T>>;

//! Gives back the memory of a vector
template <class VECTOR>
void Release(VECTOR &vector) {
	VECTOR().swap(vector);
}

} // namespace vibespatial
