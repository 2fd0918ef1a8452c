#include "engine/constructive/boundary.hpp"

#include "geometry/checks.hpp"

#include <algorithm>

namespace vibespatial {

namespace {

class BoundaryBuilder {
public:
	BoundaryBuilder(const GeometryBatch &batch_p, size_t row_p, GeometryBatch &out_p)
	    : batch(batch_p), row(row_p), view(batch_p.View(row_p)), out(out_p) {
	}

	void Run() {
		switch (batch.type[row]) {
		case GeometryType::POINT:
		case GeometryType::MULTIPOINT:
			return Emit(GeometryType::GEOMETRYCOLLECTION, {});
		case GeometryType::LINESTRING:
		case GeometryType::MULTILINESTRING:
			return Emit(GeometryType::MULTIPOINT, LineEnds());
		case GeometryType::POLYGON:
		case GeometryType::MULTIPOLYGON: {
			const auto rings = Rings();
			const bool single = batch.type[row] == GeometryType::POLYGON && rings.size() == 1;
			return Emit(single ? GeometryType::LINESTRING : GeometryType::MULTILINESTRING, rings);
		}
		default:
			return out.AppendNull();
		}
	}

private:
	//! Vertices that make up one member of the result
	struct Range {
		uint32_t begin;
		uint32_t end;
	};

	//! The points in which an odd number of lines end
	CountedVector<Range> LineEnds() const {
		CountedVector<Range> ends;
		for (const auto &line : Rings()) {
			ends.push_back(Range {line.begin, line.begin + 1});
			ends.push_back(Range {line.end - 1, line.end});
		}
		// one line: in its direction
		if (ends.size() == 2 && batch.type[row] == GeometryType::LINESTRING) {
			return Same(ends[0], ends[1]) ? CountedVector<Range> {} : ends;
		}
		Poll poll;
		std::stable_sort(ends.begin(), ends.end(), [&](const Range &a, const Range &b) {
			poll();
			return view.x[a.begin] < view.x[b.begin] ||
			       (view.x[a.begin] == view.x[b.begin] && view.y[a.begin] < view.y[b.begin]);
		});
		CountedVector<Range> odd;
		for (size_t i = 0; i < ends.size();) {
			size_t next = i + 1;
			while (next < ends.size() && Same(ends[i], ends[next])) {
				next++;
			}
			if ((next - i) % 2 == 1) {
				odd.push_back(ends[i]);
			}
			i = next;
		}
		return odd;
	}
	bool Same(const Range &a, const Range &b) const {
		return view.Vertex(a.begin) == view.Vertex(b.begin);
	}

	CountedVector<Range> Rings() const {
		CountedVector<Range> rings;
		for (auto ring = view.part_ring[view.part_begin]; ring < view.part_ring[view.part_end]; ring++) {
			if (view.ring_start[ring] < view.ring_start[ring + 1]) {
				rings.push_back(Range {view.ring_start[ring], view.ring_start[ring + 1]});
			}
		}
		return rings;
	}

	void Emit(GeometryType type, const CountedVector<Range> &members) {
		const auto vertex_type = members.empty() ? uint8_t(VERTEX_XY) : batch.vertex_type[row];
		out.BeginRow(type, vertex_type);
		if (!IsLeaf(type)) {
			out.BeginNode(type, uint32_t(members.size()));
		}
		const auto leaf = type == GeometryType::MULTIPOINT ? GeometryType::POINT : GeometryType::LINESTRING;
		for (const auto &member : members) {
			out.BeginNode(leaf, 0);
			out.BeginPart(FamilyOf(leaf));
			out.BeginRing();
			for (auto i = member.begin; i < member.end; i++) {
				out.AddVertex(view.x[i], view.y[i], vertex_type & VERTEX_Z ? batch.z[i] : 0,
				              vertex_type & VERTEX_M ? batch.m[i] : 0);
			}
		}
		out.EndRow();
	}

	const GeometryBatch &batch;
	const size_t row;
	const vibe::GeometryView view;
	GeometryBatch &out;
};

//! v - v is 0 for a finite v and NaN for all others
bool IsFinite(const WkbVertices &ring) {
	double sum = 0;
	for (uint32_t i = 0; i < ring.count; i++) {
		const auto at = ring.coords + i * ring.stride;
		const auto x = LoadDouble(at), y = LoadDouble(at + sizeof(double));
		sum += (x - x) + (y - y);
	}
	return sum == 0;
}

//! Closed in X and Y, whatever the others are
bool IsRing(const WkbVertices &ring) {
	const auto last = ring.coords + (ring.count - 1) * ring.stride;
	return ring.count >= 4 && LoadDouble(ring.coords) == LoadDouble(last) &&
	       LoadDouble(ring.coords + sizeof(double)) == LoadDouble(last + sizeof(double)) && IsFinite(ring);
}

struct RingFinder {
	CountedVector<WkbVertices> &rings;
	bool usable;

	void Part(vibe::Family) {
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		const WkbVertices ring {count, coords, stride};
		usable = usable && count > 0 && IsRing(ring);
		rings.push_back(ring);
	}
};

} // namespace

bool TryBoundaryRings(WkbSlice geometry, CountedVector<WkbVertices> &rings) {
	rings.clear();
	const auto type = ReadWkbHeader(geometry.data, geometry.size).type;
	if (type != GeometryType::POLYGON && type != GeometryType::MULTIPOLYGON) {
		return false;
	}
	RingFinder finder {rings, true};
	VisitWkb(geometry.data, geometry.size, finder);
	return finder.usable && !rings.empty();
}

void Boundary(const GeometryBatch &batch, size_t row, GeometryBatch &out) {
	if (batch.type[row] != GeometryType::GEOMETRYCOLLECTION) {
		CheckUsable(batch, row);
	}
	BoundaryBuilder(batch, row, out).Run();
}

} // namespace vibespatial
