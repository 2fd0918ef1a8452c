//===----------------------------------------------------------------------===//
// overlay_pairs.hpp
//
// Pairs of polygonal geometries, valid or not, and the overlays of each by a device, many at once, and by the CPU
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/measure/measure.hpp"
#include "union_groups.hpp"

#include <cmath>
#include <utility>

namespace overlay_test {

using vibe::NetRule;
using Pair = std::pair<std::string, std::string>;

inline std::string MultiPolygon(const std::vector<Rings> &members) {
	GeometryBatch batch;
	batch.BeginRow(GeometryType::MULTIPOLYGON, 0);
	batch.BeginNode(GeometryType::MULTIPOLYGON, uint32_t(members.size()));
	for (auto &rings : members) {
		batch.BeginNode(GeometryType::POLYGON, 0);
		batch.BeginPart(vibe::FAMILY_POLYGON);
		for (auto &ring : rings) {
			batch.BeginRing();
			for (size_t i = 0; i <= ring.size(); i++) {
				batch.AddVertex(ring[i % ring.size()].x, ring[i % ring.size()].y, 0, 0);
			}
		}
	}
	batch.EndRow();
	return WriteWkb(batch, 0);
}

//! Geometries of one kind after the other, on a small grid for the most part: much touches, coincides and crosses
class PairMaker {
public:
	static constexpr size_t KINDS = 10;

	explicit PairMaker(unsigned seed) : random(seed) {
	}

	Pair Make(size_t number) {
		switch (number % KINDS) {
		case 0: // any points: rings that cross themselves, or have no area
			return {Polygon({Any(3 + Up(6))}), Polygon({Any(3 + Up(6))})};
		case 1:
			return {Polygon({GridBox()}), Polygon({GridBox()})};
		case 2:
			return {Polygon({AnyStar(4)}), Polygon({AnyStar(4)})};
		case 3: // members that have holes, lie in them, or overlap
			return {MultiPolygon({WithHole(), {GridBox()}, {GridBox()}}), MultiPolygon({WithHole(), WithHole()})};
		case 4: { // the same twice, beginning elsewhere and running the other way
			auto ring = number % 3 == 0 ? Any(3 + Up(6)) : AnyStar(3);
			auto other = ring;
			std::rotate(other.begin(), other.begin() + std::ptrdiff_t(Up(ring.size())), other.end());
			if (Up(2)) {
				std::reverse(other.begin(), other.end());
			}
			return {Polygon({ring}), Polygon({other})};
		}
		case 5: // apart
			return {Polygon({AnyStar(1)}), Polygon({Moved(AnyStar(1), Up(2) ? 30 : 12)})};
		case 6: // one in the other, or in its hole
			return {Polygon({Box(-20, -20, 30, 30), Up(2) ? Box(-1, -1, 12, 12) : Box(-19, -19, -18, -18)}),
			        Polygon({AnyStar(3)})};
		case 7: { // borders that nearly coincide
			auto ring = Up(2) ? GridBox() : Any(5), other = ring;
			for (auto &p : other) {
				p = Vec2 {Shaken(random, (p.x + 1) / 3), Shaken(random, (p.y + 1) / 3)};
			}
			for (auto &p : ring) {
				p = Vec2 {(p.x + 1) / 3, (p.y + 1) / 3};
			}
			return {Polygon({ring}), Polygon({other})};
		}
		case 8: { // a bow tie with repeated vertices, and a spike
			const double x = double(Up(4)), y = double(Up(4));
			std::vector<Vec2> tie {{x, y}, {x, y}, {x + 4, y + 4}, {x + 4, y}, {x, y + 4}, {x, y + 4}};
			std::vector<Vec2> spike {{x, 0}, {x + 2, 0}, {x + 6, 0}, {x + 2, 0}, {x + 2, 3}, {x, double(Up(4)) + 1}};
			return {Polygon({tie}), Up(2) ? Polygon({spike}) : Polygon({AnyStar(3)})};
		}
		default: { // large and small coordinates, and long edges that are clipped
			const double size = std::pow(10.0, double(Up(5)) * 30 - 60);
			auto ring = Circle(5, 5, 2 + double(Up(5)), 40), other = AnyStar(6);
			for (auto *some : {&ring, &other}) {
				for (auto &p : *some) {
					p = Vec2 {p.x * size, p.y * size};
				}
			}
			return {Polygon({ring}), Polygon({other})};
		}
		}
	}

private:
	size_t Up(size_t end) {
		return random() % end;
	}
	std::vector<Vec2> Any(size_t count) {
		std::vector<Vec2> ring(count);
		for (auto &p : ring) {
			p = Vec2 {double(Up(6)), double(Up(6))};
		}
		return ring;
	}
	std::vector<Vec2> GridBox() {
		const double x = double(Up(5)), y = double(Up(5));
		return Box(x, y, x + 1 + double(Up(3)), y + 1 + double(Up(3)));
	}
	Rings WithHole() {
		const double x = double(Up(4)), y = double(Up(4));
		return {Box(x, y, x + 4, y + 4), Box(x + double(Up(2)), y + 1, x + 3, y + 3)};
	}
	std::vector<Vec2> AnyStar(double radius) {
		std::uniform_real_distribution<double> place(3, 7);
		const double x = place(random), y = place(random);
		return Star(random, x, y, radius, 3 + int(Up(20)), Up(2) == 0);
	}
	static std::vector<Vec2> Moved(std::vector<Vec2> ring, double by) {
		for (auto &p : ring) {
			p.x += by;
		}
		return ring;
	}

