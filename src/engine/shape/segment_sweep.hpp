//===----------------------------------------------------------------------===//
// engine/shape/segment_sweep.hpp
//
// A plane sweep over chains of segments that finds every contact which is not
// the plain passage of one chain through one of its own vertices: what validity
// and simplicity are about.
//
// Promise: exact. Only comparisons of input coordinates and signs of Orient2d; no
// point is constructed. Every event is an input vertex, so the order of the
// segments along the sweep line stays right up to the first proper crossing, which is
// met before it is reached (Shamos & Hoey 1976). O(n log n) for any input.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "vibe/orient2d.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace vibespatial {

//! By x, then by y: the order in which the sweep meets points
inline bool SweepBefore(const vibe::Vec2 &a, const vibe::Vec2 &b) {
	return a.x < b.x || (a.x == b.x && a.y < b.y);
}

//! One chain after the other, repeated vertices dropped. A chain is closed when it ends where it begins. Vertices are numbered in 32 bits:
//! they are of one geometry, whose WKB has at most 4 GiB.
class SweepChains {
public:
	//! Opens a chain
	void Begin() {
		start.push_back(uint32_t(points.size()));
	}
	void Add(double x, double y) {
		if (points.size() > start.back() && points.back() == vibe::Vec2 {x, y}) {
			return;
		}
		points.push_back(vibe::Vec2 {x, y});
	}
	uint32_t Count() const {
		return uint32_t(start.size());
	}
	//! Vertices of a chain, the one that closes it included
	uint32_t Size(uint32_t chain) const {
		return End(chain) - start[chain];
	}
	uint32_t First(uint32_t chain) const {
		return start[chain];
	}
	uint32_t End(uint32_t chain) const {
		return chain + 1 < Count() ? start[chain + 1] : uint32_t(points.size());
	}
	bool Closed(uint32_t chain) const {
		return Size(chain) > 1 && points[start[chain]] == points[End(chain) - 1];
	}
	const vibe::Vec2 &operator[](uint32_t vertex) const {
		return points[vertex];
	}
	void Clear() {
		points.clear();
		start.clear();
	}

private:
	CountedVector<vibe::Vec2> points;
	CountedVector<uint32_t> start;
};

//! How a chain meets a point: with a vertex, or with the inside of a segment
struct SweepVisit {
	uint32_t chain;
	//! The vertex, or the first vertex of the segment
	uint32_t vertex;
	bool passing;
	//! Where the chain comes from and goes to; an open chain has only one of them at its ends
	uint32_t arm_count;
	vibe::Vec2 arms[2];
};

//! Runs over all chains of at least two vertices. HANDLER has
//!   void Crossing(uint32_t a, uint32_t b)   segments a and b cross inside both; the sweep ends
//!   void Overlap(uint32_t a, uint32_t b)    segments a and b share more than a point; the sweep ends
//!   bool Node(const vibe::Vec2 &p, const std::vector<SweepVisit> &visits)
//!                                           two or more visits meet in p; false ends the sweep
//!   void FirstVertex(uint32_t chain, bool ccw, uint32_t below)
//!                                           the leftmost vertex of a closed chain: its direction there, and the
//!                                           segment right below it or NONE; chains below come before chains above
//! A segment goes by its first vertex.
template <class HANDLER>
class SegmentSweep {
public:
	static constexpr uint32_t NONE = UINT32_MAX;

	SegmentSweep(const SweepChains &chains_p, HANDLER &handler_p)
	    : chains(chains_p), handler(handler_p), status(Order {this}) {
	}

	//! False when it ended early
	bool Run() {
		Prepare();
		for (size_t begin = 0; begin < events.size();) {
			const auto p = chains[events[begin]];
			size_t end = begin + 1;
			while (end < events.size() && chains[events[end]] == p) {
				end++;
			}
			if (!Event(p, begin, end)) {
				return false;
			}
			poll(end - begin + passing.size());
			nodes.Reach(status.size() * NODE_BYTES);
			begin = end;
		}
		return true;
	}

	//! The chain of a segment
	uint32_t ChainOf(uint32_t segment) const {
		return chain_of[segment];
	}
	//! The segment runs from left to right
	bool Forward(uint32_t segment) const {
		return SweepBefore(chains[segment], chains[segment + 1]);
	}

private:
	//! A place in the order along the sweep line; a chain that goes on replaces the segment in its place
	struct Place {
		mutable uint32_t segment;
	};
	struct Order {
		using is_transparent = void;
		const SegmentSweep *sweep;

