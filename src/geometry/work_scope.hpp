//===----------------------------------------------------------------------===//
// geometry/work_scope.hpp
//
// What long work owes to the one who asked for it: it stops when it is not wanted any more, and its memory is counted as it grows.
//
// A host installs a WorkScope for the calling thread. Loops call Poll, arrays are CountedVector, and neither needs to know the
// host. Without a scope nothing is asked and nothing is counted. Threads that help take over the scope of the one they help
// (engine/common/shared_work.hpp).
//
// Promise: blocks of LEAST_COUNTED bytes and more are counted exactly. An account reserves nothing for its first FREE bytes, so
// small geometries cost the host nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace vibespatial {

//! Memory of one piece of work, reserved with the host in steps. What is allocated may outlive the work, so every block holds on
//! to its account.
class MemoryAccount {
public:
	virtual ~MemoryAccount() = default;

	//! Throws what Reserve() throws, with nothing changed
	void Grow(size_t bytes);
	void Shrink(size_t bytes) noexcept;
	void Retain() noexcept {
		references++;
	}
	//! The last one gives back what is reserved and deletes the account
	void Release() noexcept;

	static constexpr size_t FREE = size_t(1) << 20;
	//! A reservation is at least this large
	static constexpr size_t STEP = size_t(1) << 22;

private:
	//! Throws when there is not so much
	virtual void Reserve(size_t bytes) = 0;
	virtual void Free(size_t bytes) noexcept = 0;

	std::atomic<size_t> references {1};
	std::atomic<size_t> used {0};
	//! What may be used before more is reserved
	std::atomic<size_t> covered {FREE};
	std::mutex lock;
};

class WorkScope {
public:
	//! Of the calling thread; nullptr: none
	static WorkScope *Current() noexcept;

	//! Puts a scope in place for the calling thread, until the end of the block
	class Use {
	public:
		explicit Use(WorkScope *scope) noexcept;
		~Use();
		Use(const Use &) = delete;
		Use &operator=(const Use &) = delete;

	private:
		WorkScope *const before;
	};

	//! Throws when the work is not wanted any more. Any thread may call it.
	virtual void Check() = 0;
	//! Made when it is first needed
	MemoryAccount &Account();
	//! Counts memory of others until the scope ends
	void Hold(size_t bytes);

protected:
	WorkScope() = default;
	virtual ~WorkScope();

private:
	virtual MemoryAccount *MakeAccount() = 0;

	std::mutex lock;
	std::atomic<MemoryAccount *> account {nullptr};
	std::atomic<size_t> held {0};
};

//! Asks whether the work is still wanted
void CheckWork() noexcept(false);

//! For loops: asks from time to time whether the work is still wanted. `work` is about how many steps of some nanoseconds it was
//! since the last call.
class Poll {
public:
	void operator()(size_t work = 1) {
		if (work < left) {
			left -= work;
		} else {
			Now();
		}
	}

private:
	void Now();

	static constexpr size_t STEP = 4096;
	size_t left = STEP;
};

//! The same for functions that are called very often, over all calls of a thread
void PollCall(size_t work) noexcept(false);

//! Many items; apart, so that sorting a few stays small
template <class ITERATOR, class LESS>
[[gnu::noinline]] void PolledSortMany(ITERATOR begin, ITERATOR end, LESS less) {
	using Item = typename std::iterator_traits<ITERATOR>::value_type;
	Poll poll;
	std::sort(begin, end, [&](const Item &a, const Item &b) {
		poll();
		return less(a, b);
	});
}

//! std::sort that can be stopped; the items are in some order then. Costs what std::sort does for a few items, which most calls are for.
template <class ITERATOR, class LESS>
[[gnu::always_inline]] inline void PolledSort(ITERATOR begin, ITERATOR end, LESS less) {
	constexpr ptrdiff_t FEW = 1 << 14;
	if (end - begin < FEW) {
		std::sort(begin, end, less);
	} else {
		PolledSortMany(begin, end, less);
	}
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//
//! Blocks below this are not counted by themselves
constexpr size_t LEAST_COUNTED = 4096;

//! At least LEAST_COUNTED bytes, aligned to a cache line. Large blocks come from the system and go back to it at once: the C
//! library would keep what is freed between what is in use.
void *AllocateCounted(size_t bytes);
void FreeCounted(void *at, size_t bytes) noexcept;

template <class T>
struct CountedAllocator {
	using value_type = T;

	CountedAllocator() = default;
	template <class U>
	CountedAllocator(const CountedAllocator<U> &) { // NOLINT: allocators convert
	}
	T *allocate(size_t count) {
		const auto bytes = count * sizeof(T);
		return static_cast<T *>(bytes < LEAST_COUNTED ? ::operator new(bytes) : AllocateCounted(bytes));
	}
	void deallocate(T *at, size_t count) {
		const auto bytes = count * sizeof(T);
		if (bytes < LEAST_COUNTED) {
			::operator delete(at);
		} else {
			FreeCounted(at, bytes);
		}
	}
	template <class U>
	bool operator==(const CountedAllocator<U> &) const {
		return true;
	}
	template <class U>
	bool operator!=(const CountedAllocator<U> &) const {
		return false;
	}
};

template <class T>
using CountedVector = std::vector<T, CountedAllocator<T>>;

//! Counts memory that no CountedVector holds: nodes of maps, strings
class HeldMemory {
public:
	HeldMemory() = default;
	~HeldMemory();
	HeldMemory(const HeldMemory &) = delete;
	HeldMemory &operator=(const HeldMemory &) = delete;

	//! At least `bytes` are counted from now on; throws when there is not so much
	void Reach(size_t bytes) {
		if (bytes > size) {
			Grow(std::max(bytes, size + size / 4));
		}
	}

private:
	void Grow(size_t bytes);

	MemoryAccount *account = nullptr;
	size_t size = 0;
};

} // namespace vibespatial
