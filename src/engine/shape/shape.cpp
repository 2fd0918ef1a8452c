#include "engine/shape/shape.hpp"

#include "geometry/lanes.hpp"
#include "vibe/shape_build.h"

#include <algorithm>
#include <cstring>

namespace vibespatial {

using vibe::Box;
using vibe::GeometryView;
using vibe::LoadCount;
using vibe::ShapeRing;
using vibe::ShapeView;
using vibe::Vec2;

//! At least so many; never fewer, as those beyond are not looked at
template <class T>
static void Fit(CountedVector<T> &column, uint32_t count) {
	if (column.size() < count) {
		column.resize(count);
	}
}

void Shape::AddRing(const GeometryView &geometry, uint32_t ring, bool is_area, uint32_t element) {
	const uint32_t begin = view.vertex_count, first = geometry.ring_start[ring];
	const uint32_t count = geometry.ring_start[ring + 1] - first;
	if (count == 0) {
		return;
	}
	Box box = Box::Empty();
	const vibe::ColumnVertices from {geometry.x + first, geometry.y + first};
	const uint32_t end = vibe::CopyVertices(from, count, x.data(), y.data(), begin, box);
	if (end - begin < vibe::LeastVertices(is_area)) {
		if (!is_area) {
			points.push_back(Vec2 {x[begin], y[begin]}); // a line of no length is a point
		}
		return;
	}
	std::fill(vertex_ring.begin() + begin, vertex_ring.begin() + end, static_cast<uint32_t>(rings.size()));
	rings.push_back(ShapeRing {begin, end, element, is_area, false, box});
	view.vertex_count = end;
	view.box.Add(box);
	if (is_area) {
		element_box[element].Add(box);
	} else {
		ends.push_back(Vec2 {x[begin], y[begin]});
		ends.push_back(Vec2 {x[end - 1], y[end - 1]});
	}
}

void Shape::Reset() {
	rings.clear();
	element_begin.clear();
	element_box.clear();
	points.clear();
	ends.clear();
	flat_shells.clear();
	view = ShapeView {};
	view.box = Box::Empty();
}

//! vibe::RunBox, several vertices at once
static Box RunBox(const ShapeView &view, uint32_t first) {
	const uint32_t count = std::min(ShapeView::FANOUT + 1, view.vertex_count - first);
	Box box;
	ColumnRange(view.x + first, count, box.min_x, box.max_x);
	ColumnRange(view.y + first, count, box.min_y, box.max_y);
	return box;
}

void Shape::Show() {
	view.x = x.data();
	view.y = y.data();
	view.vertex_ring = vertex_ring.data();
	view.rings = rings.data();
	view.ring_count = static_cast<uint32_t>(rings.size());
	view.element_begin = element_begin.data();
	view.element_box = element_box.data();
	view.points = points.data();
	view.point_count = static_cast<uint32_t>(points.size());
	view.ends = ends.data();
	view.end_count = static_cast<uint32_t>(ends.size());
	boxes.resize(vibe::BoxCount(view.vertex_count));
	vibe::AddBoxes(view, boxes.data(), RunBox);
}

void Shape::Build(const GeometryView &geometry) {
	Reset();
	const auto *ring_start = geometry.ring_start;
	const uint32_t most =
	    ring_start[geometry.part_ring[geometry.part_end]] - ring_start[geometry.part_ring[geometry.part_begin]];
	Fit(x, most);
	Fit(y, most);
	Fit(vertex_ring, most);

	uint32_t polygons = 0;
	bool has[3] = {false, false, false};
	for (uint32_t part = geometry.part_begin; part < geometry.part_end; part++) {
		uint32_t begin = geometry.part_ring[part], end = geometry.part_ring[part + 1];
		if (begin == end || ring_start[begin] == ring_start[begin + 1]) {
			continue;
		}
		has[geometry.part_family[part]] = true;
		polygons += geometry.part_family[part] == vibe::FAMILY_POLYGON;
	}
	view.mixed = geometry.collection && (polygons > 1 || has[0] + has[1] + has[2] > 1);

	if (polygons > 0) {
		for (uint32_t part = geometry.part_begin; part < geometry.part_end; part++) {
			uint32_t begin = geometry.part_ring[part], end = geometry.part_ring[part + 1];
			if (geometry.part_family[part] != vibe::FAMILY_POLYGON || begin == end) {
				continue;
			}
			if (element_begin.empty() || view.mixed) {
				element_begin.push_back(view.vertex_count);
				element_box.push_back(Box::Empty());
			}
			for (uint32_t ring = begin; ring < end; ring++) {
				size_t before = rings.size();
				AddRing(geometry, ring, true, static_cast<uint32_t>(element_begin.size()) - 1);
				if (rings.size() > before) {
					auto &added = rings.back();
					added.interior_left = vibe::IsCounterClockwise(x.data(), y.data(), added.begin, added.end,
					                                               added.box.min_x) == (ring == begin);
				} else if (ring == begin) {
					flat_shells.push_back(ring);
				}
			}
		}
	}
	bool has_area = view.vertex_count > 0;
	if (!has_area) {
		element_begin.clear();
		element_box.clear();
	}
	view.element_count = static_cast<uint32_t>(element_begin.size());
	element_begin.push_back(view.vertex_count);

	// A polygon without area is the line, or the point, that it has collapsed to
	for (uint32_t ring : flat_shells) {
		AddRing(geometry, ring, false, 0);
	}
	for (uint32_t part = geometry.part_begin; part < geometry.part_end; part++) {
		if (geometry.part_family[part] == vibe::FAMILY_POLYGON) {
			continue;
		}
		for (uint32_t ring = geometry.part_ring[part]; ring < geometry.part_ring[part + 1]; ring++) {
			if (geometry.part_family[part] == vibe::FAMILY_LINE) {
				AddRing(geometry, ring, false, 0);
				continue;
			}
			for (uint32_t i = ring_start[ring]; i < ring_start[ring + 1]; i++) {
				points.push_back(geometry.Vertex(i));
			}
		}
	}
	bool has_line = view.vertex_count > element_begin.back();

	if (points.size() > 1) {
		std::sort(points.begin(), points.end(), vibe::LexicographicLess);
		points.erase(std::unique(points.begin(), points.end()), points.end());
	}
	for (auto &point : points) {
		view.box.Add(point.x, point.y);
	}
	// The mod-2 rule: a place is on the boundary when an odd number of lines end there
	if (!ends.empty()) {
		std::sort(ends.begin(), ends.end(), vibe::LexicographicLess);
		ends.resize(vibe::KeepOdd(ends.data(), static_cast<uint32_t>(ends.size())));
	}
	Show();
	// Lines of no length have become points beside the others, areas of no width lines
	view.mixed = view.mixed || (has_line && !points.empty()) || (has_area && (has_line || !points.empty()));
	view.dimension = has_area ? 2 : has_line ? 1 : points.empty() ? -1 : 0;
}

namespace {

constexpr size_t VERTEX_BYTES = 2 * sizeof(double);
constexpr uint32_t LINE_CODE = 2;
constexpr uint32_t POLYGON_CODE = 3;

//! The vertices of plain WKB: `rings` counts and lists of vertices up to the end. 0 when they do not fill the bytes, or
//! one has fewer than `least`
uint32_t CountVertices(const uint8_t *at, const uint8_t *end, uint32_t rings, uint32_t least) {
	uint64_t total = 0;
	for (uint32_t ring = 0; ring < rings; ring++) {
		if (end - at < static_cast<ptrdiff_t>(sizeof(uint32_t))) {
			return 0;
		}
		const uint32_t count = LoadCount(at);
		at += sizeof(uint32_t);
		if (count < least || count > static_cast<uint64_t>(end - at) / VERTEX_BYTES) {
			return 0;
		}
		at += count * VERTEX_BYTES;
		total += count;
	}
	return at == end && total < UINT32_MAX ? static_cast<uint32_t>(total) : 0;
}

//! One list of vertices into columns; false when one is not finite or the same as the one before
bool ReadVertices(const uint8_t *at, uint32_t count, double *x, double *y, Box &box) {
	typedef int64_t Masks __attribute__((vector_size(16)));
	// Two vertices at once: an x of each, and a y of each
	LaneRange range_x, range_y;
	Lanes rest {0, 0};
	Masks repeated {0, 0};
	Lanes vertex = LoadLanes(at);
	uint32_t i = 0;
	for (; i + 2 < count; i += 2) {
		const Lanes next = LoadLanes(at + (i + 1) * VERTEX_BYTES), after = LoadLanes(at + (i + 2) * VERTEX_BYTES);
		const Lanes both_x = __builtin_shufflevector(vertex, next, 0, 2);
		const Lanes both_y = __builtin_shufflevector(vertex, next, 1, 3);
		std::memcpy(x + i, &both_x, sizeof(both_x));
		std::memcpy(y + i, &both_y, sizeof(both_y));
		range_x.Add(both_x);
		range_y.Add(both_y);
		rest += (both_x - both_x) + (both_y - both_y);
		repeated |= (both_x == __builtin_shufflevector(next, after, 0, 2)) &
		            (both_y == __builtin_shufflevector(next, after, 1, 3));
		vertex = after;
	}
	// One or two are left
	for (; i < count; i++) {
		vertex = LoadLanes(at + i * VERTEX_BYTES);
		x[i] = vertex[0];
		y[i] = vertex[1];
		range_x.Add(Lanes {x[i], x[i]});
		range_y.Add(Lanes {y[i], y[i]});
		rest += vertex - vertex;
		repeated[0] |= -static_cast<int64_t>(i > 0 && x[i] == x[i - 1] && y[i] == y[i - 1]);
	}
	box = Box {std::min(range_x.min[0], range_x.min[1]), std::min(range_y.min[0], range_y.min[1]),
	           std::max(range_x.max[0], range_x.max[1]), std::max(range_y.max[0], range_y.max[1])};
	// v - v is 0 for a finite v and NaN for all others
	return (repeated[0] | repeated[1]) == 0 && rest[0] + rest[1] == 0;
}

} // namespace

bool Shape::BuildPlain(const uint8_t *wkb, size_t size) {
	constexpr size_t HEADER = 1 + sizeof(uint32_t);
	if (size < HEADER + sizeof(uint32_t) || wkb[0] != 1) {
		return false;
	}
	const uint32_t code = LoadCount(wkb + 1);
	if (code != LINE_CODE && code != POLYGON_CODE) {
		return false;
	}
	const bool is_area = code == POLYGON_CODE;
	const uint32_t ring_count = is_area ? LoadCount(wkb + HEADER) : 1;
	const uint8_t *at = wkb + HEADER + (is_area ? sizeof(uint32_t) : 0);
	const uint32_t vertex_count = CountVertices(at, wkb + size, ring_count, is_area ? 4 : 2);
	if (vertex_count == 0) {
		return false;
	}
	Reset();
	Fit(x, vertex_count);
	Fit(y, vertex_count);
	Fit(vertex_ring, vertex_count);
	uint32_t begin = 0;
	for (uint32_t ring = 0; ring < ring_count; ring++) {
		const uint32_t end = begin + LoadCount(at);
		at += sizeof(uint32_t);
		Box box;
		if (!ReadVertices(at, end - begin, x.data() + begin, y.data() + begin, box)) {
			return false;
		}
		at += (end - begin) * VERTEX_BYTES;
		bool interior_left = false;
		if (is_area) {
			if (x[begin] != x[end - 1] || y[begin] != y[end - 1]) {
				return false;
			}
			interior_left = vibe::IsCounterClockwise(x.data(), y.data(), begin, end, box.min_x) == (ring == 0);
		}
		std::fill(vertex_ring.begin() + begin, vertex_ring.begin() + end, ring);
		rings.push_back(ShapeRing {begin, end, 0, is_area, interior_left, box});
		view.box.Add(box);
		begin = end;
	}
	element_begin.push_back(0);
	if (is_area) {
		element_begin.push_back(vertex_count);
		element_box.push_back(view.box);
		view.element_count = 1;
	} else {
		const Vec2 first {x[0], y[0]}, last {x[vertex_count - 1], y[vertex_count - 1]};
		if (first != last) {
			const bool forward = vibe::LexicographicLess(first, last);
			ends.push_back(forward ? first : last);
			ends.push_back(forward ? last : first);
		}
	}
	view.dimension = is_area ? 2 : 1;
	view.vertex_count = vertex_count;
	Show();
	return true;
}

} // namespace vibespatial
