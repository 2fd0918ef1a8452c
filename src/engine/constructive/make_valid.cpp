#include "engine/constructive/make_valid.hpp"

#include "engine/shape/open_ring.hpp"
#include "geometry/error.hpp"

#include <algorithm>

namespace vibespatial {

namespace {

using vibe::Vec2;
using Chain = CountedVector<Vec2>;

//! Where the least of all rotations of a ring starts
size_t LeastRotation(const Chain &ring) {
	const auto n = ring.size();
	size_t a = 0;
	size_t b = 1;
	for (size_t same = 0; a < n && b < n && same < n;) {
		const auto p = ring[(a + same) % n], q = ring[(b + same) % n];
		if (p == q) {
			same++;
			continue;
		}
		// no start in what was just compared is better
		(LexicographicallyLess(p, q) ? b : a) += same + 1;
		b += a == b;
		same = 0;
	}
	return std::min(a, b);
}

bool ChainLess(const Chain &a, const Chain &b) {
	return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), LexicographicallyLess);
}

//! The ring in a form that does not depend on where it starts, which way it runs, and how often
Chain PlainRing(const Chain &ring) {
	auto forward = ring;
	std::rotate(forward.begin(), forward.begin() + std::ptrdiff_t(LeastRotation(forward)), forward.end());
	auto backward = Chain(ring.rbegin(), ring.rend());
	std::rotate(backward.begin(), backward.begin() + std::ptrdiff_t(LeastRotation(backward)), backward.end());
	auto &plain = ChainLess(backward, forward) ? backward : forward;
	Poll poll;
	for (size_t period = 1; period <= plain.size() / 2; period++) {
		poll(plain.size() % period == 0 ? plain.size() : 1);
		if (plain.size() % period == 0 &&
		    std::equal(plain.begin() + std::ptrdiff_t(period), plain.end(), plain.begin())) {
			plain.resize(period);
		}
	}
	return std::move(plain);
}

class Mender {
public:
	Mender(const GeometryBatch &batch_p, size_t row_p, Overlay &overlay_p, Parallel &parallel_p, GeometryBatch &out_p)
	    : batch(batch_p), row(row_p), overlay(overlay_p), parallel(parallel_p), out(out_p),
	      part(batch_p.row_part[row_p]) {
	}

	void Run() {
		CheckFinite();
		const auto root = out.node_type.size();
		out.BeginRow(batch.type[row], VERTEX_XY);
		MendNode(batch.row_node[row]);
		out.type.back() = out.node_type[root];
		out.EndRow();
	}

private:
	void CheckFinite() const {
		const auto begin = batch.ring_start[batch.part_ring[batch.row_part[row]]];
		const auto end = batch.ring_start[batch.part_ring[batch.row_part[row + 1]]];
		for (auto i = begin; i < end; i++) {
			if (!vibe::IsFinite(batch.x[i]) || !vibe::IsFinite(batch.y[i])) {
				throw GeometryError("a coordinate is NaN or infinite");
			}
		}
	}

	//! Returns the node after it
	uint32_t MendNode(uint32_t node) {
		const auto children = batch.node_children[node];
		switch (batch.node_type[node]) {
		case GeometryType::LINESTRING:
			MendLine(node);
			return node + 1;
		case GeometryType::MULTILINESTRING:
			MendLines(node);
			return node + 1 + children;
		case GeometryType::POLYGON:
			MendPolygons(node, 1);
			return node + 1;
		case GeometryType::MULTIPOLYGON:
			MendPolygons(node, children);
			return node + 1 + children;
		case GeometryType::GEOMETRYCOLLECTION:
			out.BeginNode(GeometryType::GEOMETRYCOLLECTION, children);
			node++;
			for (uint32_t child = 0; child < children; child++) {
				node = MendNode(node);
			}
			return node;
		default:
			const auto end = batch.NodeEnd(node);
			part = out.CopyNodes(batch, node, end, part);
			return end;
		}
	}

