#include "engine/cpu/overlay.hpp"

#include "engine/cpu/overlay_edges.hpp"
#include "engine/cpu/overlay_rings.hpp"
#include "engine/cpu/overlay_sweep.hpp"
#include "geometry/checks.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"

#include <cmath>

namespace vibespatial {

using vibe::Vec2;

namespace {

//! -0 is 0
Vec2 Plain(const Vec2 &p) {
	return Vec2 {p.x + 0.0, p.y + 0.0};
}

//! Does a ring run counterclockwise? Told at its first vertex by x and y, exactly; by its area where that is a spike.
bool RunsCounterclockwise(const Vec2 *points, size_t count) {
	size_t first = 0;
	for (size_t i = 1; i < count; i++) {
		if (PointBefore(points[i], points[first])) {
			first = i;
		}
	}
	const auto distinct = [&](size_t step) {
		auto i = first;
		do {
			i = (i + step) % count;
		} while (points[i] == points[first] && i != first);
		return points[i];
	};
	const int side = vibe::Orient2d(distinct(count - 1), points[first], distinct(1));
	if (side != 0) {
		return side > 0;
	}
	double area = 0;
	for (size_t i = 0; i < count; i++) {
		const auto &p = points[i], &q = points[(i + 1) % count], &o = points[first];
		area += (p.x - o.x) * (q.y - o.y) - (q.x - o.x) * (p.y - o.y);
	}
	return area > 0;
}

//! The half-planes beside a box that a point lies in
uint32_t Outside(const vibe::Box &box, const Vec2 &p) {
	return (p.x < box.min_x ? 1u : 0u) | (p.x > box.max_x ? 2u : 0u) | (p.y < box.min_y ? 4u : 0u) |
	       (p.y > box.max_y ? 8u : 0u);
}

} // namespace

struct Overlay::Work {
	enum class Kind : uint8_t { SHELL, HOLE, RING, LINE };
	//! Vertices [start, start + count); a ring does not repeat its first
	struct Chain {
		size_t start;
		uint32_t count;
		uint32_t polygon;
		Kind kind;
		Side side;
	};

	std::vector<Vec2> vertices;
	std::vector<Chain> chains;
	std::vector<OverlayPoint> points;
	uint32_t polygons = 0;
	//! -1: nothing was added
	int dimension[2] = {-1, -1};

	OverlayEdges net;
	OverlaySweep sweep;
	OverlayRings rings;
	std::vector<Vec2> line_ends;
	std::vector<uint32_t> crossed;
	vibe::Box boxes[2];
	double scale = 1;

	void Clear() {
		vertices.clear();
		chains.clear();
		points.clear();
		polygons = 0;
		dimension[0] = dimension[1] = -1;
	}

	void Raise(Side side, int to) {
		dimension[side] = std::max(dimension[side], to);
	}

	//===------------------------------------------------------------------===//
	// Input
	//===------------------------------------------------------------------===//
	//! Closes the chain whose vertices were appended from `start`
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
		chains.push_back(Chain {start, uint32_t(count), polygon, kind, side});
	}
	//! A line of one point is a point
	void EndLine(size_t start, Side side) {
		bool flat = true;
		for (auto i = start + 1; i < vertices.size() && flat; i++) {
			flat = vertices[i] == vertices[start];
		}
		if (vertices.size() == start) {
			return;
		}
		if (flat) {
			points.push_back(OverlayPoint {vertices[start], 1u << side});
			vertices.resize(start);
			return;
		}
		EndChain(start, Kind::LINE, side, OverlayEdge::NO_POLYGON);
	}

	//! Reads parts without a batch; what is not usable is left to CheckUsable to explain
	struct Reader {
		Work &work;
		Side side;
		bool usable = true;
		vibe::Family family = vibe::FAMILY_POINT;
		bool shell = true;

