#include "engine/measure/measure.hpp"

#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/measure.h"

#include <cstring>
#include <limits>

namespace vibespatial {

namespace {

//! Turns the rings of WKB into rings of vibe/measure.h, one type for each size of a vertex
template <class SINK>
struct WkbRings {
	SINK &sink;

	void Part(vibe::Family family) {
		sink.Part(family);
	}
	void Ring(uint32_t count, const uint8_t *coords, uint32_t stride) {
		switch (stride) {
		case 16:
			return sink.Ring(vibe::WkbRing<16> {coords}, count);
		case 24:
			return sink.Ring(vibe::WkbRing<24> {coords}, count);
		default:
			return sink.Ring(vibe::WkbRing<32> {coords}, count);
		}
	}
};

template <class SINK>
void VisitRings(const uint8_t *wkb, size_t size, SINK &sink) {
	WkbRings<SINK> visitor {sink};
	VisitWkb(wkb, size, visitor);
}

CentroidPoint PointOf(const vibe::CentroidSum &sum) {
	constexpr double nan = std::numeric_limits<double>::quiet_NaN();
	vibe::Vec2 centroid;
	if (!sum.Finish(centroid)) {
		return CentroidPoint {true, nan, nan, {nan, nan}};
	}
	return CentroidPoint {false, centroid.x, centroid.y, {nan, nan}};
}

//! Another pass for rows with Z or M: the weighted sum of those ordinates over the parts that gave the centroid its
//! dimension; parts of a higher one had no weight there, and count as vibe::CentroidSink says
struct ExtraSink {
	int dimension;
	uint32_t extras;
	bool counts = false;
	bool shell = false;
	double weight = 0;
	double sum[2] = {0, 0};
	// first vertex of the part
	double base[4] = {0, 0, 0, 0};

	void Part(vibe::Family family) {
		counts = family >= dimension;
		shell = true;
	}
	void Ring(uint32_t count, const uint8_t *coords, uint32_t stride) {
		if (!counts || count == 0) {
			return;
		}
		double a[4], b[4];
		memcpy(a, coords, stride);
		if (dimension == vibe::FAMILY_POINT) {
			// the mean, since a line of no length in XY may have some in Z
			for (uint32_t i = 0; i < count; i++) {
				memcpy(a, coords + size_t(i) * stride, stride);
				AddTo(sum, 1.0 / count, a, nullptr, nullptr);
			}
			weight += 1;
			return;
		}
		if (shell) {
			memcpy(base, a, stride);
		}
		double ring_weight = 0;
		double ring_sum[2] = {0, 0};
		for (uint32_t i = 1; i < count; i++) {
			memcpy(b, coords + size_t(i) * stride, stride);
			double w;
			if (dimension == vibe::FAMILY_LINE) {
				w = vibe::SegmentLength(a[0], a[1], b[0], b[1]);
				AddTo(ring_sum, w / 2, a, b, nullptr);
			} else {
				w = (a[0] - base[0]) * (b[1] - base[1]) - (b[0] - base[0]) * (a[1] - base[1]);
				AddTo(ring_sum, w / 3, a, b, base);
			}
			ring_weight += w;
			memcpy(a, b, stride);
		}
		const bool wrong_way = dimension == vibe::FAMILY_POLYGON && (shell ? ring_weight < 0 : ring_weight > 0);
		const double sign = wrong_way ? -1 : 1;
		weight += sign * ring_weight;
		for (uint32_t k = 0; k < extras; k++) {
			sum[k] += sign * ring_sum[k];
		}
		shell = false;
	}

private:
	void AddTo(double *target, double w, const double *a, const double *b, const double *c) const {
		for (uint32_t k = 0; k < extras; k++) {
			target[k] += w * (a[2 + k] + (b ? b[2 + k] : 0) + (c ? c[2 + k] : 0));
		}
	}
};

double LengthOf(vibe::Family family, const uint8_t *wkb, size_t size) {
	auto sink = vibe::LengthSink::Of(family);
	VisitRings(wkb, size, sink);
	return sink.length;
}

} // namespace

double Area(const uint8_t *wkb, size_t size) {
	auto sink = vibe::AreaSink::Empty();
	VisitRings(wkb, size, sink);
	return sink.Finish();
}

double Area(const vibe::GeometryView &view) {
	return vibe::ViewArea(view);
}

double Length(const uint8_t *wkb, size_t size) {
	return LengthOf(vibe::FAMILY_LINE, wkb, size);
}

double Length(const vibe::GeometryView &view) {
	return vibe::ViewLength(view, vibe::FAMILY_LINE);
}

double Perimeter(const uint8_t *wkb, size_t size) {
	return LengthOf(vibe::FAMILY_POLYGON, wkb, size);
}

double Perimeter(const vibe::GeometryView &view) {
	return vibe::ViewLength(view, vibe::FAMILY_POLYGON);
}

CentroidPoint Centroid(const uint8_t *wkb, size_t size) {
	const auto sum = vibe::FindCentroid([&](vibe::CentroidSink &sink) { VisitRings(wkb, size, sink); });
	auto result = PointOf(sum);
	const auto vertex_type = ReadWkbHeader(wkb, size).vertex_type;
	if (!result.empty && vertex_type != VERTEX_XY) {
		ExtraSink extra {sum.dimension, vertex_type == (VERTEX_Z | VERTEX_M) ? 2u : 1u};
		VisitWkb(wkb, size, extra);
		for (uint32_t k = 0; k < extra.extras; k++) {
			result.extra[k] = extra.sum[k] / extra.weight;
		}
	}
	return result;
}

CentroidPoint Centroid(const vibe::GeometryView &view) {
	return PointOf(vibe::ViewCentroid(view));
}

} // namespace vibespatial
