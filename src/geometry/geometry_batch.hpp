//===----------------------------------------------------------------------===//
// geometry/geometry_batch.hpp
//
// Geometries as columns: what the engines work on, on either side of the bus.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/work_scope.hpp"
#include "vibe/views.h"

#include <cstddef>
#include <cstdint>

namespace vibespatial {

//! The seven types by their WKB codes
enum class GeometryType : uint8_t {
	INVALID = 0,
	POINT = 1,
	LINESTRING = 2,
	POLYGON = 3,
	MULTIPOINT = 4,
	MULTILINESTRING = 5,
	MULTIPOLYGON = 6,
	GEOMETRYCOLLECTION = 7
};

//! Bits of a vertex type: XY = 0, XYZ = 1, XYM = 2, XYZM = 3 (WKB code / 1000)
enum VertexBits : uint8_t { VERTEX_XY = 0, VERTEX_Z = 1, VERTEX_M = 2 };

//! A batch of rows. Rows own nodes, nodes are the tree of each geometry in preorder, leaf nodes (POINT, LINESTRING,
//! POLYGON) own exactly one part each, in order; parts own rings, rings own vertices. All offsets are prefix arrays
//! with one more entry than there are owners, so a row's parts are [row_part[i], row_part[i + 1]).
//! NULL rows have no nodes; EMPTY rows have a node and no vertices.
struct GeometryBatch {
	// rows
	CountedVector<uint8_t> valid;       // 0 = NULL
	CountedVector<GeometryType> type;   // INVALID for NULL
	CountedVector<uint8_t> vertex_type; // VertexBits
	CountedVector<uint32_t> row_node {0};
	CountedVector<uint32_t> row_part {0};
	// nodes
	CountedVector<GeometryType> node_type;
	CountedVector<uint32_t> node_children; // number of direct children; 0 for leaves
	// parts
	CountedVector<uint8_t> part_family; // vibe::Family
	CountedVector<uint32_t> part_ring {0};
	// rings
	CountedVector<uint32_t> ring_start {0};
	// vertices; z and m are empty, or as long as x, with NaN for rows that have none
	CountedVector<double> x;
	CountedVector<double> y;
	CountedVector<double> z;
	CountedVector<double> m;

	size_t RowCount() const {
		return valid.size();
	}
	//! Drops all rows and keeps the memory
	void Clear();
	void AppendNull();
	//! The flattened parts of a row
	vibe::GeometryView View(size_t row) const;
	//! XY box of a row; empty for NULL and EMPTY rows
	vibe::Box Bounds(size_t row) const;
	//! A row without any vertex
	bool IsEmpty(size_t row) const;

	// Building one row: open the row, write its tree in preorder (root node first), close it. A leaf node is followed
	// by its part, that by its rings, those by their vertices:
	//   BeginRow(POINT, VERTEX_XY), BeginNode(POINT, 0), BeginPart(FAMILY_POINT), BeginRing(), AddVertex(..), EndRow()
	// An EMPTY point or line has a part and no ring; an EMPTY polygon likewise.
	void BeginRow(GeometryType type, uint8_t vertex_type);
	void BeginNode(GeometryType type, uint32_t children);
	void BeginPart(vibe::Family family);
	void BeginRing();
	//! vz and vm are ignored when the row has no Z or M
	void AddVertex(double vx, double vy, double vz, double vm);
	//! Vertices as WKB holds them: unaligned little-endian doubles in the row's vertex type, `stride` bytes a vertex
	void AddVertices(uint32_t count, const uint8_t *coords, size_t stride);
	void EndRow();
	//! Adds the nodes [node, node_end) of another batch, and their parts from `part` on, with X and Y only; returns the part
	//! after them
	uint32_t CopyNodes(const GeometryBatch &from, uint32_t node, uint32_t node_end, uint32_t part);
	//! The node after the last one below `node`
	uint32_t NodeEnd(uint32_t node) const;

	//! Throws GeometryError when the 32-bit offsets would not hold so many nodes, rings or vertices more
	void RequireRoom(size_t more) const;

	//! The sizes of all columns between two rows, to go back to
	struct Mark {
		size_t rows;
		size_t nodes;
		size_t parts;
		size_t rings;
		size_t vertices;
		size_t z;
		size_t m;
	};
	Mark GetMark() const;
	//! Drops all that was added since, a half-built row included
	void Rollback(const Mark &mark);

private:
	void AddUnsetAxes(size_t vertices);
};

//! The number of doubles of a vertex: 2, 3 or 4
inline size_t VertexWidth(uint8_t vertex_type) {
	return size_t(2) + (vertex_type & 1) + (vertex_type >> 1);
}

//! What a leaf type is as a part
inline vibe::Family FamilyOf(GeometryType leaf) {
	return static_cast<vibe::Family>(static_cast<uint8_t>(leaf) - 1);
}

inline bool IsLeaf(GeometryType type) {
	return type >= GeometryType::POINT && type <= GeometryType::POLYGON;
}

// The builder runs per part and per vertex: inline

inline void GeometryBatch::BeginNode(GeometryType type, uint32_t children) {
	node_type.push_back(type);
	node_children.push_back(children);
}

inline void GeometryBatch::BeginPart(vibe::Family family) {
	part_family.push_back(family);
	part_ring.push_back(part_ring.back());
}

inline void GeometryBatch::BeginRing() {
	ring_start.push_back(ring_start.back());
	part_ring.back()++;
}

inline void GeometryBatch::AddVertex(double vx, double vy, double vz, double vm) {
	const auto bits = vertex_type.back();
	x.push_back(vx);
	y.push_back(vy);
	if (bits & VERTEX_Z) {
		z.push_back(vz);
	}
	if (bits & VERTEX_M) {
		m.push_back(vm);
	}
	if (!z.empty() || !m.empty()) {
		AddUnsetAxes(x.size());
	}
	ring_start.back()++;
}

inline void GeometryBatch::EndRow() {
	row_node.push_back(static_cast<uint32_t>(node_type.size()));
	row_part.push_back(static_cast<uint32_t>(part_family.size()));
}

} // namespace vibespatial
