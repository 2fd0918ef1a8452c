#include "engine/overlay/input.hpp"

#include "engine/overlay/tuning.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb_visit.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <mutex>

namespace vibespatial {

using namespace overlay_tuning;
using vibe::Vec2;
using Kind = OverlayChain::Kind;

namespace {

//! -0 becomes 0
Vec2 Plain(const Vec2 &p) {
	return Vec2 {p.x + 0.0, p.y + 0.0};
}

//! Next to coordinates of usual size, products of differences as small as this underflow
constexpr double TINY = 0x1p-500;

bool IsTiny(double value) {
	return (std::fabs(value) < TINY) & (value != 0);
}
bool IsTiny(const Vec2 &p) {
	return IsTiny(p.x) | IsTiny(p.y);
}

//! In the order of absolute values, but 0 is above all
uint64_t Magnitude(double value) {
	return (vibe::Bits(value) << 1) - 1;
}

void Extend(vibe::Box &box, const Vec2 &p) {
	box.min_x = std::min(box.min_x, p.x);
	box.min_y = std::min(box.min_y, p.y);
	box.max_x = std::max(box.max_x, p.x);
	box.max_y = std::max(box.max_y, p.y);
}

} // namespace

void OverlayInput::Clear() {
	vertices.clear();
	members.clear();
	chains.clear();
	mended.clear();
	points.clear();
	polygons = 0;
	known = nullptr;
	for (auto side : {Overlay::LEFT, Overlay::RIGHT}) {
		dimension[side] = -1;
		added[side] = others[side] = 0;
	}
}

void OverlayInput::ReleaseChains() {
	Release(vertices);
	Release(members);
	Release(chains);
	mended.clear();
}

int OverlayInput::ResultDimension(OverlayOp op) const {
	switch (op) {
	case OverlayOp::INTERSECTION:
		return std::min(dimension[0], dimension[1]);
	case OverlayOp::DIFFERENCE:
		return dimension[0];
	default:
		return std::max(dimension[0], dimension[1]);
	}
}

//===----------------------------------------------------------------------===//
// Geometries one by one
//===----------------------------------------------------------------------===//
void OverlayInput::BeginGeometry(Side side, GeometryType type) {
	added[side]++;
	others[side] += type != GeometryType::POLYGON && type != GeometryType::MULTIPOLYGON;
}

void OverlayInput::BeginPart(Side side, vibe::Family family) {
	dimension[side] = std::max(dimension[side], int(family));
	if (family == vibe::FAMILY_POLYGON) {
		polygons++;
	}
}

void OverlayInput::EndChain(size_t start, Kind kind, Side side, uint32_t polygon) {
	if (kind != Kind::LINE && vertices.size() > start + 1 && vertices[start] == vertices.back()) {
		vertices.pop_back();
	}
	const auto count = vertices.size() - start;
	if (count == 0) {
		return;
	}
	if (count > UINT32_MAX) {
		throw GeometryError("a ring or line of more than 4,294,967,295 vertices");
	}
	members.push_back(Member {start, OverlayChain {nullptr, uint32_t(count), polygon, kind, side}});
}

void OverlayInput::EndPoint(size_t start, Side side) {
	points.push_back(OverlayPoint {vertices[start], 1u << side, 0});
	vertices.resize(start);
}

//! A line whose points are all equal is that point
void OverlayInput::EndLine(size_t start, Side side) {
	if (vertices.size() == start) {
		return;
	}
	if (std::all_of(vertices.begin() + start, vertices.end(), [&](const Vec2 &p) { return p == vertices[start]; })) {
		EndPoint(start, side);
	} else {
		EndChain(start, Kind::LINE, side, OverlayEdge::NO_POLYGON);
	}
}

void OverlayInput::EndRing(size_t start, Side side, vibe::Family family, bool shell) {
	if (family == vibe::FAMILY_POINT) {
		EndPoint(start, side);
	} else if (family == vibe::FAMILY_LINE) {
		EndLine(start, side);
	} else {
		EndChain(start, shell ? Kind::SHELL : Kind::HOLE, side, polygons - 1);
	}
}

//! Reads parts from WKB. `usable`: CheckUsable() would accept them.
struct OverlayInput::Reader {
	OverlayInput &input;
	Side side;
	bool usable = true;
	vibe::Family family = vibe::FAMILY_POINT;
	bool shell = true;

