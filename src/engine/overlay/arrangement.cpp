#include "engine/overlay/arrangement.hpp"

#include "geometry/error.hpp"

#include <cmath>

namespace vibespatial {

using vibe::Vec2;
using Kind = OverlayChain::Kind;

namespace {

//! The lexicographically least vertex of a ring
size_t FirstVertex(const Vec2 *points, size_t count) {
	return std::min_element(points, points + count, vibe::LexicographicLess) - points;
}

//! Whether a ring runs counterclockwise: decided exactly at its first vertex, or by its area where that is a spike
bool RunsCounterclockwise(const Vec2 *points, size_t count, size_t first) {
	const auto distinct = [&](size_t step) {
		auto i = first;
		do {
			i = (i + step) % count;
		} while (points[i] == points[first] && i != first);
		return points[i];
	};
	const int side = vibe::Orient2d(distinct(count - 1), points[first], distinct(1));
	if (side != 0) {
		return side > 0;
	}
	double area = 0;
	for (size_t i = 0; i < count; i++) {
		const auto &p = points[i], &q = points[(i + 1) % count], &o = points[first];
		area += (p.x - o.x) * (q.y - o.y) - (q.x - o.x) * (p.y - o.y);
	}
	return area > 0;
}

int32_t WeightOf(Kind kind, bool counterclockwise) {
	return kind == Kind::RING || counterclockwise == (kind == Kind::SHELL) ? 1 : -1;
}

//! The half-planes outside of a box that a point lies in
uint32_t Outside(const vibe::Box &box, const Vec2 &p) {
	return (p.x < box.min_x ? 1u : 0u) | (p.x > box.max_x ? 2u : 0u) | (p.y < box.min_y ? 4u : 0u) |
	       (p.y > box.max_y ? 8u : 0u);
}

//! The vertices that stay of a ring, counterclockwise from its first one. A detour that stays in a half-plane outside of the box is
//! replaced by a straight edge, which sweeps over no point of the box.
size_t KeepNear(const Vec2 *p, size_t n, size_t first, bool forward, const vibe::Box &box, Vec2 *out) {
	const auto after = [&](size_t i) { return forward ? (i + 1 == n ? 0 : i + 1) : (i == 0 ? n : i) - 1; };
	size_t kept = 0;
	out[kept++] = p[first];
	auto at = after(first);
	auto last_code = Outside(box, p[first]), code = Outside(box, p[at]);
	while (at != first) {
		const auto next = after(at);
		const auto next_code = Outside(box, p[next]);
		// No branch: which ones stay is hard to predict
		const bool stays = (last_code & code & next_code) == 0;
		out[kept] = p[at];
		kept += stays;
		last_code = stays ? code : last_code;
		code = next_code;
		at = next;
	}
	return kept;
}

} // namespace

int32_t OverlayChain::Weight() const {
	return WeightOf(kind, RunsCounterclockwise(points, count, FirstVertex(points, count)));
}

size_t OverlayChain::Clip(const vibe::Box &box, Vec2 *out) const {
	const auto first = FirstVertex(points, count);
	return KeepNear(points, count, first, RunsCounterclockwise(points, count, first), box, out);
}

void OverlayArrangement::Arrange(const CountedVector<OverlayChain> &chains, const vibe::Box boxes[2],
                                 CountedVector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel) {
	net.edges.clear();
	if (!IsClipped(rule.op, Overlay::RIGHT)) {
		size_t count = 0;
		for (auto &chain : chains) {
			count += chain.count;
		}
		net.edges.reserve(count);
	}
	for (auto &chain : chains) {
		AddEdges(chain, IsClipped(rule.op, chain.side) ? &boxes[1 - chain.side] : nullptr);
	}
	ArrangeNet(points, rule, parallel);
}

void OverlayArrangement::ArrangeNet(CountedVector<OverlayPoint> &points, const OverlayRule &rule, Parallel &parallel,
                                    bool clean) {
	net.Settle(parallel);
	ArrangeSettled(points, rule, parallel, clean);
}

void OverlayArrangement::ArrangeRuns(std::vector<EdgeRuns> &runs, CountedVector<OverlayPoint> &points,
                                     const OverlayRule &rule, Parallel &parallel) {
	net.Settle(runs, parallel);
	ArrangeSettled(points, rule, parallel, false);
}

void OverlayArrangement::ArrangeSettled(CountedVector<OverlayPoint> &points, const OverlayRule &rule,
                                        Parallel &parallel, bool clean) {
	OverlayEdges::Tolerance tolerance {0, grid};
	if (!clean) {
		net.Touch(points);
		// Long edges that do not meet, such as parallel ones, look like pairs that do: a sweep tells whether any does
		const bool is_planned = grid == 0;
		if (is_planned && net.AreCrowded() && sweep.Run(net, points, rule, parallel)) {
			return;
		}
		net.Split(tolerance, parallel, is_planned);
	}
	// Rounded crossings rarely make edges meet again. Where they do, edges snap to ends within a few units in the last place
	// instead of getting new points. If that does not terminate, snapping everything to a grid of that size does.
	constexpr int NEAR_ROUNDS = vibe::NearRounds::COUNT;
	constexpr int GRID_ROUNDS = 16;
	constexpr int TINY = -500;
	const size_t most = vibe::NearRounds::MostEdges(net.edges.size());
	net.Trim();
	for (int round = 0; !sweep.Run(net, points, rule, parallel); round++) {
		if (round < NEAR_ROUNDS && net.edges.size() > most) {
			round = NEAR_ROUNDS;
		}
		if (round < NEAR_ROUNDS) {
			tolerance.reach = vibe::NearRounds::Reach(round);
		} else {
			int exponent;
			std::frexp(Largest(), &exponent);
			// Where the remaining edges are tiny compared with the input, signs underflow: they snap to 0
			exponent = std::max(exponent - 51, TINY);
			tolerance.grid =
			    std::ldexp(std::max(grid, std::ldexp(1.0, exponent)), 2 * ((round - NEAR_ROUNDS) / GRID_ROUNDS));
		}
		net.Split(tolerance, parallel);
		net.Trim();
	}
}

void OverlayArrangement::Trim() {
	if (net.edges.size() >= overlay_tuning::MANY_EDGES) {
		net = OverlayEdges();
		sweep = OverlaySweep();
		Release(clipped);
	}
}

void OverlayArrangement::TakeAreas(std::vector<EdgeRuns> &pieces) const {
	const auto is_area = [](uint8_t label) { return (label & LABEL_AREA) != 0; };
	const auto count = size_t(std::count_if(sweep.labels.begin(), sweep.labels.end(), is_area));
	if (pieces.empty() || pieces.back().edges.size() + count > overlay_tuning::PIECE_EDGES) {
		pieces.emplace_back();
		pieces.back().edges.reserve(std::max(count, overlay_tuning::PIECE_EDGES));
	}
	auto &out = pieces.back();
	for (size_t i = 0; i < net.edges.size(); i++) {
		if (is_area(sweep.labels[i])) {
			const auto &edge = net.edges[i];
			out.edges.push_back(EdgeRuns::Edge {edge.a, edge.b, sweep.labels[i] & LABEL_ABOVE ? 1 : -1, edge.polygon});
		}
	}
	out.ends.push_back(out.edges.size());
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//
//! Adds the edges that can matter near `clip` (nullptr: all)
void OverlayArrangement::AddEdges(const OverlayChain &chain, const vibe::Box *clip) {
	const auto *p = chain.points;
	size_t n = chain.count;
	if (chain.kind == Kind::LINE) {
		for (size_t i = 1; i < n; i++) {
			if (!clip || (Outside(*clip, p[i - 1]) & Outside(*clip, p[i])) == 0) {
				AddEdge(p[i - 1], p[i], chain, 0);
			}
		}
		return;
	}
	const auto first = FirstVertex(p, n);
	const bool forward = RunsCounterclockwise(p, n, first);
	auto weight = WeightOf(chain.kind, forward);
	if (clip) {
		clipped.resize(n);
		n = KeepNear(p, n, first, forward, *clip, clipped.data());
		p = clipped.data();
		weight = forward ? weight : -weight;
	}
	for (size_t i = 0; i < n; i++) {
		AddEdge(p[i], p[i + 1 == n ? 0 : i + 1], chain, weight);
	}
}

void OverlayArrangement::AddEdge(const Vec2 &p, const Vec2 &q, const OverlayChain &chain, int32_t weight) {
	if (p == q) {
		return;
	}
	const bool forward = vibe::LexicographicLess(p, q);
	OverlayEdge edge {forward ? p : q, forward ? q : p, {0, 0}, chain.polygon, 0};
	if (chain.kind == Kind::LINE) {
		edge.lines = 1u << chain.side;
	} else {
		edge.rise[chain.side] = forward ? weight : -weight;
	}
	net.edges.push_back(edge);
}

double OverlayArrangement::Largest() const {
	double largest = 0;
	for (auto &edge : net.edges) {
		largest = std::max(std::max(largest, std::max(vibe::Abs(edge.a.x), vibe::Abs(edge.b.x))),
		                   std::max(vibe::Abs(edge.a.y), vibe::Abs(edge.b.y)));
	}
	return largest;
}

} // namespace vibespatial
