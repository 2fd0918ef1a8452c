#include "engine/constructive/buffer.hpp"

#include "engine/shape/angle.hpp"
#include "engine/constructive/make_valid.hpp"
#include "engine/shape/open_ring.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace vibespatial {

namespace {

using vibe::Vec2;

constexpr int32_t MAX_QUAD_SEGS = 65536;

double Cross(const Vec2 &a, const Vec2 &b) {
	return a.x * b.y - a.y * b.x;
}
double Dot(const Vec2 &a, const Vec2 &b) {
	return a.x * b.x + a.y * b.y;
}

//! An edge of the ring at hand, without its ends
struct Edge {
	//! Of length 1
	Vec2 direction;
	double length;

	//! To the right of the edge, of length 1
	Vec2 Normal() const {
		return Vec2 {direction.y, -direction.x};
	}
};

Edge EdgeBetween(const Vec2 &a, const Vec2 &b) {
	double x = b.x - a.x;
	double y = b.y - a.y;
	// squares of these neither overflow nor vanish
	const int exponent = std::ilogb(vibe::Max(vibe::Abs(x), vibe::Abs(y)));
	const bool scale = exponent < -400 || exponent > 400;
	if (scale) {
		x = std::ldexp(x, -exponent);
		y = std::ldexp(y, -exponent);
	}
	const double length = vibe::Sqrt(x * x + y * y);
	return Edge {Vec2 {x / length, y / length}, scale ? std::ldexp(length, exponent) : length};
}

//! The closed curves of a geometry's rings, lines and points
class OffsetCurves {
public:
	OffsetCurves(double distance_p, const BufferStyle &style_p)
	    : distance(distance_p), style(style_p), quad_segs(uint32_t(std::max(style_p.quad_segs, 1))) {
	}

	size_t Count() const {
		return ends.size();
	}
	const Vec2 *Begin(size_t curve) const {
		return points.data() + (curve ? ends[curve - 1] : 0);
	}
	size_t Size(size_t curve) const {
		return ends[curve] - (curve ? ends[curve - 1] : 0);
	}
	void Clear() {
		points.clear();
		ends.clear();
		start = 0;
	}

	void AddPoint(const Vec2 &p) {
		if (style.cap == BufferCap::FLAT) {
			return;
		}
		if (style.cap == BufferCap::SQUARE) {
			for (const auto &corner : {Vec2 {-1, -1}, Vec2 {1, -1}, Vec2 {1, 1}, Vec2 {-1, 1}}) {
				Emit(p, corner, distance);
			}
		} else {
			AddCircle(p);
		}
		Close();
	}

	//! Vertices [begin, end) of a line
	void AddLine(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
		Load(view, begin, end);
		if (ring.size() == 1) {
			AddPoint(ring[0]);
			return;
		}
		// there and back is no ring
		if (ring.size() > 3 && ring.front() == ring.back()) {
			ring.pop_back();
			AddRing();
			std::reverse(ring.begin(), ring.end());
			AddRing();
			return;
		}
		AddOpenLine(style.cap, style.cap);
	}

	//! Some edges of a line, at least one; no two vertices in a row are the same
	void AddPiece(const Vec2 *vertices, size_t count, BufferCap first_cap, BufferCap last_cap) {
		ring.assign(vertices, vertices + count);
		AddOpenLine(first_cap, last_cap);
	}

	//! Vertices [begin, end) of a ring. `outwards`: away from the inside of a shell, into that of a hole; otherwise the other
	//! way, on a curve that runs backwards.
	void AddPolygonRing(const vibe::GeometryView &view, uint32_t begin, uint32_t end, bool shell, bool outwards) {
		Load(view, begin, end);
		OpenRing(ring);
		if (ring.empty()) {
			return;
		}
		if (IsCounterClockwise(ring) != (shell == outwards)) {
			std::reverse(ring.begin(), ring.end());
		}
		const auto first = std::ptrdiff_t(points.size());
		if (distance > 0) {
			AddRing();
		} else {
			points.insert(points.end(), ring.begin(), ring.end());
			Close();
		}
		if (!outwards) {
			std::reverse(points.begin() + first, points.end());
		}
	}

private:
	//! The vertices without repeats
	void Load(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
		ring.clear();
		for (auto i = begin; i < end; i++) {
			AppendDistinct(ring, view.Vertex(i));
		}
	}

