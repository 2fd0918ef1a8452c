#include "engine/overlay/sweep.hpp"

#include "vibe/overlay.h"

#include <unordered_map>

namespace vibespatial {

using vibe::MeetInside;
using vibe::Orient2d;
using vibe::Vec2;

namespace {

struct Depth {
	int32_t side[2];
};

class Labeller {
public:
	Labeller(const OverlayRule &rule, const bool odd_p[2]) : rule(rule), odd {odd_p[0], odd_p[1]} {
	}

	bool Inside(int side, int32_t depth) const {
		return odd[side] ? (depth & 1) != 0 : depth >= rule.least;
	}
	bool InResult(bool left, bool right) const {
		switch (rule.op) {
		case OverlayOp::INTERSECTION:
			return left && right;
		case OverlayOp::UNION:
			return left || right;
		case OverlayOp::DIFFERENCE:
			return left && !right;
		default:
			return left != right;
		}
	}
	//! The label of an edge, from the depth below it
	uint8_t Label(const OverlayEdge &edge, const Depth &below) const {
		const bool left_below = Inside(0, below.side[0]), left_above = Inside(0, below.side[0] + edge.rise[0]);
		const bool right_below = Inside(1, below.side[1]), right_above = Inside(1, below.side[1] + edge.rise[1]);
		const bool in_below = InResult(left_below, right_below), in_above = InResult(left_above, right_above);
		const bool left_line = (edge.lines & 1) != 0, right_line = (edge.lines & 2) != 0;
		return Compose(in_below, in_above, left_below || left_above, right_below || right_above, left_line, right_line);
	}
	//! The label of a point that is on no edge
	uint8_t Label(const Depth &at) const {
		const bool left = Inside(0, at.side[0]), right = Inside(1, at.side[1]);
		const bool in = InResult(left, right);
		return uint8_t((in ? LABEL_COVERED : 0) | (left ? LABEL_LEFT : 0) | (right ? LABEL_RIGHT : 0));
	}
	//! Whether a point is part of the result as a point. `label`: of all edges through it, or of its surroundings
	bool PointInResult(uint8_t label, uint32_t sides, uint32_t on) const {
		if (rule.areas_only || (label & (LABEL_COVERED | LABEL_LINE))) {
			return false;
		}
		const bool left = (sides & 1) != 0, right = (sides & 2) != 0;
		const bool in_left = left || (on & 1) || (label & LABEL_LEFT);
		const bool in_right = right || (on & 2) || (label & LABEL_RIGHT);
		// A point on an edge of its own side is represented by the edge, if at all
		const bool left_alone = left && !(on & 1), right_alone = right && !(on & 2);
		switch (rule.op) {
		case OverlayOp::INTERSECTION:
			return in_left && in_right;
		case OverlayOp::UNION:
			return (left || right) && on == 0;
		case OverlayOp::DIFFERENCE:
			return left_alone && !in_right;
		default:
			return (left_alone && !in_right) || (right_alone && !in_left);
		}
	}

private:
	uint8_t Compose(bool in_below, bool in_above, bool left_area, bool right_area, bool left_line,
	                bool right_line) const {
		const bool left = left_area || left_line, right = right_area || right_line;
		uint8_t label = uint8_t((left ? LABEL_LEFT : 0) | (right ? LABEL_RIGHT : 0));
		if (in_below != in_above) {
			return uint8_t(label | LABEL_AREA | LABEL_COVERED | (in_above ? LABEL_ABOVE : 0));
		}
		if (in_below) {
			return uint8_t(label | LABEL_COVERED);
		}
		if (!rule.areas_only && LineInResult(left, right, left_line, right_line)) {
			label |= LABEL_LINE;
		}
		return label;
	}
	//! For an edge that no area of the result covers
	bool LineInResult(bool left, bool right, bool left_line, bool right_line) const {
		switch (rule.op) {
		case OverlayOp::INTERSECTION:
			return left && right;
		case OverlayOp::UNION:
			return left_line || right_line;
		case OverlayOp::DIFFERENCE:
			return left_line && !right;
		default:
			return (left_line && !right) || (right_line && !left);
		}
	}