		bool operator()(const Place &a, const Place &b) const {
			return sweep->Compare(a.segment, b.segment) < 0;
		}
		bool operator()(const Place &a, const vibe::Vec2 &p) const {
			return sweep->Side(a.segment, p) > 0;
		}
		bool operator()(const vibe::Vec2 &p, const Place &a) const {
			return sweep->Side(a.segment, p) < 0;
		}
	};
	using Status = std::set<Place, Order>;
	using Iterator = typename Status::iterator;

	const vibe::Vec2 &Left(uint32_t segment) const {
		return chains[Forward(segment) ? segment : segment + 1];
	}
	const vibe::Vec2 &Right(uint32_t segment) const {
		return chains[Forward(segment) ? segment + 1 : segment];
	}
	//! +1 when p is above the segment, 0 on its line, -1 below
	int Side(uint32_t segment, const vibe::Vec2 &p) const {
		return vibe::Orient2d(Left(segment), Right(segment), p);
	}
	//! -1 when a is below b where both meet the sweep line; 0 when they overlap
	int Compare(uint32_t a, uint32_t b) const {
		if (a == b) {
			return 0;
		}
		if (SweepBefore(Left(b), Left(a))) {
			return -Compare(b, a);
		}
		int side = Left(a) == Left(b) ? 0 : Side(a, Left(b));
		if (side == 0) {
			side = Side(a, Right(b));
		}
		return -side;
	}

	void Prepare() {
		const auto total = chains.Count() == 0 ? 0 : chains.End(chains.Count() - 1);
		chain_of.resize(total);
		place.resize(total);
		stamp.assign(total, NONE);
		first_seen.assign(chains.Count(), false);
		for (uint32_t chain = 0; chain < chains.Count(); chain++) {
			const auto end = chains.End(chain);
			for (auto v = chains.First(chain); v < end; v++) {
				chain_of[v] = chain;
				// one event for the vertex that closes a chain; none for a chain that is one point
				if (chains.Size(chain) > 1 && !(v + 1 == end && chains.Closed(chain))) {
					events.push_back(v);
				}
			}
		}
		PolledSort(events.begin(), events.end(), [&](uint32_t a, uint32_t b) {
			return chains[a] == chains[b] ? a < b : SweepBefore(chains[a], chains[b]);
		});
	}

	//! The segments before and after a vertex, or NONE
	void Neighbours(uint32_t v, uint32_t &before, uint32_t &after) const {
		const auto chain = chain_of[v];
		before = v > chains.First(chain) ? v - 1 : chains.Closed(chain) ? chains.End(chain) - 2 : NONE;
		after = v + 1 < chains.End(chain) ? v : NONE;
	}

	bool Event(const vibe::Vec2 &p, size_t begin, size_t end) {
		starts.clear();
		ends.clear();
		passing.clear();
		for (auto e = begin; e < end; e++) {
			uint32_t before, after;
			Neighbours(events[e], before, after);
			if (before != NONE) {
				(Forward(before) ? ends : starts).push_back(before);
			}
			if (after != NONE) {
				(Forward(after) ? starts : ends).push_back(after);
			}
		}
		FindPassing(p);
		if (end - begin + passing.size() > 1 && !Node(p, begin, end)) {
			return false;
		}
		if (!Advance(uint32_t(begin))) {
			return false;
		}
		Nest(begin, end);
		return true;
	}

	//! Segments that hold p inside. They lie next to those that end in p.
	void FindPassing(const vibe::Vec2 &p) {
		if (ends.empty()) {
			for (auto it = status.lower_bound(p); it != status.end() && Side(it->segment, p) == 0; ++it) {
				passing.push_back(it->segment);
			}
			return;
		}
		const auto from = place[ends[0]];
		for (auto it = from; it != status.begin();) {
			--it;
			if (Side(it->segment, p) != 0) {
				break;
			}
			AddPassing(it->segment, p);
		}
		for (auto it = std::next(from); it != status.end() && Side(it->segment, p) == 0; ++it) {
			AddPassing(it->segment, p);
		}
	}
	void AddPassing(uint32_t segment, const vibe::Vec2 &p) {
		if (Right(segment) != p) {
			passing.push_back(segment);
		}
	}

