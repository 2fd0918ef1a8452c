#include "engine/overlay/edges.hpp"

#include "geometry/error.hpp"
#include "vibe/overlay.h"

#include <atomic>
#include <cmath>

namespace vibespatial {

using namespace overlay_tuning;
using vibe::Vec2;

namespace {

void Absorb(OverlayEdge &edge, const OverlayEdge &equal) {
	edge.rise[0] += equal.rise[0];
	edge.rise[1] += equal.rise[1];
	edge.lines |= equal.lines;
	if (edge.polygon != equal.polygon) {
		edge.polygon = OverlayEdge::NO_POLYGON;
	}
}

double Snapped(double value, double grid) {
	return std::nearbyint(value / grid) * grid + 0.0;
}

//! Whether ab passes the half-open square of one grid step around p
bool PassesPixel(const Vec2 &a, const Vec2 &b, const Vec2 &p, double grid) {
	const double half = grid / 2;
	const double x0 = p.x - half, x1 = p.x + half, y0 = p.y - half, y1 = p.y + half;
	if (b.x < x0 || a.x > x1 || std::max(a.y, b.y) < y0 || std::min(a.y, b.y) > y1) {
		return false;
	}
	const int first = vibe::Orient2d(a, b, Vec2 {x0, y0});
	bool above = first > 0, below = first < 0;
	for (auto &corner : {Vec2 {x1, y0}, Vec2 {x1, y1}, Vec2 {x0, y1}}) {
		const int side = vibe::Orient2d(a, b, corner);
		above = above || side > 0;
		below = below || side < 0;
	}
	// A corner and the sides that meet there belong to one of the four squares only: otherwise two diagonals would snap to each
	// other's ends forever
	return (above && below) || first == 0;
}

//! Makes ends of counts
void SumCounts(CountedVector<uint32_t> &counts) {
	size_t sum = 0;
	for (auto &count : counts) {
		sum += count;
		count = uint32_t(sum);
	}
	RequireCount(sum);
}

//! Whether entries of a strip, sorted by t0, come close to very many others, by some of them
template <class ENTRY>
bool IsDense(const ENTRY *begin, const ENTRY *end) {
	constexpr size_t SAMPLES = 32;
	const size_t step = size_t(end - begin) / SAMPLES;
	size_t pairs = 0;
	for (const auto *entry = begin; step > SAMPLES && size_t(end - entry) > step; entry += step) {
		pairs += size_t(std::upper_bound(entry + 1, end, entry->t1, [](double t, const ENTRY &e) { return t < e.t0; }) -
		                entry) -
		         1;
	}
	return pairs > 2 * CROWD_PAIRS * SAMPLES;
}

} // namespace

void RequireCount(size_t count) {
	if (count > UINT32_MAX) {
		throw GeometryError("an overlay of more than 4,294,967,295 edges, or places where they meet");
	}
}

//===----------------------------------------------------------------------===//
// Settle
//===----------------------------------------------------------------------===//
void OverlayEdges::Settle(Parallel &parallel) {
	BucketSort(
	    edges, scratch, [](const OverlayEdge &edge) { return edge.a.x; }, EdgeBefore(), parallel);
	edges.resize(Unite(edges.data(), edges.data() + edges.size()) - edges.data());
}

//! Merges the runs one range of x at a time, whose edges fit into the cache of a core
void OverlayEdges::Settle(std::vector<EdgeRuns> &pieces, Parallel &parallel) {
	struct Run {
		size_t piece;
		const EdgeRuns::Edge *begin;
		const EdgeRuns::Edge *end;
	};
	std::vector<Run> runs;
	std::vector<std::atomic<size_t>> left(pieces.size());
	CountedVector<Vec2> samples;
	size_t total = 0;
	for (size_t piece = 0; piece < pieces.size(); piece++) {
		const auto *first = pieces[piece].edges.data(), *begin = first;
		for (auto end : pieces[piece].ends) {
			runs.push_back(Run {piece, begin, first + end});
			for (auto i = begin - first; i < ptrdiff_t(end); i += RANGE_SAMPLE) {
				samples.push_back(first[i].a);
			}
			begin = first + end;
		}
		left[piece] = pieces[piece].edges.size();
		total += left[piece];
	}
	PolledSort(samples.begin(), samples.end(), vibe::LexicographicLess);
	const auto ranges = std::max<size_t>(1, std::min(MOST_RANGES, total / RANGE_EDGES));
	// Start of each range in each run
	std::vector<uint32_t> starts((ranges + 1) * runs.size());
	ForEach(parallel, runs.size(), [&](size_t i) {
		auto at = runs[i].begin;
		for (size_t range = 1; range <= ranges; range++) {
			at = range == ranges ? runs[i].end
			                     : std::lower_bound(at, runs[i].end, samples[samples.size() * range / ranges],
			                                        [](const EdgeRuns::Edge &edge, const Vec2 &border) {
				                                        return vibe::LexicographicLess(edge.a, border);
			                                        });
			starts[range * runs.size() + i] = uint32_t(at - runs[i].begin);
		}
	});
	std::vector<size_t> places(ranges + 1), kept(ranges);
	for (size_t i = 0; i < ranges * runs.size(); i++) {
		places[i / runs.size() + 1] += starts[i + runs.size()] - starts[i];
	}
	for (size_t range = 0; range < ranges; range++) {
		places[range + 1] += places[range];
	}
	// Reserves space for the pieces that edges will be split into
	edges.reserve(total + total / 4);
	edges.resize(total);
	parallel.For(ranges, [&](size_t range) {
		UninitializedVector<OverlayEdge> mine, sorted;
		mine.reserve(places[range + 1] - places[range]);
		for (size_t i = 0; i < runs.size(); i++) {
			const auto *end = runs[i].begin + starts[(range + 1) * runs.size() + i];
			for (auto *edge = runs[i].begin + starts[range * runs.size() + i]; edge != end; edge++) {
				mine.push_back(OverlayEdge {edge->a, edge->b, {edge->rise, 0}, edge->polygon, 0});
			}
		}
		for (size_t i = 0; i < runs.size(); i++) {
			const auto taken = starts[(range + 1) * runs.size() + i] - starts[range * runs.size() + i];
			if (taken > 0 && left[runs[i].piece].fetch_sub(taken) == taken) {
				Release(pieces[runs[i].piece].edges);
			}
		}
		Serial serial;
		BucketSort(
		    mine, sorted, [](const OverlayEdge &edge) { return edge.a.x; }, EdgeBefore(), serial);
		const auto *end = Unite(mine.data(), mine.data() + mine.size());
		kept[range] = size_t(end - mine.data());
		std::copy(mine.data(), mine.data() + kept[range], edges.begin() + ptrdiff_t(places[range]));
	});
	size_t count = 0;
	for (size_t range = 0; range < ranges; range++) {
		const auto begin = edges.begin() + ptrdiff_t(places[range]);
		if (count != places[range]) {
			std::copy(begin, begin + ptrdiff_t(kept[range]), edges.begin() + ptrdiff_t(count));
		}
		count += kept[range];
	}
	edges.resize(count);
}

//! Makes a set of sorted edges in place; returns the new end
OverlayEdge *OverlayEdges::Unite(OverlayEdge *begin, OverlayEdge *end) const {
	// The bits of a rise that count: all, or the parity
	const int32_t left = odd[0] ? 1 : -1, right = odd[1] ? 1 : -1;
	auto out = begin;
	for (auto edge = begin; edge != end;) {
		auto united = *edge++;
		while (edge != end && edge->a == united.a && edge->b == united.b) {
			Absorb(united, *edge++);
		}
		if ((united.rise[0] & left) != 0 || (united.rise[1] & right) != 0 || united.lines != 0) {
			*out++ = united;
		}
	}
	return out;
}

//===----------------------------------------------------------------------===//
// Split
//===----------------------------------------------------------------------===//
void OverlayEdges::Split(const Tolerance &tolerance, Parallel &parallel, bool is_planned) {
	if (tolerance.grid > 0) {
		SnapEnds(tolerance.grid, parallel);
	}
	if (edges.size() < 2) {
		return;
	}
	RequireCount(edges.size());
	const bool many = edges.size() >= MANY_EDGES;
	if (!is_planned) {
		PlanStrips();
	}
	const size_t most = std::max(parallel.Threads() > 1 ? parallel.Threads() * 16 : 1, edges.size() / SPLIT_STEP_EDGES);
	size_t shift = 0;
	while ((plan.strips - 1) >> shift >= most) {
		shift++;
	}
	const size_t count = ((plan.strips - 1) >> shift) + 1;
	steps.resize(std::max(steps.size(), count));
	if (count > 1) {
		Deal(shift, tolerance);
	}
	parallel.For(count, [&](size_t i) {
		auto &step = steps[i];
		const auto begin = count == 1 || i == 0 ? 0 : dealt_ends[i - 1];
		const auto numbers =
		    count == 1 ? Numbers {nullptr, edges.size()} : Numbers {dealt.data() + begin, dealt_ends[i] - begin};
		FillStrips(step, i << shift, std::min(plan.strips, (i + 1) << shift), numbers, tolerance);
		ScanStrips(step, tolerance);
		if (many) {
			Release(step.entries);
			Release(step.ends);
		}
	});
	size_t total = 0;
	for (size_t i = 0; i < count; i++) {
		total += steps[i].cuts.size();
	}
	if (total == 0) {
		return;
	}
	RequireCount(total);
	// Sorts the cuts by edge
	cut_start.assign(edges.size() + 1, 0);
	for (size_t i = 0; i < count; i++) {
		for (auto &cut : steps[i].cuts) {
			cut_start[cut.edge + 1]++;
		}
	}
	for (size_t i = 0; i < edges.size(); i++) {
		cut_start[i + 1] += cut_start[i];
	}
	cuts.resize(total);
	for (size_t i = 0; i < count; i++) {
		for (auto &cut : steps[i].cuts) {
			cuts[cut_start[cut.edge]++] = cut;
		}
		if (many) {
			Release(steps[i].cuts);
		}
	}
	// cut_start[i] is now the start of edge i + 1
	Apply(parallel);
}

void OverlayEdges::Touch(CountedVector<OverlayPoint> &points) {
	if (points.empty() || edges.empty()) {
		return;
	}
	PlanStrips();
	steps.resize(std::max<size_t>(steps.size(), 1));
	auto &step = steps[0];
	FillStrips(step, 0, plan.strips, Numbers {nullptr, edges.size()}, Tolerance {});
	// The largest t1 up to each entry of its strip
	CountedVector<double> highest(step.entries.size());
	for (size_t strip = 0; strip < plan.strips; strip++) {
		const auto begin = strip == 0 ? 0 : step.ends[strip - 1], end = step.ends[strip];
		PolledSort(step.entries.begin() + begin, step.entries.begin() + end,
		           [](const Entry &a, const Entry &b) { return a.t0 < b.t0; });
		for (auto i = begin; i < end; i++) {
			highest[i] = i == begin ? step.entries[i].t1 : std::max(highest[i - 1], step.entries[i].t1);
		}
	}
	Poll poll;
	for (auto &point : points) {
		const auto &p = point.point;
		const auto at = plan.frame.Map(p);
		const double slack = plan.frame.Slack(p, p);
		const auto strip = plan.StripOf(at.x);
		const auto begin = step.entries.begin() + (strip == 0 ? 0 : step.ends[strip - 1]);
		auto entry = std::upper_bound(begin, step.entries.begin() + step.ends[strip], at.y + slack,
		                              [](double t, const Entry &e) { return t < e.t0; });
		while (entry != begin && highest[size_t(entry - 1 - step.entries.begin())] >= at.y - slack) {
			--entry;
			poll();
			if (entry->t1 >= at.y - slack && entry->s0 <= at.x + slack && at.x - slack <= entry->s1) {
				const auto &edge = edges[entry->edge];
				if (p == edge.a || p == edge.b ||
				    (vibe::Orient2d(edge.a, edge.b, p) == 0 && vibe::LiesInside(edge, p))) {
					point.on |= edge.lines | (edge.rise[0] != 0 ? 1u : 0u) | (edge.rise[1] != 0 ? 2u : 0u);
				}
			}
		}
	}
}

bool OverlayEdges::AreCrowded() {
	PlanStrips();
	return edges.size() >= CROWD_LEAST && plan.beside > MANY_BESIDE && plan.IsCrowded(edges.size());
}

void OverlayEdges::SnapEnds(double grid, Parallel &parallel) {
	size_t kept = 0;
	for (auto edge : edges) {
		edge.a = Vec2 {Snapped(edge.a.x, grid), Snapped(edge.a.y, grid)};
		edge.b = Vec2 {Snapped(edge.b.x, grid), Snapped(edge.b.y, grid)};
		if (edge.a == edge.b) {
			continue;
		}
		if (vibe::LexicographicLess(edge.b, edge.a)) {
			std::swap(edge.a, edge.b);
			edge.rise[0] = -edge.rise[0];
			edge.rise[1] = -edge.rise[1];
		}
		edges[kept++] = edge;
	}
	edges.resize(kept);
	Settle(parallel);
}

void OverlayEdges::PlanStrips() {
	plan.Choose(edges.size(), [&](size_t i, Vec2 &a, Vec2 &b) {
		a = edges[i].a;
		b = edges[i].b;
		return 0.0;
	});
}

//! Finds the edges of each step of 2^shift strips
void OverlayEdges::Deal(size_t shift, const Tolerance &tolerance) {
	Poll poll;
	const auto visit = [&](const auto &add) {
		for (uint32_t i = 0; i < edges.size(); i++) {
			const auto edge = InFrame(edges[i], tolerance);
			const auto last = plan.StripOf(edge.b.x + edge.reach) >> shift;
			poll();
			for (auto step = plan.StripOf(edge.a.x - edge.reach) >> shift; step <= last; step++) {
				add(step, i);
			}
		}
	};
	dealt_ends.assign(((plan.strips - 1) >> shift) + 2, 0);
	visit([&](size_t step, uint32_t) { dealt_ends[step + 1]++; });
	SumCounts(dealt_ends);
	dealt.resize(dealt_ends.back());
	// Moves every start to its end
	visit([&](size_t step, uint32_t edge) { dealt[dealt_ends[step]++] = edge; });
}

//! Fills strips [begin, end) with the pieces of the edges that pass them or come within their reach. Edges are sorted by x, so
//! those of a strip are close in memory.
void OverlayEdges::FillStrips(Step &step, size_t begin, size_t end, const Numbers &numbers,
                              const Tolerance &tolerance) const {
	step.first = begin;
	auto &ends = step.ends;
	Poll poll;
	ends.assign(end - begin + 1, 0);
	for (size_t i = 0; i < numbers.count; i++) {
		const auto edge = InFrame(edges[numbers[i]], tolerance);
		const auto last = std::min(plan.StripOf(edge.b.x + edge.reach), end - 1);
		poll();
		for (auto strip = std::max(plan.StripOf(edge.a.x - edge.reach), begin); strip <= last; strip++) {
			ends[strip - begin + 1]++;
		}
	}
	SumCounts(ends);
	// Moves every start to its end
	auto &entries = step.entries;
	entries.resize(ends.back());
	for (size_t i = 0; i < numbers.count; i++) {
		const auto number = numbers[i];
		poll();
		const auto edge = InFrame(edges[number], tolerance);
		const double reach = edge.reach;
		const double s0 = edge.a.x - reach, s1 = edge.b.x + reach;
		const double t0 = std::min(edge.a.y, edge.b.y) - reach, t1 = std::max(edge.a.y, edge.b.y) + reach;
		const auto first = plan.StripOf(s0), last = plan.StripOf(s1);
		const auto from = std::max(first, begin), to = std::min(last, end - 1);
		if (last - first < 2) {
			for (auto strip = from; strip <= to; strip++) {
				entries[ends[strip - begin]++] = Entry {t0, t1, s0, s1, number};
			}
			continue;
		}
		const double slope = (edge.b.y - edge.a.y) / (edge.b.x - edge.a.x);
		// Exceeds all rounding errors here, including the position of the border of a strip
		const double slack = 1e-9 * (t1 - t0) + vibe::Abs(slope) * (plan.width * 1e-6 + reach) + reach +
		                     1e-15 * (vibe::Abs(t0) + vibe::Abs(t1));
		for (auto strip = from; strip <= to; strip++) {
			const double left = edge.a.y + (plan.Border(strip) - edge.a.x) * slope;
			const double right = edge.a.y + (plan.Border(strip + 1) - edge.a.x) * slope;
			entries[ends[strip - begin]++] = Entry {std::max(t0, std::min(left, right) - slack),
			                                        std::min(t1, std::max(left, right) + slack), s0, s1, number};
		}
	}
	ends.pop_back();
}

//! Tests all pairs whose pieces in a strip come close
void OverlayEdges::ScanStrips(Step &step, const Tolerance &tolerance) const {
	Poll poll;
	step.cuts.clear();
	const auto *begin = step.entries.data();
	for (size_t i = 0; i < step.ends.size(); i++) {
		const auto *end = step.entries.data() + step.ends[i];
		PolledSort(step.entries.begin() + (begin - step.entries.data()), step.entries.begin() + step.ends[i],
		           [](const Entry &a, const Entry &b) { return a.t0 < b.t0; });
		const auto count = size_t(end - begin), cuts_before = step.cuts.size();
		const size_t most_pairs = count > CROWD_LEAST ? CROWD_PAIRS * count : SIZE_MAX;
		// Those of a crowd are found in another way. Most strips are none, so this is known when there were too many.
		size_t pairs = IsDense(begin, end) ? SIZE_MAX : 0;
		for (const auto *entry = begin; entry != end && pairs <= most_pairs; ++entry) {
			const auto *other = entry + 1;
			for (; other != end && other->t0 <= entry->t1; ++other) {
				if (other->s0 <= entry->s1 && other->s1 >= entry->s0) {
					TestPair(entry->edge, other->edge, tolerance, step.cuts);
				}
			}
			pairs += size_t(other - entry) - 1;
			poll(size_t(other - entry));
		}
		if (pairs > most_pairs) {
			step.cuts.erase(step.cuts.begin() + ptrdiff_t(cuts_before), step.cuts.end());
			ScanCrowd(step.first + i, begin, end, tolerance, step.cuts);
		}
		begin = end;
	}
}

void OverlayEdges::ScanCrowd(size_t strip, const Entry *begin, const Entry *end, const Tolerance &tolerance,
                             PagesVector<Cut> &found) const {
	CountedVector<StripPiece> pieces;
	pieces.reserve(size_t(end - begin));
	for (const auto *entry = begin; entry != end; ++entry) {
		const auto &edge = edges[entry->edge];
		const double reach = vibe::ReachOf(edge, tolerance.reach) + tolerance.grid;
		pieces.push_back(CrowdedPairs::Clip(StripPiece {edge.a, edge.b, reach, entry->edge}, plan, strip));
	}
	CrowdedPairs::Visit(pieces, [&](uint32_t one, uint32_t other) { TestPair(one, other, tolerance, found); });
}

//! Cuts edges at the ends of each other whose grid squares they pass; true if there was one
bool OverlayEdges::GoToPixels(uint32_t first, uint32_t second, double grid, PagesVector<Cut> &out) const {
	const auto before = out.size();
	const auto pass = [&](uint32_t index, const Vec2 &p) {
		const auto &edge = edges[index];
		if (p != edge.a && p != edge.b && PassesPixel(edge.a, edge.b, p, grid)) {
			out.push_back(Cut {index, p});
		}
	};
	pass(first, edges[second].a);
	pass(first, edges[second].b);
	pass(second, edges[first].a);
	pass(second, edges[first].b);
	return out.size() > before;
}

void OverlayEdges::TestPair(uint32_t first, uint32_t second, const Tolerance &tolerance, PagesVector<Cut> &out) const {
	struct Visit {
		const uint32_t index[2];
		const double grid;
		PagesVector<Cut> &out;

		void Touch(bool second, const Vec2 &p) {
			out.push_back(Cut {index[second], p});
		}
		void Cross(const Vec2 &p) {
			const auto at = grid > 0 ? Vec2 {Snapped(p.x, grid), Snapped(p.y, grid)} : p;
			out.push_back(Cut {index[0], at});
			out.push_back(Cut {index[1], at});
		}
	};
	Visit visit {{first, second}, tolerance.grid, out};
	// Snapping to an existing end avoids a new point
	if (tolerance.grid > 0    ? GoToPixels(first, second, tolerance.grid, out)
	    : tolerance.reach > 0 ? vibe::VisitNearEnds(edges[first], edges[second], tolerance.reach, visit)
	                          : false) {
		return;
	}
	vibe::VisitCuts(edges[first], edges[second], visit);
}

//! Replaces the edges that were cut by their pieces
void OverlayEdges::Apply(Parallel &parallel) {
	fresh.clear();
	fresh.reserve(cuts.size() * 2);
	Poll poll;
	size_t kept = 0;
	for (size_t i = 0; i < edges.size(); i++) {
		const auto begin = i == 0 ? 0 : cut_start[i - 1], end = cut_start[i];
		if (begin == end) {
			edges[kept++] = edges[i];
			continue;
		}
		const auto edge = edges[i];
		poll(end - begin);
		PolledSort(cuts.begin() + begin, cuts.begin() + end,
		           [&](const Cut &l, const Cut &r) { return vibe::CutBefore(edge, l.point, r.point); });
		auto from = edge.a;
		for (auto c = begin; c <= end; c++) {
			const auto to = c == end ? edge.b : cuts[c].point;
			auto piece = edge;
			bool turned;
			if (!vibe::TakePiece(piece, from, to, turned)) {
				continue;
			}
			if (turned) {
				piece.rise[0] = -piece.rise[0];
				piece.rise[1] = -piece.rise[1];
			}
			fresh.push_back(piece);
			from = to;
		}
	}
	edges.resize(kept);
	if (kept + fresh.size() >= MANY_EDGES) {
		Release(cuts);
		Release(cut_start);
	}
	BucketSort(
	    fresh, scratch, [](const OverlayEdge &edge) { return edge.a.x; }, EdgeBefore(), parallel);
	// Merges in place, from the end
	edges.resize(kept + fresh.size());
	auto out = edges.size();
	for (auto i = kept, k = fresh.size(); k > 0;) {
		edges[--out] = i > 0 && EdgeBefore()(fresh[k - 1], edges[i - 1]) ? edges[--i] : fresh[--k];
	}
	edges.resize(Unite(edges.data(), edges.data() + edges.size()) - edges.data());
}

void OverlayEdges::Trim() {
	if (edges.size() >= MANY_EDGES) {
		Release(scratch);
		Release(fresh);
		Release(steps);
		Release(dealt);
		Release(dealt_ends);
		Release(cuts);
		Release(cut_start);
	}
}

} // namespace vibespatial
