#include "engine/shape/shape.hpp"

#include "geometry/lanes.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/shape_build.h"

#include <algorithm>

namespace vibespatial {

using vibe::Box;
using vibe::ShapeRing;
using vibe::Vec2;
using vibe::WkbVertices;

namespace {

//! Rings of more vertices are shortened
constexpr uint32_t SHORT_RING = 64;

//! On which sides of a window a place is: 0 inside, or on its border
struct Sides {
	Box window;

	uint32_t operator()(const Vec2 &p) const {
		return static_cast<uint32_t>(p.x < window.min_x) | static_cast<uint32_t>(p.x > window.max_x) << 1 |
		       static_cast<uint32_t>(p.y < window.min_y) << 2 | static_cast<uint32_t>(p.y > window.max_y) << 3;
	}
};

//! Does a ring have area, so to say: as many vertices as it takes when repeated ones are dropped?
bool HasVertices(const WkbVertices &ring, uint32_t count) {
	uint32_t distinct = 1;
	Vec2 last = ring.At(0);
	for (uint32_t i = 1; i < count && distinct < vibe::LeastVertices(true); i++) {
		const Vec2 p = ring.At(i);
		distinct += p != last;
		last = p;
	}
	return distinct >= vibe::LeastVertices(true);
}

//! As vibe::IsCounterClockwise, of a ring that may repeat vertices, by its lowest leftmost vertex
bool TurnsLeftAt(const WkbVertices &ring, uint32_t count, uint32_t corner) {
	const Vec2 at = ring.At(corner);
	// The last vertex is the first one again
	const uint32_t edges = count - 1;
	uint32_t before = corner, after = corner;
	do {
		before = (before + edges - 1) % edges;
	} while (ring.At(before) == at);
	do {
		after = (after + 1) % edges;
	} while (ring.At(after) == at);
	return vibe::Orient2d(ring.At(before), at, ring.At(after)) > 0;
}

} // namespace

//! Takes the rings of a polygon or multipolygon from its bytes
class Shape::WindowReader {
public:
	WindowReader(Shape &shape_p, const Box &window_p, WindowProbe *probe_p)
	    : shape(shape_p), window(window_p), sides {window_p}, probe(probe_p) {
	}

	void Row(WkbHeader header) {
		is_polygon = header.type == GeometryType::POLYGON;
	}
	void Node(GeometryType, uint32_t) {
	}
	void Part(vibe::Family) {
		is_shell = true;
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		const WkbVertices ring {coords, stride};
		if (probe && probe->found) {
			// No box is needed any more
			Lanes rest {0, 0};
			for (uint32_t i = 0; i < count; i++) {
				const Lanes vertex = LoadLanes(coords + i * stride);
				rest += vertex - vertex;
			}
			refused |= !IsUsable(ring, count, rest);
		} else if (!refused) {
			Take(ring, count);
		}
	}

	bool refused = false;

private:
	//! v - v is 0 for a finite v and NaN for all others; `rest` is their sum
	static bool IsUsable(const WkbVertices &ring, uint32_t count, Lanes rest) {
		return count >= vibe::LeastVertices(true) && rest[0] + rest[1] == 0 && ring.At(0) == ring.At(count - 1) &&
		       HasVertices(ring, count);
	}

	[[gnu::noinline]] void Take(const WkbVertices &ring, uint32_t count) {
		Lanes rest {0, 0};
		const auto range = VertexRange(ring.coords, count, ring.stride, [&](Lanes vertex) { rest += vertex - vertex; });
		if (!IsUsable(ring, count, rest)) {
			refused = true;
			return;
		}
		const Box box {range.min[0], range.min[1], range.max[0], range.max[1]};
		if (is_polygon && count > SHORT_RING && window.Covers(box)) {
			refused = true; // it would only be copied
			return;
		}
		shape.view.box.Add(box);
		// Only those who ask whether the two meet want to know their distance otherwise
		if (probe && probe->until == WindowProbe::MEET) {
			Reach(ring, count);
		}
		if (probe && probe->until == WindowProbe::GEOMETRY_OUTSIDE && !probe->area.box.Covers(box)) {
			probe->found = true;
			return;
		}
		if (probe && probe->tries > 0 && box.Intersects(probe->area.box)) {
			probe->tries--;
			probe->found = Answers(ring, count);
			if (probe->found) {
				return;
			}
		}
		const bool seen = box.Intersects(window);
		// Whether there is one ring or more is known to the relation of areas, and so is that something lies outside
		if (seen || shape.rings.size() < 2 || !has_unseen) {
			has_unseen = has_unseen || !seen;
			Keep(ring, count, box);
		}
		is_shell = false;
	}