	std::mt19937 random;
};

inline std::vector<Pair> Pairs(size_t count, unsigned seed = 21) {
	PairMaker maker(seed);
	std::vector<Pair> pairs;
	pairs.reserve(count);
	for (size_t i = 0; i < count; i++) {
		pairs.push_back(maker.Make(i));
	}
	return pairs;
}

inline WkbSlice SliceOf(const std::string &wkb) {
	return WkbSlice {reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size()};
}

//! By the CPU, in `batch`
inline void OnCpu(const Pair &pair, const NetRule &rule, GeometryBatch &batch) {
	static constexpr OverlayOp OPS[] = {OverlayOp::UNION, OverlayOp::INTERSECTION, OverlayOp::UNION,
	                                    OverlayOp::DIFFERENCE, OverlayOp::SYM_DIFFERENCE};
	Overlay overlay;
	overlay.AddWkb(Overlay::LEFT, SliceOf(pair.first).data, pair.first.size());
	overlay.AddWkb(Overlay::RIGHT, SliceOf(pair.second).data, pair.second.size());
	OverlayRule cpu_rule;
	cpu_rule.op = OPS[rule.kind];
	cpu_rule.areas_only = rule.areas_only != 0;
	Serial serial;
	batch.Clear();
	overlay.Run(cpu_rule, serial, batch);
}

struct ComparedPairs {
	//! Left to the CPU; EMPTY
	size_t left = 0;
	size_t empty = 0;
};

//! Overlays and their areas, to the bit
inline ComparedPairs RequireSame(const std::vector<Pair> &pairs, const NetRule &rule, OverlayDevice &device) {
	GroupedOverlay grouped(rule), measured(rule);
	ThreeThreads threads;
	const auto pair = [&](size_t i) { return GroupedOverlay::Pair(SliceOf(pairs[i].first), SliceOf(pairs[i].second)); };
	grouped.AddPairs(pairs.size(), pair, threads);
	measured.AddPairs(pairs.size(), pair, threads);
	REQUIRE(grouped.Groups() == pairs.size());
	std::vector<uint8_t> wkb;
	const auto begins = grouped.Run(device, threads, Into(wkb));
	const auto areas = measured.Areas(device, threads);
	REQUIRE(begins.size() == pairs.size() + 1);
	REQUIRE(begins.back() == wkb.size());
	REQUIRE(areas.size() == pairs.size());
	CHECK(grouped.Groups() == 0);
	ComparedPairs compared;
	size_t wrong = 0;
	GeometryBatch batch;
	for (size_t i = 0; i < pairs.size(); i++) {
		if (begins[i] == begins[i + 1]) {
			compared.left++;
			wrong += areas[i] == areas[i];
			continue;
		}
		OnCpu(pairs[i], rule, batch);
		const auto expected = WriteWkb(batch, 0);
		compared.empty += expected.size() < 10;
		wrong += expected !=
		         std::string(wkb.begin() + std::ptrdiff_t(begins[i]), wkb.begin() + std::ptrdiff_t(begins[i + 1]));
		wrong += Area(batch.View(0)) != areas[i];
	}
	CHECK(wrong == 0);
	return compared;
}

} // namespace overlay_test
