//===----------------------------------------------------------------------===//
// engine/constructive/offset_curves.hpp
//
// The closed curves at a distance of rings, lines and points. A buffer is the set of points that these wind around.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/constructive/buffer.hpp"
#include "vibe/views.h"

namespace vibespatial {

//! A ring, or a line as the ring that runs there and back, with what its curve is made from
class OffsetRing {
public:
	struct Edge {
		//! Of length 1
		vibe::Vec2 direction;
		double length;

		static Edge Between(const vibe::Vec2 &a, const vibe::Vec2 &b);
		//! To the right of the edge, of length 1
		vibe::Vec2 Normal() const {
			return vibe::Vec2 {direction.y, -direction.x};
		}
	};

	//! Vertices [begin, end) without repeats
	void Load(const vibe::GeometryView &view, uint32_t begin, uint32_t end);
	//! Makes a ring of the line that was loaded, which has two vertices at least
	void MakeLine();
	//! Makes a ring of a run of edges, as a line
	void MakeLine(const OffsetRing &ring, size_t first, size_t count);
	//! Makes a ring of what was loaded; it may repeat its first vertex
	void MakeRing();
	void Reverse();

	size_t Size() const {
		return vertices.size();
	}
	size_t Next(size_t i) const {
		return i + 1 < vertices.size() ? i + 1 : 0;
	}
	size_t Previous(size_t i) const {
		return i > 0 ? i - 1 : vertices.size() - 1;
	}
	//! Whether the line ends at a vertex
	bool IsEnd(size_t i) const {
		return line_end > 0 && (i == 0 || i == line_end);
	}

	//! Edges of the ring, or of the line one way
	size_t WayEdges() const {
		return line_end > 0 ? line_end : vertices.size();
	}

	//! No two consecutive ones are equal
	CountedVector<vibe::Vec2> vertices;
	//! Edge i starts at vertex i
	CountedVector<Edge> edges;

private:
	void MakeEdges();

	//! Of a line: its last vertex
	size_t line_end = 0;
};

class OffsetCurves {
public:
	//! `distance` >= 0
	OffsetCurves(double distance, const BufferStyle &style);

	size_t Count() const {
		return ends.size();
	}
	const vibe::Vec2 *Begin(size_t curve) const {
		return points.data() + (curve ? ends[curve - 1] : 0);
	}
	size_t Size(size_t curve) const {
		return ends[curve] - (curve ? ends[curve - 1] : 0);
	}
	void Clear();
	//! Removes all curves but the first ones
	void Resize(size_t curves);

	// All of these throw GeometryError where a vertex is not finite
	void AddPoint(const vibe::Vec2 &p);
	//! The curve on the right side of a ring
	void AddRing(const OffsetRing &ring);
	//! What `count` edges from edge `first` on sweep over on their right side, with the corner at the end of the last. All such
	//! pieces of a ring together cover what its curve winds around, and no more; those that follow each other share a border to the bit.
	void AddPiece(const OffsetRing &ring, size_t first, size_t count);
	//! What `count` edges from edge `first` on sweep over on both sides, with round joins and ends; a line has its caps at its ends
	void AddRoundPiece(const OffsetRing &ring, size_t first, size_t count);
	//! Turns the last curve around
	void ReverseLast();

private:
	void AddVertex(const OffsetRing &ring, size_t i);
	void AddCorner(const OffsetRing &ring, size_t i);
	//! False where the mitre limit leaves a bevel
	bool AddMitre(const vibe::Vec2 &p, const OffsetRing::Edge &before, const OffsetRing::Edge &after,
	              const vibe::Vec2 &meeting, double cosine);
	//! The end of a line
	void AddEnd(const OffsetRing &ring, size_t i, BufferCap cap);
	//! The vertices between the ends of an arc
	void AddArc(const vibe::Vec2 &p, const vibe::Vec2 &from, double angle);
	void AddCircle(const vibe::Vec2 &p);
	//! Adds a vertex to the curve, unless it equals the one before
	void Emit(const vibe::Vec2 &p, const vibe::Vec2 &direction, double length);
	//! Ends the curve
	void Close();

	const double distance;
	const BufferStyle &style;
	const uint32_t quad_segs;
	//! The cosine of a turn that has no vertex between the ends of its arc; those of larger turns are less
	const double one_step;
	//! All curves, the end of each, and the start of the current one
	CountedVector<vibe::Vec2> points;
	CountedVector<size_t> ends;
	size_t start = 0;
	//! The directions of a quarter circle, computed when needed
	CountedVector<vibe::Vec2> quarter;
};

} // namespace vibespatial
