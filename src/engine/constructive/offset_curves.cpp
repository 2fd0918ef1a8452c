#include "engine/constructive/offset_curves.hpp"

#include "engine/shape/angle.hpp"
#include "engine/shape/open_ring.hpp"
#include "geometry/error.hpp"
#include "vibe/orient2d.h"

#include <algorithm>
#include <cmath>

namespace vibespatial {

using vibe::Vec2;

namespace {

double Cross(const Vec2 &a, const Vec2 &b) {
	return a.x * b.y - a.y * b.x;
}
double Dot(const Vec2 &a, const Vec2 &b) {
	return a.x * b.x + a.y * b.y;
}

} // namespace

OffsetCurves::Edge OffsetCurves::Edge::Between(const Vec2 &a, const Vec2 &b) {
	double x = b.x - a.x;
	double y = b.y - a.y;
	// Scaled so that the squares neither overflow nor underflow
	const int exponent = std::ilogb(vibe::Max(vibe::Abs(x), vibe::Abs(y)));
	const bool scale = exponent < -400 || exponent > 400;
	if (scale) {
		x = std::ldexp(x, -exponent);
		y = std::ldexp(y, -exponent);
	}
	const double length = vibe::Sqrt(x * x + y * y);
	return Edge {Vec2 {x / length, y / length}, scale ? std::ldexp(length, exponent) : length};
}

OffsetCurves::OffsetCurves(double distance_p, const BufferStyle &style_p)
    : distance(distance_p), style(style_p), quad_segs(uint32_t(std::max(style_p.quad_segs, 1))) {
}

void OffsetCurves::Clear() {
	points.clear();
	ends.clear();
	start = 0;
}

void OffsetCurves::AddPoint(const Vec2 &p) {
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

void OffsetCurves::AddLine(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
	Load(view, begin, end);
	if (ring.size() == 1) {
		AddPoint(ring[0]);
		return;
	}
	// A closed line has two rings as curves; one that goes there and back has not
	if (ring.size() > 3 && ring.front() == ring.back()) {
		ring.pop_back();
		AddRing();
		std::reverse(ring.begin(), ring.end());
		AddRing();
		return;
	}
	AddOpenLine(style.cap, style.cap);
}

void OffsetCurves::AddPiece(const Vec2 *vertices, size_t count, BufferCap first_cap, BufferCap last_cap) {
	ring.assign(vertices, vertices + count);
	AddOpenLine(first_cap, last_cap);
}

void OffsetCurves::AddPolygonRing(const vibe::GeometryView &view, uint32_t begin, uint32_t end, bool shell,
                                  bool outwards) {
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

void OffsetCurves::Load(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
	ring.clear();
	for (auto i = begin; i < end; i++) {
		AppendDistinct(ring, view.Vertex(i));
	}
}

void OffsetCurves::AddOpenLine(BufferCap first_cap, BufferCap last_cap) {
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

void OffsetCurves::MakeEdges() {
	edges.clear();
	for (size_t i = 0; i < ring.size(); i++) {
		edges.push_back(Edge::Between(ring[i], ring[Next(i)]));
	}
}

void OffsetCurves::AddRing() {
	MakeEdges();
	for (size_t i = 0; i < ring.size(); i++) {
		AddCorner(i);
	}
	Close();
}

void OffsetCurves::AddCorner(size_t i) {
	const auto p = ring[i];
	const auto &before = edges[Previous(i)];
	const auto &after = edges[i];
	const auto from = before.Normal();
	const auto to = after.Normal();
	const int turn = vibe::Orient2d(ring[Previous(i)], p, ring[Next(i)]);
	const double cosine = vibe::Max(-1, vibe::Min(Dot(from, to), 1));
	if (turn == 0) {
		if (cosine > 0) {
			return; // straight on
		}
		Emit(p, from, distance);
		if (style.join == BufferJoin::ROUND) {
			AddArc(p, from, HALF_TURN);
		}
		Emit(p, to, distance);
		return;
	}
	// Where the two offset edges, or their extensions, meet, and how far that is from their ends
	const Vec2 meeting {(from.x + to.x) / (1 + cosine), (from.y + to.y) / (1 + cosine)};
	const double reach = distance * vibe::Sqrt(vibe::Max(1 - cosine, 0) / (1 + cosine));
	if (turn < 0) {
		// The ring turns to this side. Offset edges that are long enough end where they meet: the rest is covered by the sweeps
		// of both edges. Others pass through the corner.
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

bool OffsetCurves::AddMitre(const Vec2 &p, const Edge &before, const Edge &after, const Vec2 &meeting, double cosine) {
	if (style.mitre_limit > 0 && 2 <= style.mitre_limit * style.mitre_limit * (1 + cosine)) {
		Emit(p, meeting, distance);
		return true;
	}
	// Of half the turn
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

void OffsetCurves::AddEnd(size_t i, BufferCap cap) {
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

void OffsetCurves::AddArc(const Vec2 &p, const Vec2 &from, double angle) {
	const auto steps = uint32_t(std::lround(angle / (HALF_TURN / 2 / quad_segs)));
	for (uint32_t i = 1; i < steps; i++) {
		const auto turn = Direction(angle * i / steps);
		Emit(p, Vec2 {from.x * turn.x - from.y * turn.y, from.x * turn.y + from.y * turn.x}, distance);
	}
}

void OffsetCurves::AddCircle(const Vec2 &p) {
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

void OffsetCurves::Emit(const Vec2 &p, const Vec2 &direction, double length) {
	const Vec2 vertex {p.x + direction.x * length, p.y + direction.y * length};
	if (!vibe::IsFinite(vertex.x) || !vibe::IsFinite(vertex.y)) {
		throw GeometryError("the buffer reaches beyond the range of numbers");
	}
	if (points.size() == start || points.back() != vertex) {
		points.push_back(vertex);
	}
}

void OffsetCurves::Close() {
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

} // namespace vibespatial