	void Part(vibe::Family part) {
		family = part;
		shell = true;
		input.BeginPart(side, part);
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		const auto start = input.vertices.size();
		const bool is_shell = shell;
		shell = false;
		if (count == 0) {
			return;
		}
		input.vertices.resize(start + count);
		auto *vertices = input.vertices.data() + start;
		double sum = 0;
		for (uint32_t i = 0; i < count; i++) {
			const auto p = LoadVertex(coords + i * stride);
			// 0, unless a coordinate is infinite or NaN
			sum += p.x * 0.0 + p.y * 0.0;
			vertices[i] = p;
		}
		usable = usable && sum == 0 && (family != vibe::FAMILY_LINE || count != 1) &&
		         (family != vibe::FAMILY_POLYGON || (count >= 4 && vertices[0] == vertices[count - 1]));
		input.EndRing(start, side, family, is_shell);
	}
};

void OverlayInput::Add(Side side, const GeometryBatch &batch, size_t row) {
	if (!batch.valid[row]) {
		return;
	}
	CheckUsable(batch, row);
	BeginGeometry(side, batch.type[row]);
	for (auto part = batch.row_part[row]; part < batch.row_part[row + 1]; part++) {
		const auto family = static_cast<vibe::Family>(batch.part_family[part]);
		BeginPart(side, family);
		for (auto ring = batch.part_ring[part]; ring < batch.part_ring[part + 1]; ring++) {
			const auto start = vertices.size();
			for (auto i = batch.ring_start[ring]; i < batch.ring_start[ring + 1]; i++) {
				vertices.push_back(Plain(Vec2 {batch.x[i], batch.y[i]}));
			}
			EndRing(start, side, family, ring == batch.part_ring[part]);
		}
	}
}

void OverlayInput::AddWkb(Side side, const uint8_t *wkb, size_t size) {
	Reader reader {*this, side};
	BeginGeometry(side, ReadWkbHeader(wkb, size).type);
	VisitWkb(wkb, size, reader);
	if (!reader.usable) {
		GeometryBatch batch;
		ReadWkb(wkb, size, batch);
		CheckUsable(batch, 0);
	}
}

void OverlayInput::AddRing(Side side, const Vec2 *ring_points, size_t count) {
	const auto start = vertices.size();
	std::transform(ring_points, ring_points + count, std::back_inserter(vertices), Plain);
	BeginGeometry(side, GeometryType::INVALID);
	BeginPart(side, vibe::FAMILY_POLYGON);
	EndChain(start, Kind::RING, side, OverlayEdge::NO_POLYGON);
}

void OverlayInput::AddLine(Side side, const Vec2 *line_points, size_t count) {
	const auto start = vertices.size();
	std::transform(line_points, line_points + count, std::back_inserter(vertices), Plain);
	BeginGeometry(side, GeometryType::LINESTRING);
	BeginPart(side, vibe::FAMILY_LINE);
	EndLine(start, side);
}

void OverlayInput::AddPoint(Side side, const Vec2 &point) {
	BeginGeometry(side, GeometryType::POINT);
	BeginPart(side, vibe::FAMILY_POINT);
	points.push_back(OverlayPoint {Plain(point), 1u << side, 0});
}

void OverlayInput::AddMended(CountedVector<Vec2> points_of_ring, bool shell, Side side) {
	mended.push_back(std::move(points_of_ring));
	const auto &ring = mended.back();
	polygons += shell;
	chains.push_back(
	    OverlayChain {ring.data(), uint32_t(ring.size()), polygons - 1, shell ? Kind::SHELL : Kind::HOLE, side});
	chains.back().box = PointsBox(chains.back());
}

//===----------------------------------------------------------------------===//
// Many polygons at once
//===----------------------------------------------------------------------===//
namespace {

//! Counts rings and polygons in WKB
struct PolygonCounts {
	size_t rings = 0;
	size_t polygons = 0;
	size_t members = 0;
	bool usable = true;

