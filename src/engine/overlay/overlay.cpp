#include "engine/overlay/overlay.hpp"

#include "engine/overlay/arrangement.hpp"
#include "engine/gpu/interface/overlay.hpp"
#include "engine/overlay/rings.hpp"
#include "engine/relate/validity.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/curve.h"

#include <atomic>
#include <cmath>
#include <mutex>

namespace vibespatial {

using vibe::Vec2;
using Kind = OverlayChain::Kind;

namespace {

//! -0 is 0
Vec2 Plain(const Vec2 &p) {
	return Vec2 {p.x + 0.0, p.y + 0.0};
}

//! From WKB
Vec2 LoadVertex(const uint8_t *at) {
	return Plain(Vec2 {vibe::LoadDouble(at), vibe::LoadDouble(at + sizeof(double))});
}

void Grow(vibe::Box &box, const Vec2 &p) {
	box.min_x = std::min(box.min_x, p.x);
	box.min_y = std::min(box.min_y, p.y);
	box.max_x = std::max(box.max_x, p.x);
	box.max_y = std::max(box.max_y, p.y);
}

} // namespace

struct Overlay::Work {
	//! A chain whose vertices may still move
	struct Member {
		size_t start;
		OverlayChain chain;
	};

	PagesVector<Vec2> vertices;
	std::vector<Member> members;
	std::vector<OverlayPoint> points;
	uint32_t polygons = 0;
	//! -1: nothing was added
	int dimension[2] = {-1, -1};
	//! Geometries that were added, and those of them that are no polygon or multipolygon
	size_t added[2] = {0, 0};
	size_t others[2] = {0, 0};

	//! Those of AddPolygons; once it runs, all
	std::vector<OverlayChain> chains;
	//! Of all chains
	size_t vertex_count = 0;
	OverlayArrangement arrangement;
	OverlayRings rings;
	std::vector<Vec2> line_ends;
	//! Rings in the place of those that were not valid
	std::vector<std::vector<Vec2>> mended;
	vibe::Box boxes[2];
	double scale = 1;
	OverlayDevice *device = nullptr;
	//! Whether the device does this union; -1: it was not asked
	int takes = -1;

	void Clear() {
		vertices.clear();
		members.clear();
		chains.clear();
		points.clear();
		polygons = 0;
		for (auto side : {LEFT, RIGHT}) {
			dimension[side] = -1;
			added[side] = others[side] = 0;
		}
	}

	//===------------------------------------------------------------------===//
	// Input
	//===------------------------------------------------------------------===//
	void BeginGeometry(Side side, GeometryType type) {
		added[side]++;
		others[side] += type != GeometryType::POLYGON && type != GeometryType::MULTIPOLYGON;
	}
	//! What a part of that family adds
	void BeginPart(Side side, vibe::Family family) {
		dimension[side] = std::max(dimension[side], int(family));
		if (family == vibe::FAMILY_POLYGON) {
			polygons++;
		}
	}
	//! The vertices appended from `start` on are a ring or line of the last part
	void EndChain(size_t start, Kind kind, Side side, uint32_t polygon) {
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
	void EndPoint(size_t start, Side side) {
		points.push_back(OverlayPoint {vertices[start], 1u << side, 0});
		vertices.resize(start);
	}
	//! A line of one point is that point
	void EndLine(size_t start, Side side) {
		if (vertices.size() == start) {
			return;
		}
		if (std::all_of(vertices.begin() + start, vertices.end(),
		                [&](const Vec2 &p) { return p == vertices[start]; })) {
			EndPoint(start, side);
		} else {
			EndChain(start, Kind::LINE, side, OverlayEdge::NO_POLYGON);
		}
	}
	void EndRing(size_t start, Side side, vibe::Family family, bool shell) {
		if (family == vibe::FAMILY_POINT) {
			EndPoint(start, side);
		} else if (family == vibe::FAMILY_LINE) {
			EndLine(start, side);
		} else {
			EndChain(start, shell ? Kind::SHELL : Kind::HOLE, side, polygons - 1);
		}
	}

	//! Reads parts from WKB; what is not usable is left to CheckUsable to explain
	struct Reader {
		Work &work;
		Side side;
		bool usable = true;
		vibe::Family family = vibe::FAMILY_POINT;
		bool shell = true;

		void Part(vibe::Family part) {
			family = part;
			shell = true;
			work.BeginPart(side, part);
		}
		void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
			const auto start = work.vertices.size();
			const bool is_shell = shell;
			shell = false;
			if (count == 0) {
				return;
			}
			work.vertices.resize(start + count);
			auto *vertices = work.vertices.data() + start;
			double sum = 0;
			for (uint32_t i = 0; i < count; i++) {
				const auto p = LoadVertex(coords + i * stride);
				// 0, unless one of them is infinite or NaN
				sum += p.x * 0.0 + p.y * 0.0;
				vertices[i] = p;
			}
			usable = usable && sum == 0 && (family != vibe::FAMILY_LINE || count != 1) &&
			         (family != vibe::FAMILY_POLYGON || (count >= 4 && vertices[0] == vertices[count - 1]));
			work.EndRing(start, side, family, is_shell);
		}
	};

