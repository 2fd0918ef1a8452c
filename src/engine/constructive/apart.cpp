#include "engine/constructive/apart.hpp"

#include "engine/constructive/curve_shell.hpp"
#include "engine/shape/open_ring.hpp"

#include <algorithm>
#include <map>

namespace vibespatial {

using vibe::Box;
using vibe::Vec2;

CountedVector<uint8_t> FindApart(const CountedVector<Box> &boxes) {
	//! Boxes that meet, as one interval of y up to some x
	struct Group {
		double max_y;
		double max_x;
		//! Of the first of them
		size_t box;
	};
	//! Of an entry of the map, with what the C library adds
	constexpr size_t NODE_BYTES = 80;
	CountedVector<uint8_t> apart(boxes.size(), 1);
	// By their least y; no two of them have a y in common. Those that have ended are removed where they are in the way.
	std::map<double, Group> groups;
	HeldMemory nodes;
	Poll poll;
	for (size_t i = 0; i < boxes.size(); i++) {
		poll(16);
		double min_y = boxes[i].min_y;
		Group group {boxes[i].max_y, boxes[i].max_x, i};
		for (auto at = groups.upper_bound(group.max_y); at != groups.begin(); at = groups.erase(at)) {
			at--;
			if (at->second.max_y < min_y) {
				break;
			}
			if (at->second.max_x >= boxes[i].min_x) {
				apart[at->second.box] = apart[i] = 0;
				min_y = std::min(min_y, at->first);
				group.max_y = std::max(group.max_y, at->second.max_y);
				group.max_x = std::max(group.max_x, at->second.max_x);
			}
		}
		groups[min_y] = group;
		nodes.Reach(groups.size() * NODE_BYTES);
	}
	return apart;
}

namespace {

//! Unites areas. Each has a first vertex, the least one, which decides the order of the result.
class AreaUniter {
public:
	AreaUniter(const OffsetCurves &curves_p, GeometryBatch &rows_p) : curves(curves_p), rows(rows_p) {
	}

	void Run(Overlay &overlay, Parallel &parallel, GeometryBatch &out) {
		Collect();
		const auto apart = FindApart(boxes);
		Release(boxes);
		KeepApart(apart);
		AddRest(overlay, parallel);
		PolledSort(polygons.begin(), polygons.end(), IsBefore<Polygon>);
		Write(out);
	}

private:
	//! A curve, or row `number - curves.Count()`
	struct Item {
		Vec2 first;
		uint32_t number;
	};
	enum class Source : uint8_t { CURVE, ROW, UNITED };
	struct Polygon {
		Vec2 first;
		Source source;
		//! Of the curve, or of the part
		uint32_t number;
	};
	template <class T>
	static bool IsBefore(const T &a, const T &b) {
		return LexicographicallyLess(a.first, b.first);
	}
	template <class T>
	static void Release(T &vector) {
		T().swap(vector);
	}

	//! Curves and rows in the order of their first vertices, with their boxes
	void Collect() {
		items.reserve(curves.Count() + rows.RowCount());
		for (size_t i = 0; i < curves.Count(); i++) {
			items.push_back(Item {*Least(i), uint32_t(i)});
		}
		for (size_t i = 0; i < rows.RowCount(); i++) {
			const auto box = rows.Bounds(i);
			if (!box.IsEmpty()) {
				items.push_back(Item {Vec2 {box.min_x, box.min_y}, uint32_t(curves.Count() + i)});
			}
		}
		PolledSort(items.begin(), items.end(), IsBefore<Item>);
		boxes.reserve(items.size());
		for (const auto &item : items) {
			if (item.number >= curves.Count()) {
				boxes.push_back(rows.Bounds(item.number - curves.Count()));
				continue;
			}
			auto box = Box::Empty();
			const auto *points = curves.Begin(item.number);
			for (size_t i = 0; i < curves.Size(item.number); i++) {
				box.Add(points[i].x, points[i].y);
			}
			boxes.push_back(box);
		}
	}
	const Vec2 *Least(size_t curve) const {
		const auto *points = curves.Begin(curve);
		return std::min_element(points, points + curves.Size(curve), LexicographicallyLess);
	}

