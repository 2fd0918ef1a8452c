#include "geometry/geometry_batch.hpp"

#include "geometry/error.hpp"
#include "geometry/lanes.hpp"

#include <cstring>
#include <limits>

namespace vibespatial {

static constexpr double NAN_VALUE = std::numeric_limits<double>::quiet_NaN();

void GeometryBatch::Clear() {
	valid.clear();
	type.clear();
	vertex_type.clear();
	row_node.resize(1);
	row_part.resize(1);
	node_type.clear();
	node_children.clear();
	part_family.clear();
	part_ring.resize(1);
	ring_start.resize(1);
	x.clear();
	y.clear();
	z.clear();
	m.clear();
}

void GeometryBatch::AppendNull() {
	valid.push_back(0);
	type.push_back(GeometryType::INVALID);
	vertex_type.push_back(VERTEX_XY);
	EndRow();
}

vibe::GeometryView GeometryBatch::View(size_t row) const {
	vibe::GeometryView view;
	view.x = x.data();
	view.y = y.data();
	view.ring_start = ring_start.data();
	view.part_ring = part_ring.data();
	view.part_family = part_family.data();
	view.part_begin = row_part[row];
	view.part_end = row_part[row + 1];
	view.collection = type[row] == GeometryType::GEOMETRYCOLLECTION;
	return view;
}

vibe::Box GeometryBatch::Bounds(size_t row) const {
	const auto begin = ring_start[part_ring[row_part[row]]];
	const auto end = ring_start[part_ring[row_part[row + 1]]];
	vibe::Box box;
	ColumnRange(x.data() + begin, end - begin, box.min_x, box.max_x);
	ColumnRange(y.data() + begin, end - begin, box.min_y, box.max_y);
	return box;
}

bool GeometryBatch::IsEmpty(size_t row) const {
	return ring_start[part_ring[row_part[row]]] == ring_start[part_ring[row_part[row + 1]]];
}

void GeometryBatch::BeginRow(GeometryType row_type, uint8_t row_vertex_type) {
	valid.push_back(1);
	type.push_back(row_type);
	vertex_type.push_back(row_vertex_type);
	// From the first row on that has the axis, the column is as long as x
	if (row_vertex_type & VERTEX_Z) {
		z.resize(x.size(), NAN_VALUE);
	}
	if (row_vertex_type & VERTEX_M) {
		m.resize(x.size(), NAN_VALUE);
	}
}

void GeometryBatch::AddUnsetAxes(size_t vertices) {
	if (!z.empty()) {
		z.resize(vertices, NAN_VALUE);
	}
	if (!m.empty()) {
		m.resize(vertices, NAN_VALUE);
	}
}

static void Scatter(CountedVector<double> &column, size_t begin, uint32_t count, const uint8_t *coords, size_t stride) {
	column.resize(begin + count);
	auto out = column.data() + begin;
	for (uint32_t i = 0; i < count; i++) {
		std::memcpy(out + i, coords + i * stride, sizeof(double));
	}
}

void GeometryBatch::AddVertices(uint32_t count, const uint8_t *coords, size_t stride) {
	if (count == 0) {
		return;
	}
	const auto bits = vertex_type.back();
	const auto begin = x.size();
	x.resize(begin + count);
	y.resize(begin + count);
	auto out_x = x.data() + begin;
	auto out_y = y.data() + begin;
	auto vertex = coords;
	for (uint32_t i = 0; i < count; i++) {
		std::memcpy(out_x + i, vertex, sizeof(double));
		std::memcpy(out_y + i, vertex + sizeof(double), sizeof(double));
		vertex += stride;
	}
	if (bits & VERTEX_Z) {
		Scatter(z, begin, count, coords + 2 * sizeof(double), stride);
	}
	if (bits & VERTEX_M) {
		Scatter(m, begin, count, coords + (VertexWidth(bits) - 1) * sizeof(double), stride);
	}
	if (!z.empty() || !m.empty()) {
		AddUnsetAxes(begin + count);
	}
	ring_start.back() += count;
}

uint32_t GeometryBatch::CopyNodes(const GeometryBatch &from, uint32_t node, uint32_t node_end, uint32_t part) {
	for (; node < node_end; node++) {
		BeginNode(from.node_type[node], from.node_children[node]);
		if (!IsLeaf(from.node_type[node])) {
			continue;
		}
		BeginPart(static_cast<vibe::Family>(from.part_family[part]));
		for (auto ring = from.part_ring[part]; ring < from.part_ring[part + 1]; ring++) {
			BeginRing();
			for (auto i = from.ring_start[ring]; i < from.ring_start[ring + 1]; i++) {
				AddVertex(from.x[i], from.y[i], NAN_VALUE, NAN_VALUE);
			}
		}
		part++;
	}
	return part;
}

uint32_t GeometryBatch::NodeEnd(uint32_t node) const {
	for (uint32_t open = 1; open > 0; node++) {
		open += node_children[node] - 1;
	}
	return node;
}

void GeometryBatch::RequireRoom(size_t more) const {
	constexpr size_t LIMIT = std::numeric_limits<uint32_t>::max();
	if (x.size() + more > LIMIT || ring_start.size() + more > LIMIT || node_type.size() + more > LIMIT) {
		throw GeometryError("too many vertices for one batch of geometries");
	}
}

GeometryBatch::Mark GeometryBatch::GetMark() const {
	return Mark {valid.size(), node_type.size(), part_family.size(), ring_start.size() - 1, x.size(),
	             z.size(),     m.size()};
}

// resize() to a smaller size only: it cannot throw
void GeometryBatch::Rollback(const Mark &mark) {
	valid.resize(mark.rows);
	type.resize(mark.rows);
	vertex_type.resize(mark.rows);
	row_node.resize(mark.rows + 1);
	row_part.resize(mark.rows + 1);
	node_type.resize(mark.nodes);
	node_children.resize(mark.nodes);
	part_family.resize(mark.parts);
	part_ring.resize(mark.parts + 1);
	ring_start.resize(mark.rings + 1);
	x.resize(mark.vertices);
	y.resize(mark.vertices);
	z.resize(mark.z);
	m.resize(mark.m);
}

} // namespace vibespatial
