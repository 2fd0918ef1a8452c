#include "engine/constructive/hull.hpp"

#include "geometry/error.hpp"
#include "vibe/orient2d.h"

#include <algorithm>

namespace vibespatial {

namespace {

class HullBuilder {
public:
	HullBuilder(const GeometryBatch &batch_p, size_t row, GeometryBatch &out_p)
	    : batch(batch_p), view(batch_p.View(row)), out(out_p), vertex_type(batch_p.vertex_type[row] & VERTEX_Z) {
	}

	void Run() {
		Collect();
		if (points.empty()) {
			out.BeginRow(GeometryType::GEOMETRYCOLLECTION, VERTEX_XY);
			out.BeginNode(GeometryType::GEOMETRYCOLLECTION, 0);
			out.EndRow();
			return;
		}
		if (points.size() == 1) {
			Emit(GeometryType::POINT, points);
			return;
		}
		if (points.size() == 2) {
			std::sort(points.begin(), points.end());
			Emit(GeometryType::LINESTRING, points);
			return;
		}
		// clockwise: up the left side, down the right side
		AddSide(points.begin(), points.end());
		if (hull.size() == 2 && Collinear()) {
			Emit(GeometryType::LINESTRING, hull);
			return;
		}
		const auto top = hull.size() - 1;
		AddSide(points.rbegin() + 1, points.rend(), top);
		Emit(GeometryType::POLYGON, hull);
	}

private:
	bool Lower(uint32_t a, uint32_t b) const {
		return view.y[a] < view.y[b] || (view.y[a] == view.y[b] && view.x[a] < view.x[b]);
	}

	//! The distinct vertices from the lowest up, of equal ones the first. Of a polygon only the shell: holes lie inside.
	void Collect() {
		for (auto part = view.part_begin; part < view.part_end; part++) {
			const auto ring = view.part_ring[part];
			if (ring == view.part_ring[part + 1]) {
				continue;
			}
			for (auto i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
				if (!vibe::IsFinite(view.x[i]) || !vibe::IsFinite(view.y[i])) {
					throw GeometryError("a coordinate is NaN or infinite");
				}
				points.push_back(i);
			}
		}
		PolledSort(points.begin(), points.end(),
		           [&](uint32_t a, uint32_t b) { return view.Vertex(a) == view.Vertex(b) ? a < b : Lower(a, b); });
		const auto same = [&](uint32_t a, uint32_t b) { return view.Vertex(a) == view.Vertex(b); };
		points.erase(std::unique(points.begin(), points.end(), same), points.end());
	}

	//! Adds points that come in order, keeping only right turns after hull[keep]
	template <class ITERATOR>
	void AddSide(ITERATOR begin, ITERATOR end, size_t keep = 0) {
		Poll poll;
		for (auto it = begin; it != end; ++it) {
			poll();
			const auto p = view.Vertex(*it);
			while (hull.size() > keep + 1 &&
			       vibe::Orient2d(view.Vertex(hull[hull.size() - 2]), view.Vertex(hull.back()), p) >= 0) {
				hull.pop_back();
			}
			hull.push_back(*it);
		}
	}

	//! No point lies to the right of the line between the ends; the left side has shown that none lies to the left
	bool Collinear() const {
		const auto low = view.Vertex(points.front());
		const auto high = view.Vertex(points.back());
		return std::all_of(points.begin(), points.end(),
		                   [&](uint32_t i) { return vibe::Orient2d(low, high, view.Vertex(i)) == 0; });
	}

	void Emit(GeometryType type, const CountedVector<uint32_t> &vertices) {
		out.BeginRow(type, vertex_type);
		out.BeginNode(type, 0);
		out.BeginPart(FamilyOf(type));
		out.BeginRing();
		for (auto i : vertices) {
			out.AddVertex(view.x[i], view.y[i], vertex_type ? batch.z[i] : 0, 0);
		}
		out.EndRow();
	}

	const GeometryBatch &batch;
	const vibe::GeometryView view;
	GeometryBatch &out;
	const uint8_t vertex_type;
	CountedVector<uint32_t> points;
	CountedVector<uint32_t> hull;
};

} // namespace

void ConvexHull(const GeometryBatch &batch, size_t row, GeometryBatch &out) {
	HullBuilder(batch, row, out).Run();
}

} // namespace vibespatial