	//! False for anything but polygons
	bool Visit(WkbSlice geometry) {
		const auto type = ReadWkbHeader(geometry.data, geometry.size).type;
		if (type != GeometryType::POLYGON && type != GeometryType::MULTIPOLYGON) {
			return false;
		}
		const auto before = polygons;
		VisitWkb(geometry.data, geometry.size, *this);
		// EMPTY counts as one
		members += std::max<size_t>(polygons - before, 1);
		return usable;
	}
	void Part(vibe::Family) {
		polygons++;
	}
	void Ring(uint32_t count, const uint8_t *, size_t) {
		if (count == 0) {
			return;
		}
		usable = usable && count >= 4;
		rings++;
	}
};

//! Makes chains of the rings, which stay WKB, in memory that was allocated by PolygonCounts
struct PolygonReader {
	Overlay::Side side;
	OverlayChain *chain;
	uint32_t polygon;
	bool usable = true;
	bool shell = true;

	void Part(vibe::Family) {
		polygon++;
		shell = true;
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		const bool is_shell = shell;
		shell = false;
		if (count == 0) {
			return;
		}
		double sum = 0;
		uint64_t least = UINT64_MAX;
		auto box = vibe::Box::Empty();
		for (uint32_t i = 0; i < count; i++) {
			const auto p = LoadVertex(coords + i * stride);
			// 0, unless a coordinate is infinite or NaN
			sum += p.x * 0.0 + p.y * 0.0;
			least = std::min(least, std::min(Magnitude(p.x), Magnitude(p.y)));
			Extend(box, p);
		}
		// Coordinates that have to be rounded are not read where they are
		usable = usable && sum == 0 && least >= Magnitude(TINY) &&
		         LoadVertex(coords) == LoadVertex(coords + (count - 1) * stride);
		*chain++ = OverlayChain {nullptr,
		                         count - 1,
		                         polygon,
		                         is_shell ? Kind::SHELL : Kind::HOLE,
		                         side,
		                         uint8_t(stride),
		                         OverlayChain::NOT_KNOWN,
		                         coords,
		                         box};
	}
};

} // namespace

bool OverlayInput::AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel) {
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		bytes += geometries[i].size;
	}
	// Steps of about the same number of bytes, and the first geometry of each
	const size_t share = bytes / (parallel.Threads() * READ_STEPS_PER_THREAD) + 1;
	std::vector<size_t> first {0};
	bytes = 0;
	for (size_t i = 0; i < count; i++) {
		bytes += geometries[i].size;
		if (bytes >= share || i + 1 == count) {
			first.push_back(i + 1);
			bytes = 0;
		}
	}
	std::vector<PolygonCounts> counts(first.size() - 1);
	parallel.For(counts.size(), [&](size_t step) {
		for (auto i = first[step]; i < first[step + 1] && counts[step].usable; i++) {
			counts[step].usable = counts[step].Visit(geometries[i]);
		}
	});
	PolygonCounts all;
	std::vector<PolygonCounts> before;
	for (auto &part : counts) {
		before.push_back(all);
		all.usable = all.usable && part.usable;
		all.rings += part.rings;
		all.polygons += part.polygons;
		all.members += part.members;
	}
	if (!all.usable || polygons + all.polygons > UINT32_MAX) {
		return false;
	}
	const auto first_chain = chains.size();
	chains.resize(first_chain + all.rings);
	std::atomic<bool> usable {true};
	parallel.For(counts.size(), [&](size_t step) {
		PolygonReader reader {side, chains.data() + first_chain + before[step].rings,
		                      polygons + uint32_t(before[step].polygons) - 1};
		for (auto i = first[step]; i < first[step + 1]; i++) {
			VisitWkb(geometries[i].data, geometries[i].size, reader);
		}
		if (!reader.usable) {
			usable = false;
		}
	});
	if (!usable) {
		Clear();
		return false;
	}
	polygons += uint32_t(all.polygons);
	added[side] = all.members;
	dimension[side] = vibe::FAMILY_POLYGON;
	return true;
}

