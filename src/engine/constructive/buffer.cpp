#include "engine/constructive/buffer.hpp"

#include "engine/constructive/make_valid.hpp"
#include "engine/constructive/offset_curves.hpp"
#include "engine/constructive/tuning.hpp"
#include "engine/relate/validity.hpp"
#include "engine/shape/open_ring.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <string>

namespace vibespatial {

namespace {

using namespace buffer_tuning;
using vibe::Vec2;

constexpr int32_t MAX_QUAD_SEGS = 65536;

//! Whether a closed curve turns left at every corner and winds once
bool IsConvex(const Vec2 *points, size_t count) {
	size_t turns = 0;
	for (size_t i = 0; i < count; i++) {
		const auto &p = points[i];
		const auto &q = points[i + 1 < count ? i + 1 : 0];
		const auto &r = points[i + 2 < count ? i + 2 : i + 2 - count];
		if (vibe::Orient2d(p, q, r) <= 0) {
			return false;
		}
		turns += LexicographicallyLess(p, q) != LexicographicallyLess(q, r);
	}
	return turns == 2;
}

class BufferBuilder {
public:
	BufferBuilder(double distance_p, const BufferStyle &style_p, Overlay &overlay_p, Parallel &parallel_p)
	    : distance(distance_p), style(style_p), curves(vibe::Abs(distance_p), style), overlay(overlay_p),
	      parallel(parallel_p) {
	}

	void Run(const GeometryBatch &batch, size_t row, GeometryBatch &out) {
		AddParts(batch.View(row));
		if (done.RowCount() == 0) {
			Emit(curves, out);
			return;
		}
		Emit(curves, done);
		Unite(done, out);
	}

private:
	void AddParts(const vibe::GeometryView &view) {
		for (auto part = view.part_begin; part < view.part_end; part++) {
			if (view.part_family[part] != vibe::FAMILY_POLYGON) {
				AddChains(view, part);
			} else if (IsValidPolygon(view, part)) {
				AddPolygon(view, part);
			} else {
				AddMended(view, part);
			}
		}
	}

	//! A point or a line
	void AddChains(const vibe::GeometryView &view, uint32_t part) {
		if (!(distance > 0)) {
			return;
		}
		for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			const auto begin = view.ring_start[ring];
			const auto end = view.ring_start[ring + 1];
			if (begin == end) {
				continue;
			}
			if (view.part_family[part] == vibe::FAMILY_LINE) {
				if (IsFar(view, begin, end)) {
					AddFar(view, begin, end);
				} else {
					curves.AddLine(view, begin, end);
				}
			} else {
				curves.AddPoint(view.Vertex(begin));
			}
		}
	}

