//===----------------------------------------------------------------------===//
// engine/relate/relate.hpp
//
// DE-9IM on the CPU: vibe/relate.h with memory that grows.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/shape/shape.hpp"
#include "vibe/relate.h"

#include <string>
#include <type_traits>

namespace vibespatial {

//! Clearing it is how the core tells that it goes on: that polls
template <class T>
class GrowingArray {
public:
	void Push(const T &item) {
		items.push_back(item);
	}
	uint32_t Size() const {
		return static_cast<uint32_t>(items.size());
	}
	T &operator[](uint32_t i) {
		return items[i];
	}
	const T &operator[](uint32_t i) const {
		return items[i];
	}
	void Clear() {
		PollAfter(items.size());
		items.clear();
	}
	void Resize(uint32_t n) {
		PollAfter(n);
		items.resize(n);
	}
	uint32_t Capacity() const {
		return UINT32_MAX;
	}
	bool IsFull() const {
		return false;
	}
	bool Overflowed() const {
		return false;
	}
	void Restart(const vibe::Lane &) {
		Clear();
	}
	void Settle(const vibe::Lane &) {
	}

private:
	//! Edges near a run of others, the contacts of a node, the flags of elements: every long loop of the core begins with one of them
	void PollAfter(size_t count) {
		if constexpr (std::is_same<T, vibe::NearEdge>::value || std::is_integral<T>::value) {
			poll(count + 1);
		}
	}

	CountedVector<T> items;
	Poll poll;
};

//! What the core sorts can be stopped
template <class T, class LESS>
void Sort(GrowingArray<T> &items, uint32_t begin, uint32_t end, const LESS &less) {
	constexpr uint32_t FEW = 4096;
	if (end - begin < FEW) {
		vibe::Sort<GrowingArray<T>, LESS>(items, begin, end, less);
		return;
	}
	Poll poll;
	vibe::Sort(items, begin, end, [&](const T &a, const T &b) {
		poll();
		return less(a, b);
	});
}

//! One thread's memory for relate
using RelateScratch = vibe::RelateWork<GrowingArray>;

//! The whole matrix
vibe::Matrix Relate(const vibe::ShapeView &a, const vibe::ShapeView &b, RelateScratch &scratch);

//! One predicate: looks no further than it must
bool Evaluate(vibe::Predicate predicate, const vibe::ShapeView &a, const vibe::ShapeView &b, RelateScratch &scratch);

//! The answers for a point against an area, by where the point lies
struct PointInArea {
	bool answer[3];

	PointInArea(vibe::Predicate predicate, bool point_is_left);
};

//! Where a point lies
vibe::Location Locate(const vibe::ShapeView &shape, const vibe::Vec2 &point, RelateScratch &scratch);

//! "212101212" and the like
std::string MatrixToString(vibe::Matrix matrix);

} // namespace vibespatial
