#include "engine/measure/distance.hpp"

#include "geometry/wkb_visit.hpp"
#include "geometry/work_scope.hpp"
#include "vibe/measure.h"

#include <algorithm>

namespace vibespatial {

using vibe::Vec2;

namespace {

struct PointToParts {
	Vec2 p;
	double best = vibe::Infinity();
	bool inside = false; // in a polygon, or on an edge
	bool refused = false;
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
		inside = inside || ray.odd;
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

namespace {

//! As one thread after the other would search, each from the best of those before
template <class METRIC>
void Search(vibe::DistanceSearch<METRIC> &search, const vibe::ShapeView &a, const vibe::ShapeView &b) {
	constexpr uint64_t PAIRS = uint64_t(1) << 24;
	constexpr uint64_t LEAST_ITEMS = 64;
	const auto items = [](const vibe::ShapeView &s) { return uint64_t(s.vertex_count) + s.point_count; };
	const auto few = std::min(items(a), items(b)), many = std::max(items(a), items(b));
	const auto lanes = std::max<uint64_t>(1, std::min(few * many / PAIRS, few / LEAST_ITEMS));
	for (uint64_t lane = 0; lane < lanes; lane++) {
		vibe::distance_detail::Search(search, a, b, vibe::Lane {uint32_t(lane), uint32_t(lanes)});
		if (search.touching || (search.limit >= 0 && METRIC::Distance(search.best) <= search.limit)) {
			return;
		}
		PollCall(many);
	}
}

//! The distance of two shapes from a search that begins with a bound
double Distance(const vibe::ShapeView &a, const vibe::ShapeView &b, double bound, double limit) {
	vibe::DistanceSearch<vibe::SquareMetric> search {vibe::distance_detail::FirstBound(bound), limit, false};
	Search(search, a, b);
	if (search.touching) {
		return 0.0;
	}
	if (search.best > vibe::SquareMetric::MIN && search.best < vibe::SquareMetric::MAX) {
		return vibe::Sqrt(search.best);
	}
	vibe::DistanceSearch<vibe::LinearMetric> again {vibe::Infinity(), limit, false};
	Search(again, a, b);
	return vibe::distance_detail::AtLeast(again);
}

} // namespace

double ShapeDistance(const vibe::ShapeView &a, const vibe::ShapeView &b, double limit) {
	return Distance(a, b, limit, limit);
}

double ShapeDistanceWithin(const vibe::ShapeView &a, const vibe::ShapeView &b, double bound) {
	return Distance(a, b, bound, -1.0);
}

} // namespace vibespatial
