#include "engine/overlay/repair.hpp"

#include "engine/overlay/tuning.hpp"
#include "engine/relate/validity.hpp"

#include <algorithm>

namespace vibespatial {

using namespace overlay_tuning;
using vibe::Vec2;
using Kind = OverlayChain::Kind;

//! Appends the polygon whose shell is chain `first`
static void AppendPolygon(const OverlayInput &input, size_t first, GeometryBatch &batch) {
	auto &chains = input.chains;
	batch.BeginRow(GeometryType::POLYGON, VERTEX_XY);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	for (auto i = first; i < chains.size() && chains[i].polygon == chains[first].polygon; i++) {
		batch.BeginRing();
		const auto start = batch.x.size();
		input.VisitPoints(chains[i], [&](const Vec2 &p) { batch.AddVertex(p.x, p.y, 0, 0); });
		batch.AddVertex(batch.x[start], batch.y[start], 0, 0);
	}
	batch.EndRow();
}

std::vector<size_t> InvalidPolygons(const OverlayInput &input, const std::vector<size_t> &first, Parallel &parallel) {
	std::vector<std::vector<size_t>> invalid(std::min(first.size(), parallel.Threads() * CHECK_STEPS_PER_THREAD));
	parallel.For(invalid.size(), [&](size_t step) {
		GeometryBatch batch;
		const auto end = first.size() * (step + 1) / invalid.size();
		for (auto i = first.size() * step / invalid.size(); i < end; i++) {
			batch.Clear();
			AppendPolygon(input, first[i], batch);
			if (IsValid(batch, 0)) {
				input.NoteValid(input.chains[first[i]]);
			} else {
				invalid[step].push_back(first[i]);
			}
		}
	});
	std::vector<size_t> all;
	for (auto &found : invalid) {
		all.insert(all.end(), found.begin(), found.end());
	}
	return all;
}

void RepairPolygons(OverlayInput &input, const bool odd[2], Parallel &parallel) {
	auto &chains = input.chains;
	std::vector<size_t> first;
	for (size_t i = 0; i < chains.size(); i++) {
		if (chains[i].kind == Kind::SHELL && !odd[chains[i].side] && !input.IsKnownValid(chains[i])) {
			first.push_back(i);
		}
	}
	OverlayRule rule;
	rule.fill = FillRule::ODD;
	rule.areas_only = true;
	for (auto i : InvalidPolygons(input, first, parallel)) {
		Overlay overlay;
		CountedVector<Vec2> ring_points;
		const auto polygon = chains[i].polygon;
		const auto side = chains[i].side;
		for (auto k = i; k < chains.size() && chains[k].polygon == polygon; k++) {
			ring_points.resize(chains[k].count);
			input.ReadPoints(chains[k], ring_points.data());
			overlay.AddRing(Overlay::LEFT, ring_points.data(), ring_points.size());
			chains[k].count = 0;
		}
		GeometryBatch batch;
		overlay.Run(rule, parallel, batch);
		for (size_t part = 0; part + 1 < batch.part_ring.size(); part++) {
			for (auto ring = batch.part_ring[part]; ring < batch.part_ring[part + 1]; ring++) {
				CountedVector<Vec2> mended;
				for (auto v = batch.ring_start[ring]; v + 1 < batch.ring_start[ring + 1]; v++) {
					mended.push_back(Vec2 {batch.x[v], batch.y[v]});
				}
				input.AddMended(std::move(mended), ring == batch.part_ring[part], side);
			}
		}
	}
	chains.erase(std::remove_if(chains.begin(), chains.end(), [](const OverlayChain &c) { return c.count == 0; }),
	             chains.end());
}

} // namespace vibespatial
