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

OffsetRing::Edge OffsetRing::Edge::Between(const Vec2 &a, const Vec2 &b) {
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

//===----------------------------------------------------------------------===//
// OffsetRing
//===----------------------------------------------------------------------===//
void OffsetRing::Load(const vibe::GeometryView &view, uint32_t begin, uint32_t end) {
	vertices.clear();
	line_end = 0;
	for (auto i = begin; i < end; i++) {
		AppendDistinct(vertices, view.Vertex(i));
	}
}

void OffsetRing::MakeLine() {
	line_end = vertices.size() - 1;
	vertices.reserve(2 * line_end);
	edges.clear();
	edges.reserve(2 * line_end);
	for (size_t i = 0; i < line_end; i++) {
		edges.push_back(Edge::Between(vertices[i], vertices[i + 1]));
	}
	for (auto i = line_end; i-- > 1;) {
		vertices.push_back(vertices[i]);
	}
	for (auto i = line_end; i-- > 0;) {
		const auto there = edges[i];
		edges.push_back(Edge {Vec2 {-there.direction.x, -there.direction.y}, there.length});
	}
}

void OffsetRing::MakeLine(const OffsetRing &ring, size_t first, size_t count) {
	vertices.clear();
	for (size_t i = 0, vertex = first; i <= count; i++, vertex = ring.Next(vertex)) {
		vertices.push_back(ring.vertices[vertex]);
	}
	MakeLine();
}

void OffsetRing::MakeRing() {
	OpenRing(vertices);
	MakeEdges();
}

void OffsetRing::Reverse() {
	std::reverse(vertices.begin(), vertices.end());
	MakeEdges();
}

void OffsetRing::MakeEdges() {
	edges.clear();
	for (size_t i = 0; i < vertices.size() && vertices.size() > 1; i++) {
		edges.push_back(Edge::Between(vertices[i], vertices[Next(i)]));
	}
}

//===----------------------------------------------------------------------===//
// OffsetCurves
//===----------------------------------------------------------------------===//
OffsetCurves::OffsetCurves(double distance_p, const BufferStyle &style_p)
    : distance(distance_p), style(style_p), quad_segs(uint32_t(std::max(style_p.quad_segs, 1))),
      one_step(Direction(1.49 * (HALF_TURN / 2 / quad_segs)).x) {
}

void OffsetCurves::Clear() {
	Resize(0);
}

void OffsetCurves::Resize(size_t curves) {
	ends.resize(curves);
	start = curves > 0 ? ends.back() : 0;
	points.resize(start);
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

void OffsetCurves::AddRing(const OffsetRing &ring) {
	if (distance > 0) {
		// Corners that turn away have two vertices at least, and the ends of a line have arcs. Exact room for each of many rings would
		// copy all of them each time.
		if (points.empty()) {
			points.reserve(2 * ring.Size() + 4 * size_t(std::min(quad_segs, 64U)));
		}
		for (size_t i = 0; i < ring.Size(); i++) {
			AddVertex(ring, i);
		}
	} else {
		points.insert(points.end(), ring.vertices.begin(), ring.vertices.end());
	}
	Close();
}

void OffsetCurves::AddPiece(const OffsetRing &ring, size_t first, size_t count) {
	const auto none = Vec2 {0, 0};
	Emit(ring.vertices[first], none, 0);
	Emit(ring.vertices[first], ring.edges[first].Normal(), distance);
	auto i = first;
	for (size_t edge = 1; edge < count; edge++) {
		i = ring.Next(i);
		AddVertex(ring, i);
	}
	// The next piece begins where this one ends, but for a corner that turns to this side: there both overlap
	const auto last = ring.Next(i), after = ring.Next(last);
	const auto &p = ring.vertices[last];
	Emit(p, ring.edges[i].Normal(), distance);
	if (ring.IsEnd(last) || vibe::Orient2d(ring.vertices[i], p, ring.vertices[after]) >= 0) {
		AddVertex(ring, last);
		Emit(p, ring.edges[last].Normal(), distance);
	}
	// Back along the ring
	Emit(p, none, 0);
	for (size_t edge = 1; edge < count; edge++) {
		Emit(ring.vertices[i], none, 0);
		i = ring.Previous(i);
	}
	Close();
}

void OffsetCurves::AddRoundPiece(const OffsetRing &ring, size_t first, size_t count) {
	OffsetRing piece;
	piece.MakeLine(ring, first, count);
	for (size_t i = 0; i < piece.Size(); i++) {
		if (!piece.IsEnd(i)) {
			AddCorner(piece, i);
			continue;
		}
		const auto vertex = i == 0 ? first : (first + count) % ring.Size();
		AddEnd(piece, i, ring.IsEnd(vertex) ? style.cap : BufferCap::ROUND);
	}
	Close();
}

void OffsetCurves::ReverseLast() {
	std::reverse(points.begin() + std::ptrdiff_t(points.size() - Size(Count() - 1)), points.end());
}

void OffsetCurves::AddVertex(const OffsetRing &ring, size_t i) {
	if (ring.IsEnd(i)) {
		AddEnd(ring, i, style.cap);
	} else {
		AddCorner(ring, i);
	}
}

void OffsetCurves::AddCorner(const OffsetRing &ring, size_t i) {
	const auto p = ring.vertices[i];
	const auto &before = ring.edges[ring.Previous(i)];
	const auto &after = ring.edges[i];
	const auto from = before.Normal();
	const auto to = after.Normal();
	const int turn = vibe::Orient2d(ring.vertices[ring.Previous(i)], p, ring.vertices[ring.Next(i)]);
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
	if (style.join == BufferJoin::ROUND && cosine < one_step) {
		AddArc(p, from, Angle(cosine, vibe::Max(Cross(from, to), 0)));
	}
	Emit(p, to, distance);
}

bool OffsetCurves::AddMitre(const Vec2 &p, const OffsetRing::Edge &before, const OffsetRing::Edge &after,
                            const Vec2 &meeting, double cosine) {
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

void OffsetCurves::AddEnd(const OffsetRing &ring, size_t i, BufferCap cap) {
	const auto p = ring.vertices[i];
	const auto &before = ring.edges[ring.Previous(i)];
	const auto from = before.Normal();
	const auto to = ring.edges[i].Normal();
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
