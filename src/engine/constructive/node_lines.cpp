#include "engine/constructive/node_lines.hpp"

#include "engine/shape/open_ring.hpp"
#include "engine/shape/plain_chain.hpp"
#include "geometry/checks.hpp"
#include "vibe/shape.h"

#include <algorithm>

namespace vibespatial {

using vibe::Vec2;

//! Overlays scale what is larger or smaller
static bool IsOfUsualSize(const CountedVector<Vec2> &chain) {
	double largest = 0;
	for (const auto &p : chain) {
		largest = vibe::Max(largest, vibe::Max(vibe::Abs(p.x), vibe::Abs(p.y)));
	}
	return largest > 1e-70 && largest < 1e70;
}

//! A line that nowhere meets itself is the result, in the direction in which an overlay would have it: from the lesser end on, or
//! where it is closed along the lesser edge
static bool TryAddPlain(CountedVector<Vec2> &chain, GeometryBatch &out) {
	if (!IsOfUsualSize(chain) || !IsPlainChain(chain.data(), chain.size())) {
		return false;
	}
	const auto less = [](const Vec2 &p, const Vec2 &q) { return vibe::LexicographicLess(p, q); };
	const auto first = chain.front(), last = chain.back();
	bool backwards = less(last, first);
	if (first == last) {
		const auto next = chain[1], before = chain[chain.size() - 2];
		const auto next_edge = std::minmax(first, next, less), last_edge = std::minmax(first, before, less);
		backwards = next_edge.first == last_edge.first ? less(last_edge.second, next_edge.second)
		                                               : less(last_edge.first, next_edge.first);
	}
	if (backwards) {
		std::reverse(chain.begin(), chain.end());
	}
	out.RequireRoom(chain.size());
	out.BeginRow(GeometryType::MULTILINESTRING, VERTEX_XY);
	out.BeginNode(GeometryType::MULTILINESTRING, 1);
	out.BeginNode(GeometryType::LINESTRING, 0);
	out.BeginPart(vibe::FAMILY_LINE);
	out.BeginRing();
	for (const auto &p : chain) {
		// -0 becomes 0
		out.AddVertex(p.x + 0.0, p.y + 0.0, 0, 0);
	}
	out.EndRow();
	return true;
}

void NodeLines(const GeometryBatch &batch, size_t row, Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	CheckUsable(batch, row);
	if (!batch.valid[row]) {
		out.AppendNull();
		return;
	}
	const auto view = batch.View(row);
	CountedVector<vibe::Vec2> chain;
	GeometryBatch lines;
	const auto first_ring = view.part_ring[view.part_begin], last_ring = view.part_ring[view.part_end];
	for (auto ring = first_ring; ring < last_ring; ring++) {
		chain.clear();
		for (auto i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
			AppendDistinct(chain, view.Vertex(i));
		}
		if (chain.size() > 1 && last_ring - first_ring == 1 && TryAddPlain(chain, out)) {
			return;
		}
		if (chain.size() > 1) {
			overlay.AddLine(Overlay::LEFT, chain.data(), chain.size());
		}
	}
	overlay.Run(OverlayRule(), parallel, lines);
	const auto members = lines.row_part[1];
	out.BeginRow(GeometryType::MULTILINESTRING, VERTEX_XY);
	out.BeginNode(GeometryType::MULTILINESTRING, members);
	// without the node of a multi geometry
	out.CopyNodes(lines, lines.row_node[1] - members, lines.row_node[1], 0);
	out.EndRow();
}

} // namespace vibespatial
