#include "engine/constructive/simplify.hpp"

#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "vibe/measure.h"

namespace vibespatial {

namespace {

double DistanceToSegment(const vibe::Vec2 &p, const vibe::Vec2 &a, const vibe::Vec2 &b) {
	const double abx = b.x - a.x, aby = b.y - a.y;
	const double apx = p.x - a.x, apy = p.y - a.y;
	const double along = apx * abx + apy * aby;
	const double square = abx * abx + aby * aby;
	// written so that a segment without length falls to its first end
	if (!(along > 0)) {
		return vibe::SegmentLength(a.x, a.y, p.x, p.y);
	}
	if (along >= square) {
		return vibe::SegmentLength(b.x, b.y, p.x, p.y);
	}
	return vibe::Abs(apx * aby - apy * abx) / square * vibe::Sqrt(square);
}

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
		const auto family = view.part_family[part];
		for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			const auto begin = view.ring_start[ring];
			const auto end = view.ring_start[ring + 1];
			const auto first = kept.size();
			if (begin < end) {
				Reduce(begin, end - 1);
				if (family == vibe::FAMILY_POLYGON) {
					DropRingStart(first);
				}
			}
			const bool gone = kept.size() - first < (family == vibe::FAMILY_POLYGON ? 4 : 1);
			if (gone) {
				kept.resize(first);
				if (ring == view.part_ring[part]) {
					return;
				}
				continue;
			}
			rings.push_back(Ring {first, kept.size()});
		}
	}

	//! Keeps both ends, and between them the farthest vertex beyond the tolerance, again and again
	void Reduce(uint32_t first, uint32_t last) {
		kept.push_back(first);
		if (first == last) {
			return;
		}
		sections.assign(1, last);
		auto begin = first;
		while (!sections.empty()) {
			const auto end = sections.back();
			const auto a = view.Vertex(begin), b = view.Vertex(end);
			double farthest = -1;
			auto split = begin;
			for (auto i = begin + 1; i < end; i++) {
				poll();
				const auto distance = DistanceToSegment(view.Vertex(i), a, b);
				if (distance > farthest) {
					farthest = distance;
					split = i;
				}
			}
			if (farthest > tolerance) {
				sections.push_back(split);
				continue;
			}
			kept.push_back(end);
			begin = end;
			sections.pop_back();
		}
	}

	void DropRingStart(size_t first) {
		if (kept.size() - first < 4) {
			return;
		}
		const auto next = kept[first + 1];
		const auto previous = kept[kept.size() - 2];
		if (DistanceToSegment(view.Vertex(kept[first]), view.Vertex(previous), view.Vertex(next)) <= tolerance) {
			kept.erase(kept.begin() + first);
			kept.back() = kept[first];
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
	CountedVector<uint32_t> sections;
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
