#include "engine/overlay/parted_union.hpp"

#include "engine/overlay/repair.hpp"
#include "engine/overlay/tuning.hpp"
#include "vibe/curve.h"

#include <algorithm>
#include <iterator>

namespace vibespatial {

using namespace overlay_tuning;
using vibe::Vec2;
using Kind = OverlayChain::Kind;

bool PartedUnion::IsLarge(const OverlayInput &input) {
	return input.vertex_count >= LEAST_VERTICES && input.polygons >= LEAST_POLYGONS;
}

bool PartedUnion::IsFor(const OverlayInput &input, const OverlayArrangement &arrangement, const OverlayRule &rule) {
	return rule.op == OverlayOp::UNION && !arrangement.net.odd[Overlay::LEFT] && rule.least == 1 &&
	       input.HasNothing(Overlay::RIGHT) && IsLarge(input) &&
	       std::all_of(input.chains.begin(), input.chains.end(),
	                   [](const OverlayChain &chain) { return chain.kind == Kind::SHELL || chain.kind == Kind::HOLE; });
}

vibe::Box PartedUnion::BoxOf(const Polygon &polygon) const {
	auto box = vibe::Box::Empty();
	for (auto i = polygon.begin; i < polygon.end; i++) {
		box.Add(chains[i].box);
	}
	return box;
}

//! Only the content of the polygons decides the order
CountedVector<PartedUnion::Polygon> PartedUnion::Ordered() const {
	auto all = input.boxes[0];
	all.Add(input.boxes[1]);
	const auto grid = vibe::CurveGrid<16>::Over(all);
	CountedVector<Polygon> polygon_list, scratch;
	polygon_list.reserve(std::min<size_t>(input.polygons, chains.size()));
	for (uint32_t i = 0; i < chains.size();) {
		const auto begin = i;
		while (i < chains.size() && chains[i].polygon == chains[begin].polygon) {
			i++;
		}
		polygon_list.push_back(Polygon {0, begin, i});
	}
	ForEach(parallel, polygon_list.size(),
	        [&](size_t i) { polygon_list[i].code = vibe::HilbertCodeOf(grid, BoxOf(polygon_list[i])); });
	const auto before = [&](const Polygon &l, const Polygon &r) {
		if (l.code != r.code) {
			return l.code < r.code;
		}
		const auto left = BoxOf(l), right = BoxOf(r);
		const double a[] = {left.min_x, left.min_y, left.max_x, left.max_y};
		const double b[] = {right.min_x, right.min_y, right.max_x, right.max_y};
		const auto differs = std::mismatch(a, a + 4, b);
		return differs.first != a + 4 ? *differs.first < *differs.second : Hash(l) < Hash(r);
	};
	BucketSort(
	    polygon_list, scratch, [](const Polygon &polygon) { return double(polygon.code); }, before, parallel);
	return polygon_list;
}

//! Does not depend on where the rings begin and which way they run
uint64_t PartedUnion::Hash(const Polygon &polygon) const {
	uint64_t sum = 0;
	for (auto i = polygon.begin; i < polygon.end; i++) {
		input.VisitPoints(chains[i], [&](const Vec2 &p) {
			sum += (vibe::Bits(p.x) * 0x9e3779b97f4a7c15ull ^ vibe::Bits(p.y)) * 0xbf58476d1ce4e5b9ull;
		});
	}
	return sum;
}

bool PartedUnion::Run(const OverlayRule &rule, bool unchecked) {
	if (unchecked && !HasDevice()) {
		return false;
	}
	Parts parts;
	parts.polygons = Ordered();
	size_t weight = 0;
	for (size_t i = 0; i < parts.polygons.size(); i++) {
		for (auto k = parts.polygons[i].begin; k < parts.polygons[i].end; k++) {
			weight += chains[k].count;
		}
		if (weight >= PART_VERTICES || i + 1 == parts.polygons.size()) {
			parts.start.push_back(i + 1);
			weight = 0;
		}
	}
	UnitedNet united;
	const bool done = HasDevice() && UniteOnDevice(parts, unchecked, united);
	if (unchecked && !done) {
		return false;
	}
	std::vector<EdgeRuns> runs;
	if (!done) {
		runs = ReduceParts(parts, std::vector<uint8_t>(parts.Count(), 1));
	}
	input.ReleaseChains();
	auto &edges = arrangement.net.edges;
	if (!done) {
		arrangement.ArrangeRuns(runs, input.points, rule, parallel);
		rings.Build(edges, arrangement.sweep, input.line_ends, parallel);
		arrangement.Trim();
		return true;
	}
	if (united.state == UnitedNet::State::RINGS) {
		rings.Build(united, parallel);
		return true;
	}
	edges.resize(united.edges.size());
	InShares(parallel, edges.size(), [&](size_t begin, size_t end) {
		for (auto i = begin; i < end; i++) {
			const auto &edge = united.edges[i];
			edges[i] = OverlayEdge {edge.a, edge.b, {edge.rise, 0}, edge.polygon, 0};
		}
	});
	Release(united.edges);
	if (united.state == UnitedNet::State::LINKED) {
		arrangement.sweep.Take(edges, united);
	} else {
		arrangement.ArrangeNet(input.points, rule, parallel, united.state == UnitedNet::State::WHOLE);
	}
	rings.Build(edges, arrangement.sweep, input.line_ends, parallel);
	arrangement.Trim();
	return true;
}

std::vector<EdgeRuns> PartedUnion::ReduceParts(const Parts &parts, const std::vector<uint8_t> &open) const {
	std::vector<size_t> numbers;
	for (size_t part = 0; part < parts.Count(); part++) {
		if (open[part]) {
			numbers.push_back(part);
		}
	}
	const OverlayRule rule;
	const size_t steps = std::min(numbers.size(), parallel.Threads() * PART_STEPS_PER_THREAD);
	std::vector<std::vector<EdgeRuns>> reduced(steps);
	parallel.For(steps, [&](size_t step) {
		OverlayArrangement mine;
		CountedVector<OverlayChain> own;
		CountedVector<Vec2> own_points;
		Serial serial;
		CountedVector<OverlayPoint> none;
		for (auto k = numbers.size() * step / steps; k < numbers.size() * (step + 1) / steps; k++) {
			own.clear();
			size_t count = 0;
			for (auto i = parts.start[numbers[k]]; i < parts.start[numbers[k] + 1]; i++) {
				const auto &polygon = parts.polygons[i];
				own.insert(own.end(), chains.begin() + polygon.begin, chains.begin() + polygon.end);
			}
			for (auto &chain : own) {
				count += chain.points ? 0 : chain.count;
			}
			own_points.resize(count);
			auto *next = own_points.data();
			for (auto &chain : own) {
				if (!chain.points) {
					input.ReadPoints(chain, next);
					chain.points = next;
					next += chain.count;
				}
			}
			mine.Arrange(own, input.boxes, none, rule, serial);
			mine.TakeAreas(reduced[step]);
		}
	});
	std::vector<EdgeRuns> all;
	for (auto &some : reduced) {
		std::move(some.begin(), some.end(), std::back_inserter(all));
	}
	return all;
}

bool PartedUnion::HasDevice() {
	if (takes < 0) {
		takes = device && input.grid == 0 && input.vertex_count <= OverlayNet::MAX_COUNT &&
		        device->Takes(input.vertex_count);
	}
	return takes > 0;
}

bool PartedUnion::UniteOnDevice(const Parts &parts, bool unchecked, UnitedNet &united) {
	std::vector<vibe::NetRing> net_rings(chains.size());
	size_t count = 0;
	for (size_t i = 0; i < chains.size(); i++) {
		net_rings[i].start = uint32_t(count);
		count += chains[i].count;
	}
	ForEach(parallel, parts.Count(), [&](size_t part) {
		for (auto i = parts.start[part]; i < parts.start[part + 1]; i++) {
			for (auto k = parts.polygons[i].begin; k < parts.polygons[i].end; k++) {
				net_rings[k].part = uint32_t(part);
				net_rings[k].polygon = chains[k].polygon;
			}
		}
	});
	OverlayNet net;
	net.read = [&](size_t ring, Vec2 *out) {
		auto chain = chains[ring];
		input.ReadPoints(chain, out);
		chain.points = out;
		return chain.Weight();
	};
	net.poll = CheckWork;
	net.vertex_count = count;
	if (input.known) {
		input.known->UseResident(net, *device, parallel, [this](size_t ring) { return chains[ring].known; });
	}
	net.rings = net_rings.data();
	net.ring_count = net_rings.size();
	net.parts = parts.Count();
	net.box = input.boxes[Overlay::LEFT];
	bool valid = true;
	// A device that has failed is not asked again
	takes = device->Unite(net, parallel, [&](GpuUnion &on_device) {
		valid = !unchecked || AreValid(parts, on_device.FindDoubtful(input.polygons));
		if (!valid) {
			return;
		}
		OverlayNet::Edges others;
		for (auto &piece : ReduceParts(parts, on_device.UniteParts())) {
			for (auto &edge : piece.edges) {
				others.push_back(vibe::NetEdge {edge.a, edge.b, edge.rise, edge.polygon, 0});
			}
		}
		// With points the last step is done by the CPU
		on_device.Finish(std::move(others), input.points.empty(), united);
	});
	return takes > 0 && valid;
}

bool PartedUnion::AreValid(const Parts &parts, const std::vector<uint8_t> &doubtful) const {
	std::vector<size_t> first;
	for (auto &polygon : parts.polygons) {
		// The device does not check polygons with holes
		if (doubtful[chains[polygon.begin].polygon] || polygon.end - polygon.begin > 1) {
			first.push_back(polygon.begin);
		}
	}
	const bool valid = InvalidPolygons(input, first, parallel).empty();
	if (valid) {
		input.NoteValid();
	}
	return valid;
}

} // namespace vibespatial