	const OverlayRule &rule;
	const bool odd[2];
};

} // namespace

//! The part of a sweep between two points, run by one thread
class OverlaySweep::Slab {
public:
	Slab(OverlaySweep &sweep, const OverlayEdges &net, const CountedVector<OverlayPoint> &inputs,
	     const OverlayRule &rule, std::atomic<bool> &failed)
	    : sweep(sweep), edges(net.edges), inputs(inputs), rule(rule), labeller(rule, net.odd), failed(failed) {
	}

	//! The points of the result in this slab
	CountedVector<Vec2> points;

	//! Visits all points from *from (nullptr: the first) to before *to (nullptr: to the last)
	void Run(const Vec2 *from, const Vec2 *to) {
		const auto edge_at = [&](const Vec2 *p, uint32_t otherwise) {
			return p ? uint32_t(std::lower_bound(edges.begin(), edges.end(), *p,
			                                     [](const OverlayEdge &e, const Vec2 &q) {
				                                     return vibe::LexicographicLess(e.a, q);
			                                     }) -
			                    edges.begin())
			         : otherwise;
		};
		const auto end_at = [&](const Vec2 *p, size_t otherwise) {
			return p ? size_t(std::lower_bound(
			                      sweep.ends.begin(), sweep.ends.end(), *p,
			                      [&](uint32_t e, const Vec2 &q) { return vibe::LexicographicLess(edges[e].b, q); }) -
			                  sweep.ends.begin())
			         : otherwise;
		};
		const auto input_at = [&](const Vec2 *p, size_t otherwise) {
			return p ? size_t(std::lower_bound(inputs.begin(), inputs.end(), *p,
			                                   [](const OverlayPoint &e, const Vec2 &q) {
				                                   return vibe::LexicographicLess(e.point, q);
			                                   }) -
			                  inputs.begin())
			         : otherwise;
		};
		first_edge = edge_at(from, 0);
		auto edge = first_edge;
		const auto edge_end = edge_at(to, uint32_t(edges.size()));
		auto end = end_at(from, 0);
		const auto end_end = end_at(to, sweep.ends.size());
		auto input = input_at(from, 0);
		const auto input_end = input_at(to, inputs.size());
		if (from) {
			Begin(*from);
		}
		size_t steps = 0;
		Poll poll;
		while (edge < edge_end || end < end_end || input < input_end) {
			if ((++steps & 1023) == 0 && failed.load(std::memory_order_relaxed)) {
				return;
			}
			Vec2 p = edge < edge_end ? edges[edge].a : end < end_end ? EndAt(end) : inputs[input].point;
			if (end < end_end && vibe::LexicographicLess(EndAt(end), p)) {
				p = EndAt(end);
			}
			if (input < input_end && vibe::LexicographicLess(inputs[input].point, p)) {
				p = inputs[input].point;
			}
			ended.clear();
			starting.clear();
			poll();
			while (end < end_end && EndAt(end) == p) {
				ended.push_back(sweep.ends[end++]);
			}
			while (edge < edge_end && edges[edge].a == p) {
				starting.push_back(edge++);
			}
			const OverlayPoint none {p, 0, 0};
			const bool is_input = input < input_end && inputs[input].point == p;
			if (!Visit(is_input ? inputs[input++] : none)) {
				failed = true;
				return;
			}
		}
	}

private:
	const Vec2 &EndAt(size_t end) const {
		return edges[sweep.ends[end]].b;
	}

	//! An edge on the sweep line. The edges are ordered in a linked list, and in a treap for searching.
	struct Place {
		uint32_t edge;
		uint32_t below, above;
		uint32_t parent, low, high;
		uint32_t priority;
		uint32_t under;
		Depth depth;
		uint8_t label;
	};