bool OverlayInput::AddPolygons(Side side, WkbSlice geometry) {
	PolygonCounts counts;
	if (!counts.Visit(geometry)) {
		return false;
	}
	const auto first_chain = chains.size();
	chains.resize(first_chain + counts.rings);
	PolygonReader reader {side, chains.data() + first_chain, polygons - 1};
	VisitWkb(geometry.data, geometry.size, reader);
	if (!reader.usable) {
		Clear();
		return false;
	}
	polygons += uint32_t(counts.polygons);
	added[side] = counts.members;
	dimension[side] = vibe::FAMILY_POLYGON;
	return true;
}

bool OverlayInput::AddKnown(Side side, const KnownRows &rows, const uint32_t *numbers, size_t count,
                            Parallel &parallel) {
	// Shares of the rows, and what lies before each
	const size_t shares = std::min(count, parallel.Threads() * READ_STEPS_PER_THREAD);
	std::vector<KnownPolygons::Counts> before;
	KnownPolygons::Counts all;
	for (size_t share = 0; share < shares; share++) {
		before.push_back(all);
		for (auto i = count * share / shares; i < count * (share + 1) / shares; i++) {
			if (!rows.polygons->Count(numbers[i], all)) {
				return false;
			}
		}
	}
	if (polygons + all.polygons > UINT32_MAX) {
		return false;
	}
	known = rows.polygons;
	const auto &rings = known->Rings();
	const auto first_chain = chains.size();
	chains.resize(first_chain + all.rings);
	parallel.For(shares, [&](size_t share) {
		auto *chain = chains.data() + first_chain + before[share].rings;
		auto polygon = polygons + uint32_t(before[share].polygons) - 1;
		for (auto i = count * share / shares; i < count * (share + 1) / shares; i++) {
			const auto row = numbers[i];
			for (auto number = known->FirstRing(row); number < known->FirstRing(row + 1); number++) {
				const auto &ring = rings[number];
				polygon += ring.kind == Kind::SHELL;
				*chain++ = OverlayChain {nullptr, ring.count,  polygon, ring.kind,
				                         side,    ring.stride, number,  rows.wkb[row].data + ring.offset,
				                         ring.box};
			}
		}
	});
	polygons += uint32_t(all.polygons);
	added[side] = all.members;
	dimension[side] = vibe::FAMILY_POLYGON;
	return true;
}

bool OverlayInput::AreKnownValid() const {
	return known && std::all_of(chains.begin(), chains.end(), [&](const OverlayChain &chain) {
		       return chain.kind != Kind::SHELL || IsKnownValid(chain);
	       });
}

void OverlayInput::NoteValid() const {
	for (auto &chain : chains) {
		if (chain.kind == Kind::SHELL) {
			NoteValid(chain);
		}
	}
}

//===----------------------------------------------------------------------===//
// Before an overlay
//===----------------------------------------------------------------------===//
vibe::Box OverlayInput::PointsBox(const OverlayChain &chain) {
	auto box = vibe::Box::Empty();
	std::for_each(chain.points, chain.points + chain.count, [&](const Vec2 &p) { Extend(box, p); });
	return box;
}

void OverlayInput::Prepare(Parallel &parallel) {
	Measure(parallel);
	SortPoints();
}

void OverlayInput::Measure(Parallel &parallel) {
	for (auto &member : members) {
		chains.push_back(member.chain);
		chains.back().points = vertices.data() + member.start;
	}
	scale = 1;
	grid = 0;
	vertex_count = 0;
	boxes[0] = boxes[1] = vibe::Box::Empty();
	std::mutex lock;
	const size_t shares = std::min(chains.size(), parallel.Threads() * MEASURE_STEPS_PER_THREAD);
	parallel.For(shares, [&](size_t share) {
		vibe::Box mine[2] = {vibe::Box::Empty(), vibe::Box::Empty()};
		size_t count = 0;
		for (auto i = chains.size() * share / shares; i < chains.size() * (share + 1) / shares; i++) {
			if (chains[i].points) {
				chains[i].box = PointsBox(chains[i]);
			}
			mine[chains[i].side].Add(chains[i].box);
			count += chains[i].count;
		}
		std::lock_guard<std::mutex> guard(lock);
		boxes[0].Add(mine[0]);
		boxes[1].Add(mine[1]);
		vertex_count += count;
	});
	for (auto &point : points) {
		Extend(boxes[point.sides & 1 ? Overlay::LEFT : Overlay::RIGHT], point.point);
	}
	double largest = 0;
	for (auto &box : boxes) {
		if (box.min_x <= box.max_x) {
			largest = std::max(largest, std::max(std::max(vibe::Abs(box.min_x), vibe::Abs(box.max_x)),
			                                     std::max(vibe::Abs(box.min_y), vibe::Abs(box.max_y))));
		}
	}
	Scale(largest,
	      std::any_of(vertices.begin(), vertices.end(), [](const Vec2 &p) { return IsTiny(p); }) ||
	          std::any_of(points.begin(), points.end(), [](const OverlayPoint &p) { return IsTiny(p.point); }));
}