	//! Does one ring answer the question of the probe? It may answer only what the relation would find as well, on invalid input,
	//! too: a contact, a crossing with an area of one ring, and the place of a ring without any contact.
	bool Answers(const WkbVertices &ring, uint32_t count) const {
		const auto &area = probe->area;
		if (count > SHORT_RING || area.vertex_count > SHORT_RING || area.element_count != 1 || area.mixed) {
			return false;
		}
		bool contact = false;
		for (uint32_t i = 0; i + 1 < count; i++) {
			const Vec2 a = ring.At(i), b = ring.At(i + 1);
			for (uint32_t k = 0; a != b && k + 1 < area.vertex_count; k++) {
				const auto kind =
				    area.IsEdge(k) ? vibe::Contact(a, b, area.Vertex(k), area.Vertex(k + 1)).kind : vibe::CONTACT_NONE;
				if (kind != vibe::CONTACT_NONE && !IsOutside()) {
					return probe->until == WindowProbe::MEET;
				}
				// The relation holds an area to be equal to itself, whatever its edges do
				if (kind == vibe::CONTACT_CROSS && area.ring_count == 1 && ring.At(0) != area.Vertex(0)) {
					return true;
				}
				contact = contact || kind != vibe::CONTACT_NONE;
			}
		}
		// On one side of a ring is the geometry and on the other is none
		const auto place = probe->until == WindowProbe::GEOMETRY_OUTSIDE ? vibe::LOC_EXTERIOR : vibe::LOC_INTERIOR;
		return !contact && vibe::LocateInElement(area, 0, ring.At(0)) == place;
	}
	bool IsOutside() const {
		return probe->until == WindowProbe::AREA_OUTSIDE || probe->until == WindowProbe::GEOMETRY_OUTSIDE;
	}

	//! By a look at some vertices
	void Reach(const WkbVertices &ring, uint32_t count) {
		constexpr uint32_t STEP = 16;
		const auto &box = probe->area.box;
		for (uint32_t i = 0; i < count; i += STEP) {
			const Vec2 p = ring.At(i);
			// The sum of two sides is no less than the third
			const double far =
			    vibe::Max(p.x - box.min_x, box.max_x - p.x) + vibe::Max(p.y - box.min_y, box.max_y - p.y);
			probe->reach = vibe::Min(probe->reach, far);
		}
	}

	void Keep(const WkbVertices &ring, uint32_t count, const Box &box) {
		const uint32_t begin = end;
		bool ccw;
		if (count <= SHORT_RING) {
			Reserve(count);
			Box again = Box::Empty();
			end = vibe::CopyVertices(ring, count, shape.x.data(), shape.y.data(), begin, again);
			ccw = vibe::IsCounterClockwise(shape.x.data(), shape.y.data(), begin, end, box.min_x);
		} else {
			PollCall(count);
			ccw = TurnsLeftAt(ring, count, KeepShortened(ring, count, box.min_x));
		}
		const auto number = static_cast<uint32_t>(shape.rings.size());
		std::fill(shape.vertex_ring.begin() + begin, shape.vertex_ring.begin() + end, number);
		shape.rings.push_back(ShapeRing {begin, end, 0, true, ccw == is_shell, box});
	}

	//! A run of vertices that are all on one side of the window becomes one edge. Returns the lowest leftmost vertex.
	uint32_t KeepShortened(const WkbVertices &ring, uint32_t count, double min_x) {
		Vec2 kept = ring.At(0), last = kept;
		uint32_t last_sides = sides(last), run = last_sides;
		uint32_t corner = count;
		Vec2 corner_at = last;
		Add(kept);
		for (uint32_t i = 0; i < count; i++) {
			const Vec2 p = ring.At(i);
			if (p.x == min_x && (corner == count || p.y < corner_at.y)) {
				corner = i;
				corner_at = p;
			}
			const uint32_t p_sides = sides(p);
			if ((run & p_sides) != 0) {
				run &= p_sides;
			} else {
				if (last != kept) {
					Add(last);
					kept = last;
				}
				run = last_sides & p_sides;
			}
			last = p;
			last_sides = p_sides;
		}
		if (last != kept) {
			Add(last);
		}
		return corner;
	}

	void Add(const Vec2 &p) {
		if (end == shape.x.size()) {
			Reserve(1);
		}
		shape.x[end] = p.x;
		shape.y[end++] = p.y;
	}

	//! Room for so many vertices more
	void Reserve(uint32_t count) {
		const size_t least = size_t(end) + count;
		if (shape.x.size() < least || shape.y.size() < least || shape.vertex_ring.size() < least) {
			const size_t room = std::max(least, shape.x.size() * 2);
			shape.x.resize(room);
			shape.y.resize(room);
			shape.vertex_ring.resize(room);
		}
	}

	Shape &shape;
	const Box window;
	const Sides sides;
	WindowProbe *probe;
	bool is_polygon = false;
	bool is_shell = true;
	bool has_unseen = false;
	uint32_t end = 0;

	friend class Shape;
};

bool Shape::BuildInWindow(const uint8_t *wkb, size_t size, const Box &window, WindowProbe *probe) {
	if (size < vibe::WKB_HEADER_BYTES || wkb[0] != 1) {
		return false;
	}
	const uint32_t type = vibe::WkbTypeOf(vibe::LoadCount(wkb + 1));
	if (type != vibe::WKB_POLYGON && type != vibe::WKB_MULTIPOLYGON) {
		return false;
	}
	Reset();
	WindowReader reader(*this, window, probe);
	WalkWkb(wkb, size, reader);
	if (!reader.refused && probe && probe->found) {
		return true;
	}
	if (reader.refused || rings.empty()) {
		return false;
	}
	element_begin.push_back(0);
	element_begin.push_back(reader.end);
	element_box.push_back(view.box);
	view.element_count = 1;
	view.dimension = 2;
	view.vertex_count = reader.end;
	Show();
	return true;
}

} // namespace vibespatial
