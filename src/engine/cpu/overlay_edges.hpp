//===----------------------------------------------------------------------===//
// engine/cpu/overlay_edges.hpp
//
// The edges of an overlay, and how they are split until they meet in their ends only.
//
// Promise: which edges meet, and in how many points, is exact; a crossing is rounded (vibe::CrossingPoint). Nothing
// depends on the order in which edges come, nor on threads.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/parallel.hpp"
#include "engine/uninitialized.hpp"
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

//! Sorts by `less`, which must agree with `key` (less(a, b) implies key(a) <= key(b)): into buckets by key, then each
//! bucket. `scratch` keeps its memory for the next time.
template <class T, class KEY, class LESS>
void BucketSort(std::vector<T> &items, std::vector<T> &scratch, KEY key, LESS less, Parallel &parallel);

//! A set of edges, sorted, no two of them equal
class OverlayEdges {
public:
	std::vector<OverlayEdge> edges;
	//! Of a side: only whether a depth is odd counts
	bool odd[2] = {false, false};

	//! Sorts what was put into `edges`. Equal edges become one, and one that separates nothing goes: this is where the common
	//! borders of a coverage vanish.
	void Settle(Parallel &parallel);

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
	size_t StripOf(double x) const {
		return size_t(std::min(double(strip_start.size() - 2), std::max(0.0, (x - strip_low) * strip_scale)));
	}
	void FillStrips(const Tolerance &tolerance);
	void ScanStrip(size_t strip, const Tolerance &tolerance, std::vector<Cut> &found);
	void TestPair(uint32_t first, uint32_t second, const Tolerance &tolerance, std::vector<Cut> &found) const;
	bool GoToPixels(uint32_t first, uint32_t second, double grid, std::vector<Cut> &found) const;
	void Apply(Parallel &parallel);

	std::vector<OverlayEdge> scratch;
	std::vector<OverlayEdge> fresh;
	std::vector<Entry> entries;
	std::vector<uint32_t> strip_start;
	double strip_low = 0;
	double strip_scale = 0;
	std::vector<std::vector<Cut>> found;
	std::vector<Cut> cuts;
	std::vector<uint32_t> cut_start;
};

//===----------------------------------------------------------------------===//
// BucketSort
//===----------------------------------------------------------------------===//
template <class T, class KEY, class LESS>
void BucketSort(std::vector<T> &items, std::vector<T> &scratch, KEY key, LESS less, Parallel &parallel) {
	constexpr size_t SMALL = 256;
	constexpr size_t SHARE = 8192;
	constexpr size_t BUCKET = 16;
	const auto n = items.size();
	if (n <= SMALL) {
		std::sort(items.begin(), items.end(), less);
		return;
	}
	double low = key(items[0]), high = low;
	for (auto &item : items) {
		low = std::min(low, double(key(item)));
		high = std::max(high, double(key(item)));
	}
	const size_t buckets = n / BUCKET;
	const double scale = high > low ? double(buckets) / (high - low) : 0;
	if (!(scale < vibe::Infinity())) {
		std::sort(items.begin(), items.end(), less);
		return;
	}
	auto bucket_of = [&](const T &item) { return std::min(buckets - 1, size_t((key(item) - low) * scale)); };

	const size_t shares = std::max(size_t(1), std::min(parallel.Threads(), n / SHARE));
	const auto share_begin = [&](size_t share) { return n * share / shares; };
	std::vector<uint32_t> place(shares * buckets + 1, 0);
	parallel.For(shares, [&](size_t share) {
		auto *counts = place.data() + share * buckets;
		for (auto i = share_begin(share); i < share_begin(share + 1); i++) {
			counts[bucket_of(items[i])]++;
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
	scratch.resize(n);
	parallel.For(shares, [&](size_t share) {
		auto *next = place.data() + share * buckets;
		for (auto i = share_begin(share); i < share_begin(share + 1); i++) {
			scratch[next[bucket_of(items[i])]++] = items[i];
		}
	});
	// The last share's places are now the ends of the buckets
	const auto *ends = place.data() + (shares - 1) * buckets;
	const size_t steps = std::min(buckets, shares * 4);
	parallel.For(steps, [&](size_t step) {
		for (auto bucket = buckets * step / steps; bucket < buckets * (step + 1) / steps; bucket++) {
			std::sort(scratch.begin() + (bucket == 0 ? 0 : ends[bucket - 1]), scratch.begin() + ends[bucket], less);
		}
	});
	items.swap(scratch);
}

} // namespace vibespatial