	//===------------------------------------------------------------------===//
	// The order of edges on the sweep line
	//===------------------------------------------------------------------===//
	uint32_t &PlaceOf(uint32_t edge) {
		// Edges that start in another slab have their nodes there
		return edge >= first_edge ? sweep.places[edge] : foreign[edge];
	}
	uint32_t NewPlace() {
		uint32_t index;
		if (!spare.empty()) {
			index = spare.back();
			spare.pop_back();
		} else {
			index = uint32_t(places.size());
			places.emplace_back();
		}
		random = random * 1664525u + 1013904223u;
		places[index].priority = random;
		return index;
	}
	void Rotate(uint32_t child) {
		auto parent = places[child].parent;
		auto grand = places[parent].parent;
		if (places[parent].low == child) {
			places[parent].low = places[child].high;
			if (places[child].high != NONE) {
				places[places[child].high].parent = parent;
			}
			places[child].high = parent;
		} else {
			places[parent].high = places[child].low;
			if (places[child].low != NONE) {
				places[places[child].low].parent = parent;
			}
			places[child].low = parent;
		}
		places[parent].parent = child;
		places[child].parent = grand;
		Reseat(grand, parent, child);
	}
	//! Replaces the child `former` of `parent` by `child`
	void Reseat(uint32_t parent, uint32_t former, uint32_t child) {
		if (parent == NONE) {
			root = child;
		} else if (places[parent].low == former) {
			places[parent].low = child;
		} else {
			places[parent].high = child;
		}
	}
	//! Inserts a node right above `below`, or as the lowest
	uint32_t Insert(uint32_t below) {
		const auto index = NewPlace();
		auto &place = places[index];
		place.low = place.high = place.parent = NONE;
		place.below = below;
		place.above = below == NONE ? lowest : places[below].above;
		if (place.below != NONE) {
			places[place.below].above = index;
		} else {
			lowest = index;
		}
		if (place.above != NONE) {
			places[place.above].below = index;
		}
		if (root == NONE) {
			root = index;
			return index;
		}
		if (below != NONE && places[below].high == NONE) {
			places[below].high = index;
			place.parent = below;
		} else {
			places[place.above].low = index;
			place.parent = place.above;
		}
		while (place.parent != NONE && places[place.parent].priority < place.priority) {
			Rotate(index);
		}
		return index;
	}
	void Erase(uint32_t index) {
		auto &place = places[index];
		while (place.low != NONE && place.high != NONE) {
			Rotate(places[place.low].priority > places[place.high].priority ? place.low : place.high);
		}
		const auto child = place.low != NONE ? place.low : place.high;
		if (child != NONE) {
			places[child].parent = place.parent;
		}
		Reseat(place.parent, index, child);
		if (place.below != NONE) {
			places[place.below].above = place.above;
		} else {
			lowest = place.above;
		}
		if (place.above != NONE) {
			places[place.above].below = place.below;
		}
		spare.push_back(index);
	}
	//! The node next below p. `on`: a node whose edge p is on
	uint32_t Search(const Vec2 &p, uint32_t &on) const {
		uint32_t below = NONE;
		on = NONE;
		for (auto at = root; at != NONE;) {
			const auto &edge = edges[places[at].edge];
			const int side = Orient2d(edge.a, edge.b, p);
			if (side == 0) {
				on = at;
				return below;
			}
			if (side > 0) {
				below = at;
				at = places[at].high;
			} else {
				at = places[at].low;
			}
		}
		return below;
	}

	//! The edges that cross the sweep line at p, in order
	void Begin(const Vec2 &p) {
		CountedVector<uint32_t> active;
		for (uint32_t i = 0; i < first_edge; i++) {
			if (!vibe::LexicographicLess(edges[i].b, p)) {
				active.push_back(i);
			}
		}
		// Edges that do not cross have a unique order; if some cross, this slab or one before it detects it
		Poll poll;
		std::stable_sort(active.begin(), active.end(), [&](uint32_t l, uint32_t r) {
			poll();
			const auto &e = edges[l], &f = edges[r];
			if (vibe::LexicographicLess(e.a, f.a)) {
				const int side = Orient2d(e.a, e.b, f.a);
				return side != 0 ? side > 0 : Orient2d(e.a, e.b, f.b) > 0;
			}
			const int side = e.a == f.a ? 0 : Orient2d(f.a, f.b, e.a);
			return side != 0 ? side < 0 : Orient2d(f.a, f.b, e.b) < 0;
		});
		uint32_t below = NONE;
		for (auto edge : active) {
			const auto place = Insert(below);
			Occupy(place, edge, below);
			if (below != NONE && MeetInside(edges[places[below].edge], edges[edge])) {
				failed = true;
			}
			below = place;
		}
	}
	//! Inserts an edge, given the one below
	void Occupy(uint32_t index, uint32_t edge, uint32_t below) {
		auto &place = places[index];
		place.edge = edge;
		place.depth = DepthAbove(below);
		place.label = labeller.Label(edges[edge], place.depth);
		place.under = UnderAbove(below);
		PlaceOf(edge) = index;
	}
	Depth DepthAbove(uint32_t index) const {
		if (index == NONE) {
			return Depth {{0, 0}};
		}
		const auto &place = places[index];
		const auto &rise = edges[place.edge].rise;
		return Depth {{place.depth.side[0] + rise[0], place.depth.side[1] + rise[1]}};
	}
	uint32_t UnderAbove(uint32_t index) const {
		if (index == NONE) {
			return NONE;
		}
		return places[index].label & LABEL_AREA ? places[index].edge : places[index].under;
	}

