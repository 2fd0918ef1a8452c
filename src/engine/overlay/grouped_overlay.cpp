#include "engine/overlay/grouped_overlay.hpp"

#include "engine/measure/measure.hpp"
#include "engine/overlay/parted_union.hpp"
#include "engine/overlay/repair.hpp"
#include "engine/overlay/rings.hpp"
#include "engine/overlay/tuning.hpp"

#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "vibe/wkb.h"

#include <algorithm>
#include <atomic>
#include <cstring>
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

//! Where the items of each part begin, which are sorted by part, and where the last ones end
template <class ITEMS>
std::vector<size_t> StartsOf(const ITEMS &items, size_t parts, Parallel &parallel) {
	std::vector<size_t> starts(parts + 1, 0);
	InShares(parallel, items.size(), [&](size_t begin, size_t end) {
		for (auto i = begin; i < end; i++) {
			const size_t before = i == 0 ? 0 : items[i - 1].part + size_t(1);
			std::fill(starts.begin() + before, starts.begin() + items[i].part + 1, i);
		}
	});
	std::fill(starts.begin() + (items.empty() ? 0 : items.back().part + size_t(1)), starts.end(), items.size());
	return starts;
}

//! Most nets come so
void SortByPart(OverlayNet::Edges &edges, Parallel &parallel) {
	const auto before = [](const vibe::NetEdge &l, const vibe::NetEdge &r) { return l.part < r.part; };
	std::atomic<bool> sorted {true};
	InShares(parallel, edges.size(), [&](size_t begin, size_t end) {
		if (!std::is_sorted(edges.begin() + (begin == 0 ? 0 : begin - 1), edges.begin() + end, before)) {
			sorted = false;
		}
	});
	if (!sorted) {
		OverlayNet::Edges scratch;
		BucketSort(
		    edges, scratch, [](const vibe::NetEdge &edge) { return double(edge.part); }, before, parallel);
	}
}

} // namespace

GroupedOverlay::GroupedOverlay(const NetRule &rule) : rule(rule) {
}

void GroupedOverlay::Clear() {
	groups.clear();
	shares.clear();
	vertex_count = 0;
}

//===----------------------------------------------------------------------===//
// Groups and pairs
//===----------------------------------------------------------------------===//
bool GroupedOverlay::IsTooLarge(const WkbSlice *geometries, size_t count) {
	// Of the most bytes that a vertex may take
	constexpr size_t VERTEX_BYTES = 4 * sizeof(double);
	if (count < overlay_tuning::LEAST_POLYGONS) {
		return false;
	}
	size_t polygons = 0, bytes = 0;
	for (size_t i = 0; i < count; i++) {
		// A ring repeats its first vertex
		constexpr size_t LEAST_BYTES = vibe::WKB_HEADER_BYTES + 2 * sizeof(uint32_t) + VERTEX_BYTES;
		if (geometries[i].size > LEAST_BYTES) {
			polygons++;
			bytes += geometries[i].size - LEAST_BYTES;
		}
	}
	return polygons >= overlay_tuning::LEAST_POLYGONS && bytes / VERTEX_BYTES >= overlay_tuning::LEAST_VERTICES;
}

bool GroupedOverlay::ReadGroup(std::unique_ptr<OverlayInput> input, Group &group) const {
	Serial serial;
	input->Prepare(serial);
	// One geometry has a rule of its own (Overlay), and nothing has no edges
	if (input->IsOnePolygonal(Overlay::LEFT) || input->chains.empty() || input->grid != 0 ||
	    PartedUnion::IsLarge(*input)) {
		return false;
	}
	group.chains = input->chains.data();
	group.rings = uint32_t(input->chains.size());
	group.polygons = input->polygons;
	group.vertices = input->vertex_count;
	group.input = std::move(input);
	return true;
}

bool GroupedOverlay::Add(const WkbSlice *geometries, size_t count) {
	Serial serial;
	auto input = std::make_unique<OverlayInput>();
	Group group;
	if (!input->AddPolygons(Overlay::LEFT, geometries, count, serial) || !ReadGroup(std::move(input), group) ||
	    vertex_count + group.vertices > OverlayNet::MAX_COUNT) {
		return false;
	}
	vertex_count += group.vertices;
	groups.push_back(std::move(group));
	return true;
}

