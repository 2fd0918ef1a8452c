#include "engine/relate/validity.hpp"

#include "engine/shape/plain_chain.hpp"
#include "engine/shape/segment_sweep.hpp"
#include "geometry/number.hpp"

#include <numeric>

namespace vibespatial {

namespace {

constexpr const char *INVALID_COORDINATE = "Invalid Coordinate";
constexpr const char *RING_NOT_CLOSED = "Ring is not closed";
constexpr const char *TOO_FEW_POINTS = "Too few points in geometry component";
constexpr const char *SELF_INTERSECTION = "Self-intersection";
constexpr const char *RING_SELF_INTERSECTION = "Ring Self-intersection";
constexpr const char *HOLE_OUTSIDE_SHELL = "Hole lies outside shell";
constexpr const char *HOLES_NESTED = "Holes are nested";
constexpr const char *SHELLS_NESTED = "Nested shells";
constexpr const char *INTERIOR_DISCONNECTED = "Interior is disconnected";

using Problem = std::optional<ValidityProblem>;

//! Where two crossing segments meet, rounded
vibe::Vec2 CrossingPlace(vibe::Vec2 a, vibe::Vec2 b, vibe::Vec2 c, vibe::Vec2 d) {
	const double abx = b.x - a.x, aby = b.y - a.y;
	const double cdx = d.x - c.x, cdy = d.y - c.y;
	const double t = ((c.x - a.x) * cdy - (c.y - a.y) * cdx) / (abx * cdy - aby * cdx);
	return vibe::IsFinite(t) ? vibe::Vec2 {a.x + t * abx, a.y + t * aby} : a;
}

//! One way out of a node
struct Arm {
	vibe::Vec2 to;
	uint32_t visit;
};

//! The polygons of one POLYGON or MULTIPOLYGON
class PolygonCheck {
public:
	explicit PolygonCheck(const vibe::GeometryView &view_p) : view(view_p) {
	}

	Problem Run(uint32_t part_begin, uint32_t part_end) {
		for (auto part = part_begin; part < part_end; part++) {
			if (!AddPolygon(part)) {
				return problem;
			}
		}
		parent.assign(chains.Count(), NONE);
		is_ccw.assign(chains.Count(), false);
		SegmentSweep<PolygonCheck> the_sweep(chains, *this);
		sweep = &the_sweep;
		if (!the_sweep.Run()) {
			return problem;
		}
		if (!HolesLieInShells() || !ShellsLieApart()) {
			return problem;
		}
		InteriorIsConnected();
		return problem;
	}

	// What the sweep tells

	void Crossing(uint32_t a, uint32_t b) {
		Fail(SELF_INTERSECTION, CrossingPlace(chains[a], chains[a + 1], chains[b], chains[b + 1]));
	}
	void Overlap(uint32_t a, uint32_t b) {
		const auto left_a = std::min(chains[a], chains[a + 1], SweepBefore);
		const auto left_b = std::min(chains[b], chains[b + 1], SweepBefore);
		Fail(SELF_INTERSECTION, std::max(left_a, left_b, SweepBefore));
	}
	bool Node(const vibe::Vec2 &p, const std::vector<SweepVisit> &visits) {
		if (!OrderArms(p, visits)) {
			return Fail(SELF_INTERSECTION, p);
		}
		rings.clear();
		for (const auto &visit : visits) {
			rings.push_back(visit.chain);
		}
		std::sort(rings.begin(), rings.end());
		if (std::adjacent_find(rings.begin(), rings.end()) != rings.end()) {
			return Fail(RING_SELF_INTERSECTION, p);
		}
		if (ArmsCross(visits.size())) {
			return Fail(SELF_INTERSECTION, p);
		}
		// rings of one polygon follow each other
		for (size_t begin = 0; begin < rings.size();) {
			size_t end = begin + 1;
			while (end < rings.size() && polygon[rings[end]] == polygon[rings[begin]]) {
				end++;
			}
			if (end - begin > 1) {
				for (auto i = begin; i < end; i++) {
					touches.push_back(Touch {p, rings[i], i == begin});
				}
			}
			begin = end;
		}
		return true;
	}
	void FirstVertex(uint32_t chain, bool ccw, uint32_t below) {
		is_ccw[chain] = ccw;
		if (below != NONE) {
			const auto ring = sweep->ChainOf(below);
			const bool inside = sweep->Forward(below) == is_ccw[ring];
			parent[chain] = inside ? ring : parent[ring];
		}
	}

private:
	static constexpr uint32_t NONE = UINT32_MAX;

