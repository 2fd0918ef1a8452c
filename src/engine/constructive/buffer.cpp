#include "engine/constructive/buffer.hpp"

#include "engine/constructive/apart.hpp"
#include "engine/constructive/make_valid.hpp"
#include "engine/constructive/offset_pieces.hpp"
#include "engine/relate/validity.hpp"
#include "engine/shape/angle.hpp"
#include "engine/shape/open_ring.hpp"
#include "engine/shape/plain_chain.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <string>

namespace vibespatial {

namespace {

constexpr int32_t MAX_QUAD_SEGS = 65536;

class BufferBuilder {
public:
	BufferBuilder(double distance_p, const BufferStyle &style_p, Overlay &overlay_p, Parallel &parallel_p)
	    : distance(distance_p), style(style_p), curves(vibe::Abs(distance_p), style), overlay(overlay_p),
	      parallel(parallel_p) {
	}

	void Run(const GeometryBatch &batch, size_t row, GeometryBatch &out) {
		if (AppendOneChain(batch.View(row), out)) {
			return;
		}
		AddParts(batch.View(row), false);
		if (distance < 0 && done.RowCount() > 0) {
			AppendArea(curves, overlay, parallel, done);
			curves.Clear();
		}
		AppendAreas(curves, done, overlay, parallel, out);
	}

private:
	//! A row that is a single line: what its curve winds around is often found at once, and faster than what it takes to know
	//! whether the curve is crowded
	bool AppendOneChain(const vibe::GeometryView &view, GeometryBatch &out) {
		const auto part = view.part_begin;
		if (!(distance > 0) || view.part_end != part + 1 || view.part_family[part] != vibe::FAMILY_LINE ||
		    view.part_ring[part + 1] != view.part_ring[part] + 1) {
			return false;
		}
		const auto begin = view.ring_start[view.part_ring[part]], end = view.ring_start[view.part_ring[part] + 1];
		if (end - begin < 2 || view.Vertex(begin) == view.Vertex(end - 1)) {
			return false;
		}
		ring.Load(view, begin, end);
		ring.MakeLine();
		curves.AddRing(ring);
		if (AppendShell(curves, out)) {
			return true;
		}
		if (IsCrowded(ring, distance, style)) {
			AppendSweep(ring, distance, style, overlay, parallel, out);
		} else {
			AppendOverlay(curves, overlay, parallel, out);
		}
		return true;
	}

