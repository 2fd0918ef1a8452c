#include "engine/constructive/hull.hpp"

#include "geometry/error.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/hull.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace vibespatial {

namespace {

constexpr const char *NOT_FINITE = "a coordinate is NaN or infinite";

class HullBuilder {
public:
	HullBuilder(const GeometryBatch &batch_p, size_t row, GeometryBatch &out_p)
	    : batch(batch_p), view(batch_p.View(row)), order {view.x, view.y}, out(out_p),
	      vertex_type(batch_p.vertex_type[row] & VERTEX_Z) {
	}

	void Run() {
		Collect();
		hull.resize(points.size() + 1);
		Poll poll;
		hull.resize(
		    vibe::FindHull(order, points.data(), static_cast<uint32_t>(points.size()), !dropped, hull.data(), poll));
		Emit(static_cast<GeometryType>(vibe::HullType(static_cast<uint32_t>(hull.size()))));
	}

private:
	//! The distinct vertices from the lowest up, of equal ones the first, but for some inside the hull. Of a polygon only the
	//! shell: holes lie inside.
	void Collect() {
		for (auto part = view.part_begin; part < view.part_end; part++) {
			const auto ring = view.part_ring[part];
			if (ring == view.part_ring[part + 1]) {
				continue;
			}
			for (auto i = view.ring_start[ring]; i < view.ring_start[ring + 1]; i++) {
				if (!vibe::IsFinite(view.x[i]) || !vibe::IsFinite(view.y[i])) {
					throw GeometryError(NOT_FINITE);
				}
				if (points.empty() || !order.AreSame(points.back(), i)) {
					points.push_back(i);
				}
			}
		}
		constexpr size_t MANY = 2048;
		if (points.size() > MANY) {
			DropInner();
		}
		SortDistinct();
	}

	void SortDistinct() {
		PolledSort(points.begin(), points.end(), order);
		points.resize(vibe::KeepFirst(order, points.data(), static_cast<uint32_t>(points.size())));
	}

	//! Leaves out what the hull of a sample has inside or on its edges, and what repeats a corner of it: most of all points,
	//! and then these need not be sorted
	void DropInner() {
		constexpr size_t SAMPLE = 1024;
		CountedVector<uint32_t> all;
		all.swap(points);
		for (size_t i = 0; i < all.size(); i += all.size() / SAMPLE) {
			points.push_back(all[i]);
		}
		SortDistinct();
		AddSide(points.begin(), points.end(), left);
		AddSide(points.rbegin(), points.rend(), right);
		std::reverse(right.begin(), right.end());
		points.clear();
		Poll poll;
		for (const auto i : all) {
			poll();
			if (IsInner(i)) {
				dropped = true;
			} else if (!repeats) {
				points.push_back(i);
			}
		}
	}

	//! Does a point lie inside the hull of the sample or on an edge of it, but on no corner? Notes whether it repeats a corner
	//! that comes before it.
	bool IsInner(uint32_t i) {
		repeats = false;
		return IsBeside(left, i, -1) && !repeats && IsBeside(right, i, 1) && !repeats;
	}
	bool IsBeside(const CountedVector<uint32_t> &side, uint32_t i, int inner) {
		const auto next =
		    std::lower_bound(side.begin(), side.end(), i, [&](uint32_t a, uint32_t b) { return order.IsLower(a, b); });
		if (next == side.end()) {
			return false;
		}
		const auto p = view.Vertex(i);
		if (view.Vertex(*next) == p) {
			repeats = i > *next;
			return false;
		}
		return next != side.begin() && vibe::Orient2d(view.Vertex(*(next - 1)), view.Vertex(*next), p) * inner >= 0;
	}

	//! The corners on one side of points that come in order
	template <class ITERATOR>
	void AddSide(ITERATOR begin, ITERATOR end, CountedVector<uint32_t> &side) const {
		side.resize(end - begin);
		uint32_t size = 0;
		for (auto it = begin; it != end; ++it) {
			size = vibe::AddCorner(order, side.data(), size, 1, *it);
		}
		side.resize(size);
	}

	void Emit(GeometryType type) {
		if (hull.empty()) {
			out.BeginRow(type, VERTEX_XY);
			out.BeginNode(type, 0);
			out.EndRow();
			return;
		}
		out.BeginRow(type, vertex_type);
		out.BeginNode(type, 0);
		out.BeginPart(FamilyOf(type));
		out.BeginRing();
		for (auto i : hull) {
			out.AddVertex(view.x[i], view.y[i], vertex_type ? batch.z[i] : 0, 0);
		}
		out.EndRow();
	}

	const GeometryBatch &batch;
	const vibe::GeometryView view;
	const vibe::HullOrder order;
	GeometryBatch &out;
	const uint8_t vertex_type;
	CountedVector<uint32_t> points;
	CountedVector<uint32_t> hull;
	// The hull of a sample: its two sides from the lowest point up
	CountedVector<uint32_t> left;
	CountedVector<uint32_t> right;
	bool repeats = false;
	//! Points are missing that repeat no other
	bool dropped = false;
};

//! Shows the vertices of a geometry, but for those of holes and those that repeat the one before, to a function of their place
//! and where they are written
template <class SEE>
struct OuterVertices {
	SEE see;
	//! None is equal to this
	vibe::Vec2 last {std::numeric_limits<double>::quiet_NaN(), 0};
	uint8_t vertex_type = VERTEX_XY;
	bool is_polygon = false, is_shell = true;

	explicit OuterVertices(SEE see_p) : see(std::move(see_p)) {
	}

	void Row(WkbHeader header) {
		vertex_type = header.vertex_type;
	}
	void Node(GeometryType, uint32_t) {
	}
	void Part(vibe::Family family) {
		is_polygon = family == vibe::FAMILY_POLYGON;
		is_shell = true;
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		for (uint32_t i = 0; i < count && (is_shell || !is_polygon); i++, coords += stride) {
			const vibe::Vec2 p {vibe::LoadDouble(coords), vibe::LoadDouble(coords + sizeof(double))};
			if (p != last) {
				see(p, coords);
				last = p;
			}
		}
		is_shell = false;
	}
};

} // namespace

void ConvexHull(const uint8_t *wkb, size_t size, GeometryBatch &scratch, GeometryBatch &out) {
	auto inner = vibe::InnerBox::Empty();
	OuterVertices look([&](const vibe::Vec2 &p, const uint8_t *) {
		if (!vibe::IsFinite(p.x) || !vibe::IsFinite(p.y)) {
			throw GeometryError(NOT_FINITE);
		}
		inner.Add(p);
	});
	WalkWkb(wkb, size, look);
	const auto box = inner.Finish();
	scratch.Clear();
	const bool has_z = (look.vertex_type & VERTEX_Z) != 0;
	scratch.BeginRow(GeometryType::LINESTRING, has_z ? VERTEX_Z : VERTEX_XY);
	scratch.BeginNode(GeometryType::LINESTRING, 0);
	scratch.BeginPart(vibe::FAMILY_LINE);
	scratch.BeginRing();
	OuterVertices take([&](const vibe::Vec2 &p, const uint8_t *coords) {
		if (!vibe::InnerBox::Has(box, p)) {
			scratch.AddVertex(p.x, p.y, has_z ? vibe::LoadDouble(coords + 2 * sizeof(double)) : 0, 0);
		}
	});
	WalkWkb(wkb, size, take);
	scratch.EndRow();
	ConvexHull(scratch, 0, out);
}

void ConvexHull(const GeometryBatch &batch, size_t row, GeometryBatch &out) {
	HullBuilder(batch, row, out).Run();
}

} // namespace vibespatial
