//===----------------------------------------------------------------------===//
// engine/overlay/edges.hpp
//
// The edges of an overlay, and how they are split until they meet in their ends only.
//
// Promise: which edges meet, and in how many points, is exact; a crossing is rounded (vibe::CrossingPoint). Nothing
// depends on the order in which edges come, nor on threads.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/pages_vector.hpp"
#include "vibe/shape.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vibespatial {

struct OverlayEdge {
	static constexpr uint32_t NO_POLYGON = UINT32_MAX;

	//! a before b
	vibe::Vec2 a;
	vibe::Vec2 b;
	//! By how much it is deeper above (left of a to b) than below, on either side of the overlay
	int32_t rise[2];
	//! The polygon that has it for an edge, if it is only one
	uint32_t polygon;
	//! Bit 0, bit 1: part of a line of the left or right side
	uint32_t lines;
};

//! A point of the input
struct OverlayPoint {
	vibe::Vec2 point;
	//! Bit 0, bit 1: of the left or right side
	uint32_t sides;
	//! The same: on an edge of that side as it came, before it was split and moved
	uint32_t on;
};

//! By their left ends, then by their right ones
struct EdgeBefore {
	template <class EDGE>
	bool operator()(const EDGE &e, const EDGE &f) const {
		return e.a == f.a ? vibe::LexicographicLess(e.b, f.b) : vibe::LexicographicLess(e.a, f.a);
	}
};

//! As many are sorted without buckets
constexpr size_t FEW_TO_SORT = 256;
//! Sorts make(0) .. make(count - 1) into `out`, by `less`, which must agree with `key` (less(a, b) implies key(a) <= key(b)):
//! into buckets by key, then each bucket.
template <class MAKE, class ITEMS, class KEY, class LESS>
void BucketSort(size_t count, MAKE make, ITEMS &out, KEY key, LESS less, Parallel &parallel);
//! Sorts items; `scratch` keeps its memory for the next time
template <class ITEMS, class KEY, class LESS>
void BucketSort(ITEMS &items, ITEMS &scratch, KEY key, LESS less, Parallel &parallel);

//! Runs of edges of the left side one behind the other, each of them sorted: a piece of memory that is given back at once
struct EdgeRuns {
	struct Edge {
		vibe::Vec2 a;
		vibe::Vec2 b;
		int32_t rise;
		uint32_t polygon;
	};
	PagesVector<Edge> edges;
	//! Where the runs end
	std::vector<size_t> ends;
};

//! A set of edges, sorted, no two of them equal
class OverlayEdges {
public:
	PagesVector<OverlayEdge> edges;
	//! Of a side: only whether a depth is odd counts
	bool odd[2] = {false, false};

	//! Sorts what was put into `edges`. Equal edges become one, and one that separates nothing goes: this is where the common
	//! borders of a coverage vanish.
	void Settle(Parallel &parallel);
	//! The same with edges in runs, whose memory is given back as they are taken
	void Settle(std::vector<EdgeRuns> &pieces, Parallel &parallel);

	//! Tells points which sides' edges they are on
	void Touch(std::vector<OverlayPoint> &points);

	//! How edges are split where they meet
	struct Tolerance {
		//! Edges go to ends of others that are nearer than this part of their own largest coordinate, before they are given a new
		//! point; 0: only to those that they touch
		double reach = 0;
		//! All points go to multiples of this, and edges to all points that they pass within half of it (snap rounding: Hobby
		//! 1999); 0: they stay
		double grid = 0;
	};
	//! Splits edges where they meet others, once. Splitting moves edges a little, so that they may meet anew.
	void Split(const Tolerance &tolerance, Parallel &parallel);

	//! Of so many edges memory is given back as soon as it is not needed, and otherwise kept for the next time
	static constexpr size_t MANY = size_t(1) << 18;
	//! All but the edges
	void Trim();
	size_t Memory() const;

private:
	struct Cut {
		uint32_t edge;
		vibe::Vec2 point;
	};
	//! An edge in a strip: its y there, and its x
	struct Entry {
		double y0, y1, x0, x1;
		uint32_t edge;
	};
	OverlayEdge *Unite(OverlayEdge *begin, OverlayEdge *end) const;
	void SnapEnds(double grid, Parallel &parallel);
	//! Strips one beside the other, and what was found in them
	struct Step {
		std::vector<Entry> entries;
		//! Where the entries of each strip end
		std::vector<uint32_t> ends;
		PagesVector<Cut> cuts;
	};
	size_t StripOf(double x) const {
		return size_t(std::min(double(strips - 1), std::max(0.0, (x - strip_low) * strip_scale)));
	}
	//! Edges: those of a list, or all
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
	void ScanStrips(Step &step, const Tolerance &tolerance) const;
	void TestPair(uint32_t first, uint32_t second, const Tolerance &tolerance, PagesVector<Cut> &found) const;
	bool GoToPixels(uint32_t first, uint32_t second, double grid, PagesVector<Cut> &found) const;
	void Apply(Parallel &parallel);

	PagesVector<OverlayEdge> scratch;
	PagesVector<OverlayEdge> fresh;
	size_t strips = 1;
	double strip_low = 0;
	double strip_width = 0;
	double strip_scale = 0;
	std::vector<Step> steps;
	//! The edges in each step, where there are several, and where they end
	PagesVector<uint32_t> dealt;
	std::vector<uint32_t> dealt_ends;
	PagesVector<Cut> cuts;
	PagesVector<uint32_t> cut_start;
};

//===----------------------------------------------------------------------===//
// BucketSort
//===----------------------------------------------------------------------===//
template <class MAKE, class ITEMS, class KEY, class LESS>
void BucketSort(size_t n, MAKE make, ITEMS &out, KEY key, LESS less, Parallel &parallel) {
	constexpr size_t SHARE = 8192;
	constexpr size_t BUCKET = 16;
	const size_t buckets = n / BUCKET;
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
		std::sort(out.begin(), out.end(), less);
		return;
	}
	using Item = typename ITEMS::value_type;
	const auto bucket_of = [&](const Item &item) { return std::min(buckets - 1, size_t((key(item) - low) * scale)); };

	const size_t shares = std::max(size_t(1), std::min(parallel.Threads(), n / SHARE));
	const auto share_begin = [&](size_t share) { return n * share / shares; };
	std::vector<uint32_t> place(shares * buckets + 1, 0);
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
	// The last share's places are now the ends of the buckets
	const auto *ends = place.data() + (shares - 1) * buckets;
	const size_t steps = std::min(buckets, shares * 4);
	parallel.For(steps, [&](size_t step) {
		for (auto bucket = buckets * step / steps; bucket < buckets * (step + 1) / steps; bucket++) {
			std::sort(out.begin() + (bucket == 0 ? 0 : ends[bucket - 1]), out.begin() + ends[bucket], less);
		}
	});
}

template <class ITEMS, class KEY, class LESS>
void BucketSort(ITEMS &items, ITEMS &scratch, KEY key, LESS less, Parallel &parallel) {
	if (items.size() <= FEW_TO_SORT) {
		std::sort(items.begin(), items.end(), less);
		return;
	}
	BucketSort(
	    items.size(), [&](size_t i) -> const typename ITEMS::value_type & { return items[i]; }, scratch, key, less,
	    parallel);
	items.swap(scratch);
}

} // namespace vibespatial