	//! `mended`: they are the result of MakeValid()
	void AddParts(const vibe::GeometryView &view, bool mended) {
		for (auto part = view.part_begin; part < view.part_end; part++) {
			if (view.part_family[part] != vibe::FAMILY_POLYGON) {
				AddChains(view, part);
			} else if (IsValidPolygon(view, part)) {
				AddPolygon(view, part);
			} else if (mended) {
				throw GeometryError("a polygon cannot be made valid");
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
		for (auto i = view.part_ring[part]; i < view.part_ring[part + 1]; i++) {
			const auto begin = view.ring_start[i];
			const auto end = view.ring_start[i + 1];
			if (begin == end) {
				continue;
			}
			ring.Load(view, begin, end);
			if (view.part_family[part] != vibe::FAMILY_LINE || ring.Size() == 1) {
				curves.AddPoint(ring.vertices[0]);
				continue;
			}
			// A closed line has two rings as curves; one that goes there and back has not
			if (ring.Size() > 3 && ring.vertices.front() == ring.vertices.back()) {
				ring.MakeRing();
				AddRing();
				ring.Reverse();
			} else {
				ring.MakeLine();
			}
			AddRing();
		}
	}
	void AddRing() {
		if (IsCrowded(ring, distance, style)) {
			AppendSweep(ring, distance, style, overlay, parallel, done);
		} else {
			curves.AddRing(ring);
		}
	}

	void AddPolygon(const vibe::GeometryView &view, uint32_t part) {
		if (IsThin(view, part)) {
			return;
		}
		if (distance < 0 && curves.Count() > 0) {
			// One by one: the curve of a polygon that is thinner than the margin must not affect its neighbours
			AppendArea(curves, overlay, parallel, done);
			curves.Clear();
		}
		const auto before = curves.Count();
		for (auto i = view.part_ring[part]; i < view.part_ring[part + 1]; i++) {
			if (!LoadRing(view, part, i)) {
				continue;
			}
			const auto count = curves.Count();
			// An estimate takes as long as the curve: where that may be convex, it is tried first
			if (IsConvexRing(view, view.ring_start[i], view.ring_start[i + 1])) {
				AddCurve();
				if (curves.Count() > count && IsConvex(curves.Begin(count), curves.Size(count))) {
					continue;
				}
				curves.Resize(count);
			}
			if (distance != 0 && IsCrowded(ring, vibe::Abs(distance), style)) {
				curves.Resize(before);
				AddFarPolygon(view, part);
				return;
			}
			AddCurve();
		}
	}
	void AddCurve() {
		const auto count = curves.Count();
		curves.AddRing(ring);
		if (distance < 0 && curves.Count() > count) {
			curves.ReverseLast();
		}
	}
	//! With the side that the curve is on to its right; false where there is no ring
	bool LoadRing(const vibe::GeometryView &view, uint32_t part, uint32_t number) {
		ring.Load(view, view.ring_start[number], view.ring_start[number + 1]);
		ring.MakeRing();
		if (ring.Size() < 3) {
			return false;
		}
		const bool shell = number == view.part_ring[part];
		if (IsCounterClockwise(ring.vertices) != (shell == (distance >= 0))) {
			ring.Reverse();
		}
		return true;
	}
	//! The polygon, with or without what its rings sweep over
	void AddFarPolygon(const vibe::GeometryView &view, uint32_t part) {
		GeometryBatch sweeps;
		GeometryBatch &rows = distance > 0 ? done : sweeps;
		for (auto i = view.part_ring[part]; i < view.part_ring[part + 1]; i++) {
			if (LoadRing(view, part, i)) {
				AppendSweep(ring, vibe::Abs(distance), style, overlay, parallel, rows);
			}
		}
		if (distance > 0) {
			CopyPolygon(view, part, done);
			return;
		}
		GeometryBatch polygon;
		CopyPolygon(view, part, polygon);
		overlay.Add(Overlay::LEFT, polygon, 0);
		for (size_t i = 0; i < sweeps.RowCount(); i++) {
			overlay.Add(Overlay::RIGHT, sweeps, i);
		}
		OverlayRule rule;
		rule.op = OverlayOp::DIFFERENCE;
		rule.areas_only = true;
		overlay.Run(rule, parallel, done);
	}

	//! Whether a margin with round corners certainly leaves nothing of a polygon: no point is farther from its boundary than half of
	//! the shorter side of its box
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
		// What the chords of arcs leave of the distance (buffer.hpp), and more than is rounded
		const double margin = -distance * Direction(0.75 * HALF_TURN / 2 / std::max(style.quad_segs, 1)).x * (1 - 1e-9);
		return std::min(box.max_x - box.min_x, box.max_y - box.min_y) / 2 < margin;
	}

	static void CopyPolygon(const vibe::GeometryView &view, uint32_t part, GeometryBatch &polygon) {
		polygon.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		polygon.BeginNode(GeometryType::POLYGON, 0);
		polygon.BeginPart(vibe::FAMILY_POLYGON);
		for (auto i = view.part_ring[part]; i < view.part_ring[part + 1]; i++) {
			polygon.BeginRing();
			for (auto vertex = view.ring_start[i]; vertex < view.ring_start[i + 1]; vertex++) {
				polygon.AddVertex(view.x[vertex], view.y[vertex], 0, 0);
			}
		}
		polygon.EndRow();
	}

	//! Curves define the inside only of rings that do not cross themselves, so the polygon is made valid first
	void AddMended(const vibe::GeometryView &view, uint32_t part) {
		GeometryBatch polygon;
		CopyPolygon(view, part, polygon);
		GeometryBatch valid;
		MakeValid(polygon, 0, overlay, parallel, valid);
		AddParts(valid.View(0), true);
	}

	const double distance;
	const BufferStyle &style;
	OffsetCurves curves;
	//! The ring or line at hand
	OffsetRing ring;
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
