//===----------------------------------------------------------------------===//
// engine/common/pages_vector.hpp
//
// Vectors for large arrays that come and go: they grow without writing, their memory is counted, and large blocks go back to the
// system at once (geometry/work_scope.hpp). Of what is reserved, only what was written is resident.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/uninitialized.hpp"
#include "geometry/work_scope.hpp"

namespace vibespatial {

template <class T>
struct PagesAllocator : UninitializedAllocator<T> {
	template <class U>
	struct rebind { // NOLINT: the name is the standard's
		using other = PagesAllocator<U>;
	};

	PagesAllocator() = default;
	template <class U>
	PagesAllocator(const PagesAllocator<U> &) { // NOLINT: allocators convert
	}
	T *allocate(size_t count) {
		return CountedAllocator<T>().allocate(count);
	}
	void deallocate(T *at, size_t count) {
		CountedAllocator<T>().deallocate(at, count);
	}
};

template <class T>
using PagesVector = std::vector<T, PagesAllocator<T>>;

} // namespace vibespatial
