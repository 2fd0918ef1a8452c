//===----------------------------------------------------------------------===//
// engine/overlay/edges.hpp
//
// The edges of an overlay, and how they are split until they meet only at their ends.
//
// Promise: which edges meet, and in how many points, is decided exactly; the coordinates of a crossing are rounded
// (vibe::CrossingPoint). The result does not depend on the order of the edges or on threads.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/pages_vector.hpp"
#include "engine/overlay/strips.hpp"
#include "engine/overlay/tuning.hpp"
#include "vibe/shape.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vibespatial {

struct OverlayEdge {
	static constexpr uint32_t NO_POLYGON = UINT32_MAX;

	//! a is lexicographically less than b
	vibe::Vec2 a;
	vibe::Vec2 b;
	//! Depth above the edge (left of a to b) minus depth below, for each side of the overlay
	int32_t rise[2];
	//! The polygon that the edge belongs to, if it is only one
	uint32_t polygon;
	//! Bit 0, bit 1: the edge is part of a line of the left or right side
	uint32_t lines;
};

//! A point of the input
struct OverlayPoint {
	vibe::Vec2 point;
	//! Bit 0, bit 1: the point belongs to the left or right side
	uint32_t sides;
	//! Bit 0, bit 1: the point is on an edge of that side of the input, before edges were split
	uint32_t on;
};

//! Orders edges by their left ends, then by their right ends
struct EdgeBefore {
	template <class EDGE>
	bool operator()(const EDGE &e, const EDGE &f) const {
		return e.a == f.a ? vibe::LexicographicLess(e.b, f.b) : vibe::LexicographicLess(e.a, f.a);
	}
};

//! The places of edges, ends, cuts and entries are 32-bit numbers: throws GeometryError if there are more
void RequireCount(size_t count);

//! Sorts make(0) .. make(count - 1) into `out` by `less`, which must agree with `key`: less(a, b) implies key(a) <= key(b).
//! Distributes the items to buckets by key, then sorts each bucket.
template <class MAKE, class ITEMS, class KEY, class LESS>
void BucketSort(size_t count, MAKE make, ITEMS &out, KEY key, LESS less, Parallel &parallel);
//! Sorts items in place; `scratch` is memory that the caller may keep
template <class ITEMS, class KEY, class LESS>
void BucketSort(ITEMS &items, ITEMS &scratch, KEY key, LESS less, Parallel &parallel);

//! Sorted runs of edges of the left side, one after the other, in one piece of memory
struct EdgeRuns {
	struct Edge {
		vibe::Vec2 a;
		vibe::Vec2 b;
		int32_t rise;
		uint32_t polygon;
	};
	PagesVector<Edge> edges;
	//! End of each run
	std::vector<size_t> ends;
};

//! A sorted set of edges, no two of them equal
class OverlayEdges {
public:
	PagesVector<OverlayEdge> edges;
	//! For each side: only the parity of the depth counts
	bool odd[2] = {false, false};

	//! Sorts `edges`. Equal edges become one, and edges with the same depth on both sides are removed: this dissolves the
	//! common borders of a coverage.
	void Settle(Parallel &parallel);
	//! The same for edges in runs, whose memory is freed as they are consumed
	void Settle(std::vector<EdgeRuns> &pieces, Parallel &parallel);

	//! Sets OverlayPoint::on
	void Touch(CountedVector<OverlayPoint> &points);

	//! How edges are snapped where they meet
	struct Tolerance {
		//! Edges snap to ends of other edges that are closer than this fraction of their own largest coordinate, before they get a
		//! new point; 0: only to ends that they touch
		double reach = 0;
		//! All points snap to multiples of this, and edges to all points within half of it (snap rounding, Hobby 1999); 0: no
		//! grid
		double grid = 0;
	};
	//! Splits edges once where they meet others. Rounding moves them a little, so they may meet again. `is_planned`: AreCrowded() was asked
	//! of these edges.
	void Split(const Tolerance &tolerance, Parallel &parallel, bool is_planned = false);

	//! Whether so many edges lie beside each other in every direction that splitting is slow
	bool AreCrowded();

	//! Gives back the memory of all but the edges, where there are many of them
	void Trim();

private:
	struct Cut {
		uint32_t edge;
		vibe::Vec2 point;
	};
	//! An edge in a strip: its extent along and across the strips
	struct Entry {
		double t0, t1, s0, s1;
		uint32_t edge;
	};
	OverlayEdge *Unite(OverlayEdge *begin, OverlayEdge *end) const;
	void SnapEnds(double grid, Parallel &parallel);
	//! Adjacent strips, and the cuts found in them
	struct Step {
		size_t first = 0;
		CountedVector<Entry> entries;
		//! End of the entries of each strip
		CountedVector<uint32_t> ends;
		PagesVector<Cut> cuts;
	};
	//! The edges of a list, or all edges
	struct Numbers {
		const uint32_t *list;
		size_t count;