		void Part(vibe::Family part) {
			family = part;
			shell = true;
			work.Raise(side, int(part));
			if (part == vibe::FAMILY_POLYGON) {
				work.polygons++;
			}
		}
		void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
			auto &vertices = work.vertices;
			const auto start = vertices.size();
			const bool is_shell = shell;
			shell = false;
			if (count == 0) {
				return;
			}
			vertices.resize(start + count);
			double sum = 0;
			for (uint32_t i = 0; i < count; i++) {
				const Vec2 p {vibe::LoadDouble(coords + i * stride) + 0.0,
				              vibe::LoadDouble(coords + i * stride + sizeof(double)) + 0.0};
				// 0, unless one of them is infinite or NaN
				sum += p.x * 0.0 + p.y * 0.0;
				vertices[start + i] = p;
			}
			usable = usable && sum == 0;
			if (family == vibe::FAMILY_POINT) {
				work.points.push_back(OverlayPoint {vertices[start], 1u << side});
				vertices.resize(start);
			} else if (family == vibe::FAMILY_LINE) {
				usable = usable && count != 1;
				work.EndLine(start, side);
			} else {
				usable = usable && count >= 4 && vertices[start] == vertices.back();
				work.EndChain(start, is_shell ? Kind::SHELL : Kind::HOLE, side, work.polygons - 1);
			}
		}
	};

	//===------------------------------------------------------------------===//
	// Edges
	//===------------------------------------------------------------------===//
	void Measure() {
		boxes[0] = boxes[1] = vibe::Box::Empty();
		double largest = 0;
		const auto grow = [&](Side side, const Vec2 &p) {
			auto &box = boxes[side];
			box.min_x = std::min(box.min_x, p.x);
			box.min_y = std::min(box.min_y, p.y);
			box.max_x = std::max(box.max_x, p.x);
			box.max_y = std::max(box.max_y, p.y);
		};
		for (auto &chain : chains) {
			for (auto i = chain.start; i < chain.start + chain.count; i++) {
				grow(chain.side, vertices[i]);
			}
		}
		for (auto &point : points) {
			grow(point.sides & 1 ? LEFT : RIGHT, point.point);
		}
		for (auto &box : boxes) {
			if (box.min_x <= box.max_x) {
				largest = std::max(largest, std::max(std::max(vibe::Abs(box.min_x), vibe::Abs(box.max_x)),
				                                     std::max(vibe::Abs(box.min_y), vibe::Abs(box.max_y))));
			}
		}
		// Products of four coordinates must neither over- nor underflow. A power of two changes no digit.
		scale = 1;
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
			for (auto &box : boxes) {
				box = vibe::Box {box.min_x * scale, box.min_y * scale, box.max_x * scale, box.max_y * scale};
			}
		}
	}

	void AddEdge(const Vec2 &p, const Vec2 &q, const Chain &chain, int32_t weight, uint32_t polygon) {
		if (p == q) {
			return;
		}
		const bool forward = PointBefore(p, q);
		OverlayEdge edge {forward ? p : q, forward ? q : p, {0, 0}, polygon, 0};
		if (chain.kind == Kind::LINE) {
			edge.lines = 1u << chain.side;
		} else {
			edge.rise[chain.side] = forward ? weight : -weight;
		}
		net.edges.push_back(edge);
	}

	//! Only what can matter near `clip` (nullptr: all): a detour that stays in a half-plane beside it is cut short, which moves
	//! the ring through no point of the box
	void AddEdges(const Chain &chain, const vibe::Box *clip) {
		const auto *p = vertices.data() + chain.start;
		const size_t n = chain.count;
		if (chain.kind == Kind::LINE) {
			for (size_t i = 1; i < n; i++) {
				if (!clip || (Outside(*clip, p[i - 1]) & Outside(*clip, p[i])) == 0) {
					AddEdge(p[i - 1], p[i], chain, 0, OverlayEdge::NO_POLYGON);
				}
			}
			return;
		}
		int32_t weight = 1;
		if (chain.kind != Kind::RING) {
			weight = RunsCounterclockwise(p, n) == (chain.kind == Kind::SHELL) ? 1 : -1;
		}
		if (!clip) {
			for (size_t i = 0; i < n; i++) {
				AddEdge(p[i], p[i + 1 == n ? 0 : i + 1], chain, weight, chain.polygon);
			}
			return;
		}
		size_t last = 0;
		auto last_code = Outside(*clip, p[0]), code = Outside(*clip, p[1 % n]);
		for (size_t i = 1; i <= n; i++) {
			const auto next_code = Outside(*clip, p[(i + 1) % n]);
			if (i == n || (last_code & code & next_code) == 0) {
				AddEdge(p[last], p[i % n], chain, weight, i - last == 1 ? chain.polygon : OverlayEdge::NO_POLYGON);
				last = i;
				last_code = code;
			}
			code = next_code;
		}
	}

	void FillNet(const OverlayRule &rule, Parallel &parallel) {
		net.edges.clear();
		const bool clip_left = rule.op == OverlayOp::INTERSECTION;
		const bool clip_right = clip_left || rule.op == OverlayOp::DIFFERENCE;
		for (auto &chain : chains) {
			const bool clip = chain.side == LEFT ? clip_left : clip_right;
			AddEdges(chain, clip ? &boxes[1 - chain.side] : nullptr);
		}
		if (net.edges.size() > UINT32_MAX / 4) {
			throw GeometryError("more than 1,073,741,823 edges in one overlay");
		}
		net.Settle(parallel);
	}

	//! Replaces polygons that cross themselves by what the even-odd rule makes of them
	void Repair(Parallel &parallel) {
		std::sort(crossed.begin(), crossed.end());
		crossed.erase(std::unique(crossed.begin(), crossed.end()), crossed.end());
		const auto bad = [&](const Chain &chain) {
			return chain.kind != Kind::LINE && chain.polygon != OverlayEdge::NO_POLYGON &&
			       std::binary_search(crossed.begin(), crossed.end(), chain.polygon);
		};
		std::vector<Chain> broken;
		std::copy_if(chains.begin(), chains.end(), std::back_inserter(broken), bad);
		chains.erase(std::remove_if(chains.begin(), chains.end(), bad), chains.end());
		std::stable_sort(broken.begin(), broken.end(),
		                 [](const Chain &l, const Chain &r) { return l.polygon < r.polygon; });
		Overlay overlay;
		GeometryBatch mended;
		OverlayRule rule;
		rule.fill = FillRule::ODD;
		rule.areas_only = true;
		for (size_t begin = 0; begin < broken.size();) {
			auto end = begin;
			for (; end < broken.size() && broken[end].polygon == broken[begin].polygon; end++) {
				overlay.AddRing(LEFT, vertices.data() + broken[end].start, broken[end].count);
			}
			mended.Clear();
			overlay.Run(rule, parallel, mended);
			for (size_t ring = 0; ring + 1 < mended.ring_start.size(); ring++) {
				const auto start = vertices.size();
				for (auto i = mended.ring_start[ring]; i < mended.ring_start[ring + 1]; i++) {
					vertices.push_back(Vec2 {mended.x[i], mended.y[i]});
				}
				EndChain(start, Kind::RING, broken[begin].side, OverlayEdge::NO_POLYGON);
			}
			begin = end;
		}
		crossed.clear();
	}

	//===------------------------------------------------------------------===//
	// The arrangement
	//===------------------------------------------------------------------===//
	//! Edges that meet in their ends only, with their labels
	void Arrange(const OverlayRule &rule, Parallel &parallel) {
		Measure();
		SettlePoints();
		crossed.clear();
		FillNet(rule, parallel);
		bool split = net.Split(0, parallel, crossed);
		if (!crossed.empty()) {
			Repair(parallel);
			FillNet(rule, parallel);
			split = net.Split(0, parallel, crossed);
		}
		// Rounded crossings seldom make edges meet anew, and then another round or two does. Where it does not, a grid of growing
		// coarseness does: from a few units in the last place of the largest coordinate.
		constexpr int ROUNDS = 8;
		double grid = 0;
		for (int round = 0; !sweep.Run(net.edges, points, rule, parallel); round++) {
			if (round >= ROUNDS) {
				grid = grid == 0 ? LeastGrid() : grid * 4;
			}
			net.Split(grid, parallel, crossed);
		}
		(void)split;
	}

	//! A power of two
	double LeastGrid() const {
		double largest = 0;
		for (auto &edge : net.edges) {
			largest = std::max(std::max(largest, std::max(vibe::Abs(edge.a.x), vibe::Abs(edge.b.x))),
			                   std::max(vibe::Abs(edge.a.y), vibe::Abs(edge.b.y)));
		}
		int exponent;
		std::frexp(largest, &exponent);
		return std::ldexp(1.0, exponent - 50);
	}

	void SettlePoints() {
		std::sort(points.begin(), points.end(),
		          [](const OverlayPoint &l, const OverlayPoint &r) { return PointBefore(l.point, r.point); });
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
				line_ends.push_back(vertices[chain.start]);
				line_ends.push_back(vertices[chain.start + chain.count - 1]);
			}
		}
		std::sort(line_ends.begin(), line_ends.end(), PointBefore);
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
	for (auto part = batch.row_part[row]; part < batch.row_part[row + 1]; part++) {
		Work::Reader reader {*work, side};
		reader.Part(static_cast<vibe::Family>(batch.part_family[part]));
		for (auto ring = batch.part_ring[part]; ring < batch.part_ring[part + 1]; ring++) {
			const auto start = work->vertices.size();
			for (auto i = batch.ring_start[ring]; i < batch.ring_start[ring + 1]; i++) {
				work->vertices.push_back(Plain(Vec2 {batch.x[i], batch.y[i]}));
			}
			const auto family = reader.family;
			if (family == vibe::FAMILY_POINT) {
				work->points.push_back(OverlayPoint {work->vertices[start], 1u << side});
				work->vertices.resize(start);
			} else if (family == vibe::FAMILY_LINE) {
				work->EndLine(start, side);
			} else {
				work->EndChain(start, ring == batch.part_ring[part] ? Work::Kind::SHELL : Work::Kind::HOLE, side,
				               work->polygons - 1);
			}
		}
	}
}