	//===------------------------------------------------------------------===//
	// A point
	//===------------------------------------------------------------------===//
	bool Visit(const OverlayPoint &at) {
		const auto p = at.point;
		uint32_t below, above;
		gone.clear();
		if (ended.empty()) {
			uint32_t on;
			below = Search(p, on);
			if (starting.empty()) {
				const auto label = on == NONE ? labeller.Label(DepthAbove(below)) : places[on].label;
				// On edges of both sides: where they cross or end there is a vertex, and where they overlap the result has a line,
				// which may have been moved off the point
				const bool on_both = rule.op == OverlayOp::INTERSECTION && at.on == 3;
				if (!on_both && labeller.PointInResult(label, at.sides, at.on)) {
					points.push_back(p);
				}
				return true;
			}
			if (on != NONE) {
				return false;
			}
			above = below == NONE ? lowest : places[below].above;
		} else {
			// All of them are adjacent in the order
			auto lowest_ended = PlaceOf(ended[0]);
			while (places[lowest_ended].below != NONE && edges[places[places[lowest_ended].below].edge].b == p) {
				lowest_ended = places[lowest_ended].below;
			}
			below = places[lowest_ended].below;
			for (above = lowest_ended; above != NONE && edges[places[above].edge].b == p; above = places[above].above) {
				gone.push_back(above);
			}
			if (gone.size() != ended.size()) {
				return false;
			}
		}
		if (starting.size() > 1) {
			std::sort(starting.begin(), starting.end(),
			          [&](uint32_t l, uint32_t r) { return Orient2d(p, edges[l].b, edges[r].b) > 0; });
			for (size_t i = 1; i < starting.size(); i++) {
				if (Orient2d(p, edges[starting[i - 1]].b, edges[starting[i]].b) <= 0) {
					return false;
				}
			}
		}
		around.clear();
		ended_lines.clear();
		uint8_t all = 0;
		for (auto index : gone) {
			all |= places[index].label;
		}
		// From the top down: counterclockwise they follow those that start here
		for (size_t i = gone.size(); i-- > 0;) {
			const auto &place = places[gone[i]];
			if (place.label & LABEL_AREA) {
				around.push_back(Spoke {place.edge, (place.label & LABEL_ABOVE) == 0});
			} else if (place.label & LABEL_LINE) {
				ended_lines.push_back(place.edge);
			}
		}
		const auto gone_spokes = around.size();
		// New edges reuse the nodes of those that end
		auto last = below;
		for (size_t i = 0; i < starting.size(); i++) {
			const auto edge = starting[i];
			const auto index = i < gone.size() ? gone[i] : Insert(last);
			Occupy(index, edge, last);
			const auto &place = places[index];
			sweep.labels[edge] = place.label;
			sweep.under[edge] = place.under;
			all |= place.label;
			if (place.label & LABEL_AREA) {
				around.push_back(Spoke {edge, (place.label & LABEL_ABOVE) != 0});
			}
			last = index;
		}
		for (size_t i = starting.size(); i < gone.size(); i++) {
			Erase(gone[i]);
		}
		if ((all & LABEL_LINE) && starting.size() + ended.size() > 2) {
			for (auto edge : starting) {
				sweep.labels[edge] |= LABEL_NODE;
			}
			for (auto edge : ended_lines) {
				sweep.crowded[edge] = 1;
			}
		}
		if (!around.empty()) {
			std::rotate(around.begin(), around.begin() + gone_spokes, around.end());
			Link();
		}
		if ((at.sides != 0 || rule.op == OverlayOp::INTERSECTION) && labeller.PointInResult(all, at.sides, at.on)) {
			points.push_back(p);
		}
		if (starting.empty()) {
			return below == NONE || above == NONE || !MeetInside(EdgeAt(below), EdgeAt(above));
		}
		return (below == NONE || !MeetInside(EdgeAt(below), edges[starting.front()])) &&
		       (above == NONE || !MeetInside(edges[starting.back()], EdgeAt(above)));
	}
	const OverlayEdge &EdgeAt(uint32_t place) const {
		return edges[places[place].edge];
	}