	//! What polygons in WKB have, once counted
	struct PolygonCounts {
		size_t rings = 0;
		size_t polygons = 0;
		size_t members = 0;
		bool usable = true;

		//! False where there is something else than polygons
		bool Visit(WkbSlice geometry) {
			const auto type = ReadWkbHeader(geometry.data, geometry.size).type;
			if (type != GeometryType::POLYGON && type != GeometryType::MULTIPOLYGON) {
				return false;
			}
			const auto before = polygons;
			VisitWkb(geometry.data, geometry.size, *this);
			// EMPTY is one, too
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
	//! Finds the rings of polygons, for places that were counted
	struct PolygonReader {
		Side side;
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
			auto box = vibe::Box::Empty();
			for (uint32_t i = 0; i < count; i++) {
				const auto p = LoadVertex(coords + i * stride);
				// 0, unless one of them is infinite or NaN
				sum += p.x * 0.0 + p.y * 0.0;
				Grow(box, p);
			}
			usable = usable && sum == 0 && LoadVertex(coords) == LoadVertex(coords + (count - 1) * stride);
			*chain++ = OverlayChain {nullptr, count - 1,       polygon, is_shell ? Kind::SHELL : Kind::HOLE,
			                         side,    uint8_t(stride), coords,  box};
		}
	};

