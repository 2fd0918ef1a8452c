//===----------------------------------------------------------------------===//
// overlay_parts.hpp
//
// Polygons in parts, made to overlap or to touch, and the union of each part by a device and by the CPU
//===----------------------------------------------------------------------===//
#pragma once

#include "catch.hpp"

#include "engine/overlay/arrangement.hpp"
#include "engine/gpu/interface/overlay.hpp"
#include "three_threads.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace overlay_test {

using namespace vibespatial; // NOLINT: a test
using vibe::Vec2;
using Kind = OverlayChain::Kind;

//! Polygons in parts
struct Parts {
	std::vector<Vec2> vertices;
	std::vector<size_t> starts;
	std::vector<OverlayChain> chains;
	std::vector<uint32_t> part;
	uint32_t polygons = 0;

	void Add(uint32_t to, const std::vector<Vec2> &ring, Kind kind = Kind::SHELL) {
		polygons += kind == Kind::SHELL;
		starts.push_back(vertices.size());
		part.push_back(to);
		for (auto &p : ring) {
			vertices.push_back(Vec2 {p.x + 0.0, p.y + 0.0});
		}
		chains.push_back(OverlayChain {nullptr, uint32_t(ring.size()), polygons - 1, kind, Overlay::LEFT});
	}
	//! Once all are there
	void Close() {
		for (size_t i = 0; i < chains.size(); i++) {
			chains[i].points = vertices.data() + starts[i];
		}
	}
};

struct Compared {
	size_t edges = 0;
	size_t parts = 0;
	size_t failed = 0;
};

inline bool SameEdge(const EdgeRuns::Edge &l, const vibe::NetEdge &r) {
	return l.a == r.a && l.b == r.b && l.rise == r.rise && l.polygon == r.polygon;
}

//! Every part by unite(net, parallel, united), which returns the parts that failed, and by the CPU
template <class UNITE>
Compared RequireSame(Parts &input, const UNITE &unite) {
	input.Close();
	const size_t parts = input.part.empty() ? 0 : *std::max_element(input.part.begin(), input.part.end()) + 1;
	std::vector<vibe::NetRing> rings;
	for (size_t i = 0; i < input.chains.size(); i++) {
		auto &chain = input.chains[i];
		rings.push_back(vibe::NetRing {uint32_t(input.starts[i]), input.part[i], chain.polygon, 0});
	}
	OverlayNet net;
	net.read = [&](size_t ring, Vec2 *out) {
		auto &chain = input.chains[ring];
		std::copy_n(chain.points, chain.count, out);
		return chain.Weight();
	};
	net.vertex_count = input.vertices.size();
	net.rings = rings.data();
	net.ring_count = rings.size();
	net.parts = parts;
	ThreeThreads threads;
	UnitedNet united;
	const std::vector<uint8_t> failed = unite(net, threads, united);
	REQUIRE(failed.size() == parts);

	std::vector<OverlayNet::Edges> found(parts);
	for (auto &edge : united.edges) {
		REQUIRE(edge.part < parts);
		REQUIRE(!failed[edge.part]);
		found[edge.part].push_back(edge);
	}
	Compared compared;
	compared.parts = parts;
	OverlayArrangement arrangement;
	Serial serial;
	CountedVector<OverlayPoint> none;
	const vibe::Box boxes[2] = {vibe::Box::Empty(), vibe::Box::Empty()};
	for (uint32_t part = 0; part < parts; part++) {
		if (failed[part]) {
			compared.failed++;
			continue;
		}
		CountedVector<OverlayChain> own;
		for (size_t i = 0; i < input.chains.size(); i++) {
			if (input.part[i] == part) {
				own.push_back(input.chains[i]);
			}
		}
		arrangement.Arrange(own, boxes, none, OverlayRule {}, serial);
		std::vector<EdgeRuns> taken;
		arrangement.TakeAreas(taken);
		const auto &expected = taken[0].edges;
		std::sort(found[part].begin(), found[part].end(), EdgeBefore());
		REQUIRE(found[part].size() == expected.size());
		REQUIRE(std::equal(expected.begin(), expected.end(), found[part].begin(), SameEdge));
		compared.edges += expected.size();
	}
	return compared;
}

inline std::vector<Vec2> Box(double x0, double y0, double x1, double y1) {
	return {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}};
}

inline std::vector<Vec2> Star(std::mt19937 &random, double x, double y, double radius, int corners, bool clockwise) {
	std::uniform_real_distribution<double> length(0.2, 1);
	std::vector<Vec2> ring;
	for (int i = 0; i < corners; i++) {
		const double angle = 6.283185307179586 * i / corners, r = radius * length(random);
		ring.push_back(Vec2 {x + r * std::cos(angle), y + r * std::sin(angle)});
	}
	if (clockwise) {
		std::reverse(ring.begin(), ring.end());
	}
	return ring;
}

inline std::vector<Vec2> Circle(double x, double y, double radius, int corners) {
	std::vector<Vec2> ring;
	for (int i = 0; i < corners; i++) {
		const double angle = 6.283185307179586 * i / corners;
		ring.push_back(Vec2 {x + radius * std::cos(angle), y + radius * std::sin(angle)});
	}
	return ring;
}

//! Units with the last places of their coordinates shaken
inline double Shaken(std::mt19937 &random, double value) {
	for (auto n = random() % 3; n > 0; n--) {
		value = random() % 2 ? vibe::NextUp(value) : vibe::NextDown(value);
	}
	return value;
}

} // namespace overlay_test