	//! A line of no length is a point
	void MendLine(uint32_t node) {
		if (!IsFlat(part)) {
			part = out.CopyNodes(batch, node, node + 1, part);
			return;
		}
		out.BeginNode(GeometryType::POINT, 0);
		out.BeginPart(vibe::FAMILY_POINT);
		out.BeginRing();
		const auto vertex = batch.ring_start[batch.part_ring[part++]];
		out.AddVertex(batch.x[vertex], batch.y[vertex], 0, 0);
	}
	void MendLines(uint32_t node) {
		const auto lines = batch.node_children[node];
		uint32_t flat = 0;
		for (uint32_t line = 0; line < lines; line++) {
			flat += IsFlat(part + line);
		}
		const auto type = flat == 0       ? GeometryType::MULTILINESTRING
		                  : flat == lines ? GeometryType::MULTIPOINT
		                                  : GeometryType::GEOMETRYCOLLECTION;
		out.BeginNode(type, lines);
		for (uint32_t line = 1; line <= lines; line++) {
			MendLine(node + line);
		}
	}
	bool IsFlat(uint32_t line) const {
		const auto begin = batch.ring_start[batch.part_ring[line]];
		const auto end = batch.ring_start[batch.part_ring[line + 1]];
		for (auto i = begin + 1; i < end; i++) {
			if (batch.x[i] != batch.x[begin] || batch.y[i] != batch.y[begin]) {
				return false;
			}
		}
		return begin < end;
	}

	//! The rings of so many polygons together
	void MendPolygons(uint32_t node, uint32_t polygons) {
		CountedVector<Chain> shells;
		CountedVector<Chain> holes;
		const auto first = part;
		for (; part < first + polygons; part++) {
			for (auto ring = batch.part_ring[part]; ring < batch.part_ring[part + 1]; ring++) {
				AddRing(ring, ring == batch.part_ring[part] ? shells : holes);
			}
		}
		if (shells.empty() && holes.empty()) {
			out.CopyNodes(batch, node, batch.NodeEnd(node), first);
			return;
		}
		AddOnce(shells);
		AddOnce(holes);
		OverlayRule rule;
		rule.fill = FillRule::ODD;
		mended.Clear();
		overlay.Run(rule, parallel, mended);
		out.CopyNodes(mended, 0, uint32_t(mended.node_type.size()), 0);
	}
	void AddRing(uint32_t ring, CountedVector<Chain> &rings) {
		Chain chain;
		for (auto i = batch.ring_start[ring]; i < batch.ring_start[ring + 1]; i++) {
			AppendDistinct(chain, Vec2 {batch.x[i], batch.y[i]});
		}
		OpenRing(chain);
		if (!chain.empty()) {
			rings.push_back(PlainRing(chain));
			ring_bytes += rings.back().capacity() * sizeof(Vec2);
			held.Reach(ring_bytes);
		}
	}
	void AddOnce(CountedVector<Chain> &rings) {
		PolledSort(rings.begin(), rings.end(), ChainLess);
		rings.erase(std::unique(rings.begin(), rings.end()), rings.end());
		for (auto &ring : rings) {
			overlay.AddRing(Overlay::LEFT, ring.data(), ring.size());
			// what of the ring lies in or around the area goes
			ring.push_back(ring.front());
			overlay.AddLine(Overlay::LEFT, ring.data(), ring.size());
		}
	}

	const GeometryBatch &batch;
	const size_t row;
	Overlay &overlay;
	Parallel &parallel;
	GeometryBatch &out;
	//! Of the node at hand
	uint32_t part;
	GeometryBatch mended;
	//! Rings that are too short to be counted by themselves
	size_t ring_bytes = 0;
	HeldMemory held;
};

} // namespace

void MakeValid(const GeometryBatch &batch, size_t row, Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	if (!batch.valid[row]) {
		out.AppendNull();
		return;
	}
	Mender(batch, row, overlay, parallel, out).Run();
}

} // namespace vibespatial
