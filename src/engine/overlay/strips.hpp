//===----------------------------------------------------------------------===//
// engine/overlay/strips.hpp
//
// Finds pairs of edges that come close: the plane is divided into strips along the direction in which edges are shortest.
//
// Promise: no pair that meets is missed, nor one whose ends are within reach. What else is reported changes no result, as pairs
// are tested exactly.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "engine/common/pages_vector.hpp"
#include "engine/overlay/tuning.hpp"
#include "vibe/overlay.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vibespatial {

//! A direction of length 1: "along" is the coordinate in it, "across" the one at right angles
struct StripFrame {
	double x = 1;
	double y = 0;

	//! x is along, y is across. Exact where the direction is an axis.
	vibe::Vec2 Map(const vibe::Vec2 &p) const {
		return vibe::Vec2 {x * p.x + y * p.y, x * p.y - y * p.x};
	}
	//! Map() changes nothing
	bool IsAlongX() const {
		return x == 1 && y == 0;
	}
	//! Exceeds the rounding errors of Map() for both ends
	double Slack(const vibe::Vec2 &p, const vibe::Vec2 &q) const {
		return x == 0 || y == 0 ? 0 : 1e-15 * (vibe::Abs(p.x) + vibe::Abs(p.y) + vibe::Abs(q.x) + vibe::Abs(q.y));
	}
};

//! An edge in a frame, from the lesser to the greater coordinate along
struct StripEdge {
	vibe::Vec2 a;
	vibe::Vec2 b;
	//! How far it goes to ends of others, and how far rounding may have moved it
	double reach;

	StripEdge(const StripFrame &frame, const vibe::Vec2 &p, const vibe::Vec2 &q, double reach_p)
	    : a(p), b(q), reach(reach_p) {
		if (!frame.IsAlongX()) {
			a = frame.Map(p);
			b = frame.Map(q);
			reach += frame.Slack(p, q);
		}
		if (b.x < a.x) {
			std::swap(a, b);
		}
	}
};

//! Strips of equal width
struct StripPlan {
	StripFrame frame;
	size_t strips = 1;
	double low = 0;
	double width = 0;
	double scale = 0;

	//! `count` edges, of which edge(i, a, b) sets the ends and returns the reach. Edges that are long in every direction have one
	//! strip.
	template <class EDGE>
	void Choose(size_t count, const EDGE &edge);

	//! Edges that are spread evenly, and as long in one direction as in any other, have about the root of their number beside each other
	bool IsCrowded(size_t count) const {
		return beside > overlay_tuning::BESIDE_PER_ROOT * vibe::Sqrt(double(count));
	}

	size_t StripOf(double along) const {
		return size_t(std::min(double(strips - 1), std::max(0.0, (along - low) * scale)));
	}
	//! Where a strip begins
	double Border(size_t strip) const {
		return low + width * double(strip);
	}
	//! Of an edge: how many others there are beside it along the direction, on average
	double beside = 0;

private:
	template <class EDGE>
	void Measure(const StripFrame &direction, size_t count, const EDGE &edge);
};

//! A piece of an edge
struct StripPiece {
	vibe::Vec2 p;
	vibe::Vec2 q;
	double reach;
	uint32_t edge;
};

//! Finds pairs among pieces that are crowded in one strip: divides them again, along a direction of their own
class CrowdedPairs {
public:
	//! Calls test(edge, other) for all pairs of edges with pieces that come close, for some more than once
	template <class TEST>
	static void Visit(CountedVector<StripPiece> &pieces, const TEST &test) {
		Divide(pieces, 0, test);
	}
	//! The part of a piece in a strip, or next to it by its reach
	static StripPiece Clip(const StripPiece &piece, const StripPlan &plan, size_t strip);

private:
	//! The extent of a piece in a frame
	struct Extent {
		double s0, s1, t0, t1;
		uint32_t edge;
	};