void OverlayInput::Scale(double largest, bool has_tiny) {
	// A power of two changes no digit
	const bool is_scaled = largest > 1e70 || (largest < 1e-70 && largest > 0);
	if (is_scaled) {
		int exponent;
		std::frexp(largest, &exponent);
		scale = std::ldexp(1.0, std::max(-1000, std::min(1000, -exponent)));
		constexpr int LEAST_DOUBLE = -1074;
		grid = std::max(TINY, std::ldexp(scale, LEAST_DOUBLE));
	}
	if (is_scaled || has_tiny) {
		for (auto &p : vertices) {
			p = Scaled(p);
		}
		for (auto &p : points) {
			p.point = Scaled(p.point);
		}
		// Rounding turns no order around
		const auto scaled = [&](const vibe::Box &box) {
			return vibe::Box {Scaled(box.min_x), Scaled(box.min_y), Scaled(box.max_x), Scaled(box.max_y)};
		};
		for (auto &box : boxes) {
			box = scaled(box);
		}
		for (auto &chain : chains) {
			chain.box = scaled(chain.box);
		}
	}
}

double OverlayInput::Scaled(double value) const {
	if (grid == 0) {
		return IsTiny(value) ? 0 : value;
	}
	return std::nearbyint(value * scale / grid) * grid + 0.0;
}

void OverlayInput::SortPoints() {
	PolledSort(points.begin(), points.end(),
	           [](const OverlayPoint &l, const OverlayPoint &r) { return vibe::LexicographicLess(l.point, r.point); });
	size_t kept = 0;
	for (auto &point : points) {
		if (kept > 0 && points[kept - 1].point == point.point) {
			points[kept - 1].sides |= point.sides;
		} else {
			points[kept++] = point;
		}
	}
	points.resize(kept);
	line_ends.clear();
	for (auto &chain : chains) {
		if (chain.kind == Kind::LINE) {
			line_ends.push_back(chain.points[0]);
			line_ends.push_back(chain.points[chain.count - 1]);
		}
	}
	PolledSort(line_ends.begin(), line_ends.end(), vibe::LexicographicLess);
}

void OverlayInput::Clip(OverlayOp op, PagesVector<Vec2> &near) {
	size_t kept = 0;
	vertex_count = 0;
	for (auto chain : chains) {
		const auto &box = boxes[1 - chain.side];
		if (IsClipped(op, chain.side) && !box.Covers(chain.box)) {
			if (!box.Intersects(chain.box)) {
				continue;
			}
			whole.resize(chain.count);
			ReadPoints(chain, whole.data());
			chain.points = whole.data();
			const auto start = near.size();
			near.resize(start + chain.count);
			chain.count = uint32_t(chain.Clip(box, near.data() + start));
			chain.points = near.data() + start;
			near.resize(start + chain.count);
		}
		vertex_count += chain.count;
		chains[kept++] = chain;
	}
	chains.resize(kept);
}

void OverlayInput::ReadAll(Parallel &parallel) {
	if (std::all_of(chains.begin(), chains.end(), [](const OverlayChain &chain) { return chain.points != nullptr; })) {
		return;
	}
	CountedVector<size_t> starts;
	size_t count = 0;
	for (auto &chain : chains) {
		starts.push_back(count);
		count += chain.count;
	}
	PagesVector<Vec2> all(count);
	ForEach(parallel, chains.size(), [&](size_t i) {
		ReadPoints(chains[i], all.data() + starts[i]);
		chains[i].points = all.data() + starts[i];
	});
	vertices.swap(all);
}

} // namespace vibespatial