	void AddPolygon(const vibe::GeometryView &view, uint32_t part) {
		if (IsThin(view, part)) {
			return;
		}
		if (distance < 0 && curves.Count() > 0) {
			// One by one: the curve of a polygon that is thinner than the margin must not affect its neighbours
			Emit(curves, done);
			curves.Clear();
		}
		if (distance > 0 &&
		    IsFar(view, view.ring_start[view.part_ring[part]], view.ring_start[view.part_ring[part + 1]])) {
			// The buffers of its rings, and the polygon itself
			for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
				AddFar(view, view.ring_start[ring], view.ring_start[ring + 1]);
			}
			CopyPolygon(view, part, done);
			return;
		}
		for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			curves.AddPolygonRing(view, view.ring_start[ring], view.ring_start[ring + 1], ring == view.part_ring[part],
			                      distance >= 0);
		}
	}

	//! Whether a margin with round corners certainly leaves nothing of a polygon. Even with few segments the margin is wider than
	//! a third of the distance.
	bool IsThin(const vibe::GeometryView &view, uint32_t part) const {
		if (distance >= 0 || style.join != BufferJoin::ROUND) {
			return false;
		}
		auto box = vibe::Box::Empty();
		for (auto i = view.ring_start[view.part_ring[part]]; i < view.ring_start[view.part_ring[part + 1]]; i++) {
			box.min_x = std::min(box.min_x, view.x[i]);
			box.max_x = std::max(box.max_x, view.x[i]);
			box.min_y = std::min(box.min_y, view.y[i]);
			box.max_y = std::max(box.max_y, view.y[i]);
		}
		return std::min(box.max_x - box.min_x, box.max_y - box.min_y) <= -distance / 2;
	}

	//! Whether the curve would cross itself everywhere: FAR_EDGES average edges are shorter than the distance
	bool IsFar(const vibe::GeometryView &view, uint32_t begin, uint32_t end) const {
		if (style.join != BufferJoin::ROUND || end - begin < 4 * FAR_EDGES) {
			return false;
		}
		double length = 0;
		for (auto i = begin + 1; i < end; i++) {
			length += vibe::Abs(view.x[i] - view.x[i - 1]) + vibe::Abs(view.y[i] - view.y[i - 1]);
		}
		return length / (end - begin) * FAR_EDGES < distance;
	}

	//! The buffer of a chain as the union of the buffers of its pieces, recursively: each union has few vertices
	void AddFar(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
		CountedVector<Vec2> chain;
		for (auto i = begin; i < end; i++) {
			AppendDistinct(chain, view.Vertex(i));
		}
		if (chain.size() < 2) {
			if (!chain.empty()) {
				curves.AddPoint(chain[0]);
			}
			return;
		}
		const auto cap = chain.front() == chain.back() ? BufferCap::ROUND : style.cap;
		AddPieces(chain.data(), chain.size(), cap, cap, done);
	}

	void AddPieces(const Vec2 *vertices, size_t count, BufferCap first_cap, BufferCap last_cap, GeometryBatch &out) {
		const auto edges = count - 1;
		if (edges <= FAR_EDGES) {
			OffsetCurves piece(distance, style);
			piece.AddPiece(vertices, count, first_cap, last_cap);
			Emit(piece, out);
			return;
		}
		GeometryBatch pieces;
		for (size_t i = 0; i < FAR_PIECES; i++) {
			const auto from = edges * i / FAR_PIECES, to = edges * (i + 1) / FAR_PIECES;
			AddPieces(vertices + from, to - from + 1, i == 0 ? first_cap : BufferCap::ROUND,
			          i + 1 == FAR_PIECES ? last_cap : BufferCap::ROUND, pieces);
		}
		Unite(pieces, out);
	}

	static void CopyPolygon(const vibe::GeometryView &view, uint32_t part, GeometryBatch &polygon) {
		polygon.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		polygon.BeginNode(GeometryType::POLYGON, 0);
		polygon.BeginPart(vibe::FAMILY_POLYGON);
		for (auto ring = view.part_ring[part]; ring < view.part_ring[part + 1]; ring++) {
			polygon.BeginRing();
			for (auto i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
				polygon.AddVertex(view.x[i], view.y[i], 0, 0);
			}
		}
		polygon.EndRow();
	}

	//! Curves define the inside only of rings that do not cross themselves, so the polygon is made valid first
	void AddMended(const vibe::GeometryView &view, uint32_t part) {
		GeometryBatch polygon;
		CopyPolygon(view, part, polygon);
		GeometryBatch mended;
		MakeValid(polygon, 0, overlay, parallel, mended);
		AddParts(mended.View(0));
	}

	//! Appends the area that the curves wind around
	void Emit(const OffsetCurves &from, GeometryBatch &out) {
		if (from.Count() == 0) {
			out.BeginRow(GeometryType::POLYGON, VERTEX_XY);
			out.BeginNode(GeometryType::POLYGON, 0);
			out.BeginPart(vibe::FAMILY_POLYGON);
			out.EndRow();
			return;
		}
		if (from.Count() == 1 && IsConvex(from.Begin(0), from.Size(0))) {
			EmitConvex(from.Begin(0), from.Size(0), out);
			return;
		}
		for (size_t i = 0; i < from.Count(); i++) {
			overlay.AddRing(Overlay::LEFT, from.Begin(i), from.Size(i));
		}
		RunOverlay(out);
	}
	//! In the normal form that an overlay gives
	void EmitConvex(const Vec2 *points, size_t count, GeometryBatch &out) {
		out.RequireRoom(count + 1);
		out.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		out.BeginNode(GeometryType::POLYGON, 0);
		out.BeginPart(vibe::FAMILY_POLYGON);
		out.BeginRing();
		const auto least = size_t(std::min_element(points, points + count, LexicographicallyLess) - points);
		for (size_t i = least; i <= least + count; i++) {
			const auto &p = points[i < count ? i : i - count];
			out.AddVertex(p.x, p.y, 0, 0);
		}
		out.EndRow();
	}
	void Unite(const GeometryBatch &rows, GeometryBatch &out) {
		for (size_t i = 0; i < rows.RowCount(); i++) {
			overlay.Add(Overlay::LEFT, rows, i);
		}
		RunOverlay(out);
	}
	void RunOverlay(GeometryBatch &out) {
		OverlayRule rule;
		rule.areas_only = true;
		overlay.Run(rule, parallel, out);
	}

	const double distance;
	const BufferStyle &style;
	OffsetCurves curves;
	Overlay &overlay;
	Parallel &parallel;
	//! Rows to be united with the area of the curves
	GeometryBatch done;
};

} // namespace

void Buffer(const GeometryBatch &batch, size_t row, double distance, const BufferStyle &style, Overlay &overlay,
            Parallel &parallel, GeometryBatch &out) {
	if (!vibe::IsFinite(distance)) {
		throw GeometryError("the distance must be finite");
	}
	if (style.quad_segs > MAX_QUAD_SEGS) {
		throw GeometryError("at most " + std::to_string(MAX_QUAD_SEGS) + " segments make a quarter circle");
	}
	if (vibe::IsNan(style.mitre_limit)) {
		throw GeometryError("the mitre limit must not be NaN");
	}
	CheckUsable(batch, row);
	if (!batch.valid[row]) {
		out.AppendNull();
		return;
	}
	BufferBuilder(distance, style, overlay, parallel).Run(batch, row, out);
}

} // namespace vibespatial