void Overlay::AddWkb(Side side, const uint8_t *wkb, size_t size) {
	Work::Reader reader {*work, side};
	VisitWkb(wkb, size, reader);
	if (!reader.usable) {
		GeometryBatch batch;
		ReadWkb(wkb, size, batch);
		CheckUsable(batch, 0);
	}
}

void Overlay::AddRing(Side side, const Vec2 *points, size_t count) {
	const auto start = work->vertices.size();
	for (size_t i = 0; i < count; i++) {
		work->vertices.push_back(Plain(points[i]));
	}
	work->Raise(side, vibe::FAMILY_POLYGON);
	work->EndChain(start, Work::Kind::RING, side, OverlayEdge::NO_POLYGON);
}

void Overlay::AddLine(Side side, const Vec2 *points, size_t count) {
	const auto start = work->vertices.size();
	for (size_t i = 0; i < count; i++) {
		work->vertices.push_back(Plain(points[i]));
	}
	work->Raise(side, vibe::FAMILY_LINE);
	work->EndLine(start, side);
}

void Overlay::AddPoint(Side side, const Vec2 &point) {
	work->Raise(side, vibe::FAMILY_POINT);
	work->points.push_back(OverlayPoint {Plain(point), 1u << side});
}

void Overlay::Run(const OverlayRule &rule, Parallel &parallel, GeometryBatch &out) {
	work->Arrange(rule, parallel);
	work->rings.Build(work->net.edges, work->sweep, work->line_ends);
	work->rings.Write(work->ResultDimension(rule.op), 1 / work->scale, out);
	work->Clear();
}

double Overlay::RunArea(const OverlayRule &rule, Parallel &parallel) {
	work->Arrange(rule, parallel);
	const auto area = AreaOf(work->net.edges, work->sweep) / work->scale / work->scale;
	work->Clear();
	return area;
}

void Overlay::Clear() {
	work->Clear();
}

size_t Overlay::Memory() const {
	return work->vertices.capacity() * sizeof(Vec2) + work->chains.capacity() * sizeof(Work::Chain) +
	       work->points.capacity() * sizeof(OverlayPoint) + work->net.Memory() + work->sweep.Memory() +
	       work->rings.Memory();
}

} // namespace vibespatial
