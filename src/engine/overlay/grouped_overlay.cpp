#include "engine/overlay/grouped_overlay.hpp"

#include "engine/measure/measure.hpp"
#include "engine/overlay/parted_union.hpp"
#include "engine/overlay/repair.hpp"
#include "engine/overlay/rings.hpp"
#include "engine/overlay/tuning.hpp"

#include "geometry/wkb.hpp"

#include <algorithm>
#include <limits>

namespace vibespatial {

using vibe::NetRule;
using vibe::Vec2;

namespace {

OverlayOp OpOf(const NetRule &rule) {
	switch (rule.kind) {
	case NetRule::INTERSECTION:
		return OverlayOp::INTERSECTION;
	case NetRule::DIFFERENCE:
		return OverlayOp::DIFFERENCE;
	case NetRule::SYM_DIFFERENCE:
		return OverlayOp::SYM_DIFFERENCE;
	default:
		return OverlayOp::UNION;
	}
}

} // namespace

GroupedOverlay::GroupedOverlay(const NetRule &rule) : rule(rule) {
}

bool GroupedOverlay::Add(const WkbSlice *geometries, size_t count) {
	Serial serial;
	auto input = std::make_unique<OverlayInput>();
	if (!input->AddPolygons(Overlay::LEFT, geometries, count, serial)) {
		return false;
	}
	input->Prepare(serial);
	// One geometry has a rule of its own (Overlay), and nothing has no edges
	if (input->IsOnePolygonal(Overlay::LEFT) || input->chains.empty() || input->grid != 0 ||
	    PartedUnion::IsLarge(*input) || vertex_count + input->vertex_count > OverlayNet::MAX_COUNT) {
		return false;
	}
	Push(std::move(input));
	return true;
}

bool GroupedOverlay::AddPair(WkbSlice left, WkbSlice right) {
	Serial serial;
	auto input = std::make_unique<OverlayInput>();
	if (!input->AddPolygons(Overlay::LEFT, &left, 1, serial) ||
	    !input->AddPolygons(Overlay::RIGHT, &right, 1, serial)) {
		return false;
	}
	input->Prepare(serial);
	if (input->boxes[0].IsEmpty() || input->boxes[1].IsEmpty() || input->grid != 0) {
		return false;
	}
	input->Clip(OpOf(rule));
	if (vertex_count + input->vertex_count > OverlayNet::MAX_COUNT) {
		return false;
	}
	Push(std::move(input));
	return true;
}

void GroupedOverlay::Push(std::unique_ptr<OverlayInput> input) {
	groups.push_back(Group {nullptr, uint32_t(ring_count), uint32_t(polygon_count), false});
	ring_count += input->chains.size();
	polygon_count += input->polygons;
	vertex_count += input->vertex_count;
	groups.back().input = std::move(input);
}

//! The device does not check polygons with holes
void GroupedOverlay::LeaveInvalid(const std::vector<uint8_t> &doubtful, Parallel &parallel) {
	ForEach(parallel, groups.size(), [&](size_t number) {
		auto &group = groups[number];
		const auto &chains = group.input->chains;
		std::vector<size_t> first;
		for (size_t begin = 0, end = 0; begin < chains.size(); begin = end) {
			while (end < chains.size() && chains[end].polygon == chains[begin].polygon) {
				end++;
			}
			if (end - begin > 1 || doubtful[group.first_polygon + chains[begin].polygon]) {
				first.push_back(begin);
			}
		}
		Serial serial;
		group.left = !InvalidPolygons(*group.input, first, serial).empty();
	});
}

void GroupedOverlay::Build(const UnitedNet &united, Parallel &parallel, const Take &take) const {
	// Rings are sorted by part; edges are not
	std::vector<size_t> ring_start(groups.size() + 1, 0), edge_start(groups.size() + 1, 0);
	for (const auto &ring : united.rings) {
		ring_start[ring.part + 1]++;
	}
	for (const auto &edge : united.edges) {
		edge_start[edge.part + 1]++;
	}
	for (size_t i = 0; i < groups.size(); i++) {
		ring_start[i + 1] += ring_start[i];
		edge_start[i + 1] += edge_start[i];
	}
	OverlayNet::Edges edges(united.edges.size());
	auto next = edge_start;
	for (const auto &edge : united.edges) {
		edges[next[edge.part]++] = edge;
	}
	const size_t steps = std::min(groups.size(), parallel.Threads() * overlay_tuning::PART_STEPS_PER_THREAD);
	parallel.For(steps, [&](size_t step) {
		OverlayArrangement arrangement;
		OverlayRings rings;
		Serial serial;
		// The boundary of any overlay is that of the union of what it encloses
		const OverlayRule areas;
		Poll poll;
		const CountedVector<Vec2> no_ends;
		CountedVector<OverlayPoint> no_points;
		for (auto i = groups.size() * step / steps; i < groups.size() * (step + 1) / steps; i++) {
			if (groups[i].left) {
				continue;
			}
			poll(ring_start[i + 1] - ring_start[i] + edge_start[i + 1] - edge_start[i]);
			if (united.parts[i] == UnitedNet::State::RINGS) {
				UnitedNet own;
				own.rings.assign(united.rings.begin() + std::ptrdiff_t(ring_start[i]),
				                 united.rings.begin() + std::ptrdiff_t(ring_start[i + 1]));
				const auto first = own.rings.empty() ? 0 : own.rings.front().start;
				const auto last = own.rings.empty() ? 0 : own.rings.back().start + own.rings.back().count;
				own.vertices.assign(united.vertices.begin() + first, united.vertices.begin() + last);
				for (auto &ring : own.rings) {
					ring.start -= first;
					ring.under -= ring.shell ? 0 : uint32_t(ring_start[i]);
				}
				rings.Build(own, serial);
			} else {
				auto &net = arrangement.net.edges;
				net.clear();
				for (auto k = edge_start[i]; k < edge_start[i + 1]; k++) {
					const auto &edge = edges[k];
					net.push_back(OverlayEdge {edge.a, edge.b, {edge.rise, 0}, edge.polygon, 0});
				}
				no_points.clear();
				arrangement.ArrangeNet(no_points, areas, serial, true);
				rings.Build(net, arrangement.sweep, no_ends, serial);
			}
			take(i, rings, 1 / groups[i].input->scale);
		}
	});
}

void GroupedOverlay::Make(OverlayDevice &device, Parallel &parallel, const Take &take) {
	std::vector<vibe::NetRing> net_rings(ring_count);
	std::vector<const OverlayChain *> chains(ring_count);
	size_t count = 0;
	OverlayNet net;
	net.rule = rule;
	for (size_t i = 0; i < groups.size(); i++) {
		const auto &input = *groups[i].input;
		auto ring = groups[i].first_ring;
		for (const auto &chain : input.chains) {
			chains[ring] = &chain;
			net_rings[ring++] =
			    vibe::NetRing {uint32_t(count), uint32_t(i), groups[i].first_polygon + chain.polygon, 0};
			count += chain.count;
		}
		net.box.Add(input.boxes[Overlay::LEFT]);
		net.box.Add(input.boxes[Overlay::RIGHT]);
	}
	net.read = [&](size_t ring, Vec2 *out) {
		auto chain = *chains[ring];
		groups[net_rings[ring].part].input->ReadPoints(chain, out);
		chain.points = out;
		PollCall(chain.count);
		return !rule.IsOfPairs() ? chain.Weight() : chain.side == Overlay::LEFT ? NetRule::LEFT : NetRule::RIGHT;
	};
	net.poll = CheckWork;
	net.vertex_count = count;
	net.rings = net_rings.data();
	net.ring_count = net_rings.size();
	net.parts = groups.size();
	UnitedNet united;
	// Pairs that lie apart have no rings that matter
	united.parts.assign(groups.size(), UnitedNet::State::RINGS);
	const auto steps = [&](GpuUnion &on_device) {
		// Parity needs no valid polygons
		if (!rule.IsOfPairs()) {
			LeaveInvalid(on_device.FindDoubtful(polygon_count), parallel);
		}
		const auto failed = on_device.UniteParts();
		for (size_t i = 0; i < groups.size(); i++) {
			groups[i].left = groups[i].left || failed[i];
		}
		united.parts.clear();
		on_device.FinishParts(united);
	};
	if (count == 0 || device.Unite(net, parallel, steps)) {
		Build(united, parallel, take);
	}
	groups.clear();
	ring_count = polygon_count = vertex_count = 0;
}

std::vector<CountedVector<uint8_t>> GroupedOverlay::Run(OverlayDevice &device, Parallel &parallel) {
	std::vector<CountedVector<uint8_t>> out(groups.size());
	Make(device, parallel, [&](size_t group, const OverlayRings &rings, double scale) {
		auto &wkb = out[group];
		if (rings.AreasOnly()) {
			Serial serial;
			wkb.resize(rings.WkbSize());
			rings.WriteWkb(scale, wkb.data(), serial);
		} else {
			GeometryBatch empty;
			rings.Write(vibe::FAMILY_POLYGON, scale, empty);
			wkb.resize(WkbSize(empty, 0));
			WriteWkb(empty, 0, wkb.data());
		}
	});
	return out;
}

std::vector<double> GroupedOverlay::Areas(OverlayDevice &device, Parallel &parallel) {
	std::vector<double> out(groups.size(), std::numeric_limits<double>::quiet_NaN());
	Make(device, parallel, [&](size_t group, const OverlayRings &rings, double scale) {
		GeometryBatch batch;
		rings.Write(vibe::FAMILY_POLYGON, scale, batch);
		out[group] = Area(batch.View(0));
	});
	return out;
}

} // namespace vibespatial
