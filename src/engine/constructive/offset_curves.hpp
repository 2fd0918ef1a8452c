//===----------------------------------------------------------------------===//
// engine/constructive/offset_curves.hpp
//
// The closed curves at a distance of rings, lines and points. A buffer is the set of points that these wind around.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/constructive/buffer.hpp"
#include "vibe/views.h"

namespace vibespatial {

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

	// All of these throw GeometryError where a vertex is not finite
	void AddPoint(const vibe::Vec2 &p);
	//! Vertices [begin, end) of a line
	void AddLine(const vibe::GeometryView &view, uint32_t begin, uint32_t end);
	//! Some edges of a line, at least one; no two consecutive vertices are equal
	void AddPiece(const vibe::Vec2 *vertices, size_t count, BufferCap first_cap, BufferCap last_cap);
	//! Vertices [begin, end) of a ring. `outwards`: away from the inside of a shell, or into a hole. Otherwise the other way, and
	//! the curve runs backwards.
	void AddPolygonRing(const vibe::GeometryView &view, uint32_t begin, uint32_t end, bool shell, bool outwards);

private:
	//! An edge of the current ring
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

	//! Sets `ring` to the vertices without repeats
	void Load(const vibe::GeometryView &view, uint32_t begin, uint32_t end);
	//! The curve around `ring` as a line: along its right side, and back along its left side
	void AddOpenLine(BufferCap first_cap, BufferCap last_cap);
	//! The curve on the right side of `ring`
	void AddRing();
	void MakeEdges();
	size_t Next(size_t i) const {
		return i + 1 < ring.size() ? i + 1 : 0;
	}
	size_t Previous(size_t i) const {
		return i > 0 ? i - 1 : ring.size() - 1;
	}

	void AddCorner(size_t i);
	//! False where the mitre limit leaves a bevel
	bool AddMitre(const vibe::Vec2 &p, const Edge &before, const Edge &after, const vibe::Vec2 &meeting, double cosine);
	//! The end of a line
	void AddEnd(size_t i, BufferCap cap);
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
	//! All curves, the end of each, and the start of the current one
	CountedVector<vibe::Vec2> points;
	CountedVector<size_t> ends;
	size_t start = 0;
	//! The current ring without repeats, and its edges: edge i starts at vertex i
	CountedVector<vibe::Vec2> ring;
	CountedVector<Edge> edges;
	//! The directions of a quarter circle, computed when needed
	CountedVector<vibe::Vec2> quarter;
};

} // namespace vibespatial