	//! A ring meets other rings of its polygon in a point; the rings of one point follow each other
	struct Touch {
		vibe::Vec2 place;
		uint32_t ring;
		bool first;
	};

	bool Fail(const char *reason, const vibe::Vec2 &place) {
		problem = ValidityProblem {reason, place};
		return false;
	}

	bool AddPolygon(uint32_t part) {
		const auto ring_begin = view.part_ring[part];
		for (auto ring = ring_begin; ring < view.part_ring[part + 1]; ring++) {
			const auto begin = view.ring_start[ring];
			const auto end = view.ring_start[ring + 1];
			if (begin == end) {
				continue;
			}
			chains.Begin();
			for (auto i = begin; i < end; i++) {
				if (!vibe::IsFinite(view.x[i]) || !vibe::IsFinite(view.y[i])) {
					return Fail(INVALID_COORDINATE, view.Vertex(i));
				}
				chains.Add(view.x[i], view.y[i]);
			}
			if (view.Vertex(begin) != view.Vertex(end - 1)) {
				return Fail(RING_NOT_CLOSED, view.Vertex(begin));
			}
			if (chains.Size(chains.Count() - 1) < 4) {
				return Fail(TOO_FEW_POINTS, view.Vertex(begin));
			}
			if (ring == ring_begin) {
				shell = chains.Count() - 1;
			} else if (view.ring_start[ring_begin] == view.ring_start[ring_begin + 1]) {
				return Fail(HOLE_OUTSIDE_SHELL, view.Vertex(begin));
			}
			polygon.push_back(shell);
		}
		return true;
	}

	//! Sorts the arms of all visits around p; false when two point the same way
	bool OrderArms(const vibe::Vec2 &p, const std::vector<SweepVisit> &visits) {
		arms.clear();
		for (uint32_t i = 0; i < visits.size(); i++) {
			arms.push_back(Arm {visits[i].arms[0], i});
			arms.push_back(Arm {visits[i].arms[1], i});
		}
		const auto turn = [&](const Arm &a, const Arm &b) {
			const bool right_a = SweepBefore(p, a.to);
			const bool right_b = SweepBefore(p, b.to);
			return right_a != right_b ? (right_a ? 1 : -1) : vibe::Orient2d(p, a.to, b.to);
		};
		std::sort(arms.begin(), arms.end(), [&](const Arm &a, const Arm &b) { return turn(a, b) > 0; });
		for (size_t i = 1; i < arms.size(); i++) {
			if (turn(arms[i - 1], arms[i]) == 0) {
				return false;
			}
		}
		return true;
	}
	//! Around a node, the two arms of a visit enclose those of another or leave them out, like brackets
	bool ArmsCross(size_t visits) {
		open.assign(visits, false);
		brackets.clear();
		for (const auto &arm : arms) {
			if (!open[arm.visit]) {
				open[arm.visit] = true;
				brackets.push_back(arm.visit);
			} else if (brackets.back() == arm.visit) {
				brackets.pop_back();
			} else {
				return true;
			}
		}
		return false;
	}

	bool HolesLieInShells() {
		for (uint32_t ring = 0; ring < chains.Count(); ring++) {
			if (polygon[ring] == ring || parent[ring] == polygon[ring]) {
				continue;
			}
			auto around = parent[ring];
			while (around != NONE && polygon[around] != polygon[ring]) {
				poll();
				around = parent[around];
			}
			if (around == NONE) {
				return Fail(HOLE_OUTSIDE_SHELL, chains[chains.First(ring)]);
			}
			if (around != polygon[ring]) {
				return Fail(HOLES_NESTED, chains[chains.First(ring)]);
			}
			// another polygon lies between them: its shell is nested
		}
		return true;
	}
	bool ShellsLieApart() {
		for (uint32_t ring = 0; ring < chains.Count(); ring++) {
			const auto around = parent[ring];
			if (polygon[ring] == ring && around != NONE && polygon[around] == around) {
				return Fail(SHELLS_NESTED, chains[chains.First(ring)]);
			}
		}
		return true;
	}

	//! Rings and the points where they touch make a graph, in which every cycle cuts off a piece of the interior
	bool InteriorIsConnected() {
		group.resize(chains.Count());
		std::iota(group.begin(), group.end(), 0);
		for (const auto &touch : touches) {
			if (touch.first) {
				group.push_back(uint32_t(group.size()));
			}
			const auto point = Find(uint32_t(group.size() - 1));
			const auto ring = Find(touch.ring);
			if (point == ring) {
				return Fail(INTERIOR_DISCONNECTED, touch.place);
			}
			group[point] = ring;
		}
		return true;
	}
	uint32_t Find(uint32_t member) {
		while (group[member] != member) {
			member = group[member] = group[group[member]];
		}
		return member;
	}

