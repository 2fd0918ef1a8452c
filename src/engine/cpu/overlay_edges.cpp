#include "engine/cpu/overlay_edges.hpp"

#include "vibe/overlay.h"

#include <cmath>

namespace vibespatial {

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

//! Does ab pass the half-open square of one grid step around p?
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
	// A corner, or the sides that meet there, are part of one square of the four: else two diagonals would go to each other's
	// ends for ever
	return (above && below) || first == 0;
}

} // namespace

//===----------------------------------------------------------------------===//
// Settle
//===----------------------------------------------------------------------===//
void OverlayEdges::Settle(Parallel &parallel) {
	BucketSort(
	    edges, scratch, [](const OverlayEdge &edge) { return edge.a.x; }, EdgeBefore(), parallel);
	edges.resize(Unite(edges.data(), edges.data() + edges.size()) - edges.data());
}

//! Sorted edges to a set, in place; returns the new end
OverlayEdge *OverlayEdges::Unite(OverlayEdge *begin, OverlayEdge *end) const {
	// The bits of a rise that count
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
void OverlayEdges::Split(const Tolerance &tolerance, Parallel &parallel) {
	if (tolerance.grid > 0) {
		SnapEnds(tolerance.grid, parallel);
	}
	if (edges.size() < 2) {
		return;
	}
	FillStrips(tolerance);
	const size_t strips = strip_start.size() - 1;
	const size_t steps = std::min(strips, parallel.Threads() * 8);
	found.resize(std::max(found.size(), steps));
	parallel.For(steps, [&](size_t step) {
		found[step].clear();
		for (auto strip = strips * step / steps; strip < strips * (step + 1) / steps; strip++) {
			ScanStrip(strip, tolerance, found[step]);
		}
	});
	size_t total = 0;
	for (size_t step = 0; step < steps; step++) {
		total += found[step].size();
	}
	if (total == 0) {
		return;
	}
	// By edge
	cut_start.assign(edges.size() + 1, 0);
	for (size_t step = 0; step < steps; step++) {
		for (auto &cut : found[step]) {
			cut_start[cut.edge + 1]++;
		}
	}
	for (size_t i = 0; i < edges.size(); i++) {
		cut_start[i + 1] += cut_start[i];
	}
	cuts.resize(total);
	for (size_t step = 0; step < steps; step++) {
		for (auto &cut : found[step]) {
			cuts[cut_start[cut.edge]++] = cut;
		}
	}
	// Each start is now the next one's
	Apply(parallel);
}

void OverlayEdges::Touch(std::vector<OverlayPoint> &points) {
	if (points.empty() || edges.empty()) {
		return;
	}
	FillStrips(Tolerance {});
	for (auto &point : points) {
		const auto &p = point.point;
		const auto strip = StripOf(p.x);
		for (auto i = strip_start[strip]; i < strip_start[strip + 1]; i++) {
			const auto &entry = entries[i];
			if (entry.y0 <= p.y && p.y <= entry.y1 && entry.x0 <= p.x && p.x <= entry.x1) {
				const auto &edge = edges[entry.edge];
				if (p == edge.a || p == edge.b || vibe::Orient2d(edge.a, edge.b, p) == 0) {
					point.on |= edge.lines | (edge.rise[0] != 0 ? 1u : 0u) | (edge.rise[1] != 0 ? 2u : 0u);
				}
			}
		}
	}
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

//! Strips of equal width, each with the pieces of the edges that pass it, or come within their reach of it. Edges are sorted
//! by x, so those of a strip are neighbours in memory.
void OverlayEdges::FillStrips(const Tolerance &tolerance) {
	const auto n = edges.size();
	const auto reach_of = [&](const OverlayEdge &edge) {
		return vibe::ReachOf(edge, tolerance.reach) + tolerance.grid;
	};
	const double low = edges[0].a.x;
	double high = low, run = 0;
	for (auto &edge : edges) {
		high = std::max(high, edge.b.x);
		run += edge.b.x - edge.a.x;
	}
	// An edge is in 1 + (its width / a strip's width) strips: half as many more entries as edges, on average
	const double width = high - low;
	size_t strips = 1;
	if (run > 0 && n > 32) {
		strips = size_t(std::max(1.0, std::min(double(n) / 8, width * double(n) / (2 * run))));
	}
	const double step = width / double(strips);
	strip_low = low;
	strip_scale = width > 0 ? double(strips) / width : 0;
	strip_start.assign(strips + 1, 0);
	std::vector<uint32_t> ends(strips + 1, 0);
	for (auto &edge : edges) {
		const double reach = reach_of(edge);
		const auto last = StripOf(edge.b.x + reach);
		for (auto strip = StripOf(edge.a.x - reach); strip <= last; strip++) {
			ends[strip + 1]++;
		}
	}
	for (size_t i = 1; i <= strips; i++) {
		ends[i] += ends[i - 1];
	}
	strip_start = ends;
	entries.resize(ends[strips]);
	for (uint32_t i = 0; i < n; i++) {
		const auto &edge = edges[i];
		const double reach = reach_of(edge);
		const double x0 = edge.a.x - reach, x1 = edge.b.x + reach;
		const double y0 = std::min(edge.a.y, edge.b.y) - reach, y1 = std::max(edge.a.y, edge.b.y) + reach;
		const auto first = StripOf(x0), last = StripOf(x1);
		if (last - first < 2) {
			for (auto strip = first; strip <= last; strip++) {
				entries[ends[strip]++] = Entry {y0, y1, x0, x1, i};
			}
			continue;
		}
		const double slope = (edge.b.y - edge.a.y) / (edge.b.x - edge.a.x);
		// More than all that is rounded here, and as far as a strip's border may be passed
		const double slack = 1e-9 * (y1 - y0) + vibe::Abs(slope) * (step * 1e-6 + reach) + reach +
		                     1e-15 * (vibe::Abs(y0) + vibe::Abs(y1));
		for (auto strip = first; strip <= last; strip++) {
			const double from = edge.a.y + (low + step * double(strip) - edge.a.x) * slope;
			const double to = edge.a.y + (low + step * double(strip + 1) - edge.a.x) * slope;
			entries[ends[strip]++] =
			    Entry {std::max(y0, std::min(from, to) - slack), std::min(y1, std::max(from, to) + slack), x0, x1, i};
		}
	}
}

//! All pairs whose pieces in the strip come close
void OverlayEdges::ScanStrip(size_t strip, const Tolerance &tolerance, std::vector<Cut> &out) {
	const auto begin = entries.begin() + strip_start[strip], end = entries.begin() + strip_start[strip + 1];
	std::sort(begin, end, [](const Entry &a, const Entry &b) { return a.y0 < b.y0; });
	for (auto entry = begin; entry != end; ++entry) {
		for (auto other = entry + 1; other != end && other->y0 <= entry->y1; ++other) {
			if (other->x0 <= entry->x1 && other->x1 >= entry->x0) {
				TestPair(entry->edge, other->edge, tolerance, out);
			}
		}
	}
}

//! Cuts edges at ends of each other whose pixels they pass; true when there was one
bool OverlayEdges::GoToPixels(uint32_t first, uint32_t second, double grid, std::vector<Cut> &out) const {
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

void OverlayEdges::TestPair(uint32_t first, uint32_t second, const Tolerance &tolerance, std::vector<Cut> &out) const {
	struct Visit {
		const uint32_t index[2];
		const double grid;
		std::vector<Cut> &out;

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
	// Where there is an end to go to, there is no new point
	if (tolerance.grid > 0    ? GoToPixels(first, second, tolerance.grid, out)
	    : tolerance.reach > 0 ? vibe::VisitNearEnds(edges[first], edges[second], tolerance.reach, visit)
	                          : false) {
		return;
	}
	vibe::VisitCuts(edges[first], edges[second], visit);
}

//! Edges that were cut become their pieces
void OverlayEdges::Apply(Parallel &parallel) {
	fresh.clear();
	fresh.reserve(cuts.size() * 2);
	size_t kept = 0;
	for (size_t i = 0; i < edges.size(); i++) {
		const auto begin = i == 0 ? 0 : cut_start[i - 1], end = cut_start[i];
		if (begin == end) {
			edges[kept++] = edges[i];
			continue;
		}
		const auto edge = edges[i];
		std::sort(cuts.begin() + begin, cuts.begin() + end,
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
	BucketSort(
	    fresh, scratch, [](const OverlayEdge &edge) { return edge.a.x; }, EdgeBefore(), parallel);
	scratch.resize(edges.size() + fresh.size());
	std::merge(edges.begin(), edges.end(), fresh.begin(), fresh.end(), scratch.begin(), EdgeBefore());
	scratch.resize(Unite(scratch.data(), scratch.data() + scratch.size()) - scratch.data());
	edges.swap(scratch);
}

void OverlayEdges::Trim() {
	if (edges.size() >= MANY) {
		Release(scratch);
		Release(fresh);
		Release(entries);
		Release(strip_start);
		Release(found);
		Release(cuts);
		Release(cut_start);
	}
}

size_t OverlayEdges::Memory() const {
	size_t bytes = (edges.capacity() + scratch.capacity() + fresh.capacity()) * sizeof(OverlayEdge) +
	               entries.capacity() * sizeof(Entry) + cuts.capacity() * sizeof(Cut) +
	               (strip_start.capacity() + cut_start.capacity()) * sizeof(uint32_t);
	for (auto &one : found) {
		bytes += one.capacity() * sizeof(Cut);
	}
	return bytes;
}

} // namespace vibespatial