void GroupedOverlay::AddKnown(const KnownRows &rows, size_t count, const std::function<KnownGroup(size_t)> &numbers,
                              Parallel &parallel) {
	const auto first = groups.size();
	groups.resize(first + count);
	ForEach(parallel, count, [&](size_t i) {
		Serial serial;
		auto input = std::make_unique<OverlayInput>();
		const auto of_group = numbers(i);
		PollCall(of_group.count);
		auto &group = groups[first + i];
		group.left = !input->AddKnown(Overlay::LEFT, rows, of_group.numbers, of_group.count, serial) ||
		             !ReadGroup(std::move(input), group);
	});
	for (auto i = first; i < groups.size(); i++) {
		vertex_count += groups[i].vertices;
	}
}

void GroupedOverlay::AddPairs(size_t count, const std::function<Pair(size_t)> &pair, Parallel &parallel) {
	const size_t steps = std::min(count, parallel.Threads() * overlay_tuning::READ_STEPS_PER_THREAD);
	const auto first = groups.size(), first_share = shares.size();
	groups.resize(first + count);
	shares.resize(first_share + steps);
	const auto nth = [&](size_t i) { return pair(i - first); };
	parallel.For(steps, [&](size_t step) {
		AddShare(first + count * step / steps, first + count * (step + 1) / steps, nth, shares[first_share + step]);
	});
	for (auto i = first; i < groups.size(); i++) {
		vertex_count += groups[i].vertices;
	}
}

void GroupedOverlay::AddShare(size_t begin, size_t end, const std::function<Pair(size_t)> &pair, Share &share) {
	const auto op = OpOf(rule);
	if (IsClipped(op, Overlay::RIGHT)) {
		size_t bytes = 0;
		for (auto i = begin; i < end; i++) {
			const auto both = pair(i);
			bytes += (IsClipped(op, Overlay::LEFT) ? both.first.size : 0) + both.second.size;
		}
		share.near.reserve(bytes / sizeof(Vec2));
	}
	OverlayInput input;
	Poll poll;
	for (auto i = begin; i < end; i++) {
		auto &group = groups[i];
		const auto both = pair(i);
		poll((both.first.size + both.second.size) / sizeof(Vec2));
		if (!ReadPair(both, input, share)) {
			group.left = true;
			continue;
		}
		group.rings = uint32_t(input.chains.size());
		group.polygons = input.polygons;
		group.vertices = input.vertex_count;
		share.chains.insert(share.chains.end(), input.chains.begin(), input.chains.end());
	}
	const auto *chains = share.chains.data();
	for (auto i = begin; i < end; i++) {
		groups[i].chains = chains;
		chains += groups[i].rings;
	}
}

//! False for what is left to the caller
bool GroupedOverlay::ReadPair(const Pair &pair, OverlayInput &input, Share &share) const {
	input.Clear();
	try {
		if (!pair.first.data || !pair.second.data || !input.AddPolygons(Overlay::LEFT, pair.first) ||
		    !input.AddPolygons(Overlay::RIGHT, pair.second)) {
			return false;
		}
	} catch (const GeometryError &) {
		return false; // the CPU reports it
	}
	Serial serial;
	input.Prepare(serial);
	if (input.boxes[0].IsEmpty() || input.boxes[1].IsEmpty() || input.grid != 0) {
		return false;
	}
	input.Clip(OpOf(rule), share.near);
	return true;
}

//! The device does not check polygons with holes
void GroupedOverlay::LeaveInvalid(const std::vector<uint8_t> &doubtful, Parallel &parallel) {
	ForEach(parallel, groups.size(), [&](size_t number) {
		auto &group = groups[number];
		if (!group.input) {
			return; // left to the caller
		}
		const auto *chains = group.chains;
		std::vector<size_t> first;
		for (size_t begin = 0, end = 0; begin < group.rings; begin = end) {
			while (end < group.rings && chains[end].polygon == chains[begin].polygon) {
				end++;
			}
			if (end - begin > 1 || doubtful[group.first_polygon + chains[begin].polygon]) {
				first.push_back(begin);
			}
		}
		Serial serial;
		group.left = !InvalidPolygons(*group.input, first, serial).empty();
		if (!group.left) {
			group.input->NoteValid();
		}
	});
}

