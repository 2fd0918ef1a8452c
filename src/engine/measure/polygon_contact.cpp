#include "engine/measure/polygon_contact.hpp"

#include "vibe/shape.h"
#include "vibe/wkb.h"

namespace vibespatial {

namespace {

using vibe::Vec2;

constexpr uint32_t MOST_VERTICES = 32;
constexpr size_t VERTEX_BYTES = 2 * sizeof(double);

//! The ring of a polygon in place
struct PlainRing {
	const uint8_t *coords;
	uint32_t count;

	Vec2 Vertex(uint32_t i) const {
		return Vec2 {vibe::LoadDouble(coords + i * VERTEX_BYTES), vibe::LoadDouble(coords + i * VERTEX_BYTES + 8)};
	}

	//! False where it is not the only one, is not closed, or has a coordinate that is not finite
	bool Read(const uint8_t *wkb, size_t size) {
		constexpr size_t HEADER = vibe::WKB_HEADER_BYTES + 2 * sizeof(uint32_t);
		if (size < HEADER || wkb[0] != 1 || vibe::LoadCount(wkb + 1) != vibe::WKB_POLYGON ||
		    vibe::LoadCount(wkb + vibe::WKB_HEADER_BYTES) != 1) {
			return false;
		}
		coords = wkb + HEADER;
		count = vibe::LoadCount(coords - sizeof(uint32_t));
		if (count < 4 || count > MOST_VERTICES || size != HEADER + count * VERTEX_BYTES ||
		    Vertex(0) != Vertex(count - 1)) {
			return false;
		}
		double sum = 0;
		for (uint32_t i = 0; i < count; i++) {
			// 0, unless one is infinite or NaN
			sum += Vertex(i).x * 0.0 + Vertex(i).y * 0.0;
		}
		return sum == 0;
	}

	//! Inside, or on an edge
	bool Holds(const Vec2 &p) const {
		vibe::RayCounter ray {p, false, false};
		auto a = Vertex(0);
		for (uint32_t i = 1; i < count; i++) {
			const auto b = Vertex(i);
			if (ray.Add(a, b)) {
				return true;
			}
			a = b;
		}
		return ray.odd;
	}
};

} // namespace

bool PolygonsMeet(const uint8_t *left, size_t left_size, const uint8_t *right, size_t right_size) {
	PlainRing a, b;
	return a.Read(left, left_size) && b.Read(right, right_size) && (b.Holds(a.Vertex(0)) || a.Holds(b.Vertex(0)));
}

} // namespace vibespatial
