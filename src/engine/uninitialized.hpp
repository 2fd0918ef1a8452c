//===----------------------------------------------------------------------===//
// engine/uninitialized.hpp
//
// Vectors that grow without writing: large arrays that several threads fill are touched first by those threads. Memory is
// aligned to a cache line.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace vibespatial {

template <class T>
struct UninitializedAllocator {
	using value_type = T;
	static constexpr std::align_val_t ALIGNMENT {64};

	UninitializedAllocator() = default;
	template <class U>
	UninitializedAllocator(const UninitializedAllocator<U> &) { // NOLINT: allocators convert
	}
	T *allocate(size_t count) {
		return static_cast<T *>(::operator new(count * sizeof(T), ALIGNMENT));
	}
	void deallocate(T *at, size_t) {
		::operator delete(at, ALIGNMENT);
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
