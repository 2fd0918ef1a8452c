#include "engine/constructive/remove_repeated_points.hpp"

#include "geometry/error.hpp"
#include "vibe/distance.h"

namespace vibespatial {

namespace {

constexpr size_t LEAST_RING = 4;

class Remover {
public:
	Remover(const GeometryBatch &batch_p, size_t row_p, double tolerance_p, GeometryBatch &out_p)
	    : batch(batch_p), row(row_p), view(batch_p.View(row_p)), tolerance(tolerance_p), out(out_p),
	      has_z(batch_p.vertex_type[row_p] & VERTEX_Z), has_m(batch_p.vertex_type[row_p] & VERTEX_M) {
	}

	void Run() {
		out.BeginRow(batch.type[row], batch.vertex_type[row]);
		auto part = view.part_begin;
		for (auto node = batch.row_node[row]; node < batch.row_node[row + 1]; node++) {
			const auto type = batch.node_type[node];
			out.BeginNode(type, batch.node_children[node]);
			if (IsLeaf(type)) {
				WritePart(part++, FamilyOf(type));
			}
		}
		out.EndRow();
	}

private:
	void WritePart(uint32_t part, vibe::Family family) {
		out.BeginPart(family);
		for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			out.BeginRing();
			const auto begin = view.ring_start[ring];
			const auto end = view.ring_start[ring + 1];
			Select(begin, end);
			if (family == vibe::FAMILY_POLYGON && kept.size() < LEAST_RING) {
				for (auto i = begin; i < end; i++) {
					WriteVertex(i);
				}
				continue;
			}
			for (auto i : kept) {
				WriteVertex(i);
			}
		}
	}

	//! Fills `kept` with the vertices of [begin, end) that stay
	void Select(uint32_t begin, uint32_t end) {
		kept.clear();
		for (auto i = begin; i < end; i++) {
			if (kept.empty() || !IsRepeated(kept.back(), i)) {
				kept.push_back(i);
			}
		}
		if (end - begin < 2 || kept.back() == end - 1) {
			return;
		}
		if (kept.size() == 1) {
			kept.push_back(end - 1);
		} else {
			kept.back() = end - 1;
		}
	}

	bool IsRepeated(uint32_t i, uint32_t j) const {
		const auto p = view.Vertex(i), q = view.Vertex(j);
		return (p.x == q.x && p.y == q.y) || (tolerance > 0 && vibe::PointDistance(p, q) <= tolerance);
	}

	void WriteVertex(uint32_t i) {
		out.AddVertex(view.x[i], view.y[i], has_z ? batch.z[i] : 0, has_m ? batch.m[i] : 0);
	}

	const GeometryBatch &batch;
	const size_t row;
	const vibe::GeometryView view;
	const double tolerance;
	GeometryBatch &out;
	const bool has_z;
	const bool has_m;
	CountedVector<uint32_t> kept;
};

} // namespace

void RemoveRepeatedPoints(const GeometryBatch &batch, size_t row, double tolerance, GeometryBatch &out) {
	if (!(tolerance >= 0)) {
		throw GeometryError("the tolerance must be a number from 0 up");
	}
	Remover(batch, row, tolerance, out).Run();
}

} // namespace vibespatial
