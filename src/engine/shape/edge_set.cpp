#include "engine/shape/edge_set.hpp"

#include "geometry/wkb_visit.hpp"
#include "vibe/shape.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace vibespatial {

using vibe::Vec2;

namespace {

//! The family, and the two ends of an edge in their order, or a point twice
typedef std::array<double, 5> Edge;

//! For VisitWkb: calls use(edge)
template <class USE>
struct EdgeVisitor {
	USE &use;
	vibe::Family family = vibe::FAMILY_POINT;

	void Part(vibe::Family of_part) {
		family = of_part;
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		auto vertex = [&](uint32_t i) {
			Vec2 v;
			std::memcpy(&v, coords + i * stride, sizeof(v));
			return Vec2 {v.x + 0.0, v.y + 0.0}; // -0 is 0
		};
		for (uint32_t i = 0; i < count; i++) {
			const Vec2 a = vertex(i), b = family == vibe::FAMILY_POINT ? a : vertex(std::min(i + 1, count - 1));
			if (family == vibe::FAMILY_POINT || a != b) {
				const bool forward = vibe::LexicographicLess(a, b);
				const Vec2 &first = forward ? a : b, &last = forward ? b : a;
				use(Edge {static_cast<double>(family), first.x, first.y, last.x, last.y});
			}
		}
	}
};

template <class USE>
void VisitEdgesOf(const uint8_t *wkb, size_t size, USE &&use) {
	EdgeVisitor<USE> visitor {use};
	VisitWkb(wkb, size, visitor);
}

//! As they come where a number is none: those are not the same as anything
std::vector<Edge> SortedEdges(const uint8_t *wkb, size_t size) {
	std::vector<Edge> edges;
	bool ordered = true;
	VisitEdgesOf(wkb, size, [&](const Edge &edge) {
		ordered = ordered && edge == edge;
		edges.push_back(edge);
	});
	if (ordered) {
		std::sort(edges.begin(), edges.end());
	}
	return edges;
}

} // namespace

uint64_t EdgeHash(const uint8_t *wkb, size_t size) {
	uint64_t sum = 0;
	VisitEdgesOf(wkb, size, [&](const Edge &edge) {
		uint64_t hash = 0x9e3779b97f4a7c15ULL;
		for (auto number : edge) {
			uint64_t bits;
			std::memcpy(&bits, &number, sizeof(bits));
			hash = (hash ^ bits) * 0xff51afd7ed558ccdULL;
			hash ^= hash >> 32;
		}
		sum += hash; // in any order
	});
	return sum;
}

bool SameEdges(const uint8_t *left, size_t left_size, const uint8_t *right, size_t right_size) {
	return SortedEdges(left, left_size) == SortedEdges(right, right_size);
}

} // namespace vibespatial
