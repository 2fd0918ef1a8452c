#include "engine/cpu/overlay_rings.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

namespace vibespatial {

using vibe::Vec2;

namespace {

//! The edge runs from a to b with its area to the left
bool Forward(const OverlaySweep &sweep, uint32_t edge) {
	return (sweep.labels[edge] & LABEL_ABOVE) != 0;
}

struct PointLess {
	bool operator()(const Vec2 &a, const Vec2 &b) const {
		return vibe::LexicographicLess(a, b);
	}
};

} // namespace

Vec2 OverlayRings::Tail(uint32_t edge) const {
	return Forward(*sweep, edge) ? (*edges)[edge].a : (*edges)[edge].b;
}
Vec2 OverlayRings::Head(uint32_t edge) const {
	return Forward(*sweep, edge) ? (*edges)[edge].b : (*edges)[edge].a;
}

void OverlayRings::Build(const std::vector<OverlayEdge> &edges_p, const OverlaySweep &sweep_p,
                         const std::vector<Vec2> &line_ends) {
	edges = &edges_p;
	sweep = &sweep_p;
	path.clear();
	rings.clear();
	order.clear();
	ring_of.assign(edges->size(), NONE);
	for (uint32_t edge = 0; edge < edges->size(); edge++) {
		if ((sweep->labels[edge] & LABEL_AREA) && ring_of[edge] == NONE) {
			Walk(edge);
		}
	}
	Nest();
	BuildLines(line_ends);
	points = sweep->points;
}

//! Around one area from an edge on. Where the way comes back to a point, what lies between is a ring of its own.
void OverlayRings::Walk(uint32_t start) {
	std::map<Vec2, size_t, PointLess> crowded_at;
	walked.clear();
	auto edge = start;
	const auto begin = Tail(start);
	do {
		walked.push_back(edge);
		const auto head = Head(edge);
		if (sweep->crowded[edge]) {
			const auto seen = crowded_at.find(head);
			if (seen != crowded_at.end() && seen->second < walked.size() && Tail(walked[seen->second]) == head) {
				AddRing(seen->second);
			} else if (head == begin) {
				AddRing(0);
			}
			crowded_at[head] = walked.size();
		} else if (head == begin) {
			AddRing(0);
		}
		edge = sweep->next[edge];
		if (edge == NONE) {
			throw std::logic_error("overlay: a ring that does not close");
		}
	} while (edge != start);
}

//! The end of the way, from a position on, is a ring
void OverlayRings::AddRing(size_t from) {
	Ring ring {};
	ring.start = uint32_t(path.size());
	ring.count = uint32_t(walked.size() - from);
	path.insert(path.end(), walked.begin() + from, walked.end());
	walked.resize(from);
	ring.first = ring.start;
	for (auto i = ring.start; i < ring.start + ring.count; i++) {
		ring_of[path[i]] = uint32_t(rings.size());
		if (vibe::LexicographicLess(Tail(path[i]), Tail(path[ring.first]))) {
			ring.first = i;
		}
	}
	const auto leaves = path[ring.first];
	const auto arrives = path[ring.first == ring.start ? ring.start + ring.count - 1 : ring.first - 1];
	const auto &first = (*edges)[leaves], &last = (*edges)[arrives];
	ring.shell = vibe::Orient2d(first.a, first.b, last.b) > 0;
	ring.lower = ring.shell ? leaves : arrives;
	ring.owner = ring.shell ? uint32_t(rings.size()) : NONE;
	rings.push_back(ring);
}

//! The shell around a hole: the ring of the edge below it, or the shell that this one lies in as a hole
uint32_t OverlayRings::Owner(uint32_t ring) {
	auto at = ring;
	while (rings[at].owner == NONE) {
		const auto under = sweep->under[rings[at].lower];
		if (under == NONE) {
			throw std::logic_error("overlay: a hole in no shell");
		}
		at = ring_of[under];
	}
	const auto owner = rings[at].owner;
	for (at = ring; rings[at].owner == NONE;) {
		rings[at].owner = owner;
		at = ring_of[sweep->under[rings[at].lower]];
	}
	return owner;
}

//! Thinner than coordinates of its size, computed somehow, can be relied on; a hole that a polygon came with is none
bool OverlayRings::IsSliver(const Ring &ring) const {
	double area = 0, length = 0, largest = 0;
	const auto origin = Tail(path[ring.start]);
	const auto polygon = (*edges)[path[ring.start]].polygon;
	bool own = polygon != OverlayEdge::NO_POLYGON;
	for (auto i = ring.start; i < ring.start + ring.count; i++) {
		own = own && (*edges)[path[i]].polygon == polygon;
		const auto p = Tail(path[i]), q = Head(path[i]);
		area += (p.x - origin.x) * (q.y - origin.y) - (q.x - origin.x) * (p.y - origin.y);
		length += vibe::Abs(q.x - p.x) + vibe::Abs(q.y - p.y);
		largest = std::max(largest, std::max(vibe::Abs(p.x), vibe::Abs(p.y)));
	}
	// `area` is twice the ring's
	return !own && vibe::Abs(area) < length * largest * OVERLAY_SLIVER;
}

//! What lies in a hole that is filled goes with it
void OverlayRings::FillHoles(std::vector<uint8_t> &gone) {
	// A hole goes with its shell; a shell with the hole that it lies in, or with the shell below it, which lies in the same
	const auto around = [&](uint32_t ring) {
		if (!rings[ring].shell) {
			return Owner(ring);
		}
		const auto under = sweep->under[rings[ring].lower];
		return under == NONE ? NONE : ring_of[under];
	};
	auto known = gone;
	std::vector<uint32_t> way;
	for (uint32_t i = 0; i < rings.size(); i++) {
		way.clear();
		auto at = i;
		for (; at != NONE && !known[at]; at = around(at)) {
			way.push_back(at);
		}
		const bool goes = at != NONE && gone[at];
		for (auto ring : way) {
			gone[ring] = goes;
			known[ring] = 1;
		}
	}
}

void OverlayRings::Nest() {
	std::vector<uint8_t> gone(rings.size(), 0);
	bool any = false;
	for (uint32_t i = 0; i < rings.size(); i++) {
		gone[i] = !rings[i].shell && IsSliver(rings[i]);
		any = any || gone[i];
	}
	if (any) {
		FillHoles(gone);
	}
	for (uint32_t i = 0; i < rings.size(); i++) {
		if (!gone[i]) {
			Owner(i);
			order.push_back(i);
		}
	}
	// Edges are sorted, so a ring's first edge tells its place
	const auto first_edge = [&](const Ring &ring) {
		const auto leaves = path[ring.first];
		const auto arrives = path[ring.first == ring.start ? ring.start + ring.count - 1 : ring.first - 1];
		return std::min(leaves, arrives);
	};
	std::sort(order.begin(), order.end(), [&](uint32_t l, uint32_t r) {
		const auto &a = rings[l], &b = rings[r];
		if (a.owner != b.owner) {
			return first_edge(rings[a.owner]) < first_edge(rings[b.owner]);
		}
		if (a.shell != b.shell) {
			return a.shell;
		}
		return first_edge(a) < first_edge(b);
	});
}

//! Do more than two edges of any kind meet in the end p of an edge of a line?
bool OverlayRings::IsNode(uint32_t edge, const Vec2 &p) const {
	return p == (*edges)[edge].a ? (sweep->labels[edge] & LABEL_NODE) != 0 : sweep->crowded[edge] != 0;
}

//! Lines run through points where just two of their edges meet and no line of the input ends
void OverlayRings::BuildLines(const std::vector<Vec2> &line_ends) {
	line_vertices.clear();
	line_order.clear();
	line_start.assign(1, 0);
	struct Spoke {
		Vec2 point;
		uint32_t edge;
	};
	std::vector<Spoke> spokes;
	for (uint32_t i = 0; i < edges->size(); i++) {
		if (sweep->labels[i] & LABEL_LINE) {
			spokes.push_back(Spoke {(*edges)[i].a, i});
			spokes.push_back(Spoke {(*edges)[i].b, i});
		}
	}
	if (spokes.empty()) {
		return;
	}
	std::sort(spokes.begin(), spokes.end(), [](const Spoke &l, const Spoke &r) {
		return l.point == r.point ? l.edge < r.edge : vibe::LexicographicLess(l.point, r.point);
	});
	const auto at = [&](const Vec2 &p) {
		return std::lower_bound(spokes.begin(), spokes.end(), p, [](const Spoke &spoke, const Vec2 &q) {
			return vibe::LexicographicLess(spoke.point, q);
		});
	};
	std::vector<uint8_t> taken(edges->size(), 0);
	//! The edge that goes on from `edge` at p, or NONE
	const auto onward = [&](uint32_t edge, const Vec2 &p) {
		const auto spoke = at(p);
		const auto second = spoke + 1;
		if (second == spokes.end() || second->point != p || (second + 1 != spokes.end() && (second + 1)->point == p) ||
		    IsNode(edge, p) || std::binary_search(line_ends.begin(), line_ends.end(), p, vibe::LexicographicLess)) {
			return NONE;
		}
		return spoke->edge == edge ? second->edge : spoke->edge;
	};
	const auto follow = [&](uint32_t edge, Vec2 from) {
		line_vertices.push_back(from);
		while (edge != NONE && !taken[edge]) {
			taken[edge] = 1;
			from = (*edges)[edge].a == from ? (*edges)[edge].b : (*edges)[edge].a;
			line_vertices.push_back(from);
			edge = onward(edge, from);
		}
		line_start.push_back(uint32_t(line_vertices.size()));
	};
	// Open lines from their first end on, then closed ones from their first vertex
	for (auto &spoke : spokes) {
		if (!taken[spoke.edge] && onward(spoke.edge, spoke.point) == NONE) {
			follow(spoke.edge, spoke.point);
		}
	}
	for (auto &spoke : spokes) {
		if (!taken[spoke.edge]) {
			follow(spoke.edge, spoke.point);
		}
	}
	line_order.resize(line_start.size() - 1);
	std::iota(line_order.begin(), line_order.end(), 0);
	std::sort(line_order.begin(), line_order.end(), [&](uint32_t l, uint32_t r) {
		const auto v = line_vertices.begin();
		return std::lexicographical_compare(v + line_start[l], v + line_start[l + 1], v + line_start[r],
		                                    v + line_start[r + 1], vibe::LexicographicLess);
	});
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//
void OverlayRings::Write(int dimension, double scale, GeometryBatch &out) const {
	size_t shells = 0;
	for (auto ring : order) {
		shells += rings[ring].shell;
	}
	const auto lines = line_order.size();
	const auto members = shells + lines + points.size();
	const auto kinds = (shells > 0) + (lines > 0) + (!points.empty());
	const auto add = [&](const Vec2 &p) { out.AddVertex(p.x * scale, p.y * scale, 0, 0); };
	out.RequireRoom(path.size() + rings.size() + line_vertices.size() + points.size() * 2 + members + 1);

	GeometryType single = kinds > 1 || dimension < 0 ? GeometryType::GEOMETRYCOLLECTION
	                      : shells > 0               ? GeometryType::POLYGON
	                      : lines > 0                ? GeometryType::LINESTRING
	                      : !points.empty()          ? GeometryType::POINT
	                                                 : static_cast<GeometryType>(dimension + 1);
	const bool multi = kinds == 1 && members > 1;
	const auto type = multi ? static_cast<GeometryType>(static_cast<uint8_t>(single) + 3) : single;
	out.BeginRow(type, VERTEX_XY);
	if (type == GeometryType::GEOMETRYCOLLECTION || multi) {
		out.BeginNode(type, uint32_t(members));
	}
	if (members == 0 && type != GeometryType::GEOMETRYCOLLECTION) {
		out.BeginNode(type, 0);
		out.BeginPart(FamilyOf(type));
	}
	for (auto index : order) {
		const auto &ring = rings[index];
		if (ring.shell) {
			out.BeginNode(GeometryType::POLYGON, 0);
			out.BeginPart(vibe::FAMILY_POLYGON);
		}
		out.BeginRing();
		for (uint32_t i = 0; i <= ring.count; i++) {
			const auto at = ring.first - ring.start + i;
			add(Tail(path[ring.start + at % ring.count]));
		}
	}
	for (auto line : line_order) {
		out.BeginNode(GeometryType::LINESTRING, 0);
		out.BeginPart(vibe::FAMILY_LINE);
		out.BeginRing();
		for (auto i = line_start[line]; i < line_start[line + 1]; i++) {
			add(line_vertices[i]);
		}
	}
	for (auto &point : points) {
		out.BeginNode(GeometryType::POINT, 0);
		out.BeginPart(vibe::FAMILY_POINT);
		out.BeginRing();
		add(point);
	}
	out.EndRow();
}

size_t OverlayRings::Memory() const {
	return (path.capacity() + ring_of.capacity() + order.capacity() + line_start.capacity() + line_order.capacity() +
	        walked.capacity()) *
	           sizeof(uint32_t) +
	       rings.capacity() * sizeof(Ring) + (line_vertices.capacity() + points.capacity()) * sizeof(Vec2);
}

} // namespace vibespatial