//===----------------------------------------------------------------------===//
// The net
//===----------------------------------------------------------------------===//
void GroupedOverlay::Make(OverlayDevice &device, Parallel &parallel, Results &results) {
	uint32_t rings = 0, polygons = 0;
	size_t vertices = 0;
	for (auto &group : groups) {
		group.first_ring = rings;
		group.first_polygon = polygons;
		group.first_vertex = vertices;
		rings += group.rings;
		polygons += group.polygons;
		vertices += group.vertices;
	}
	PagesVector<vibe::NetRing> net_rings(rings);
	ForEach(parallel, groups.size(), [&](size_t i) {
		const auto &group = groups[i];
		auto start = group.first_vertex;
		for (uint32_t ring = 0; ring < group.rings; ring++) {
			const auto &chain = group.chains[ring];
			net_rings[group.first_ring + ring] =
			    vibe::NetRing {uint32_t(start), uint32_t(i), group.first_polygon + chain.polygon, 0};
			start += chain.count;
		}
	});
	OverlayNet net;
	net.rule = rule;
	net.read = [&](size_t ring, Vec2 *out) {
		const auto &group = groups[net_rings[ring].part];
		auto chain = group.chains[ring - group.first_ring];
		auto *to = out;
		VisitVertices(chain, [&](const Vec2 &p) { *to++ = p; });
		chain.points = out;
		PollCall(chain.count);
		return !rule.IsOfPairs() ? chain.Weight() : chain.side == Overlay::LEFT ? NetRule::LEFT : NetRule::RIGHT;
	};
	net.poll = CheckWork;
	net.vertex_count = vertices;
	const auto known = std::find_if(groups.begin(), groups.end(),
	                                [](const Group &group) { return group.input && group.input->known; });
	if (known != groups.end()) {
		known->input->known->UseResident(net, device, parallel, [&](size_t ring) {
			const auto &group = groups[net_rings[ring].part];
			return group.chains[ring - group.first_ring].known;
		});
	}
	net.rings = net_rings.data();
	net.ring_count = rings;
	net.parts = groups.size();
	auto &united = results.united;
	// Pairs that lie apart have no rings that matter
	united.parts.assign(groups.size(), UnitedNet::State::RINGS);
	const auto steps = [&](GpuUnion &on_device) {
		// Parity needs no valid polygons
		const auto is_valid = [](const Group &group) { return !group.input || group.input->AreKnownValid(); };
		if (!rule.IsOfPairs() && !std::all_of(groups.begin(), groups.end(), is_valid)) {
			LeaveInvalid(on_device.FindDoubtful(polygons), parallel);
		}
		const auto failed = on_device.UniteParts();
		for (size_t i = 0; i < groups.size(); i++) {
			groups[i].left = groups[i].left || failed[i];
		}
		united.parts.clear();
		on_device.FinishParts(united);
	};
	if (vertices > 0 && !device.Unite(net, parallel, steps)) {
		for (auto &group : groups) {
			group.left = true;
		}
		return;
	}
	SortByPart(united.edges, parallel);
	results.ring_start = StartsOf(united.rings, groups.size(), parallel);
	results.edge_start = StartsOf(united.edges, groups.size(), parallel);
	results.steps = std::min(groups.size(), parallel.Threads() * overlay_tuning::PART_STEPS_PER_THREAD);
}

//===----------------------------------------------------------------------===//
// What comes back
//===----------------------------------------------------------------------===//
bool GroupedOverlay::AreShells(const Results &results, size_t group) const {
	const auto begin = results.ring_start[group], end = results.ring_start[group + 1];
	return results.united.parts[group] == UnitedNet::State::RINGS &&
	       OverlayShells::Are(results.united.rings.data() + begin, end - begin);
}

OverlayShells GroupedOverlay::ShellsOf(const Results &results, size_t group) const {
	const auto begin = results.ring_start[group], end = results.ring_start[group + 1];
	return OverlayShells(results.united.rings.data() + begin, end - begin, results.united.vertices.data());
}

