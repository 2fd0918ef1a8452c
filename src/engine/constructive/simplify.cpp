#include "engine/constructive/simplify.hpp"

#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "vibe/simplify.h"

namespace vibespatial {

namespace {

class Simplifier {
public:
	Simplifier(const GeometryBatch &batch_p, size_t row_p, double tolerance_p, GeometryBatch &out_p)
	    : batch(batch_p), row(row_p), view(batch_p.View(row_p)), tolerance(tolerance_p), out(out_p),
	      vertex_type(batch_p.vertex_type[row_p] & VERTEX_Z) {
	}

	void Run() {
		for (auto part = view.part_begin; part < view.part_end; part++) {
			SimplifyPart(part);
			part_rings.push_back(rings.size());
		}
		const auto root = batch.row_node[row];
		const auto nodes = batch.row_node[row + 1] - root;
		left.resize(nodes);
		next_node.resize(nodes);
		first_part.resize(nodes);
		auto part = view.part_begin;
		Count(root, part);
		out.BeginRow(batch.node_type[Only(root)], vertex_type);
		Write(root, true);
		out.EndRow();
	}

private:
	struct Ring {
		size_t begin;
		size_t end;
	};

	//! Fills `kept` with the vertices that stay and adds a ring for them
	void SimplifyPart(uint32_t part) {
		const bool is_area = view.part_family[part] == vibe::FAMILY_POLYGON;
		for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			const auto begin = view.ring_start[ring];
			const auto end = view.ring_start[ring + 1];
			const auto first = kept.size();
			kept.resize(first + end - begin);
			const auto count = vibe::SimplifyRing(view, begin, end, is_area, tolerance, kept.data() + first, poll);
			kept.resize(first + count);
			if (count > 0) {
				rings.push_back(Ring {first, kept.size()});
			} else if (ring == view.part_ring[part]) {
				return;
			}
		}
	}

	//! Counts what is left of the node and below; returns the node after it. `part` is its first part and moves along.
	uint32_t Count(uint32_t node, uint32_t &part) {
		const auto slot = node - batch.row_node[row];
		first_part[slot] = part;
		auto next = node + 1;
		uint32_t count = 0;
		if (IsLeaf(batch.node_type[node])) {
			count = uint32_t(part_rings[part - view.part_begin + 1] - part_rings[part - view.part_begin]);
			part++;
		} else {
			for (uint32_t child = 0; child < batch.node_children[node]; child++) {
				const auto child_slot = next - batch.row_node[row];
				next = Count(next, part);
				count += left[child_slot] > 0;
			}
		}
		left[slot] = count;
		next_node[slot] = next;
		return next;
	}

	//! The node itself, or the only member left of a multi geometry
	uint32_t Only(uint32_t node) const {
		const auto type = batch.node_type[node];
		if (IsLeaf(type) || type == GeometryType::GEOMETRYCOLLECTION || left[node - batch.row_node[row]] != 1) {
			return node;
		}
		auto child = node + 1;
		while (left[child - batch.row_node[row]] == 0) {
			child++;
		}
		return child;
	}

	void Write(uint32_t node, bool root) {
		node = Only(node);
		const auto slot = node - batch.row_node[row];
		const auto type = batch.node_type[node];
		if (left[slot] == 0 && !root) {
			return;
		}
		if (IsLeaf(type)) {
			out.BeginNode(type, 0);
			WritePart(first_part[slot], FamilyOf(type));
			return;
		}
		out.BeginNode(type, left[slot]);
		for (auto child = node + 1; child < next_node[slot]; child = next_node[child - batch.row_node[row]]) {
			Write(child, false);
		}
	}

	void WritePart(uint32_t part, vibe::Family family) {
		out.BeginPart(family);
		const auto p = part - view.part_begin;
		for (auto ring = part_rings[p]; ring < part_rings[p + 1]; ring++) {
			out.BeginRing();
			for (auto k = rings[ring].begin; k < rings[ring].end; k++) {
				const auto i = kept[k];
				out.AddVertex(view.x[i], view.y[i], vertex_type ? batch.z[i] : 0, 0);
			}
		}
	}

	const GeometryBatch &batch;
	const size_t row;
	const vibe::GeometryView view;
	const double tolerance;
	GeometryBatch &out;
	const uint8_t vertex_type;
	// vertices that stay, by ring; rings that stay, by part
	CountedVector<uint32_t> kept;
	CountedVector<Ring> rings;
	CountedVector<size_t> part_rings {0};
	// by node of the row: rings or members left, the node after it, its first part
	CountedVector<uint32_t> left;
	CountedVector<uint32_t> next_node;
	CountedVector<uint32_t> first_part;
	Poll poll;
};

} // namespace

void Simplify(const GeometryBatch &batch, size_t row, double tolerance, GeometryBatch &out) {
	if (vibe::IsNan(tolerance)) {
		throw GeometryError("the tolerance must not be NaN");
	}
	if (tolerance < 0) {
		throw GeometryError("the tolerance must be non-negative");
	}
	CheckUsable(batch, row);
	Simplifier(batch, row, tolerance, out).Run();
}

} // namespace vibespatial