	const vibe::GeometryView &view;
	SweepChains chains;
	const SegmentSweep<PolygonCheck> *sweep = nullptr;
	Problem problem;
	// by ring: the shell of its polygon, the innermost ring around it, its direction
	CountedVector<uint32_t> polygon;
	CountedVector<uint32_t> parent;
	std::vector<bool> is_ccw;
	uint32_t shell = NONE;
	Poll poll;
	CountedVector<Touch> touches;
	CountedVector<uint32_t> group;
	// of the node at hand
	std::vector<uint32_t> rings;
	std::vector<Arm> arms;
	std::vector<bool> open;
	std::vector<uint32_t> brackets;
};

//! A polygon without holes whose ring is finite, closed and plain
bool IsPlainPolygon(const vibe::GeometryView &view, uint32_t part) {
	if (view.part_ring[part + 1] - view.part_ring[part] != 1) {
		return false;
	}
	const auto begin = view.ring_start[view.part_ring[part]];
	const auto end = view.ring_start[view.part_ring[part] + 1];
	for (auto i = begin; i < end; i++) {
		if (!vibe::IsFinite(view.x[i]) || !vibe::IsFinite(view.y[i])) {
			return false;
		}
	}
	return end - begin >= 4 && view.Vertex(begin) == view.Vertex(end - 1) &&
	       (IsConvexRing(view, begin, end) || IsPlainChain(view, begin, end));
}

Problem CheckPoint(const vibe::GeometryView &view, uint32_t part) {
	for (auto i = view.ring_start[view.part_ring[part]]; i < view.ring_start[view.part_ring[part + 1]]; i++) {
		const auto p = view.Vertex(i);
		if (!vibe::IsFinite(p.x) || !vibe::IsFinite(p.y)) {
			return ValidityProblem {INVALID_COORDINATE, p};
		}
	}
	return {};
}

Problem CheckLine(const vibe::GeometryView &view, uint32_t part) {
	const auto begin = view.ring_start[view.part_ring[part]];
	const auto end = view.ring_start[view.part_ring[part + 1]];
	bool distinct = begin == end;
	for (auto i = begin; i < end; i++) {
		const auto p = view.Vertex(i);
		if (!vibe::IsFinite(p.x) || !vibe::IsFinite(p.y)) {
			return ValidityProblem {INVALID_COORDINATE, p};
		}
		distinct |= p != view.Vertex(begin);
	}
	if (!distinct) {
		return ValidityProblem {TOO_FEW_POINTS, view.Vertex(begin)};
	}
	return {};
}

Problem CheckPolygon(const vibe::GeometryView &view, uint32_t part) {
	return IsPlainPolygon(view, part) ? Problem() : PolygonCheck(view).Run(part, part + 1);
}

} // namespace

Problem FindValidityProblem(const GeometryBatch &batch, size_t row) {
	const auto view = batch.View(row);
	auto part = view.part_begin;
	const auto node_end = batch.row_node[row + 1];
	for (auto node = batch.row_node[row]; node < node_end; node++) {
		Problem problem;
		switch (batch.node_type[node]) {
		case GeometryType::POINT:
			problem = CheckPoint(view, part++);
			break;
		case GeometryType::LINESTRING:
			problem = CheckLine(view, part++);
			break;
		case GeometryType::POLYGON:
			problem = CheckPolygon(view, part++);
			break;
		case GeometryType::MULTIPOLYGON: {
			// its polygons are judged together
			const auto polygons = batch.node_children[node];
			problem = PolygonCheck(view).Run(part, part + polygons);
			part += polygons;
			node += polygons;
			break;
		}
		default:
			break;
		}
		if (problem) {
			return problem;
		}
	}
	return {};
}

bool IsValid(const GeometryBatch &batch, size_t row) {
	return !FindValidityProblem(batch, row);
}

bool IsValidPolygon(const vibe::GeometryView &view, uint32_t part) {
	return !CheckPolygon(view, part);
}

std::string ValidityReason(const GeometryBatch &batch, size_t row) {
	const auto problem = FindValidityProblem(batch, row);
	if (!problem) {
		return "Valid Geometry";
	}
	return std::string(problem->reason) + "[" + FormatNumber(problem->place.x) + " " + FormatNumber(problem->place.y) +
	       "]";
}

} // namespace vibespatial