void GroupedOverlay::Visit(const Results &results, Parallel &parallel, const TakeShells &take_shells,
                           const TakeRings &take_rings) const {
	const auto &united = results.united;
	parallel.For(results.steps, [&](size_t step) {
		OverlayArrangement arrangement;
		OverlayRings rings;
		Serial serial;
		// The boundary of any overlay is that of the union of what it encloses
		const OverlayRule areas;
		Poll poll;
		const CountedVector<Vec2> no_ends;
		CountedVector<OverlayPoint> no_points;
		const auto end = groups.size() * (step + 1) / results.steps;
		for (auto i = groups.size() * step / results.steps; i < end; i++) {
			const auto first_ring = results.ring_start[i], end_ring = results.ring_start[i + 1];
			const auto first_edge = results.edge_start[i], end_edge = results.edge_start[i + 1];
			poll(groups[i].vertices + end_edge - first_edge);
			if (groups[i].left) {
				continue;
			}
			if (AreShells(results, i)) {
				take_shells(step, i, ShellsOf(results, i));
				continue;
			}
			if (united.parts[i] == UnitedNet::State::RINGS) {
				UnitedNet own;
				own.rings.assign(united.rings.begin() + std::ptrdiff_t(first_ring),
				                 united.rings.begin() + std::ptrdiff_t(end_ring));
				const auto first = own.rings.front().start, last = own.rings.back().start + own.rings.back().count;
				own.vertices.assign(united.vertices.begin() + first, united.vertices.begin() + last);
				for (auto &ring : own.rings) {
					ring.start -= first;
					ring.under -= ring.shell ? 0 : uint32_t(first_ring);
				}
				rings.Build(own, serial);
			} else {
				auto &net = arrangement.net.edges;
				net.clear();
				for (auto k = first_edge; k < end_edge; k++) {
					const auto &edge = united.edges[k];
					net.push_back(OverlayEdge {edge.a, edge.b, {edge.rise, 0}, edge.polygon, 0});
				}
				no_points.clear();
				arrangement.ArrangeNet(no_points, areas, serial, true);
				rings.Build(net, arrangement.sweep, no_ends, serial);
			}
			take_rings(step, i, rings);
		}
	});
}

std::vector<size_t> GroupedOverlay::Run(OverlayDevice &device, Parallel &parallel,
                                        const std::function<uint8_t *(size_t)> &allocate) {
	Results results;
	Make(device, parallel, results);
	// The size of each, and the bytes of those that have to be built before their size is known
	std::vector<size_t> begins(groups.size() + 1, 0);
	std::vector<CountedVector<uint8_t>> built(results.steps);
	Visit(
	    results, parallel,
	    [&](size_t, size_t group, const OverlayShells &shells) { begins[group + 1] = shells.WkbSize(); },
	    [&](size_t step, size_t group, const OverlayRings &rings) {
		    auto &wkb = built[step];
		    const auto start = wkb.size();
		    if (rings.AreasOnly()) {
			    Serial serial;
			    wkb.resize(start + rings.WkbSize());
			    rings.WriteWkb(1, wkb.data() + start, serial);
		    } else {
			    GeometryBatch empty;
			    rings.Write(vibe::FAMILY_POLYGON, 1, empty);
			    wkb.resize(start + WkbSize(empty, 0));
			    WriteWkb(empty, 0, wkb.data() + start);
		    }
		    begins[group + 1] = wkb.size() - start;
	    });
	for (size_t i = 0; i < groups.size(); i++) {
		begins[i + 1] += begins[i];
	}
	auto *out = allocate(begins.back());
	parallel.For(results.steps, [&](size_t step) {
		const auto *next = built[step].data();
		Poll poll;
		const auto end = groups.size() * (step + 1) / results.steps;
		for (auto i = groups.size() * step / results.steps; i < end; i++) {
			const auto size = begins[i + 1] - begins[i];
			poll(size / sizeof(Vec2));
			if (size == 0) {
				continue;
			}
			if (AreShells(results, i)) {
				ShellsOf(results, i).WriteWkb(out + begins[i]);
			} else {
				std::memcpy(out + begins[i], next, size);
				next += size;
			}
		}
	});
	Clear();
	return begins;
}

std::vector<double> GroupedOverlay::Areas(OverlayDevice &device, Parallel &parallel) {
	Results results;
	Make(device, parallel, results);
	std::vector<double> out(groups.size(), std::numeric_limits<double>::quiet_NaN());
	Visit(
	    results, parallel, [&](size_t, size_t group, const OverlayShells &shells) { out[group] = shells.Area(); },
	    [&](size_t, size_t group, const OverlayRings &rings) {
		    GeometryBatch batch;
		    rings.Write(vibe::FAMILY_POLYGON, 1, batch);
		    out[group] = Area(batch.View(0));
	    });
	Clear();
	return out;
}

} // namespace vibespatial
