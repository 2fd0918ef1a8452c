#include "engine/constructive/precision.hpp"

#include "engine/shape/open_ring.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <cmath>

namespace vibespatial {

namespace {

using vibe::Vec2;

//! Counts steps of a grid
class Grid {
public:
	explicit Grid(double size_p) : size(size_p) {
		// 12 / 10 is 1.2, which 12 * 0.1 is not
		const double inverse = 1 / size;
		const double whole = std::round(inverse);
		constexpr double WHOLE = 1e-9;
		divisor = inverse > 1 && vibe::Abs(inverse - whole) <= WHOLE * whole ? whole : 0;
	}

	Vec2 Step(const Vec2 &p) const {
		return Vec2 {Step(p.x), Step(p.y)};
	}
	Vec2 Place(const Vec2 &step) const {
		return Vec2 {Place(step.x), Place(step.y)};
	}
	//! Where steps are no longer whole numbers
	double Limit() const {
		return 0x1p51 * size;
	}
	static double Nearest(double steps) {
		// of two the upper one; -0 is 0
		return std::floor(steps + 0.5) + 0.0;
	}

private:
	double Step(double v) const {
		return Nearest(divisor > 0 ? v * divisor : v / size);
	}
	double Place(double step) const {
		return divisor > 0 ? step / divisor : step * size;
	}

	double size;
	double divisor;
};

class PrecisionReducer {
public:
	PrecisionReducer(const GeometryBatch &batch_p, size_t row_p, double size, Overlay &overlay_p, Parallel &parallel_p,
	                 GeometryBatch &out_p)
	    : batch(batch_p), row(row_p), grid(size), overlay(overlay_p), parallel(parallel_p), out(out_p),
	      part(batch_p.row_part[row_p]) {
	}

	void Run() {
		const auto root = out.node_type.size();
		out.BeginRow(batch.type[row], VERTEX_XY);
		if (IsFiner()) {
			out.CopyNodes(batch, batch.row_node[row], batch.row_node[row + 1], part);
		} else if (!ReduceNode(batch.row_node[row])) {
			Empty(batch.type[row]);
		}
		out.type.back() = out.node_type[root];
		out.EndRow();
	}

private:
	bool IsFiner() const {
		const auto box = batch.Bounds(row);
		return !box.IsEmpty() &&
		       !(vibe::Max(vibe::Max(-box.min_x, box.max_x), vibe::Max(-box.min_y, box.max_y)) < grid.Limit());
	}

	void Empty(GeometryType type) {
		out.BeginNode(type, 0);
		if (IsLeaf(type)) {
			out.BeginPart(FamilyOf(type));
		}
	}

	//! False, and nothing added, when nothing is left of it
	bool ReduceNode(uint32_t node) {
		const auto type = batch.node_type[node];
		switch (type) {
		case GeometryType::POINT:
		case GeometryType::LINESTRING:
			return ReduceChain(type);
		case GeometryType::POLYGON:
			return ReducePolygons(1, false);
		case GeometryType::MULTIPOLYGON:
			return ReducePolygons(batch.node_children[node], true);
		default:
			return ReduceMembers(node);
		}
	}
	bool ReduceMembers(uint32_t node) {
		const auto slot = out.node_type.size();
		out.BeginNode(batch.node_type[node], 0);
		auto child = node + 1;
		for (uint32_t i = 0; i < batch.node_children[node]; i++) {
			out.node_children[slot] += ReduceNode(child);
			child = batch.NodeEnd(child);
		}
		if (out.node_children[slot] == 0) {
			out.node_type.pop_back();
			out.node_children.pop_back();
			return false;
		}
		return true;
	}

	bool ReduceChain(GeometryType type) {
		const auto begin = batch.ring_start[batch.part_ring[part]];
		const auto end = batch.ring_start[batch.part_ring[part + 1]];
		part++;
		chain.clear();
		for (auto i = begin; i < end; i++) {
			AppendDistinct(chain, grid.Step(Vec2 {batch.x[i], batch.y[i]}));
		}
		if (chain.size() < (type == GeometryType::POINT ? 1 : 2)) {
			return false;
		}
		out.BeginNode(type, 0);
		out.BeginPart(FamilyOf(type));
		out.BeginRing();
		for (const auto &step : chain) {
			const auto p = grid.Place(step);
			out.AddVertex(p.x, p.y, 0, 0);
		}
		return true;
	}

