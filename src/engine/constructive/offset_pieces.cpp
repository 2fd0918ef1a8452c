#include "engine/constructive/offset_pieces.hpp"

#include "engine/constructive/curve_shell.hpp"
#include "engine/constructive/tuning.hpp"
#include "engine/shape/open_ring.hpp"

#include <algorithm>

namespace vibespatial {

using namespace buffer_tuning;
using vibe::Vec2;

//===----------------------------------------------------------------------===//
// Areas
//===----------------------------------------------------------------------===//
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

void AppendShell(const Vec2 *points, size_t count, size_t least, GeometryBatch &out) {
	out.RequireRoom(count + 1);
	out.BeginRow(GeometryType::POLYGON, VERTEX_XY);
	out.BeginNode(GeometryType::POLYGON, 0);
	out.BeginPart(vibe::FAMILY_POLYGON);
	out.BeginRing();
	for (size_t i = least; i <= least + count; i++) {
		const auto &p = points[i < count ? i : i - count];
		// -0 becomes 0
		out.AddVertex(p.x + 0.0, p.y + 0.0, 0, 0);
	}
	out.EndRow();
}

void RunUnion(Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	OverlayRule rule;
	rule.areas_only = true;
	overlay.Run(rule, parallel, out);
}

bool AppendShell(const OffsetCurves &curves, GeometryBatch &out) {
	if (curves.Count() != 1) {
		return false;
	}
	const auto *points = curves.Begin(0);
	const auto count = curves.Size(0);
	if (IsConvex(points, count)) {
		const auto least = std::min_element(points, points + count, LexicographicallyLess) - points;
		AppendShell(points, count, size_t(least), out);
		return true;
	}
	CurveShell shell;
	if (!shell.Find(points, count)) {
		return false;
	}
	AppendShell(shell.Ring().data(), shell.Ring().size(), 0, out);
	return true;
}

void AppendArea(const OffsetCurves &curves, Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	if (!AppendShell(curves, out)) {
		AppendOverlay(curves, overlay, parallel, out);
	}
}

void AppendOverlay(const OffsetCurves &curves, Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	if (curves.Count() == 0) {
		out.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		out.BeginNode(GeometryType::POLYGON, 0);
		out.BeginPart(vibe::FAMILY_POLYGON);
		out.EndRow();
		return;
	}
	for (size_t i = 0; i < curves.Count(); i++) {
		overlay.AddRing(Overlay::LEFT, curves.Begin(i), curves.Size(i));
	}
	RunUnion(overlay, parallel, out);
}

void AppendUnion(GeometryBatch &rows, Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
	for (size_t i = 0; i < rows.RowCount(); i++) {
		overlay.Add(Overlay::LEFT, rows, i);
	}
	rows.Clear();
	RunUnion(overlay, parallel, out);
}

//===----------------------------------------------------------------------===//
// Crowded curves
//===----------------------------------------------------------------------===//
namespace {

double Side(const Vec2 &a, const Vec2 &b, const Vec2 &p) {
	return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
}

//! Not exact, and need not be
bool SeemToCross(const Vec2 &a, const Vec2 &b, const Vec2 &c, const Vec2 &d) {
	if (std::max(c.x, d.x) < std::min(a.x, b.x) || std::min(c.x, d.x) > std::max(a.x, b.x) ||
	    std::max(c.y, d.y) < std::min(a.y, b.y) || std::min(c.y, d.y) > std::max(a.y, b.y)) {
		return false;
	}
	return (Side(a, b, c) > 0) != (Side(a, b, d) > 0) && (Side(c, d, a) > 0) != (Side(c, d, b) > 0);
}

//! How many of the next `window` edges an edge of a closed chain crosses, on average of `samples` edges
double CrossingsPerEdge(const Vec2 *points, size_t count, size_t samples, size_t window) {
	samples = std::min(samples, count);
	// Of a pair, one edge sees the other
	const size_t last = std::min(window, (count - 1) / 2);
	size_t crossings = 0;
	uint32_t random = 1;
	for (size_t sample = 0; sample < samples; sample++) {
		// Not at equal steps: the kinds of edges of a curve take turns
		const auto begin = count * sample / samples, end = count * (sample + 1) / samples;
		random = random * 1664525u + 1013904223u;
		const auto i = begin + (random >> 8) % (end - begin);
		const auto &a = points[i], &b = points[i + 1 < count ? i + 1 : 0];
		for (size_t step = 2; step <= last; step++) {
			const auto k = i + step < count ? i + step : i + step - count;
			crossings += SeemToCross(a, b, points[k], points[k + 1 < count ? k + 1 : 0]);
		}
	}
	return double(crossings) / double(samples);
}

//! Whether several edges may lie within the distance of one: otherwise nothing needs to be estimated
bool MayBeCrowded(const OffsetRing &ring, double distance) {
	auto box = vibe::Box::Empty();
	size_t shorter = 0;
	for (size_t i = 0; i < ring.Size(); i++) {
		const auto &p = ring.vertices[i];
		box.min_x = std::min(box.min_x, p.x);
		box.max_x = std::max(box.max_x, p.x);
		box.min_y = std::min(box.min_y, p.y);
		box.max_y = std::max(box.max_y, p.y);
		shorter += ring.edges[i].length < distance / 2;
	}
	const double extent = (box.max_x - box.min_x) + (box.max_y - box.min_y);
	return shorter > FAR_EDGES || double(ring.Size()) * distance > 4 * extent;
}

} // namespace

bool IsCrowded(const OffsetRing &ring, double distance, const BufferStyle &style) {
	if (ring.Size() < 4 * FAR_EDGES || !MayBeCrowded(ring, distance)) {
		return false;
	}
	// Arcs would hide how often the long edges of a curve cross
	BufferStyle plain;
	plain.cap = BufferCap::FLAT;
	plain.join = BufferJoin::BEVEL;
	OffsetCurves curve(distance, plain);
	curve.AddRing(ring);
	if (curve.Count() == 0) {
		return false;
	}
	const auto count = curve.Size(0);
	const auto samples = std::min(MOST_SAMPLES, std::max(LEAST_SAMPLES, count / SAMPLED_EDGES));
	const double crossings = CrossingsPerEdge(curve.Begin(0), count, samples, CROWD_WINDOW);
	if (crossings <= (style.join == BufferJoin::ROUND ? CROWDED_ROUND : CROWDED)) {
		return false;
	}
	// A line that runs there and back crosses itself as often as its curve does for that
	const double own =
	    CrossingsPerEdge(ring.vertices.data(), ring.Size(), samples, CROWD_WINDOW * ring.Size() / count + 2);
	return crossings * double(count) > 2 * own * double(ring.Size());
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//
namespace {

struct Sweeper {
	const OffsetRing &ring;
	const double distance;
	const BufferStyle &style;

	//! Edges [begin, end)
	void AppendRun(size_t begin, size_t end, Overlay &overlay, Parallel &parallel, GeometryBatch &out) const {
		const auto edges = end - begin;
		if (edges <= FAR_EDGES) {
			OffsetCurves piece(distance, style);
			if (style.join == BufferJoin::ROUND) {
				piece.AddRoundPiece(ring, begin, edges);
			} else {
				piece.AddPiece(ring, begin, edges);
			}
			AppendArea(piece, overlay, parallel, out);
			return;
		}
		GeometryBatch rows;
		for (size_t i = 0; i < FAR_PIECES; i++) {
			AppendRun(begin + edges * i / FAR_PIECES, begin + edges * (i + 1) / FAR_PIECES, overlay, parallel, rows);
		}
		AppendUnion(rows, overlay, parallel, out);
	}
};

} // namespace

void AppendSweep(const OffsetRing &ring, double distance, const BufferStyle &style, Overlay &overlay,
                 Parallel &parallel, GeometryBatch &out) {
	const Sweeper sweeper {ring, distance, style};
	// Pieces with round joins are swept on both sides, so that a line is needed one way only
	const auto edges = style.join == BufferJoin::ROUND ? ring.WayEdges() : ring.Size();
	// Runs of about as many edges, whatever the threads, and then unions of FAR_PIECES of them at a time
	size_t runs = 1;
	while (edges / runs > FAR_RUN) {
		runs *= FAR_PIECES;
	}
	if (runs == 1) {
		sweeper.AppendRun(0, edges, overlay, parallel, out);
		return;
	}
	std::vector<GeometryBatch> parts(runs);
	parallel.For(runs, [&](size_t i) {
		Overlay own;
		Serial serial;
		sweeper.AppendRun(edges * i / runs, edges * (i + 1) / runs, own, serial, parts[i]);
	});
	while (runs > 1) {
		runs /= FAR_PIECES;
		std::vector<GeometryBatch> united(runs);
		// The last one with all threads
		if (runs == 1) {
			for (auto &part : parts) {
				overlay.Add(Overlay::LEFT, part, 0);
			}
			RunUnion(overlay, parallel, out);
			return;
		}
		parallel.For(runs, [&](size_t i) {
			Overlay own;
			Serial serial;
			for (auto part = i * FAR_PIECES; part < (i + 1) * FAR_PIECES; part++) {
				own.Add(Overlay::LEFT, parts[part], 0);
				parts[part].Clear();
			}
			RunUnion(own, serial, united[i]);
		});
		parts.swap(united);
	}
}

} // namespace vibespatial