	//! Items without what is in the result as it is
	void KeepApart(const CountedVector<uint8_t> &apart) {
		size_t kept = 0;
		for (size_t i = 0; i < items.size(); i++) {
			if (!apart[i] || !AddApart(items[i])) {
				items[kept++] = items[i];
			}
		}
		items.resize(kept);
	}
	//! False for a curve that takes an overlay
	bool AddApart(const Item &item) {
		if (item.number >= curves.Count()) {
			AddPolygons(rows, item.number - curves.Count(), Source::ROW);
			return true;
		}
		const auto *points = curves.Begin(item.number);
		const auto count = curves.Size(item.number);
		poll(count);
		if (IsConvex(points, count)) {
			polygons.push_back(Polygon {item.first, Source::CURVE, item.number});
			return true;
		}
		if (!shell.Find(points, count)) {
			return false;
		}
		AppendShell(shell.Ring().data(), shell.Ring().size(), 0, united);
		AddPolygons(united, united.RowCount() - 1, Source::UNITED);
		return true;
	}
	//! What meets something else. A curve may wind clockwise around places of others: so the curves have their area first.
	void AddRest(Overlay &overlay, Parallel &parallel) {
		const auto first_row =
		    std::partition(items.begin(), items.end(), [&](const Item &item) { return item.number < curves.Count(); });
		for (auto item = items.begin(); item != first_row; item++) {
			overlay.AddRing(Overlay::LEFT, curves.Begin(item->number), curves.Size(item->number));
		}
		if (first_row != items.begin()) {
			RunUnion(overlay, parallel, united);
		}
		if (first_row != items.end()) {
			if (first_row != items.begin()) {
				overlay.Add(Overlay::LEFT, united, united.RowCount() - 1);
			}
			for (auto item = first_row; item != items.end(); item++) {
				overlay.Add(Overlay::LEFT, rows, item->number - curves.Count());
			}
			RunUnion(overlay, parallel, united);
		}
		if (!items.empty()) {
			AddPolygons(united, united.RowCount() - 1, Source::UNITED);
		}
	}

	void AddPolygons(const GeometryBatch &batch, size_t row, Source source) {
		for (auto part = batch.row_part[row]; part < batch.row_part[row + 1]; part++) {
			if (batch.part_ring[part] < batch.part_ring[part + 1]) {
				const auto vertex = batch.ring_start[batch.part_ring[part]];
				polygons.push_back(Polygon {Vec2 {batch.x[vertex], batch.y[vertex]}, source, part});
			}
		}
	}

	void Write(GeometryBatch &out) const {
		Reserve(out);
		const auto multi = polygons.size() > 1;
		out.BeginRow(multi ? GeometryType::MULTIPOLYGON : GeometryType::POLYGON, VERTEX_XY);
		if (multi) {
			out.BeginNode(GeometryType::MULTIPOLYGON, uint32_t(polygons.size()));
		}
		Poll poll;
		for (const auto &polygon : polygons) {
			out.BeginNode(GeometryType::POLYGON, 0);
			out.BeginPart(vibe::FAMILY_POLYGON);
			if (polygon.source == Source::CURVE) {
				poll(curves.Size(polygon.number));
				WriteCurve(polygon.number, out);
				continue;
			}
			const auto &from = polygon.source == Source::ROW ? rows : united;
			for (auto ring = from.part_ring[polygon.number]; ring < from.part_ring[polygon.number + 1]; ring++) {
				out.BeginRing();
				for (auto vertex = from.ring_start[ring]; vertex < from.ring_start[ring + 1]; vertex++) {
					out.AddVertex(from.x[vertex], from.y[vertex], 0, 0);
				}
				poll(from.ring_start[ring + 1] - from.ring_start[ring]);
			}
		}
		if (polygons.empty()) {
			out.BeginNode(GeometryType::POLYGON, 0);
			out.BeginPart(vibe::FAMILY_POLYGON);
		}
		out.EndRow();
	}
	void WriteCurve(size_t number, GeometryBatch &out) const {
		const auto *begin = curves.Begin(number), *end = begin + curves.Size(number), *least = Least(number);
		// -0 becomes 0
		const auto add = [&](const Vec2 &p) { out.AddVertex(p.x + 0.0, p.y + 0.0, 0, 0); };
		out.BeginRing();
		std::for_each(least, end, add);
		std::for_each(begin, least + 1, add);
	}
	//! Room for the result, if that is the most of what `out` has then: exact room for each of many rows would copy all of them each time
	void Reserve(GeometryBatch &out) const {
		size_t vertices = 0;
		for (const auto &polygon : polygons) {
			const auto &from = polygon.source == Source::ROW ? rows : united;
			vertices += polygon.source == Source::CURVE ? curves.Size(polygon.number) + 1
			                                            : from.ring_start[from.part_ring[polygon.number + 1]] -
			                                                  from.ring_start[from.part_ring[polygon.number]];
		}
		out.RequireRoom(vertices + polygons.size() + 1);
		if (vertices > out.x.size()) {
			out.x.reserve(out.x.size() + vertices);
			out.y.reserve(out.y.size() + vertices);
		}
	}

	const OffsetCurves &curves;
	GeometryBatch &rows;
	CountedVector<Item> items;
	CountedVector<Box> boxes;
	CurveShell shell;
	Poll poll;
	//! Made from what is not in the result as it is
	GeometryBatch united;
	CountedVector<Polygon> polygons;
};

} // namespace

void AppendAreas(const OffsetCurves &curves, GeometryBatch &rows, Overlay &overlay, Parallel &parallel,
                 GeometryBatch &out) {
	if (rows.RowCount() == 0 && curves.Count() <= 1) {
		AppendArea(curves, overlay, parallel, out);
		return;
	}
	AreaUniter(curves, rows).Run(overlay, parallel, out);
	rows.Clear();
}

} // namespace vibespatial