	//===------------------------------------------------------------------===//
	// Polygons, counted in steps until they are back in place
	//===------------------------------------------------------------------===//
	bool ReducePolygons(uint32_t polygons, bool multi) {
		Snap(batch, part, part + polygons, [&](const Vec2 &p) { return grid.Step(p); });
		part += polygons;
		// Every round that finds a crossing off the grid gives an edge a vertex on it, within the edge's own box: that ends
		while (!OnGrid()) {
			std::swap(snapped, before);
			Snap(before, 0, before.row_part.back(), [](const Vec2 &p) {
				return Vec2 {Grid::Nearest(p.x), Grid::Nearest(p.y)};
			});
		}
		for (size_t i = 0; i < snapped.x.size(); i++) {
			const auto p = grid.Place(Vec2 {snapped.x[i], snapped.y[i]});
			snapped.x[i] = p.x;
			snapped.y[i] = p.y;
		}
		// so far from 0 that neighbours on the grid have moved against each other
		if (!IsValid(snapped, 0)) {
			std::swap(snapped, before);
			snapped.Clear();
			overlay.Add(Overlay::LEFT, before, 0);
			RunOverlay(FillRule::AT_LEAST, snapped);
		}
		if (snapped.IsEmpty(0)) {
			return false;
		}
		if (multi && snapped.type[0] == GeometryType::POLYGON) {
			out.BeginNode(GeometryType::MULTIPOLYGON, 1);
		}
		out.CopyNodes(snapped, 0, snapped.row_node[1], 0);
		return true;
	}

	//! Makes `snapped` of polygons whose vertices are moved by `place`
	template <class PLACE>
	void Snap(const GeometryBatch &from, uint32_t part_begin, uint32_t part_end, PLACE &&place) {
		// One by one: what is turned inside out when it is moved must not take from a neighbour
		single.Clear();
		for (auto p = part_begin; p < part_end; p++) {
			for (auto ring = from.part_ring[p]; ring < from.part_ring[p + 1]; ring++) {
				chain.clear();
				for (auto i = from.ring_start[ring]; i < from.ring_start[ring + 1]; i++) {
					AppendDistinct(chain, place(Vec2 {from.x[i], from.y[i]}));
				}
				OpenRing(chain);
				if (chain.size() < 3) {
					continue;
				}
				if (IsCounterClockwise(chain) != (ring == from.part_ring[p])) {
					std::reverse(chain.begin(), chain.end());
				}
				overlay.AddRing(Overlay::LEFT, chain.data(), chain.size());
			}
			RunOverlay(IsValidPolygon(from.View(0), p) ? FillRule::AT_LEAST : FillRule::ODD, single);
		}
		snapped.Clear();
		if (single.RowCount() == 1) {
			std::swap(snapped, single);
			return;
		}
		for (size_t i = 0; i < single.RowCount(); i++) {
			overlay.Add(Overlay::LEFT, single, i);
		}
		RunOverlay(FillRule::AT_LEAST, snapped);
	}
	void RunOverlay(FillRule fill, GeometryBatch &to) {
		OverlayRule rule;
		rule.fill = fill;
		rule.areas_only = true;
		overlay.Run(rule, parallel, to);
	}
	bool OnGrid() const {
		const auto whole = [](double v) { return v == Grid::Nearest(v); };
		return std::all_of(snapped.x.begin(), snapped.x.end(), whole) &&
		       std::all_of(snapped.y.begin(), snapped.y.end(), whole);
	}

	const GeometryBatch &batch;
	const size_t row;
	const Grid grid;
	Overlay &overlay;
	Parallel &parallel;
	GeometryBatch &out;
	//! Of the node at hand
	uint32_t part;
	CountedVector<Vec2> chain;
	// polygons in steps: one a row, all of them in one row, and as they were a round before
	GeometryBatch single;
	GeometryBatch snapped;
	GeometryBatch before;
};

} // namespace

void ReducePrecision(const GeometryBatch &batch, size_t row, double grid, Overlay &overlay, Parallel &parallel,
                     GeometryBatch &out) {
	if (!(grid > 0) || !vibe::IsFinite(grid)) {
		throw GeometryError("the grid must be a positive number");
	}
	CheckUsable(batch, row);
	if (!batch.valid[row]) {
		out.AppendNull();
		return;
	}
	PrecisionReducer(batch, row, grid, overlay, parallel, out).Run();
}

} // namespace vibespatial
