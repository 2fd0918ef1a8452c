#include "engine/overlay/rings.hpp"

#include "vibe/measure.h"
#include "vibe/wkb.h"

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>

namespace vibespatial {

using vibe::Vec2;

namespace {

//! Whether the edge runs from a to b with its area to the left
bool Forward(const OverlaySweep &sweep, uint32_t edge) {
	return (sweep.labels[edge] & LABEL_ABOVE) != 0;
}

struct PointLess {
	bool operator()(const Vec2 &a, const Vec2 &b) const {
		return vibe::LexicographicLess(a, b);
	}
};

} // namespace

Vec2 OverlayRings::Tail(uint32_t edge) const {
	return Forward(*sweep, edge) ? (*edges)[edge].a : (*edges)[edge].b;
}
Vec2 OverlayRings::Head(uint32_t edge) const {
	return Forward(*sweep, edge) ? (*edges)[edge].b : (*edges)[edge].a;
}

void OverlayRings::Build(const PagesVector<OverlayEdge> &edges_p, const OverlaySweep &sweep_p,
                         const CountedVector<Vec2> &line_ends, Parallel &parallel) {
	edges = &edges_p;
	sweep = &sweep_p;
	path.clear();
	path.reserve(edges->size());
	rings.clear();
	ring_of.assign(edges->size(), NONE);
	for (uint32_t edge = 0; edge < edges->size(); edge++) {
		if ((sweep->labels[edge] & LABEL_AREA) && ring_of[edge] == NONE) {
			Walk(edge);
		}
	}
	vertices.resize(path.size());
	InShares(parallel, path.size(), [&](size_t begin, size_t end) {
		for (auto i = begin; i < end; i++) {
			vertices[i] = Tail(path[i]);
		}
	});
	for (auto &ring : rings) {
		if (!ring.shell) {
			ring.own = IsOwn(ring);
			const auto below = sweep->under[ring.under];
			ring.under = below == NONE ? NONE : ring_of[below];
		}
	}
	if (path.size() >= overlay_tuning::MANY_EDGES) {
		Release(path);
		Release(ring_of);
	}
	Nest(parallel);
	BuildLines(line_ends, parallel);
	points = sweep->points;
}

void OverlayRings::Build(UnitedNet &united, Parallel &parallel) {
	path.clear();
	vertices = std::move(united.vertices);
	rings.resize(united.rings.size());
	for (uint32_t i = 0; i < rings.size(); i++) {
		const auto &from = united.rings[i];
		auto &ring = rings[i];
		ring.start = from.start;
		ring.count = from.count;
		ring.first = from.start + from.first;
		ring.place = i;
		ring.under = from.under;
		ring.shell = from.shell != 0;
		ring.own = from.polygon != vibe::NetEdge::NO_POLYGON;
		ring.owner = ring.shell ? i : NONE;
	}
	Nest(parallel);
	line_vertices.clear();
	line_order.clear();
	line_start.assign(1, 0);
	points.clear();
}

//! Of an entry of a map, with what the C library adds
static constexpr size_t NODE_BYTES = 80;

//! Walks around one area from an edge. Where the walk returns to a point, the part in between is a ring of its own.
void OverlayRings::Walk(uint32_t start) {
	std::map<Vec2, size_t, PointLess> crowded_at;
	walked.clear();
	auto edge = start;
	const auto begin = Tail(start);
	HeldMemory nodes;
	Poll poll;
	do {
		poll();
		walked.push_back(edge);
		const auto head = Head(edge);
		if (sweep->crowded[edge]) {
			const auto seen = crowded_at.find(head);
			if (seen != crowded_at.end() && seen->second < walked.size() && Tail(walked[seen->second]) == head) {
				AddRing(seen->second);
			} else if (head == begin) {
				AddRing(0);
			}
			crowded_at[head] = walked.size();
			nodes.Reach(crowded_at.size() * NODE_BYTES);
		} else if (head == begin) {
			AddRing(0);
		}
		edge = sweep->next[edge];
		if (edge == NONE) {
			throw std::logic_error("overlay: a ring that does not close");
		}
	} while (edge != start);
}

//! The end of the walk, from a position on, is a ring
void OverlayRings::AddRing(size_t from) {
	Ring ring {};
	ring.start = uint32_t(path.size());
	ring.count = uint32_t(walked.size() - from);
	path.insert(path.end(), walked.begin() + from, walked.end());
	walked.resize(from);
	ring.first = ring.start;
	for (auto i = ring.start; i < ring.start + ring.count; i++) {
		ring_of[path[i]] = uint32_t(rings.size());
		if (vibe::LexicographicLess(Tail(path[i]), Tail(path[ring.first]))) {
			ring.first = i;
		}
	}
	const auto leaves = path[ring.first];
	const auto arrives = path[ring.first == ring.start ? ring.start + ring.count - 1 : ring.first - 1];
	const auto &first = (*edges)[leaves], &last = (*edges)[arrives];
	ring.shell = vibe::Orient2d(first.a, first.b, last.b) > 0;
	// Edges are sorted by their left ends
	ring.place = std::min(leaves, arrives);
	ring.under = ring.shell ? NONE : arrives;
	ring.owner = ring.shell ? uint32_t(rings.size()) : NONE;
	rings.push_back(ring);
}

//! Whether all edges of a ring belong to one polygon
bool OverlayRings::IsOwn(const Ring &ring) const {
	const auto polygon = (*edges)[path[ring.start]].polygon;
	return polygon != OverlayEdge::NO_POLYGON &&
	       std::all_of(path.begin() + ring.start, path.begin() + ring.start + ring.count,
	                   [&](uint32_t edge) { return (*edges)[edge].polygon == polygon; });
}

//! The shell of a hole: the ring of the edge below it, or the shell of that ring if it is a hole
uint32_t OverlayRings::Owner(uint32_t ring) {
	auto at = ring;
	while (rings[at].owner == NONE) {
		at = rings[at].under;
		if (at == NONE) {
			throw std::logic_error("overlay: a hole in no shell");
		}
	}
	const auto owner = rings[at].owner;
	for (at = ring; rings[at].owner == NONE; at = rings[at].under) {
		rings[at].owner = owner;
	}
	return owner;
}

//! A hole thinner than the precision of computed coordinates of its size, unless it is a hole of an input polygon
bool OverlayRings::IsSliver(const Ring &ring) const {
	if (ring.shell || ring.own) {
		return false;
	}
	double area = 0, length = 0, largest = 0;
	const auto *ring_vertices = vertices.data() + ring.start;
	const auto origin = ring_vertices[0];
	for (uint32_t i = 0; i < ring.count; i++) {
		const auto p = ring_vertices[i], q = ring_vertices[i + 1 == ring.count ? 0 : i + 1];
		area += (p.x - origin.x) * (q.y - origin.y) - (q.x - origin.x) * (p.y - origin.y);
		length += vibe::Abs(q.x - p.x) + vibe::Abs(q.y - p.y);
		largest = std::max(largest, std::max(vibe::Abs(p.x), vibe::Abs(p.y)));
	}
	// `area` is twice the area of the ring
	return vibe::Abs(area) < length * largest * OVERLAY_SLIVER;
}

//! Rings may touch at vertices; a ring that touches with all of its vertices is in the hole as well
bool OverlayRings::LiesIn(const Ring &shell, const Ring &hole) const {
	const auto *around = vertices.data() + hole.start;
	Poll poll;
	for (uint32_t i = 0; i < shell.count; i++) {
		vibe::RayCounter counter {vertices[shell.start + i], false, false};
		poll(hole.count);
		for (uint32_t k = 0; k < hole.count && !counter.on; k++) {
			counter.Add(around[k], around[k + 1 == hole.count ? 0 : k + 1]);
		}
		if (!counter.on) {
			return counter.odd;
		}
	}
	return true;
}

//! Removes the rings inside of a hole that is filled
void OverlayRings::FillHoles(CountedVector<uint8_t> &gone) {
	CountedVector<uint32_t> holes, shells;
	for (uint32_t i = 0; i < rings.size(); i++) {
		if (gone[i]) {
			holes.push_back(i);
		} else if (rings[i].shell) {
			shells.push_back(i);
		}
	}
	const auto first = [&](uint32_t ring) { return vertices[rings[ring].first]; };
	std::sort(shells.begin(), shells.end(),
	          [&](uint32_t l, uint32_t r) { return vibe::LexicographicLess(first(l), first(r)); });
	bool any = false;
	Poll poll;
	for (auto hole : holes) {
		auto box = vibe::Box::Empty();
		for (uint32_t i = 0; i < rings[hole].count; i++) {
			const auto p = vertices[rings[hole].start + i];
			box.Add(p.x, p.y);
		}
		auto shell = std::partition_point(shells.begin(), shells.end(),
		                                  [&](uint32_t ring) { return first(ring).x < box.min_x; });
		for (; shell != shells.end() && first(*shell).x <= box.max_x; shell++) {
			poll();
			if (box.Covers(first(*shell).x, first(*shell).y) && *shell != Owner(hole) &&
			    LiesIn(rings[*shell], rings[hole])) {
				gone[*shell] = 1;
				any = true;
			}
		}
	}
	for (uint32_t i = 0; any && i < rings.size(); i++) {
		gone[i] = gone[i] || gone[Owner(i)];
	}
}

//! Sorts the shells, and after each its holes
void OverlayRings::Nest(Parallel &parallel) {
	const auto count = uint32_t(rings.size());
	CountedVector<uint8_t> gone(count);
	InShares(parallel, count, [&](size_t begin, size_t end) {
		for (auto i = begin; i < end; i++) {
			gone[i] = IsSliver(rings[i]) ? 1 : 0;
		}
	});
	if (std::find(gone.begin(), gone.end(), 1) != gone.end()) {
		FillHoles(gone);
	}
	CountedVector<uint32_t> by_place;
	by_place.reserve(count);
	for (uint32_t i = 0; i < count; i++) {
		if (!gone[i]) {
			Owner(i);
			by_place.push_back(i);
		}
	}
	const auto before = [&](uint32_t l, uint32_t r) { return rings[l].place < rings[r].place; };
	if (!std::is_sorted(by_place.begin(), by_place.end(), before)) {
		PolledSort(by_place.begin(), by_place.end(), before);
	}
	// Number of holes of a shell, then the position of its next one
	CountedVector<uint32_t> next(count, 0);
	for (auto i : by_place) {
		next[rings[i].owner] += rings[i].shell ? 0 : 1;
	}
	order.resize(by_place.size());
	uint32_t at = 0;
	for (auto i : by_place) {
		if (rings[i].shell) {
			const auto holes = next[i];
			order[at++] = i;
			next[i] = at;
			at += holes;
		}
	}
	for (auto i : by_place) {
		if (!rings[i].shell) {
			order[next[rings[i].owner]++] = i;
		}
	}
}

//! Whether more than two edges of any kind meet at the end p of an edge of a line
bool OverlayRings::IsNode(uint32_t edge, const Vec2 &p) const {
	return p == (*edges)[edge].a ? (sweep->labels[edge] & LABEL_NODE) != 0 : sweep->crowded[edge] != 0;
}

//! Lines continue through points where exactly two of their edges meet and no line of the input ends
void OverlayRings::BuildLines(const CountedVector<Vec2> &line_ends, Parallel &parallel) {
	line_vertices.clear();
	line_order.clear();
	line_start.assign(1, 0);
	PagesVector<uint32_t> lines;
	for (uint32_t i = 0; i < edges->size(); i++) {
		if (sweep->labels[i] & LABEL_LINE) {
			lines.push_back(i);
		}
	}
	if (lines.empty()) {
		return;
	}
	// End 2 * n is point a of edge lines[n], and end 2 * n + 1 is its point b
	struct Spoke {
		Vec2 point;
		uint32_t end;
	};
	RequireCount(lines.size() * 2);
	PagesVector<Spoke> spokes;
	BucketSort(
	    lines.size() * 2,
	    [&](size_t end) {
		    const auto &edge = (*edges)[lines[end / 2]];
		    return Spoke {end % 2 == 0 ? edge.a : edge.b, uint32_t(end)};
	    },
	    spokes, [](const Spoke &spoke) { return spoke.point.x; },
	    [](const Spoke &l, const Spoke &r) {
		    return l.point == r.point ? l.end < r.end : vibe::LexicographicLess(l.point, r.point);
	    },
	    parallel);
	// For each end, the end that the line goes on with, or NONE
	PagesVector<uint32_t> onward(spokes.size());
	InShares(parallel, spokes.size(), [&](size_t begin, size_t end) {
		Poll poll;
		const auto same = [&](size_t l, size_t r) { return r < spokes.size() && spokes[l].point == spokes[r].point; };
		for (auto i = begin; i < end; i++) {
			poll();
			const auto &spoke = spokes[i];
			// wraps around before the first
			const bool before = same(i, i - 1), after = same(i, i + 1);
			const bool goes_on =
			    before != after && !same(i, before ? i - 2 : i + 2) && !IsNode(lines[spoke.end / 2], spoke.point) &&
			    !std::binary_search(line_ends.begin(), line_ends.end(), spoke.point, vibe::LexicographicLess);
			onward[spoke.end] = goes_on ? spokes[before ? i - 1 : i + 1].end : NONE;
		}
	});
	CountedVector<uint8_t> taken(lines.size(), 0);
	Poll poll;
	line_vertices.reserve(lines.size() + 1);
	const auto follow = [&](const Spoke &first) {
		line_vertices.push_back(first.point);
		for (auto end = first.end; end != NONE && !taken[end / 2]; end = onward[end ^ 1]) {
			poll();
			taken[end / 2] = 1;
			const auto &edge = (*edges)[lines[end / 2]];
			line_vertices.push_back(end % 2 == 0 ? edge.b : edge.a);
		}
		RequireCount(line_vertices.size());
		line_start.push_back(uint32_t(line_vertices.size()));
	};
	// Open lines from their first end, then closed ones from their first vertex
	for (auto &spoke : spokes) {
		if (!taken[spoke.end / 2] && onward[spoke.end] == NONE) {
			follow(spoke);
		}
	}
	const auto open = line_start.size() - 1;
	for (auto &spoke : spokes) {
		if (!taken[spoke.end / 2]) {
			follow(spoke);
		}
	}
	SortLines(open);
}

//! Open lines and closed ones are in the order of their first vertices
void OverlayRings::SortLines(size_t open) {
	const auto before = [&](uint32_t l, uint32_t r) {
		const auto v = line_vertices.begin();
		return std::lexicographical_compare(v + line_start[l], v + line_start[l + 1], v + line_start[r],
		                                    v + line_start[r + 1], vibe::LexicographicLess);
	};
	line_order.resize(line_start.size() - 1);
	std::iota(line_order.begin(), line_order.end(), 0);
	Poll poll;
	for (size_t begin = 0; begin < line_order.size();) {
		poll();
		auto end = begin + 1;
		while (end < line_order.size() && end != open &&
		       line_vertices[line_start[end]] == line_vertices[line_start[begin]]) {
			end++;
		}
		PolledSort(line_order.begin() + ptrdiff_t(begin), line_order.begin() + ptrdiff_t(end), before);
		begin = end;
	}
	std::inplace_merge(line_order.begin(), line_order.begin() + ptrdiff_t(open), line_order.end(), before);
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//
void OverlayRings::Write(int dimension, double scale, GeometryBatch &out) const {
	size_t shells = 0;
	for (auto ring : order) {
		shells += rings[ring].shell;
	}
	const auto lines = line_order.size();
	const auto members = shells + lines + points.size();
	const auto kinds = (shells > 0) + (lines > 0) + (!points.empty());
	const auto add = [&](const Vec2 &p) { out.AddVertex(p.x * scale, p.y * scale, 0, 0); };
	out.RequireRoom(vertices.size() + rings.size() + line_vertices.size() + points.size() * 2 + members + 1);

	GeometryType single = kinds > 1 || dimension < 0 ? GeometryType::GEOMETRYCOLLECTION
	                      : shells > 0               ? GeometryType::POLYGON
	                      : lines > 0                ? GeometryType::LINESTRING
	                      : !points.empty()          ? GeometryType::POINT
	                                                 : static_cast<GeometryType>(dimension + 1);
	const bool multi = kinds == 1 && members > 1;
	const auto type = multi ? static_cast<GeometryType>(static_cast<uint8_t>(single) + 3) : single;
	out.BeginRow(type, VERTEX_XY);
	if (type == GeometryType::GEOMETRYCOLLECTION || multi) {
		out.BeginNode(type, uint32_t(members));
	}
	if (members == 0 && type != GeometryType::GEOMETRYCOLLECTION) {
		out.BeginNode(type, 0);
		out.BeginPart(FamilyOf(type));
	}
	for (auto index : order) {
		const auto &ring = rings[index];
		if (ring.shell) {
			out.BeginNode(GeometryType::POLYGON, 0);
			out.BeginPart(vibe::FAMILY_POLYGON);
		}
		out.BeginRing();
		for (uint32_t i = 0; i <= ring.count; i++) {
			add(vertices[ring.start + (ring.first - ring.start + i) % ring.count]);
		}
	}
	for (auto line : line_order) {
		out.BeginNode(GeometryType::LINESTRING, 0);
		out.BeginPart(vibe::FAMILY_LINE);
		out.BeginRing();
		for (auto i = line_start[line]; i < line_start[line + 1]; i++) {
			add(line_vertices[i]);
		}
	}
	for (auto &point : points) {
		out.BeginNode(GeometryType::POINT, 0);
		out.BeginPart(vibe::FAMILY_POINT);
		out.BeginRing();
		add(point);
	}
	out.EndRow();
}

namespace {

constexpr size_t WKB_HEADER = vibe::WKB_HEADER_BYTES;
constexpr size_t WKB_COUNT = sizeof(uint32_t);

uint8_t *PutHeader(uint8_t *out, GeometryType type, uint32_t count) {
	*out = 1;
	const uint32_t words[] = {static_cast<uint32_t>(type), count};
	std::memcpy(out + 1, words, sizeof(words));
	return out + WKB_HEADER + WKB_COUNT;
}

} // namespace

size_t OverlayRings::WkbSize() const {
	size_t size = 0, shells = 0;
	for (auto ring : order) {
		size += WKB_COUNT + (size_t(rings[ring].count) + 1) * sizeof(Vec2);
		shells += rings[ring].shell;
	}
	return size + (shells + (shells > 1)) * (WKB_HEADER + WKB_COUNT);
}

void OverlayRings::WriteWkb(double scale, uint8_t *out, Parallel &parallel) const {
	const auto shells = std::count_if(order.begin(), order.end(), [&](uint32_t ring) { return rings[ring].shell; });
	// Position of each ring, including the header of its polygon
	UninitializedVector<size_t> starts(order.size() + 1);
	starts[0] = shells > 1 ? WKB_HEADER + WKB_COUNT : 0;
	for (size_t i = 0; i < order.size(); i++) {
		const auto &ring = rings[order[i]];
		starts[i + 1] =
		    starts[i] + (ring.shell ? WKB_HEADER + WKB_COUNT : 0) + WKB_COUNT + (size_t(ring.count) + 1) * sizeof(Vec2);
	}
	if (shells > 1) {
		PutHeader(out, GeometryType::MULTIPOLYGON, uint32_t(shells));
	}
	const auto write = [&](size_t i) {
		const auto &ring = rings[order[i]];
		auto *at = out + starts[i];
		if (ring.shell) {
			auto end = i + 1;
			while (end < order.size() && !rings[order[end]].shell) {
				end++;
			}
			at = PutHeader(at, GeometryType::POLYGON, uint32_t(end - i));
		}
		const uint32_t count = ring.count + 1;
		std::memcpy(at, &count, sizeof(count));
		at += sizeof(count);
		for (uint32_t k = 0, from = ring.first; k < count; k++) {
			const Vec2 p {vertices[from].x * scale, vertices[from].y * scale};
			std::memcpy(at, &p, sizeof(p));
			at += sizeof(p);
			from = from + 1 == ring.start + ring.count ? ring.start : from + 1;
		}
	};
	const size_t shares = std::max<size_t>(1, std::min(parallel.Threads() * 4, order.size()));
	parallel.For(shares, [&](size_t share) {
		// Steps of about the same number of bytes
		const auto border = [&](size_t number) {
			return std::lower_bound(starts.begin(), starts.end() - 1, starts.back() / shares * number) - starts.begin();
		};
		const auto end = share + 1 == shares ? order.size() : size_t(border(share + 1));
		for (auto i = share == 0 ? 0 : size_t(border(share)); i < end; i++) {
			write(i);
		}
	});
}

//===----------------------------------------------------------------------===//
// Shells only
//===----------------------------------------------------------------------===//
bool OverlayShells::Are(const vibe::UnitedRing *rings, size_t count) {
	return std::all_of(rings, rings + count, [](const vibe::UnitedRing &ring) { return ring.shell != 0; });
}

size_t OverlayShells::WkbSize() const {
	size_t size = count == 1 ? 0 : WKB_HEADER + WKB_COUNT;
	for (size_t i = 0; i < count; i++) {
		size += WKB_HEADER + 2 * WKB_COUNT + (size_t(rings[i].count) + 1) * sizeof(Vec2);
	}
	return size;
}

void OverlayShells::WriteWkb(uint8_t *out) const {
	if (count == 0) {
		PutHeader(out, GeometryType::POLYGON, 0);
		return;
	}
	if (count > 1) {
		out = PutHeader(out, GeometryType::MULTIPOLYGON, uint32_t(count));
	}
	const auto put = [&](const Vec2 *from, size_t some) {
		std::memcpy(out, from, some * sizeof(Vec2));
		out += some * sizeof(Vec2);
	};
	for (size_t i = 0; i < count; i++) {
		const auto &ring = rings[i];
		const auto *start = vertices + ring.start, *first = start + ring.first;
		out = PutHeader(out, GeometryType::POLYGON, 1);
		const uint32_t closed = ring.count + 1;
		std::memcpy(out, &closed, sizeof(closed));
		out += sizeof(closed);
		put(first, ring.count - ring.first);
		put(start, ring.first);
		put(first, 1);
	}
}

double OverlayShells::Area() const {
	//! From its first vertex on
	struct Closed {
		const Vec2 *at;
		uint64_t count;
		uint64_t first;

		const Vec2 &operator[](uint64_t i) const {
			return at[first + i < count ? first + i : first + i - count];
		}
		double X(uint64_t i) const {
			return (*this)[i].x;
		}
		double Y(uint64_t i) const {
			return (*this)[i].y;
		}
	};
	auto sink = vibe::AreaSink::Empty();
	for (size_t i = 0; i < count; i++) {
		sink.Part(vibe::FAMILY_POLYGON);
		sink.Ring(Closed {vertices + rings[i].start, rings[i].count, rings[i].first}, rings[i].count + 1);
	}
	return sink.Finish();
}

} // namespace vibespatial
