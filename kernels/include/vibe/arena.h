//===----------------------------------------------------------------------===//
// vibe/arena.h
//
// The memory of one thread's relate, cut out of a slab that belongs to someone else. Arrays that are full drop what is
// pushed and say so: an answer counts only where none has overflowed.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/relate.h"

namespace vibe {

template <class T>
struct ArenaArray {
	T *items;
	u32 size;
	u32 capacity; // at least 1
	bool overflowed;

	VIBE_HD void Push(const T &item) {
		if (size < capacity) {
			items[size++] = item;
		} else {
			overflowed = true;
		}
	}
	VIBE_HD u32 Size() const {
		return size;
	}
	// Whoever reads on after an overflow reads something of the arena
	VIBE_HD T &operator[](u32 i) {
		return items[i < capacity ? i : 0];
	}
	VIBE_HD const T &operator[](u32 i) const {
		return items[i < capacity ? i : 0];
	}
	VIBE_HD void Clear() {
		size = 0;
	}
	VIBE_HD void Resize(u32 n) {
		overflowed = overflowed || n > capacity;
		size = n < capacity ? n : capacity;
	}
};

class RelateArena {
public:
	//! Bytes for every item that all arrays can hold
	static constexpr u64 ITEM_BYTES = 2 * sizeof(EdgeContact) + sizeof(WalkEvent) + sizeof(WalkCrossing) +
	                                  2 * sizeof(u32) + sizeof(NearEdge) + sizeof(EdgeEnd) + 2 * sizeof(u8);

	//! `memory` is aligned to 8 bytes and holds at least ITEM_BYTES
	VIBE_HD RelateArena(u8 *memory, u64 bytes) : next(memory), capacity((u32)(bytes / ITEM_BYTES)) {
		// By alignment
		Cut(work.contacts);
		Cut(work.walk);
		Cut(work.events);
		Cut(work.near);
		Cut(work.ends);
		Cut(work.crossings);
		Cut(work.active);
		Cut(work.node);
		Cut(work.flags[0]);
		Cut(work.flags[1]);
	}
	RelateArena(const RelateArena &) = delete;
	RelateArena &operator=(const RelateArena &) = delete;

	VIBE_HD bool Overflowed() const {
		return work.contacts.overflowed || work.walk.overflowed || work.events.overflowed || work.near.overflowed ||
		       work.ends.overflowed || work.crossings.overflowed || work.active.overflowed || work.node.overflowed ||
		       work.flags[0].overflowed || work.flags[1].overflowed;
	}

	RelateWork<ArenaArray> work;

private:
	template <class T>
	VIBE_HD void Cut(ArenaArray<T> &array) {
		array = ArenaArray<T> {(T *)next, 0, capacity, false};
		next += capacity * sizeof(T);
	}

	u8 *next;
	u32 capacity;
};

//! The whole matrix, or as much of it as decides the target; false when the memory did not suffice
VIBE_HD_NOINLINE bool RelateWithin(const ShapeView &a, const ShapeView &b, const Target &target, u8 *memory, u64 bytes,
                                   Matrix &matrix) {
	if (bytes < RelateArena::ITEM_BYTES) {
		return false;
	}
	RelateArena arena(memory, bytes);
	matrix = Relater<ArenaArray>(a, b, target, arena.work).Run();
	return !arena.Overflowed();
}

} // namespace vibe
