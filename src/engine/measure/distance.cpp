#include "engine/measure/distance.hpp"

#include "geometry/wkb_visit.hpp"
#include "vibe/measure.h"

#include <cmath>

namespace vibespatial {

using vibe::Vec2;

namespace {

struct PointToParts {
	Vec2 p;
	double best = vibe::Infinity();
	bool inside = false; // in a polygon, or on an edge
	bool refused = false;
	//! In the interior of a polygon that has ended
	bool in_polygon = false;
	// The part in hand
	vibe::Family family = vibe::FAMILY_POINT;
	vibe::RayCounter ray;

	explicit PointToParts(const Vec2 &point) : p(point), ray {point, false, false} {
	}

	void Part(vibe::Family next) {
		EndPart();
		family = next;
	}
	void EndPart() {
		if (ray.odd) {
			// Polygons that overlap: what that means is decided in one place, by the shape
			refused = refused || in_polygon;
			in_polygon = true;
			inside = true;
		}
		ray.odd = false;
	}

	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		if (stride == 16) {
			Add(vibe::WkbRing<16> {coords}, count);
		} else if (stride == 24) {
			Add(vibe::WkbRing<24> {coords}, count);
		} else {
			Add(vibe::WkbRing<32> {coords}, count);
		}
	}

	template <class RING>
	void Add(const RING &ring, uint32_t n) {
		if (n == 0) {
			refused = true; // an empty ring: a hole may follow that has no shell
			return;
		}
		bool area = family == vibe::FAMILY_POLYGON;
		bool closed = ring.X(0) == ring.X(n - 1) && ring.Y(0) == ring.Y(n - 1);
		if ((area && (n < 4 || !closed)) || (family == vibe::FAMILY_LINE && n == 1)) {
			refused = true;
			return;
		}
		double least = best;
		// Differences with a NaN or an infinite coordinate are not finite, and their sum stays so
		double sum = 0;
		for (uint32_t i = 0; i < n; i++) {
			double dx = p.x - ring.X(i), dy = p.y - ring.Y(i);
			double square = vibe::SquareMetric::Length(dx, dy);
			sum += square;
			least = vibe::Min(least, square);
		}
		if (!(sum < vibe::SquareMetric::MAX)) {
			refused = true;
			return;
		}
		for (uint32_t i = 0; i + 1 < n; i++) {
			Vec2 a {ring.X(i), ring.Y(i)}, b {ring.X(i + 1), ring.Y(i + 1)};
			least = vibe::Min(least, vibe::SquareMetric::PointLine(p, a, b));
			if (area) {
				inside = ray.Add(a, b) || inside;
			}
		}
		best = least;
	}
};

} // namespace

vibe::Box NearWindow(const vibe::Box &box, double reach) {
	// More than all rounding
	constexpr double SLACK = 1 + 1e-9;
	const double infinity = vibe::Infinity();
	reach = std::nextafter(reach * SLACK, infinity);
	return vibe::Box {std::nextafter(box.min_x - reach, -infinity), std::nextafter(box.min_y - reach, -infinity),
	                  std::nextafter(box.max_x + reach, infinity), std::nextafter(box.max_y + reach, infinity)};
}

bool PointWkbDistance(const Vec2 &point, const uint8_t *wkb, size_t size, double &distance) {
	PointToParts parts(point);
	VisitWkb(wkb, size, parts);
	parts.EndPart();
	if (parts.refused) {
		return false;
	}
	if (parts.inside) {
		distance = 0.0;
		return true;
	}
	if (!(parts.best > vibe::SquareMetric::MIN && parts.best < vibe::SquareMetric::MAX)) {
		return false;
	}
	distance = vibe::Sqrt(parts.best);
	return true;
}

} // namespace vibespatial
