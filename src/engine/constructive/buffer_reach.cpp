#include "engine/constructive/buffer_reach.hpp"

#include "engine/relate/validity.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"

namespace vibespatial {

namespace {

//! Arcs are drawn in steps of at most 3/2 of a quarter / 8, whose chords come as near to the centre as the cosine of half of
//! that: 0.98918
constexpr double CHORD = 0.989;
//! Of coordinates and distances: vertices and crossings are rounded, and so is the distance that is held against this
constexpr double ROUNDING = 1e-12;
//! The place where the offsets of two edges meet that nearly turn back is off by (length / distance)^2 units in the last
//! place, in distances; they are not made to meet where that comes near to this share of a length.
constexpr double TURN_ROUNDING = 1e-15;
constexpr double MAX_TURN_ROUNDING = 1e-7;
//! Beyond these the distance that is held against this has no error bound
constexpr double MIN_DISTANCE = 1e-140;
constexpr double MAX_DISTANCE = 1e150;

double Magnitude(const vibe::Box &box) {
	return vibe::Max(vibe::Max(vibe::Abs(box.min_x), vibe::Abs(box.max_x)),
	                 vibe::Max(vibe::Abs(box.min_y), vibe::Abs(box.max_y)));
}

double Extent(const vibe::Box &box) {
	return (box.max_x - box.min_x) + (box.max_y - box.min_y);
}

} // namespace

BufferReach::BufferReach(const vibe::Box &box, double distance) {
	if (!vibe::IsFinite(distance)) {
		throw GeometryError("the distance must be finite");
	}
	inner = -1;
	outer = vibe::Infinity();
	const double reach = vibe::Max(distance, 0);
	if (box.IsEmpty() || reach > MAX_DISTANCE || (reach > 0 && reach < MIN_DISTANCE)) {
		return;
	}
	const double extent = Extent(box);
	double slack = ROUNDING * (Magnitude(box) + reach);
	if (extent > 0) {
		slack += extent * vibe::Min(MAX_TURN_ROUNDING, TURN_ROUNDING * (extent / reach));
	}
	// What has no area has no buffer of distance 0
	inner = distance > 0 ? CHORD * distance - slack : -1;
	outer = reach + slack;
}

double BufferMargin(const uint8_t *wkb, size_t size) {
	vibe::Box box;
	WkbBounds(wkb, size, box);
	if (box.IsEmpty()) {
		return 0;
	}
	const double margin = ROUNDING * Magnitude(box) + MAX_TURN_ROUNDING * Extent(box);
	return HidesAreas(wkb, size) ? margin + Extent(box) : margin;
}

bool HidesAreas(const uint8_t *wkb, size_t size) {
	const auto type = ReadWkbHeader(wkb, size).type;
	if (type != GeometryType::POLYGON && type != GeometryType::MULTIPOLYGON &&
	    type != GeometryType::GEOMETRYCOLLECTION) {
		return false;
	}
	GeometryBatch batch;
	ReadWkb(wkb, size, batch);
	return !IsValid(batch, 0);
}

} // namespace vibespatial