	//! An edge of an area at a point
	struct Spoke {
		uint32_t edge;
		bool leaves;
	};
	//! Counterclockwise around the point. The area of an arriving edge lies clockwise of it, up to the next leaving edge.
	void Link() {
		for (size_t i = 0; i < around.size(); i++) {
			if (around[i].leaves) {
				continue;
			}
			const auto &leaving = around[i == 0 ? around.size() - 1 : i - 1];
			sweep.next[around[i].edge] = leaving.edge;
			sweep.crowded[around[i].edge] = around.size() > 2;
		}
	}

	OverlaySweep &sweep;
	const PagesVector<OverlayEdge> &edges;
	const CountedVector<OverlayPoint> &inputs;
	const OverlayRule &rule;
	const Labeller labeller;
	std::atomic<bool> &failed;

	uint32_t first_edge = 0;
	CountedVector<Place> places;
	CountedVector<uint32_t> spare;
	std::unordered_map<uint32_t, uint32_t> foreign;
	uint32_t root = NONE;
	uint32_t lowest = NONE;
	uint32_t random = 1;
	// Of the point that is visited
	std::vector<uint32_t> ended;
	std::vector<uint32_t> starting;
	std::vector<uint32_t> gone;
	std::vector<uint32_t> ended_lines;
	std::vector<Spoke> around;
};

bool OverlaySweep::Run(const OverlayEdges &net, const CountedVector<OverlayPoint> &inputs, const OverlayRule &rule,
                       Parallel &parallel) {
	const auto &edges = net.edges;
	const auto n = edges.size();
	labels.resize(n);
	next.assign(n, NONE);
	crowded.assign(n, 0);
	under.resize(n);
	places.resize(n);
	BucketSort(
	    n, [](size_t i) { return uint32_t(i); }, ends, [&](uint32_t edge) { return edges[edge].b.x; },
	    [&](uint32_t l, uint32_t r) {
		    return edges[l].b == edges[r].b ? l < r : vibe::LexicographicLess(edges[l].b, edges[r].b);
	    },
	    parallel);

	const size_t slabs = parallel.Threads() == 1
	                         ? 1
	                         : std::max(size_t(1), std::min(parallel.Threads() * 4, n / overlay_tuning::SLAB_EDGES));
	// Slabs are separated at different points
	CountedVector<Vec2> borders;
	for (size_t i = 1; i < slabs; i++) {
		const auto &border = edges[n * i / slabs].a;
		if (borders.empty() || vibe::LexicographicLess(borders.back(), border)) {
			borders.push_back(border);
		}
	}
	std::atomic<bool> failed {false};
	std::vector<std::unique_ptr<Slab>> parts(borders.size() + 1);
	parallel.For(parts.size(), [&](size_t i) {
		parts[i].reset(new Slab(*this, net, inputs, rule, failed));
		parts[i]->Run(i == 0 ? nullptr : &borders[i - 1], i == borders.size() ? nullptr : &borders[i]);
	});
	points.clear();
	for (auto &part : parts) {
		points.insert(points.end(), part->points.begin(), part->points.end());
	}
	if (n >= overlay_tuning::MANY_EDGES) {
		Release(ends);
		Release(places);
	}
	return !failed;
}

void OverlaySweep::Take(const PagesVector<OverlayEdge> &edges, UnitedNet &united) {
	labels.resize(edges.size());
	for (size_t i = 0; i < edges.size(); i++) {
		labels[i] = uint8_t(LABEL_AREA | LABEL_COVERED | LABEL_LEFT | (edges[i].rise[0] > 0 ? LABEL_ABOVE : 0));
	}
	next = std::move(united.next);
	crowded = std::move(united.crowded);
	under = std::move(united.under);
	points.clear();
}

} // namespace vibespatial