		uint32_t operator[](size_t i) const {
			return list ? list[i] : uint32_t(i);
		}
	};
	void PlanStrips();
	void Deal(size_t shift, const Tolerance &tolerance);
	void FillStrips(Step &step, size_t begin, size_t end, const Numbers &numbers, const Tolerance &tolerance) const;
	StripEdge InFrame(const OverlayEdge &edge, const Tolerance &tolerance) const {
		return StripEdge(plan.frame, edge.a, edge.b, vibe::ReachOf(edge, tolerance.reach) + tolerance.grid);
	}
	void ScanStrips(Step &step, const Tolerance &tolerance) const;
	void ScanCrowd(size_t strip, const Entry *begin, const Entry *end, const Tolerance &tolerance,
	               PagesVector<Cut> &found) const;
	void TestPair(uint32_t first, uint32_t second, const Tolerance &tolerance, PagesVector<Cut> &found) const;
	bool GoToPixels(uint32_t first, uint32_t second, double grid, PagesVector<Cut> &found) const;
	void Apply(Parallel &parallel);

	PagesVector<OverlayEdge> scratch;
	PagesVector<OverlayEdge> fresh;
	StripPlan plan;
	std::vector<Step> steps;
	//! The edges of each step, where there are several steps, and their ends
	PagesVector<uint32_t> dealt;
	CountedVector<uint32_t> dealt_ends;
	PagesVector<Cut> cuts;
	PagesVector<uint32_t> cut_start;
};

//===----------------------------------------------------------------------===//
// BucketSort
//===----------------------------------------------------------------------===//
template <class MAKE, class ITEMS, class KEY, class LESS>
void BucketSort(size_t n, MAKE make, ITEMS &out, KEY key, LESS less, Parallel &parallel) {
	using namespace overlay_tuning;
	RequireCount(n);
	const size_t buckets = n / SORT_BUCKET;
	double low = vibe::Infinity(), high = -low;
	for (size_t i = 0; i < n && n > FEW_TO_SORT; i++) {
		const double at = key(make(i));
		low = std::min(low, at);
		high = std::max(high, at);
	}
	const double scale = high > low ? double(buckets) / (high - low) : 0;
	out.resize(n);
	if (n <= FEW_TO_SORT || !(scale < vibe::Infinity())) {
		for (size_t i = 0; i < n; i++) {
			out[i] = make(i);
		}
		PolledSort(out.begin(), out.end(), less);
		return;
	}
	using Item = typename ITEMS::value_type;
	const auto bucket_of = [&](const Item &item) { return std::min(buckets - 1, size_t((key(item) - low) * scale)); };

	const size_t shares = std::max(size_t(1), std::min(parallel.Threads(), n / SORT_SHARE));
	const auto share_begin = [&](size_t share) { return n * share / shares; };
	CountedVector<uint32_t> place(shares * buckets + 1, 0);
	parallel.For(shares, [&](size_t share) {
		auto *counts = place.data() + share * buckets;
		for (auto i = share_begin(share); i < share_begin(share + 1); i++) {
			counts[bucket_of(make(i))]++;
		}
	});
	uint32_t total = 0;
	for (size_t bucket = 0; bucket < buckets; bucket++) {
		for (size_t share = 0; share < shares; share++) {
			auto &entry = place[share * buckets + bucket];
			const auto count = entry;
			entry = total;
			total += count;
		}
	}
	parallel.For(shares, [&](size_t share) {
		auto *next = place.data() + share * buckets;
		for (auto i = share_begin(share); i < share_begin(share + 1); i++) {
			const auto &item = make(i);
			out[next[bucket_of(item)]++] = item;
		}
	});
	// The positions of the last share are now the ends of the buckets
	const auto *ends = place.data() + (shares - 1) * buckets;
	const size_t steps = std::min(buckets, shares * 4);
	parallel.For(steps, [&](size_t step) {
		for (auto bucket = buckets * step / steps; bucket < buckets * (step + 1) / steps; bucket++) {
			PolledSort(out.begin() + (bucket == 0 ? 0 : ends[bucket - 1]), out.begin() + ends[bucket], less);
		}
	});
}

template <class ITEMS, class KEY, class LESS>
void BucketSort(ITEMS &items, ITEMS &scratch, KEY key, LESS less, Parallel &parallel) {
	if (items.size() <= overlay_tuning::FEW_TO_SORT) {
		std::sort(items.begin(), items.end(), less);
		return;
	}
	BucketSort(
	    items.size(), [&](size_t i) -> const typename ITEMS::value_type & { return items[i]; }, scratch, key, less,
	    parallel);
	items.swap(scratch);
}

} // namespace vibespatial