	bool Node(const vibe::Vec2 &p, size_t begin, size_t end) {
		visits.clear();
		for (auto e = begin; e < end; e++) {
			const auto v = events[e];
			SweepVisit visit {chain_of[v], v, false, 0, {}};
			uint32_t before, after;
			Neighbours(v, before, after);
			if (before != NONE) {
				visit.arms[visit.arm_count++] = chains[before];
			}
			if (after != NONE) {
				visit.arms[visit.arm_count++] = chains[after + 1];
			}
			visits.push_back(visit);
		}
		for (auto segment : passing) {
			visits.push_back(SweepVisit {chain_of[segment], segment, true, 2, {chains[segment], chains[segment + 1]}});
		}
		return handler.Node(p, visits);
	}

	//! Takes the segments that end out of the order, puts those that start in, and looks at the new neighbours
	bool Advance(uint32_t event) {
		Iterator any = status.end();
		if (ends.size() == 1 && starts.size() == 1 && passing.empty()) {
			any = place[ends[0]];
			any->segment = starts[0];
			place[starts[0]] = any;
			stamp[starts[0]] = event;
		} else {
			Iterator above = status.end();
			for (auto segment : ends) {
				above = status.erase(place[segment]);
			}
			for (auto segment : starts) {
				const auto inserted = status.insert(Place {segment});
				if (!inserted.second) {
					handler.Overlap(inserted.first->segment, segment);
					return false;
				}
				any = place[segment] = inserted.first;
				stamp[segment] = event;
			}
			for (auto segment : passing) {
				any = place[segment];
				stamp[segment] = event;
			}
			if (starts.empty() && passing.empty()) {
				return above == status.begin() || above == status.end() || Check(std::prev(above), above);
			}
		}
		auto lowest = any;
		while (lowest != status.begin() && stamp[std::prev(lowest)->segment] == event) {
			--lowest;
		}
		auto above = std::next(any);
		while (above != status.end() && stamp[above->segment] == event) {
			++above;
		}
		return (lowest == status.begin() || Check(std::prev(lowest), lowest)) &&
		       (above == status.end() || Check(std::prev(above), above));
	}

	//! Goes on unless the two cross inside both. When one ends on the other, that end is an event.
	bool Check(Iterator low, Iterator high) {
		const auto a = low->segment, b = high->segment;
		if (Side(a, Left(b)) * Side(a, Right(b)) < 0 && Side(b, Left(a)) * Side(b, Right(a)) < 0) {
			handler.Crossing(a, b);
			return false;
		}
		return true;
	}

	//! Tells of the closed chains whose leftmost vertex this is, from below
	void Nest(size_t begin, size_t end) {
		nested.clear();
		for (auto e = begin; e < end; e++) {
			const auto v = events[e];
			const auto chain = chain_of[v];
			if (first_seen[chain]) {
				continue;
			}
			first_seen[chain] = true;
			if (chains.Closed(chain)) {
				uint32_t before, after;
				Neighbours(v, before, after);
				const bool ccw = Compare(after, before) < 0;
				nested.push_back(Nested {chain, ccw ? after : before, ccw});
			}
		}
		if (nested.size() > 1) {
			std::sort(nested.begin(), nested.end(),
			          [&](const Nested &a, const Nested &b) { return Compare(a.lower, b.lower) < 0; });
		}
		for (const auto &ring : nested) {
			const auto at = place[ring.lower];
			handler.FirstVertex(ring.chain, ring.ccw, at == status.begin() ? NONE : std::prev(at)->segment);
		}
	}

	struct Nested {
		uint32_t chain;
		uint32_t lower;
		bool ccw;
	};

	//! Of a place in `status`, with what the C library adds
	static constexpr size_t NODE_BYTES = 64;

	const SweepChains &chains;
	HANDLER &handler;
	Poll poll;
	HeldMemory nodes;
	Status status;
	CountedVector<uint32_t> events;
	CountedVector<uint32_t> chain_of;
	// by segment: where it is in the order, and the event that touched it last
	CountedVector<Iterator> place;
	CountedVector<uint32_t> stamp;
	std::vector<bool> first_seen;
	// of the event at hand
	std::vector<uint32_t> starts;
	std::vector<uint32_t> ends;
	std::vector<uint32_t> passing;
	std::vector<SweepVisit> visits;
	std::vector<Nested> nested;
};

} // namespace vibespatial