	void AddOpenLine(BufferCap first_cap, BufferCap last_cap) {
		const auto last = ring.size() - 1;
		for (auto i = last; i-- > 1;) {
			ring.push_back(ring[i]);
		}
		MakeEdges();
		for (size_t i = 0; i < ring.size(); i++) {
			if (i == 0 || i == last) {
				AddEnd(i, i == 0 ? first_cap : last_cap);
			} else {
				AddCorner(i);
			}
		}
		Close();
	}

	void MakeEdges() {
		edges.clear();
		for (size_t i = 0; i < ring.size(); i++) {
			edges.push_back(EdgeBetween(ring[i], ring[Next(i)]));
		}
	}
	size_t Next(size_t i) const {
		return i + 1 < ring.size() ? i + 1 : 0;
	}
	size_t Previous(size_t i) const {
		return i > 0 ? i - 1 : ring.size() - 1;
	}

	//! The curve on the right side of the ring
	void AddRing() {
		MakeEdges();
		for (size_t i = 0; i < ring.size(); i++) {
			AddCorner(i);
		}
		Close();
	}

	void AddCorner(size_t i) {
		const auto p = ring[i];
		const auto &before = edges[Previous(i)];
		const auto &after = edges[i];
		const auto from = before.Normal();
		const auto to = after.Normal();
		const int turn = vibe::Orient2d(ring[Previous(i)], p, ring[Next(i)]);
		const double cosine = vibe::Max(-1, vibe::Min(Dot(from, to), 1));
		if (turn == 0) {
			if (cosine > 0) {
				// straight on
				return;
			}
			Emit(p, from, distance);
			if (style.join == BufferJoin::ROUND) {
				AddArc(p, from, HALF_TURN);
			}
			Emit(p, to, distance);
			return;
		}
		// where the two offset edges meet, or would, and how far that is from their ends; nowhere for a spike
		const Vec2 meeting {(from.x + to.x) / (1 + cosine), (from.y + to.y) / (1 + cosine)};
		const double reach = distance * vibe::Sqrt(vibe::Max(1 - cosine, 0) / (1 + cosine));
		if (turn < 0) {
			// Towards this side. Offset edges that are long enough are cut where they meet; what is cut off lies in the sweeps
			// of both edges. Others go through the corner.
			if (reach <= vibe::Min(before.length, after.length) / 2) {
				Emit(p, meeting, distance);
				return;
			}
			Emit(p, from, distance);
			Emit(p, Vec2 {0, 0}, 0);
			Emit(p, to, distance);
			return;
		}
		if (style.join == BufferJoin::MITRE && AddMitre(p, before, after, meeting, cosine)) {
			return;
		}
		Emit(p, from, distance);
		if (style.join == BufferJoin::ROUND) {
			AddArc(p, from, Angle(cosine, vibe::Max(Cross(from, to), 0)));
		}
		Emit(p, to, distance);
	}

	//! False where that leaves a bevel
	bool AddMitre(const Vec2 &p, const Edge &before, const Edge &after, const Vec2 &meeting, double cosine) {
		if (style.mitre_limit > 0 && 2 <= style.mitre_limit * style.mitre_limit * (1 + cosine)) {
			Emit(p, meeting, distance);
			return true;
		}
		// of half the turn
		const double half_cosine = vibe::Sqrt((1 + cosine) / 2);
		const double half_sine = vibe::Sqrt((1 - cosine) / 2);
		if (style.mitre_limit <= half_cosine) {
			return false;
		}
		const double along = (style.mitre_limit - half_cosine) / half_sine;
		const auto from = before.Normal();
		const auto to = after.Normal();
		Emit(p, Vec2 {from.x + along * before.direction.x, from.y + along * before.direction.y}, distance);
		Emit(p, Vec2 {to.x - along * after.direction.x, to.y - along * after.direction.y}, distance);
		return true;
	}