	static StripPlan PlanOf(const CountedVector<StripPiece> &pieces);
	static void Deal(const CountedVector<StripPiece> &pieces, const StripPlan &plan,
	                 std::vector<CountedVector<StripPiece>> &strips);
	static CountedVector<Extent> Extents(const CountedVector<StripPiece> &pieces, const StripFrame &frame);

	template <class TEST>
	static void Divide(CountedVector<StripPiece> &pieces, int depth, const TEST &test) {
		const auto plan = PlanOf(pieces);
		if (plan.strips == 1 || depth == overlay_tuning::CROWD_DEPTH) {
			Scan(Extents(pieces, plan.frame), test);
			return;
		}
		std::vector<CountedVector<StripPiece>> strips;
		Deal(pieces, plan, strips);
		Release(pieces);
		for (auto &strip : strips) {
			Divide(strip, depth + 1, test);
			Release(strip);
		}
	}
	template <class TEST>
	static void Scan(const CountedVector<Extent> &sorted, const TEST &test) {
		Poll poll;
		for (size_t i = 0; i < sorted.size(); i++) {
			const auto &one = sorted[i];
			poll();
			for (auto k = i + 1; k < sorted.size() && sorted[k].s0 <= one.s1; k++) {
				poll();
				if (sorted[k].t0 <= one.t1 && sorted[k].t1 >= one.t0 && sorted[k].edge != one.edge) {
					test(one.edge, sorted[k].edge);
				}
			}
		}
	}
};

//===----------------------------------------------------------------------===//
// StripPlan
//===----------------------------------------------------------------------===//
template <class EDGE>
void StripPlan::Measure(const StripFrame &direction, size_t count, const EDGE &edge) {
	const bool along_x = direction.IsAlongX();
	double least = vibe::Infinity(), most = -least, run = 0;
	vibe::Vec2 a, b;
	for (size_t i = 0; i < count; i++) {
		const double reach = edge(i, a, b);
		const double from = along_x ? a.x : direction.Map(a).x, to = along_x ? b.x : direction.Map(b).x;
		least = std::min(least, std::min(from, to));
		most = std::max(most, std::max(from, to));
		run += vibe::Abs(to - from) + 2 * reach;
	}
	frame = direction;
	low = least;
	const double extent = most - least;
	strips = count > 32 ? size_t(vibe::StripCount(double(count), extent, run)) : 1;
	width = extent / double(strips);
	scale = extent > 0 ? double(strips) / extent : 0;
	beside = run > 0 ? run / extent : extent > 0 ? 0 : double(count);
}

template <class EDGE>
void StripPlan::Choose(size_t count, const EDGE &edge) {
	Measure(StripFrame {1, 0}, count, edge);
	if (count < overlay_tuning::CROWD_LEAST || !IsCrowded(count)) {
		return;
	}
	const auto improve = [&](const StripFrame &direction) {
		StripPlan other;
		other.Measure(direction, count, edge);
		// Edges are in the order of x: strips along that are faster to fill
		if (other.beside < beside / 2) {
			*this = other;
		}
	};
	improve(StripFrame {0, 1});
	// At right angles to the direction that most edges have, weighted by their lengths. Angles are doubled, so that there and back is one
	// direction.
	double cosine = 0, sine = 0;
	vibe::Vec2 a, b;
	for (size_t i = 0; i < count; i++) {
		edge(i, a, b);
		const double dx = b.x - a.x, dy = b.y - a.y, length = vibe::Sqrt(dx * dx + dy * dy);
		if (length > 0 && length < vibe::Infinity()) {
			cosine += (dx / length) * dx - (dy / length) * dy;
			sine += 2 * (dx / length) * dy;
		}
	}
	const double length = vibe::Sqrt(cosine * cosine + sine * sine);
	if (length > 0 && length < vibe::Infinity()) {
		const double x = vibe::Sqrt(std::max(0.0, 1 + cosine / length) / 2);
		const double y = vibe::Sqrt(std::max(0.0, 1 - cosine / length) / 2);
		improve(StripFrame {sine < 0 ? y : -y, x});
	}
}

} // namespace vibespatial
