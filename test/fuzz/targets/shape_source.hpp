//===----------------------------------------------------------------------===//
// shape_source.hpp
//
// Geometries from the bytes of a fuzzer: every byte sequence is one, and a changed byte changes little. Coordinates lie on a small grid,
// or some steps of the last bit beside it, so that edges meet, overlap and nearly meet, or are any finite double.
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

#include <cmath>
#include <cstring>
#include <vector>

namespace vibespatial {
namespace fuzz {

class ShapeSource {
public:
	ShapeSource(const uint8_t *data, size_t size) : pos(data), end(data + size), mode(Byte() % 4) {
	}

	uint8_t Byte() {
		return pos < end ? *pos++ : 0;
	}
	//! Appends a row: a point, a line, a polygon, several of them, or a collection
	void Geometry(GeometryBatch &batch) {
		const auto type = static_cast<GeometryType>(1 + Byte() % 7);
		batch.BeginRow(type, VERTEX_XY);
		Node(batch, type);
		batch.EndRow();
	}
	//! Appends a row of polygons
	void Polygons(GeometryBatch &batch) {
		const auto type = Byte() % 2 == 0 ? GeometryType::POLYGON : GeometryType::MULTIPOLYGON;
		batch.BeginRow(type, VERTEX_XY);
		Node(batch, type);
		batch.EndRow();
	}
	//! The largest coordinate so far, by its size
	double Reach() const {
		return reach;
	}

private:
	void Node(GeometryBatch &batch, GeometryType type) {
		if (IsLeaf(type)) {
			Leaf(batch, type);
			return;
		}
		const uint32_t members = Byte() % 4;
		batch.BeginNode(type, members);
		for (uint32_t i = 0; i < members; i++) {
			Leaf(batch, type == GeometryType::GEOMETRYCOLLECTION
			                ? static_cast<GeometryType>(1 + Byte() % 3)
			                : static_cast<GeometryType>(static_cast<uint8_t>(type) - 3));
		}
	}
	void Leaf(GeometryBatch &batch, GeometryType type) {
		batch.BeginNode(type, 0);
		batch.BeginPart(FamilyOf(type));
		if (type == GeometryType::POINT) {
			batch.BeginRing();
			Vertices(batch, 1, false);
		} else if (type == GeometryType::LINESTRING) {
			batch.BeginRing();
			Vertices(batch, 2 + Byte() % 10, false);
		} else {
			const uint32_t rings = 1 + Byte() % 3;
			for (uint32_t ring = 0; ring < rings; ring++) {
				batch.BeginRing();
				Vertices(batch, 3 + Byte() % 10, true);
			}
		}
	}
	void Vertices(GeometryBatch &batch, uint32_t count, bool close) {
		const double x = Coordinate(), y = Coordinate();
		batch.AddVertex(x, y, 0, 0);
		for (uint32_t i = 1; i < count; i++) {
			const double next_x = Coordinate();
			batch.AddVertex(next_x, Coordinate(), 0, 0);
		}
		if (close) {
			batch.AddVertex(x, y, 0, 0);
		}
	}
	double Coordinate() {
		const auto byte = Byte();
		double value = byte % 16;
		switch (mode) {
		case 0:
			break;
		case 1: // between the lines of the grid
			value += (byte / 16) / 16.0;
			break;
		case 2: // beside the lines of the grid
			for (int steps = byte / 16 - 8; steps != 0; steps += steps < 0 ? 1 : -1) {
				value = std::nextafter(value, steps < 0 ? -1 : 100);
			}
			break;
		default: { // anything finite
			uint8_t bytes[8];
			for (auto &part : bytes) {
				part = Byte();
			}
			std::memcpy(&value, bytes, sizeof(value));
			value = std::isfinite(value) ? value : byte;
			break;
		}
		}
		reach = std::max(reach, std::fabs(value));
		return value;
	}

	const uint8_t *pos;
	const uint8_t *const end;
	const int mode;
	double reach = 0;
};

} // namespace fuzz
} // namespace vibespatial