	//! Where a line turns back
	void AddEnd(size_t i, BufferCap cap) {
		const auto p = ring[i];
		const auto &before = edges[Previous(i)];
		const auto from = before.Normal();
		const auto to = edges[i].Normal();
		if (cap == BufferCap::SQUARE) {
			Emit(p, Vec2 {from.x + before.direction.x, from.y + before.direction.y}, distance);
			Emit(p, Vec2 {to.x + before.direction.x, to.y + before.direction.y}, distance);
			return;
		}
		Emit(p, from, distance);
		if (cap == BufferCap::ROUND) {
			AddArc(p, from, HALF_TURN);
		}
		Emit(p, to, distance);
	}

	//! What lies between the ends of an arc
	void AddArc(const Vec2 &p, const Vec2 &from, double angle) {
		const auto steps = uint32_t(std::lround(angle / (HALF_TURN / 2 / quad_segs)));
		for (uint32_t i = 1; i < steps; i++) {
			const auto turn = Direction(angle * i / steps);
			Emit(p, Vec2 {from.x * turn.x - from.y * turn.y, from.x * turn.y + from.y * turn.x}, distance);
		}
	}

	void AddCircle(const Vec2 &p) {
		if (quarter.empty()) {
			for (uint32_t i = 0; i < quad_segs; i++) {
				quarter.push_back(QuarterDirection(i, quad_segs));
			}
		}
		for (const auto &d : quarter) {
			Emit(p, Vec2 {-d.x, -d.y}, distance);
		}
		for (const auto &d : quarter) {
			Emit(p, Vec2 {d.y, -d.x}, distance);
		}
		for (const auto &d : quarter) {
			Emit(p, d, distance);
		}
		for (const auto &d : quarter) {
			Emit(p, Vec2 {-d.y, d.x}, distance);
		}
	}

	//! A vertex of the curve, unless it is the one before
	void Emit(const Vec2 &p, const Vec2 &direction, double length) {
		const Vec2 vertex {p.x + direction.x * length, p.y + direction.y * length};
		if (!vibe::IsFinite(vertex.x) || !vibe::IsFinite(vertex.y)) {
			throw GeometryError("the buffer reaches beyond the range of numbers");
		}
		if (points.size() == start || points.back() != vertex) {
			points.push_back(vertex);
		}
	}

	//! Ends the curve
	void Close() {
		while (points.size() > start + 1 && points.back() == points[start]) {
			points.pop_back();
		}
		if (points.size() - start < 3) {
			points.resize(start);
			return;
		}
		start = points.size();
		ends.push_back(start);
	}

	const double distance;
	const BufferStyle &style;
	const uint32_t quad_segs;
	// the curves, and where the one at hand starts
	std::vector<Vec2> points;
	std::vector<size_t> ends;
	size_t start = 0;
	// the ring at hand, without repeats, and its edges: edge i starts in vertex i
	std::vector<Vec2> ring;
	std::vector<Edge> edges;
	//! The directions of a quarter circle, once one was needed
	std::vector<Vec2> quarter;
};

//! Whether every corner of a closed curve turns left and it runs around once
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
	//! Edges of a piece of a chain, and pieces that are united at once, where the distance is far above that between vertices
	static constexpr uint32_t FAR_EDGES = 16;
	static constexpr size_t FAR_PIECES = 8;

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
			// One by one: a polygon that is thinner than its margin must not take from its neighbours
			Emit(curves, done);
			curves.Clear();
		}
		if (distance > 0 &&
		    IsFar(view, view.ring_start[view.part_ring[part]], view.ring_start[view.part_ring[part + 1]])) {
			// All that is near its rings, and what lies in them
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

	//! Does a margin with round corners leave nothing of a polygon, by far? Where it is drawn with few segments it still reaches
	//! more than a third of the distance.
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

	//! Would curves cross themselves all over? Then so many edges in a row are shorter than the distance
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

	//! The buffer of a chain from those of its pieces, again and again: what comes of some has few vertices
	void AddFar(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
		std::vector<Vec2> chain;
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

	//! Curves know the inside of a ring that does not cross itself only
	void AddMended(const vibe::GeometryView &view, uint32_t part) {
		GeometryBatch polygon;
		CopyPolygon(view, part, polygon);
		GeometryBatch mended;
		MakeValid(polygon, 0, overlay, parallel, mended);
		AddParts(mended.View(0));
	}

	//! What curves wind around
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
	//! In the form that the overlay would give it
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
	//! What is to be united: all but the curves
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
