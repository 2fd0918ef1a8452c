#include "engine/constructive/curve_shell.hpp"

#include "engine/constructive/tuning.hpp"
#include "engine/shape/open_ring.hpp"
#include "engine/shape/plain_chain.hpp"
#include "vibe/overlay.h"

#include <algorithm>

namespace vibespatial {

using namespace buffer_tuning;
using vibe::Vec2;

namespace {

//! Overlays scale what is larger or smaller
bool IsOfUsualSize(const Vec2 *points, size_t count) {
	double largest = 0;
	for (size_t i = 0; i < count; i++) {
		largest = vibe::Max(largest, vibe::Max(vibe::Abs(points[i].x), vibe::Abs(points[i].y)));
	}
	return largest > 1e-70 && largest < 1e70;
}

uint32_t LeastVertex(const Vec2 *points, size_t count) {
	return uint32_t(std::min_element(points, points + count, LexicographicallyLess) - points);
}

} // namespace

bool CurveShell::Find(const Vec2 *points, size_t count) {
	if (count < 3 || count >= UINT32_MAX / 4 || !IsOfUsualSize(points, count)) {
		return false;
	}
	curve = points;
	size = uint32_t(count);
	least = LeastVertex(points, count);
	// To the left of its first vertex there is nothing: the outside is on the right of a curve that turns left there
	if (vibe::Orient2d(curve[least > 0 ? least - 1 : size - 1], curve[least], Next(least)) <= 0 || !FindCrossings()) {
		return false;
	}
	ring.clear();
	ring.reserve(count);
	if (cuts.empty()) {
		ring.insert(ring.end(), curve + least, curve + size);
		ring.insert(ring.end(), curve, curve + least);
		return true;
	}
	return SortCuts() && Walk() && IsShell();
}

bool CurveShell::FindCrossings() {
	cuts.clear();
	const size_t most = 2 * (size / VERTICES_PER_CROSSING + LEAST_CROSSINGS);
	const auto vertex = [&](uint32_t i) { return curve[i == size ? 0 : i]; };
	const bool all = VisitMeetings(vertex, size + 1, [&](uint32_t i, uint32_t k) {
		const auto &a = curve[i], &b = Next(i), &c = curve[k], &d = Next(k);
		const int side = vibe::Orient2d(a, b, d);
		// Edges that touch are left to the overlay
		if (cuts.size() >= most || side == 0 || vibe::Orient2d(a, b, c) == 0 || vibe::Orient2d(c, d, a) == 0 ||
		    vibe::Orient2d(c, d, b) == 0) {
			return false;
		}
		const auto crossing = uint32_t(cuts.size() / 2);
		cuts.push_back(Cut {i, crossing, Vec2 {}, side < 0 ? 1 : -1});
		cuts.push_back(Cut {k, crossing, Vec2 {}, side < 0 ? -1 : 1});
		return true;
	});
	for (size_t i = 0; all && i < cuts.size(); i += 2) {
		const auto one = cuts[i].edge, other = cuts[i + 1].edge;
		const auto at = vibe::CrossingPoint(curve[one], Next(one), curve[other], Next(other));
		// -0 is 0
		cuts[i].point = cuts[i + 1].point = Vec2 {at.x + 0.0, at.y + 0.0};
	}
	return all;
}

int CurveShell::Compare(const Cut &a, const Cut &b) const {
	const auto &from = curve[a.edge], &to = Next(a.edge);
	// Rounded coordinates have the order of the true ones, where they differ
	const bool steep = vibe::Abs(to.y - from.y) > vibe::Abs(to.x - from.x);
	const double way = steep ? b.point.y - a.point.y : b.point.x - a.point.x;
	const bool forward = steep ? to.y > from.y : to.x > from.x;
	return way == 0 ? 0 : (way > 0) == forward ? -1 : 1;
}

bool CurveShell::SortCuts() {
	PolledSort(cuts.begin(), cuts.end(),
	           [&](const Cut &a, const Cut &b) { return a.edge != b.edge ? a.edge < b.edge : Compare(a, b) < 0; });
	partner.assign(cuts.size(), UINT32_MAX);
	depth.resize(cuts.size());
	// By crossing, the cut that was met first
	auto &first = depth;
	std::fill(first.begin(), first.end(), -1);
	for (uint32_t i = 0; i < cuts.size(); i++) {
		if (i > 0 && cuts[i].edge == cuts[i - 1].edge && Compare(cuts[i - 1], cuts[i]) >= 0) {
			return false;
		}
		auto &other = first[cuts[i].crossing];
		if (other < 0) {
			other = int32_t(i);
		} else {
			partner[i] = uint32_t(other);
			partner[uint32_t(other)] = i;
		}
	}
	return true;
}

bool CurveShell::Walk() {
	const auto count = uint32_t(cuts.size());
	const auto after = [&](uint32_t i) { return i + 1 < count ? i + 1 : 0; };
	// The stretch that the first vertex is on
	const auto found = std::partition_point(cuts.begin(), cuts.end(), [&](const Cut &cut) { return cut.edge < least; });
	const auto start = found == cuts.begin() ? count - 1 : uint32_t(found - cuts.begin()) - 1;
	size_t outer = 0;
	int32_t right = 0;
	for (uint32_t i = start, step = 0; step < count; step++, i = after(i)) {
		depth[i] = right;
		outer += right == 0;
		right += cuts[after(i)].rise;
	}
	auto i = start;
	do {
		if (depth[i] != 0 || outer-- == 0) {
			return false;
		}
		const auto next = after(i);
		ring.push_back(cuts[i].point);
		// Of a stretch on one edge, none
		for (auto vertex = cuts[i].edge; vertex != cuts[next].edge;) {
			vertex = vertex + 1 < size ? vertex + 1 : 0;
			ring.push_back(curve[vertex]);
		}
		i = partner[next];
	} while (i != start);
	if (outer > 0) {
		return false;
	}
	std::rotate(ring.begin(), ring.begin() + LeastVertex(ring.data(), ring.size()), ring.end());
	return true;
}

//! Rounded crossings may have made edges meet
bool CurveShell::IsShell() const {
	return IsPlainRing(ring.data(), ring.size()) && vibe::Orient2d(ring.back(), ring[0], ring[1]) > 0;
}

} // namespace vibespatial
