#include "engine/relate/simple.hpp"

#include "engine/shape/plain_chain.hpp"
#include "engine/shape/segment_sweep.hpp"
#include "geometry/checks.hpp"

namespace vibespatial {

namespace {

struct SimpleHandler {
	void Crossing(uint32_t, uint32_t) {
	}
	void Overlap(uint32_t, uint32_t) {
	}
	//! Only ends of open lines may meet others
	bool Node(const vibe::Vec2 &, const std::vector<SweepVisit> &visits) {
		return std::all_of(visits.begin(), visits.end(), [](const SweepVisit &visit) { return visit.arm_count == 1; });
	}
	void FirstVertex(uint32_t, bool, uint32_t) {
	}
};

void AddChain(const vibe::GeometryView &view, uint32_t ring, SweepChains &chains) {
	chains.Begin();
	for (auto i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
		chains.Add(view.x[i], view.y[i]);
	}
}

bool ChainsAreSimple(const SweepChains &chains) {
	SimpleHandler handler;
	return SegmentSweep<SimpleHandler>(chains, handler).Run();
}

bool LinesAreSimple(const vibe::GeometryView &view, uint32_t part_begin, uint32_t part_end) {
	const auto first = view.part_ring[part_begin];
	if (view.part_ring[part_end] - first == 1 &&
	    IsPlainChain(view, view.ring_start[first], view.ring_start[first + 1])) {
		return true;
	}
	SweepChains chains;
	for (auto ring = view.part_ring[part_begin]; ring < view.part_ring[part_end]; ring++) {
		AddChain(view, ring, chains);
	}
	return ChainsAreSimple(chains);
}

bool RingsAreSimple(const vibe::GeometryView &view, uint32_t part) {
	SweepChains chains;
	for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
		if (IsPlainChain(view, view.ring_start[ring], view.ring_start[ring + 1])) {
			continue;
		}
		chains.Clear();
		AddChain(view, ring, chains);
		if (!ChainsAreSimple(chains)) {
			return false;
		}
	}
	return true;
}

bool PointsAreDistinct(const vibe::GeometryView &view, uint32_t part_begin, uint32_t part_end) {
	CountedVector<vibe::Vec2> points;
	const auto end = view.ring_start[view.part_ring[part_end]];
	for (auto i = view.ring_start[view.part_ring[part_begin]]; i < end; i++) {
		points.push_back(view.Vertex(i));
	}
	PolledSort(points.begin(), points.end(), SweepBefore);
	return std::adjacent_find(points.begin(), points.end()) == points.end();
}

} // namespace

bool IsSimple(const GeometryBatch &batch, size_t row) {
	CheckUsable(batch, row);
	const auto view = batch.View(row);
	auto part = view.part_begin;
	const auto node_end = batch.row_node[row + 1];
	for (auto node = batch.row_node[row]; node < node_end; node++) {
		const auto type = batch.node_type[node];
		// a multipoint and a multilinestring are judged as a whole, all else leaf by leaf
		const bool whole = type == GeometryType::MULTIPOINT || type == GeometryType::MULTILINESTRING;
		const auto parts = IsLeaf(type) ? 1 : whole ? batch.node_children[node] : 0;
		bool simple = true;
		switch (type) {
		case GeometryType::MULTIPOINT:
			simple = PointsAreDistinct(view, part, part + parts);
			break;
		case GeometryType::LINESTRING:
		case GeometryType::MULTILINESTRING:
			simple = LinesAreSimple(view, part, part + parts);
			break;
		case GeometryType::POLYGON:
			simple = RingsAreSimple(view, part);
			break;
		default:
			break;
		}
		if (!simple) {
			return false;
		}
		part += parts;
		node += whole ? parts : 0;
	}
	return true;
}

} // namespace vibespatial
