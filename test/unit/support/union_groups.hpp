//===----------------------------------------------------------------------===//
// union_groups.hpp
//
// Groups of polygons, and the union of each by a device, many at once, and by the CPU
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/overlay/grouped_overlay.hpp"
#include "geometry/wkb.hpp"
#include "overlay_parts.hpp"

namespace overlay_test {

using Rings = std::vector<std::vector<Vec2>>;
//! Polygons, each a shell with its holes, as WKB
using Members = std::vector<std::string>;

inline std::string Polygon(const Rings &rings) {
	GeometryBatch batch;
	batch.BeginRow(GeometryType::POLYGON, 0);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	for (auto &ring : rings) {
		batch.BeginRing();
		for (size_t i = 0; i <= ring.size(); i++) {
			const auto &p = ring[i % ring.size()];
			batch.AddVertex(p.x, p.y, 0, 0);
		}
	}
	batch.EndRow();
	return WriteWkb(batch, 0);
}

inline std::vector<WkbSlice> Slices(const Members &members) {
	std::vector<WkbSlice> slices;
	for (auto &member : members) {
		slices.push_back(WkbSlice {reinterpret_cast<const uint8_t *>(member.data()), member.size()});
	}
	return slices;
}

inline std::string OnCpu(const Members &members) {
	Overlay overlay;
	for (auto &slice : Slices(members)) {
		overlay.AddWkb(Overlay::LEFT, slice.data, slice.size);
	}
	GeometryBatch batch;
	Serial serial;
	overlay.Run(OverlayRule {}, serial, batch);
	return WriteWkb(batch, 0);
}

inline std::function<uint8_t *(size_t)> Into(std::vector<uint8_t> &wkb) {
	return [&wkb](size_t bytes) {
		wkb.resize(bytes);
		return wkb.data();
	};
}

//! How many groups were left to the CPU
inline size_t RequireSame(const std::vector<Members> &groups, OverlayDevice &device) {
	GroupedOverlay grouped;
	for (auto &members : groups) {
		const auto slices = Slices(members);
		REQUIRE(grouped.Add(slices.data(), slices.size()));
	}
	REQUIRE(grouped.Groups() == groups.size());
	ThreeThreads threads;
	std::vector<uint8_t> wkb;
	const auto begins = grouped.Run(device, threads, Into(wkb));
	REQUIRE(begins.size() == groups.size() + 1);
	REQUIRE(begins.back() == wkb.size());
	CHECK(grouped.Groups() == 0);
	CHECK(grouped.Vertices() == 0);
	size_t left = 0;
	for (size_t i = 0; i < groups.size(); i++) {
		if (begins[i] == begins[i + 1]) {
			left++;
			continue;
		}
		const std::string found(wkb.begin() + std::ptrdiff_t(begins[i]), wkb.begin() + std::ptrdiff_t(begins[i + 1]));
		REQUIRE(found == OnCpu(groups[i]));
	}
	return left;
}

//! Groups in the same place, so that their edges meet, coincide and have ends in common
inline std::vector<Members> Groups(size_t count) {
	std::mt19937 random(11);
	std::uniform_real_distribution<double> place(0, 10);
	std::vector<Members> groups(count);
	for (size_t i = 0; i < count; i++) {
		const size_t polygons = 2 + random() % 12;
		for (size_t k = 0; k < polygons; k++) {
			switch (i % 5) {
			case 0: // coverages
				groups[i].push_back(Polygon({Box(double(k), 0, double(k) + 1, double(i % 3) + 1)}));
				break;
			case 1: // bricks that meet within edges, and touch in corners
				groups[i].push_back(
				    Polygon({Box(double(random() % 6), double(random() % 6), 6 + double(random() % 3), 7)}));
				break;
			case 2:
				groups[i].push_back(Polygon({Star(random, place(random), place(random), 4, 20, k % 2)}));
				break;
			case 3: { // with holes, and islands in them
				const double x = double(random() % 4), y = double(random() % 4);
				groups[i].push_back(Polygon({Box(x, y, x + 4, y + 4), Box(x + 1, y + 1, x + 3, y + 3)}));
				groups[i].push_back(Polygon({Box(x + 1.5, y + 1.5, x + 2, y + 2)}));
				break;
			}
			default: // a chessboard
				groups[i].push_back(Polygon({Box(double(k), double(k), double(k) + 1, double(k) + 1)}));
				break;
			}
		}
	}
	return groups;
}

} // namespace overlay_test
