//===----------------------------------------------------------------------===//
// vibe/arena.h
//
// The memory of one relate, cut out of a slab that belongs to someone else. Arrays that are full drop what is pushed and say so: an
// answer counts only where none has overflowed.
//===----------------------------------------------------------------------===//
#pragma once

#include "vibe/relate.h"

namespace vibe {

template <class T>
struct ArenaArray {
	T *items;
	u32 *pushed; // where several lanes push: so many items were, which all of them count
	u32 size;
	u32 capacity;
	bool overflowed;

	VIBE_HD void Push(const T &item) {
		const u32 at = pushed ? Lane::Add(pushed, 1) : size;
		if (at < capacity) {
			items[at] = item;
			size += pushed ? 0 : 1;
		} else {
			overflowed = true;
		}
	}
	VIBE_HD u32 Size() const {
		return size;
	}
	VIBE_HD u32 Capacity() const {
		return capacity;
	}
	VIBE_HD bool IsFull() const {
		return size == capacity;
	}
	VIBE_HD bool Overflowed() const {
		return overflowed;
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
	VIBE_HD void Restart(const Lane &lane) {
		size = 0;
		if (pushed) {
			lane.Sync();
			if (lane.number == 0) {
				*pushed = 0;
			}
			lane.Sync();
		}
	}
	VIBE_HD void Settle(const Lane &lane) {
		if (pushed) {
			lane.Sync();
			Resize(*pushed);
		}
	}
};

class RelateArena {
public:
	//! Bytes for every item that the arrays of a thread can hold, and that those of all lanes can
	static constexpr u64 OWN_BYTES = sizeof(WalkEvent) + sizeof(WalkCrossing) + 2 * sizeof(u32) + sizeof(NearEdge) +
	                                 sizeof(EdgeEnd) + 2 * sizeof(u8);
	static constexpr u64 CONTACT_BYTES = 2 * sizeof(EdgeContact);

	//! Is there room for one item in every array?
	VIBE_HD static bool Suffices(u64 bytes, const Lane &lane) {
		return bytes >= (lane.count == 1 ? 1 : OWN_PART * lane.count) * (OWN_BYTES + CONTACT_BYTES);
	}

	//! `memory` is aligned to 8 bytes and suffices
	VIBE_HD RelateArena(u8 *memory, u64 bytes, const Lane &lane) : next(memory) {
		if (lane.count == 1) {
			const u32 items = (u32)(bytes / (OWN_BYTES + CONTACT_BYTES));
			Cut(work.contacts, items);
			Cut(work.walk, items);
			Cut(work.tally, 0);
			CutOwn(items);
			return;
		}
		// The rest is for what all have, most of it for contacts
		const u64 own = bytes / OWN_PART / lane.count / 8 * 8, tally = bytes / 16 / 8 * 8;
		u32 *pushed = (u32 *)next;
		next += 8;
		const u64 contacts = (bytes - 8 - tally - own * lane.count) / CONTACT_BYTES;
		Cut(work.contacts, (u32)contacts, pushed);
		Cut(work.walk, (u32)contacts, pushed + 1);
		Cut(work.tally, (u32)(tally / sizeof(u32)));
		next += own * lane.number;
		CutOwn((u32)(own / OWN_BYTES));
	}
	RelateArena(const RelateArena &) = delete;
	RelateArena &operator=(const RelateArena &) = delete;

	VIBE_HD bool Overflowed() const {
		return work.contacts.overflowed || work.walk.overflowed || work.tally.overflowed || work.events.overflowed ||
		       work.near.overflowed || work.ends.overflowed || work.crossings.overflowed || work.active.overflowed ||
		       work.node.overflowed || work.flags[0].overflowed || work.flags[1].overflowed;
	}

	RelateWork<ArenaArray> work;

private:
	//! Several lanes: this part of the memory is for what each of them has for itself
	static constexpr u64 OWN_PART = 4;

	template <class T>
	VIBE_HD void Cut(ArenaArray<T> &array, u32 capacity, u32 *pushed = nullptr) {
		array = ArenaArray<T> {(T *)next, pushed, 0, capacity, false};
		next += capacity * sizeof(T);
	}
	//! By alignment
	VIBE_HD void CutOwn(u32 items) {
		Cut(work.events, items);
		Cut(work.near, items);
		Cut(work.ends, items);
		Cut(work.crossings, items);
		Cut(work.active, items);
		Cut(work.node, items);
		Cut(work.flags[0], items);
		Cut(work.flags[1], items);
	}

	u8 *next;
};

//! The whole matrix, or as much of it as decides the target; false when the memory or the steps did not suffice. Several lanes call it
//! together, for shapes that are not mixed and with memory for all of them.
VIBE_HD_NOINLINE bool RelateWithin(const ShapeView &a, const ShapeView &b, const Target &target, u8 *memory, u64 bytes,
                                   const Lane &lane, u32 max_steps, Matrix &matrix) {
	if (!RelateArena::Suffices(bytes, lane)) {
		return false;
	}
	RelateArena arena(memory, bytes, lane);
	Relater<ArenaArray> relater(a, b, target, arena.work, lane, max_steps);
	matrix = relater.Run();
	return !lane.Any(relater.GaveUp() || arena.Overflowed());
}

} // namespace vibe
