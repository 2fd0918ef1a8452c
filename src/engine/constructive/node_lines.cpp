#include "engine/constructive/node_lines.hpp"

#include "engine/shape/open_ring.hpp"
#include "geometry/checks.hpp"

namespace vibespatial {

void NodeLines(const GeometryBatch &batch, size_t row, Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	CheckUsable(batch, row);
	if (!batch.valid[row]) {
		out.AppendNull();
		return;
	}
	const auto view = batch.View(row);
	CountedVector<vibe::Vec2> chain;
	GeometryBatch lines;
	for (auto ring = view.part_ring[view.part_begin]; ring < view.part_ring[view.part_end]; ring++) {
		chain.clear();
		for (auto i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
			AppendDistinct(chain, view.Vertex(i));
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