	//! Nothing was added before, nor anything when it says false
	bool AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel) {
		size_t bytes = 0;
		std::vector<size_t> first {0};
		const size_t share = [&] {
			for (size_t i = 0; i < count; i++) {
				bytes += geometries[i].size;
			}
			return bytes / (parallel.Threads() * 4) + 1;
		}();
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
		if (!all.usable || all.polygons > UINT32_MAX) {
			return false;
		}
		chains.resize(all.rings);
		std::atomic<bool> usable {true};
		parallel.For(counts.size(), [&](size_t step) {
			PolygonReader reader {side, chains.data() + before[step].rings, uint32_t(before[step].polygons) - 1};
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
		polygons = uint32_t(all.polygons);
		added[side] = all.members;
		dimension[side] = vibe::FAMILY_POLYGON;
		return true;
	}

	//===------------------------------------------------------------------===//
	// The arrangement
	//===------------------------------------------------------------------===//
	//! visit(point) for the points of a chain, read or not
	template <class VISIT>
	void VisitPoints(const OverlayChain &chain, VISIT &&visit) const {
		const size_t count = chain.count;
		if (const auto *at = chain.points) {
			for (size_t i = 0; i < count; i++) {
				visit(at[i]);
			}
			return;
		}
		const auto *at = chain.wkb;
		const size_t stride = chain.stride;
		const double factor = scale;
		for (size_t i = 0; i < count; i++, at += stride) {
			const auto p = LoadVertex(at);
			visit(Vec2 {p.x * factor, p.y * factor});
		}
	}
	void ReadPoints(const OverlayChain &chain, Vec2 *out) const {
		VisitPoints(chain, [&](const Vec2 &p) { *out++ = p; });
	}
	//! The box of a chain that was read
	static vibe::Box PointsBox(const OverlayChain &chain) {
		auto box = vibe::Box::Empty();
		std::for_each(chain.points, chain.points + chain.count, [&](const Vec2 &p) { Grow(box, p); });
		return box;
	}
	//! The points of all chains to `vertices`, one chain after the other
	void Gather(Parallel &parallel) {
		std::vector<size_t> starts;
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

	void Measure(Parallel &parallel) {
		for (auto &member : members) {
			chains.push_back(member.chain);
			chains.back().points = vertices.data() + member.start;
		}
		scale = 1;
		vertex_count = 0;
		boxes[0] = boxes[1] = vibe::Box::Empty();
		std::mutex lock;
		const size_t shares = std::min(chains.size(), parallel.Threads() * 8);
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
			Grow(boxes[point.sides & 1 ? LEFT : RIGHT], point.point);
		}
		double largest = 0;
		for (auto &box : boxes) {
			if (box.min_x <= box.max_x) {
				largest = std::max(largest, std::max(std::max(vibe::Abs(box.min_x), vibe::Abs(box.max_x)),
				                                     std::max(vibe::Abs(box.min_y), vibe::Abs(box.max_y))));
			}
		}
		// Products of four coordinates must neither over- nor underflow. A power of two changes no digit.
		if (largest > 1e70 || (largest < 1e-70 && largest > 0)) {
			int exponent;
			std::frexp(largest, &exponent);
			scale = std::ldexp(1.0, std::max(-1000, std::min(1000, -exponent)));
			for (auto &p : vertices) {
				p = Vec2 {p.x * scale, p.y * scale};
			}
			for (auto &p : points) {
				p.point = Vec2 {p.point.x * scale, p.point.y * scale};
			}
			const auto scaled = [&](const vibe::Box &box) {
				return vibe::Box {box.min_x * scale, box.min_y * scale, box.max_x * scale, box.max_y * scale};
			};
			for (auto &box : boxes) {
				box = scaled(box);
			}
			for (auto &chain : chains) {
				chain.box = scaled(chain.box);
			}
		}
		// What is scaled back must not be rounded
		arrangement.grid = largest > 0 && largest < 1e-290 ? std::ldexp(scale, -1074) : 0;
	}

	void SettlePoints() {
		std::sort(points.begin(), points.end(), [](const OverlayPoint &l, const OverlayPoint &r) {
			return vibe::LexicographicLess(l.point, r.point);
		});
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
		std::sort(line_ends.begin(), line_ends.end(), vibe::LexicographicLess);
	}

	void Arrange(const OverlayRule &rule, Parallel &parallel) {
		Measure(parallel);
		SettlePoints();
		// The rings of one geometry tell by themselves what is inside, whether they are valid or not. In a crowd each polygon must
		// count once, and only once.
		auto &net = arrangement.net;
		for (auto side : {LEFT, RIGHT}) {
			const bool alone = added[side] == 1 && others[side] == 0;
			net.odd[side] = rule.fill == FillRule::ODD || (alone && rule.least == 1);
		}
		takes = -1;
		if (InParts(rule) && vertex_count / polygons >= LARGE_POLYGON && UniteParts(rule, parallel, true)) {
			return;
		}
		if (!net.odd[0] || !net.odd[1]) {
			Repair(parallel);
		}
		if (InParts(rule)) {
			UniteParts(rule, parallel, false);
		} else {
			if (std::any_of(chains.begin(), chains.end(), [](const OverlayChain &chain) { return !chain.points; })) {
				Gather(parallel);
			}
			arrangement.Arrange(chains, boxes, points, rule, parallel);
			rings.Build(net.edges, arrangement.sweep, line_ends, parallel);
			arrangement.Trim();
		}
	}

	//===------------------------------------------------------------------===//
	// Polygons that are not valid
	//===------------------------------------------------------------------===//
	//! Replaces them by what the even-odd rule makes of them
	void Repair(Parallel &parallel) {
		std::vector<size_t> first;
		for (size_t i = 0; i < chains.size(); i++) {
			if (chains[i].kind == Kind::SHELL && !arrangement.net.odd[chains[i].side]) {
				first.push_back(i);
			}
		}
		const auto invalid = Invalid(first, parallel);
		mended.clear();
		OverlayRule rule;
		rule.fill = FillRule::ODD;
		rule.areas_only = true;
		for (auto &found : invalid) {
			for (auto i : found) {
				Overlay overlay;
				std::vector<Vec2> ring_points;
				const auto polygon = chains[i].polygon;
				for (auto k = i; k < chains.size() && chains[k].polygon == polygon; k++) {
					ring_points.resize(chains[k].count);
					ReadPoints(chains[k], ring_points.data());
					overlay.AddRing(LEFT, ring_points.data(), ring_points.size());
					chains[k].count = 0;
				}
				GeometryBatch batch;
				overlay.Run(rule, parallel, batch);
				for (size_t part = 0; part + 1 < batch.part_ring.size(); part++) {
					for (auto ring = batch.part_ring[part]; ring < batch.part_ring[part + 1]; ring++) {
						mended.emplace_back();
						for (auto v = batch.ring_start[ring]; v + 1 < batch.ring_start[ring + 1]; v++) {
							mended.back().push_back(Vec2 {batch.x[v], batch.y[v]});
						}
						chains.push_back(OverlayChain {mended.back().data(), uint32_t(mended.back().size()), polygons,
						                               ring == batch.part_ring[part] ? Kind::SHELL : Kind::HOLE,
						                               chains[i].side});
						chains.back().box = PointsBox(chains.back());
					}
					polygons++;
				}
			}
		}
		chains.erase(std::remove_if(chains.begin(), chains.end(), [](const OverlayChain &c) { return c.count == 0; }),
		             chains.end());
	}
	//! Those of the polygons with these first chains that are not valid
	std::vector<std::vector<size_t>> Invalid(const std::vector<size_t> &first, Parallel &parallel) const {
		std::vector<std::vector<size_t>> invalid(std::min(first.size(), parallel.Threads() * 32));
		parallel.For(invalid.size(), [&](size_t step) {
			GeometryBatch batch;
			const auto end = first.size() * (step + 1) / invalid.size();
			for (auto i = first.size() * step / invalid.size(); i < end; i++) {
				batch.Clear();
				AppendPolygon(first[i], batch);
				if (!IsValid(batch, 0)) {
					invalid[step].push_back(first[i]);
				}
			}
		});
		return invalid;
	}
	//! The polygon whose shell is chain `first`
	void AppendPolygon(size_t first, GeometryBatch &batch) const {
		batch.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		batch.BeginNode(GeometryType::POLYGON, 0);
		batch.BeginPart(vibe::FAMILY_POLYGON);
		for (auto i = first; i < chains.size() && chains[i].polygon == chains[first].polygon; i++) {
			batch.BeginRing();
			const auto start = batch.x.size();
			VisitPoints(chains[i], [&](const Vec2 &p) { batch.AddVertex(p.x, p.y, 0, 0); });
			batch.AddVertex(batch.x[start], batch.y[start], 0, 0);
		}
		batch.EndRow();
	}

	//===------------------------------------------------------------------===//
	// A union of many polygons
	//===------------------------------------------------------------------===//
	static constexpr size_t PART_VERTICES = 8192;
	//! Vertices from which on a device is faster to see that a polygon is valid
	static constexpr size_t LARGE_POLYGON = 64;

	//! First neighbours among themselves, then what is left of all: what lies inside others goes early, in parts that fit into a
	//! core's cache and that cores work on at the same time
	bool InParts(const OverlayRule &rule) const {
		return rule.op == OverlayOp::UNION && !arrangement.net.odd[LEFT] && rule.least == 1 && added[RIGHT] == 0 &&
		       vertex_count >= 4 * PART_VERTICES && polygons >= 64 &&
		       std::all_of(chains.begin(), chains.end(), [](const OverlayChain &chain) {
			       return chain.kind == Kind::SHELL || chain.kind == Kind::HOLE;
		       });
	}

	//! Chains [begin, end) are a polygon
	struct Polygon {
		uint32_t code;
		uint32_t begin;
		uint32_t end;
	};
	vibe::Box BoxOf(const Polygon &polygon) const {
		auto box = vibe::Box::Empty();
		for (auto i = polygon.begin; i < polygon.end; i++) {
			box.Add(chains[i].box);
		}
		return box;
	}

	//! The polygons along a Hilbert curve: an order that their content decides
	std::vector<Polygon> Ordered(Parallel &parallel) const {
		auto all = boxes[0];
		Grow(all, Vec2 {std::min(all.min_x, boxes[1].min_x), std::min(all.min_y, boxes[1].min_y)});
		Grow(all, Vec2 {std::max(all.max_x, boxes[1].max_x), std::max(all.max_y, boxes[1].max_y)});
		const auto grid = vibe::CurveGrid<16>::Over(all);
		std::vector<Polygon> polygon_list, scratch;
		polygon_list.reserve(std::min<size_t>(polygons, chains.size()));
		for (uint32_t i = 0; i < chains.size();) {
			const auto begin = i;
			while (i < chains.size() && chains[i].polygon == chains[begin].polygon) {
				i++;
			}
			polygon_list.push_back(Polygon {0, begin, i});
		}
		ForEach(parallel, polygon_list.size(),
		        [&](size_t i) { polygon_list[i].code = vibe::HilbertCodeOf(grid, BoxOf(polygon_list[i])); });
		const auto before = [&](const Polygon &l, const Polygon &r) {
			if (l.code != r.code) {
				return l.code < r.code;
			}
			const auto left = BoxOf(l), right = BoxOf(r);
			const double a[] = {left.min_x, left.min_y, left.max_x, left.max_y};
			const double b[] = {right.min_x, right.min_y, right.max_x, right.max_y};
			const auto differs = std::mismatch(a, a + 4, b);
			return differs.first != a + 4 ? *differs.first < *differs.second : Hash(l) < Hash(r);
		};
		BucketSort(
		    polygon_list, scratch, [](const Polygon &polygon) { return double(polygon.code); }, before, parallel);
		return polygon_list;
	}
	//! The same wherever its rings begin and whichever way they run
	uint64_t Hash(const Polygon &polygon) const {
		uint64_t sum = 0;
		for (auto i = polygon.begin; i < polygon.end; i++) {
			VisitPoints(chains[i], [&](const Vec2 &p) {
				sum += (vibe::Bits(p.x) * 0x9e3779b97f4a7c15ull ^ vibe::Bits(p.y)) * 0xbf58476d1ce4e5b9ull;
			});
		}
		return sum;
	}

	//! Polygons [part_start[i], part_start[i + 1]) are part i
	struct Parts {
		std::vector<Polygon> polygons;
		std::vector<size_t> start {0};

		size_t Count() const {
			return start.size() - 1;
		}
	};

	//! `unchecked`: polygons may not be valid; then it is done by a device, or not at all, which is false
	bool UniteParts(const OverlayRule &rule, Parallel &parallel, bool unchecked) {
		if (unchecked && !HasDevice()) {
			return false;
		}
		Parts parts;
		parts.polygons = Ordered(parallel);
		size_t weight = 0;
		for (size_t i = 0; i < parts.polygons.size(); i++) {
			for (auto k = parts.polygons[i].begin; k < parts.polygons[i].end; k++) {
				weight += chains[k].count;
			}
			if (weight >= PART_VERTICES || i + 1 == parts.polygons.size()) {
				parts.start.push_back(i + 1);
				weight = 0;
			}
		}
		UnitedNet united;
		const bool done = HasDevice() && UniteOnDevice(parts, parallel, unchecked, united);
		if (unchecked && (!done || united.state == UnitedNet::State::INVALID)) {
			return false;
		}
		std::vector<EdgeRuns> runs;
		if (!done) {
			runs = ReduceParts(parts, std::vector<uint8_t>(parts.Count(), 1), parallel);
		}
		// Nothing is read from these any more, and there may be much of them
		Release(vertices);
		Release(members);
		Release(chains);
		mended.clear();
		auto &edges = arrangement.net.edges;
		if (!done) {
			arrangement.ArrangeRuns(runs, points, rule, parallel);
			rings.Build(edges, arrangement.sweep, line_ends, parallel);
			arrangement.Trim();
			return true;
		}
		if (united.state == UnitedNet::State::RINGS) {
			rings.Build(united, parallel);
			return true;
		}
		edges.resize(united.edges.size());
		InShares(parallel, edges.size(), [&](size_t begin, size_t end) {
			for (auto i = begin; i < end; i++) {
				const auto &edge = united.edges[i];
				edges[i] = OverlayEdge {edge.a, edge.b, {edge.rise, 0}, edge.polygon, 0};
			}
		});
		Release(united.edges);
		if (united.state == UnitedNet::State::LINKED) {
			arrangement.sweep.Take(edges, united);
		} else {
			arrangement.ArrangeNet(points, rule, parallel, united.state == UnitedNet::State::WHOLE);
		}
		rings.Build(edges, arrangement.sweep, line_ends, parallel);
		arrangement.Trim();
		return true;
	}

	//! The boundary of each part that is open, a run of edges
	std::vector<EdgeRuns> ReduceParts(const Parts &parts, const std::vector<uint8_t> &open, Parallel &parallel) const {
		std::vector<size_t> numbers;
		for (size_t part = 0; part < parts.Count(); part++) {
			if (open[part]) {
				numbers.push_back(part);
			}
		}
		const OverlayRule rule;
		const size_t steps = std::min(numbers.size(), parallel.Threads() * 4);
		std::vector<std::vector<EdgeRuns>> reduced(steps);
		parallel.For(steps, [&](size_t step) {
			OverlayArrangement mine;
			std::vector<OverlayChain> own;
			std::vector<Vec2> own_points;
			Serial serial;
			std::vector<OverlayPoint> none;
			for (auto k = numbers.size() * step / steps; k < numbers.size() * (step + 1) / steps; k++) {
				own.clear();
				size_t count = 0;
				for (auto i = parts.start[numbers[k]]; i < parts.start[numbers[k] + 1]; i++) {
					const auto &polygon = parts.polygons[i];
					own.insert(own.end(), chains.begin() + polygon.begin, chains.begin() + polygon.end);
				}
				for (auto &chain : own) {
					count += chain.points ? 0 : chain.count;
				}
				own_points.resize(count);
				auto *next = own_points.data();
				for (auto &chain : own) {
					if (!chain.points) {
						ReadPoints(chain, next);
						chain.points = next;
						next += chain.count;
					}
				}
				mine.Arrange(own, boxes, none, rule, serial);
				mine.TakeAreas(reduced[step]);
			}
		});
		std::vector<EdgeRuns> all;
		for (auto &some : reduced) {
			std::move(some.begin(), some.end(), std::back_inserter(all));
		}
		return all;
	}

	bool HasDevice() {
		if (takes < 0) {
			takes =
			    device && arrangement.grid == 0 && vertex_count <= OverlayNet::MAX_COUNT && device->Takes(vertex_count);
		}
		return takes > 0;
	}
	//! False when it did nothing
	bool UniteOnDevice(const Parts &parts, Parallel &parallel, bool unchecked, UnitedNet &united) {
		std::vector<vibe::NetRing> net_rings(chains.size());
		size_t count = 0;
		for (size_t i = 0; i < chains.size(); i++) {
			net_rings[i].start = uint32_t(count);
			count += chains[i].count;
		}
		ForEach(parallel, parts.Count(), [&](size_t part) {
			for (auto i = parts.start[part]; i < parts.start[part + 1]; i++) {
				for (auto k = parts.polygons[i].begin; k < parts.polygons[i].end; k++) {
					net_rings[k].part = uint32_t(part);
					net_rings[k].polygon = chains[k].polygon;
				}
			}
		});
		OverlayNet input;
		input.read = [&](size_t ring, Vec2 *out) {
			auto chain = chains[ring];
			ReadPoints(chain, out);
			chain.points = out;
			return chain.Weight();
		};
		input.vertex_count = count;
		input.rings = net_rings.data();
		input.ring_count = net_rings.size();
		input.parts = parts.Count();
		input.box = boxes[LEFT];
		// Among points the last step is the CPU's
		input.whole = points.empty();
		input.rest = [&](const std::vector<uint8_t> &failed, OverlayNet::Edges &edges) {
			for (auto &piece : ReduceParts(parts, failed, parallel)) {
				for (auto &edge : piece.edges) {
					edges.push_back(vibe::NetEdge {edge.a, edge.b, edge.rise, edge.polygon, 0});
				}
			}
		};
		if (unchecked) {
			input.polygons = polygons;
			input.are_valid = [&](const std::vector<uint8_t> &doubtful) {
				std::vector<size_t> first;
				for (auto &polygon : parts.polygons) {
					// Of one with holes the device says nothing
					if (doubtful[chains[polygon.begin].polygon] || polygon.end - polygon.begin > 1) {
						first.push_back(polygon.begin);
					}
				}
				const auto invalid = Invalid(first, parallel);
				return std::all_of(invalid.begin(), invalid.end(),
				                   [](const std::vector<size_t> &found) { return found.empty(); });
			};
		}
		// One that has failed is not asked again
		takes = device->Unite(input, parallel, united);
		return takes > 0;
	}

	int ResultDimension(OverlayOp op) const {
		switch (op) {
		case OverlayOp::INTERSECTION:
			return std::min(dimension[0], dimension[1]);
		case OverlayOp::DIFFERENCE:
			return dimension[0];
		default:
			return std::max(dimension[0], dimension[1]);
		}
	}
};

Overlay::Overlay() : work(new Work()) {
}
Overlay::~Overlay() = default;

void Overlay::Add(Side side, const GeometryBatch &batch, size_t row) {
	if (!batch.valid[row]) {
		return;
	}
	CheckUsable(batch, row);
	work->BeginGeometry(side, batch.type[row]);
	for (auto part = batch.row_part[row]; part < batch.row_part[row + 1]; part++) {
		const auto family = static_cast<vibe::Family>(batch.part_family[part]);
		work->BeginPart(side, family);
		for (auto ring = batch.part_ring[part]; ring < batch.part_ring[part + 1]; ring++) {
			const auto start = work->vertices.size();
			for (auto i = batch.ring_start[ring]; i < batch.ring_start[ring + 1]; i++) {
				work->vertices.push_back(Plain(Vec2 {batch.x[i], batch.y[i]}));
			}
			work->EndRing(start, side, family, ring == batch.part_ring[part]);
		}
	}
}

void Overlay::AddWkb(Side side, const uint8_t *wkb, size_t size) {
	Work::Reader reader {*work, side};
	work->BeginGeometry(side, ReadWkbHeader(wkb, size).type);
	VisitWkb(wkb, size, reader);
	if (!reader.usable) {
		GeometryBatch batch;
		ReadWkb(wkb, size, batch);
		CheckUsable(batch, 0);
	}
}

bool Overlay::AddPolygons(Side side, const WkbSlice *geometries, size_t count, Parallel &parallel) {
	return work->AddPolygons(side, geometries, count, parallel);
}

void Overlay::AddRing(Side side, const Vec2 *points, size_t count) {
	const auto start = work->vertices.size();
	std::transform(points, points + count, std::back_inserter(work->vertices), Plain);
	work->BeginGeometry(side, GeometryType::INVALID);
	work->BeginPart(side, vibe::FAMILY_POLYGON);
	work->EndChain(start, Kind::RING, side, OverlayEdge::NO_POLYGON);
}

void Overlay::AddLine(Side side, const Vec2 *points, size_t count) {
	const auto start = work->vertices.size();
	std::transform(points, points + count, std::back_inserter(work->vertices), Plain);
	work->BeginGeometry(side, GeometryType::LINESTRING);
	work->BeginPart(side, vibe::FAMILY_LINE);
	work->EndLine(start, side);
}

void Overlay::AddPoint(Side side, const Vec2 &point) {
	work->BeginGeometry(side, GeometryType::POINT);
	work->BeginPart(side, vibe::FAMILY_POINT);
	work->points.push_back(OverlayPoint {Plain(point), 1u << side, 0});
}

void Overlay::Run(const OverlayRule &rule, Parallel &parallel, GeometryBatch &out) {
	work->Arrange(rule, parallel);
	work->rings.Write(work->ResultDimension(rule.op), 1 / work->scale, out);
	work->Clear();
}

void Overlay::Run(const OverlayRule &rule, Parallel &parallel, const std::function<uint8_t *(size_t)> &allocate) {
	work->Arrange(rule, parallel);
	if (work->rings.AreasOnly()) {
		work->rings.WriteWkb(1 / work->scale, allocate(work->rings.WkbSize()), parallel);
	} else {
		GeometryBatch batch;
		work->rings.Write(work->ResultDimension(rule.op), 1 / work->scale, batch);
		vibespatial::WriteWkb(batch, 0, allocate(vibespatial::WkbSize(batch, 0)));
	}
	work->Clear();
}

void Overlay::Clear() {
	work->Clear();
}

void Overlay::UseDevice(OverlayDevice *device) {
	work->device = device;
}

size_t Overlay::Memory() const {
	return work->vertices.capacity() * sizeof(Vec2) +
	       work->members.capacity() * (sizeof(Work::Member) + sizeof(OverlayChain)) +
	       work->chains.capacity() * sizeof(OverlayChain) + work->points.capacity() * sizeof(OverlayPoint) +
	       work->arrangement.Memory() + work->rings.Memory();
}

} // namespace vibespatial
