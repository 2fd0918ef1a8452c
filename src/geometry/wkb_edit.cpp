#include "geometry/wkb_edit.hpp"

#include "geometry/error.hpp"

#include <algorithm>
#include <cstring>

namespace vibespatial {

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//
template <class T>
static void Append(std::string &out, T value) {
	out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

static void AppendHeader(std::string &out, GeometryType type, uint8_t vertex_type) {
	out.push_back(1);
	Append(out, uint32_t(type) + 1000u * vertex_type);
}

static void AppendSlice(std::string &out, WkbSlice slice) {
	out.append(reinterpret_cast<const char *>(slice.data), slice.size);
}

static void AppendOrdinate(std::string &out, const uint8_t *at) {
	out.append(reinterpret_cast<const char *>(at), sizeof(double));
}

//! Vertices of one vertex type as those of another
static void AppendVertices(std::string &out, WkbVertices vertices, uint8_t from, uint8_t to) {
	if (from == to) {
		AppendSlice(out, WkbSlice {vertices.coords, vertices.count * vertices.stride});
		return;
	}
	for (uint32_t i = 0; i < vertices.count; i++) {
		const auto vertex = vertices.coords + i * vertices.stride;
		out.append(reinterpret_cast<const char *>(vertex), 2 * sizeof(double));
		for (const auto axis : {VERTEX_Z, VERTEX_M}) {
			if (!(to & axis)) {
				continue;
			}
			if (from & axis) {
				// M is the last ordinate, Z the third
				AppendOrdinate(out, axis == VERTEX_M ? vertex + vertices.stride - sizeof(double)
				                                     : vertex + 2 * sizeof(double));
			} else {
				Append(out, 0.0);
			}
		}
	}
}

std::string WithVertexType(WkbSlice geometry, uint8_t vertex_type) {
	const auto header = ReadWkbHeader(geometry.data, geometry.size);
	if (header.vertex_type == vertex_type) {
		return std::string(reinterpret_cast<const char *>(geometry.data), geometry.size);
	}
	GeometryBatch batch;
	ReadWkb(geometry.data, geometry.size, batch);
	batch.vertex_type[0] = vertex_type;
	if ((vertex_type & VERTEX_Z) && !(header.vertex_type & VERTEX_Z)) {
		batch.z.assign(batch.x.size(), 0.0);
	}
	if ((vertex_type & VERTEX_M) && !(header.vertex_type & VERTEX_M)) {
		batch.m.assign(batch.x.size(), 0.0);
	}
	return WriteWkb(batch, 0);
}

//===----------------------------------------------------------------------===//
// Putting together
//===----------------------------------------------------------------------===//
std::string MakeLine(const std::vector<WkbSlice> &points) {
	struct Vertex {
		WkbVertices vertices;
		uint8_t vertex_type;
	};
	std::vector<Vertex> kept;
	uint8_t vertex_type = VERTEX_XY;
	for (const auto point : points) {
		if (!point.data) {
			continue;
		}
		const auto header = ReadWkbHeader(point.data, point.size);
		RequireType(header.type, GeometryType::POINT);
		WkbCursor cursor(point.data, point.size);
		cursor.TakeHeader();
		const auto stride = VertexWidth(header.vertex_type) * sizeof(double);
		const auto coords = cursor.Take(stride);
		if (!IsEmptyPoint(coords, stride)) {
			kept.push_back(Vertex {WkbVertices {1, coords, stride}, header.vertex_type});
			vertex_type |= header.vertex_type;
		}
	}
	if (kept.size() == 1) {
		throw GeometryError("a line needs two points or more, or none; only one is not EMPTY");
	}
	std::string line;
	AppendHeader(line, GeometryType::LINESTRING, vertex_type);
	Append(line, static_cast<uint32_t>(kept.size()));
	for (const auto &vertex : kept) {
		AppendVertices(line, vertex.vertices, vertex.vertex_type, vertex_type);
	}
	return line;
}

bool TryMakeLine(const WkbSlice *points, size_t count, uint8_t *out) {
	if (count < 2 || count > UINT32_MAX) {
		return false;
	}
	*out = 1;
	const uint32_t words[] = {uint32_t(GeometryType::LINESTRING), uint32_t(count)};
	std::memcpy(out + 1, words, sizeof(words));
	out += LineSize(0);
	for (size_t i = 0; i < count; i++, out += 2 * sizeof(double)) {
		if (!points[i].data || !IsPlainPoint(points[i].data, points[i].size)) {
			return false;
		}
		std::memcpy(out, points[i].data + vibe::WKB_HEADER_BYTES, 2 * sizeof(double));
	}
	return true;
}

bool IsClosed(const WkbVertices &vertices) {
	const auto last = vertices.coords + (vertices.count - 1) * vertices.stride;
	for (size_t at = 0; at < vertices.stride; at += sizeof(double)) {
		if (LoadDouble(vertices.coords + at) != LoadDouble(last + at)) {
			return false;
		}
	}
	return true;
}

static WkbVertices RequireRing(WkbSlice line, const std::string &name) {
	const auto vertices = LineVertices(line);
	if (vertices.count < 4) {
		throw GeometryError(name + " has fewer than 4 vertices");
	}
	if (!IsClosed(vertices)) {
		throw GeometryError(name + " is not closed");
	}
	return vertices;
}

std::string MakePolygon(WkbSlice shell, const std::vector<WkbSlice> &holes) {
	struct Ring {
		WkbVertices vertices;
		uint8_t vertex_type;
	};
	std::vector<Ring> rings;
	const auto header = ReadWkbHeader(shell.data, shell.size);
	RequireType(header.type, GeometryType::LINESTRING);
	auto vertex_type = header.vertex_type;
	rings.push_back(Ring {RequireRing(shell, "the shell"), vertex_type});
	for (size_t i = 0; i < holes.size(); i++) {
		if (!holes[i].data) {
			continue;
		}
		const auto name = "hole " + std::to_string(i + 1);
		const auto hole = ReadWkbHeader(holes[i].data, holes[i].size);
		if (hole.type != GeometryType::LINESTRING) {
			throw GeometryError(name + ": a LINESTRING is needed, not a " + TypeName(hole.type));
		}
		rings.push_back(Ring {RequireRing(holes[i], name), hole.vertex_type});
		vertex_type |= hole.vertex_type;
	}
	std::string polygon;
	AppendHeader(polygon, GeometryType::POLYGON, vertex_type);
	Append(polygon, static_cast<uint32_t>(rings.size()));
	for (const auto &ring : rings) {
		Append(polygon, ring.vertices.count);
		AppendVertices(polygon, ring.vertices, ring.vertex_type, vertex_type);
	}
	return polygon;
}

//! The multi type of a leaf type
static GeometryType MultiOf(GeometryType leaf) {
	return static_cast<GeometryType>(static_cast<uint8_t>(leaf) + 3);
}

//! Byte order, code and count
static constexpr size_t COLLECTION_HEADER = vibe::WKB_HEADER_BYTES + sizeof(uint32_t);

Collection::Collection(std::vector<WkbSlice> &geometries) : members(geometries), size(COLLECTION_HEADER) {
	struct Counter {
		uint64_t vertices = 0;
		void Part(vibe::Family) {
		}
		void Ring(uint32_t count, const uint8_t *, size_t) {
			vertices += count;
		}
	};
	size_t kept = 0;
	Poll poll;
	for (const auto geometry : geometries) {
		poll();
		if (!geometry.data) {
			continue;
		}
		WkbHeader header {GeometryType::POINT, VERTEX_XY};
		if (!IsPlainPoint(geometry.data, geometry.size)) {
			header = ReadWkbHeader(geometry.data, geometry.size);
			vertex_type |= header.vertex_type;
			Counter counter;
			VisitWkb(geometry.data, geometry.size, counter);
			if (counter.vertices == 0) {
				continue;
			}
		}
		type = kept == 0 || type == header.type ? header.type : GeometryType::GEOMETRYCOLLECTION;
		size += geometry.size;
		geometries[kept++] = geometry;
	}
	geometries.resize(kept);
	const auto differs = [&](const WkbSlice &member) {
		return ReadWkbHeader(member.data, member.size).vertex_type != vertex_type;
	};
	if (vertex_type != VERTEX_XY && std::any_of(members.begin(), members.end(), differs)) {
		for (const auto member : members) {
			converted += WithVertexType(member, vertex_type);
		}
		size = COLLECTION_HEADER + converted.size();
	}
}

void Collection::Write(uint8_t *out) const {
	*out = 1;
	const uint32_t words[] = {uint32_t(IsLeaf(type) ? MultiOf(type) : GeometryType::GEOMETRYCOLLECTION) +
	                              1000u * vertex_type,
	                          uint32_t(members.size())};
	std::memcpy(out + 1, words, sizeof(words));
	out += COLLECTION_HEADER;
	if (!converted.empty()) {
		std::memcpy(out, converted.data(), converted.size());
		return;
	}
	Poll poll;
	for (const auto member : members) {
		poll();
		// The size of most is known to the compiler
		if (member.size == WKB_POINT_SIZE) {
			std::memcpy(out, member.data, WKB_POINT_SIZE);
		} else {
			std::memcpy(out, member.data, member.size);
		}
		out += member.size;
	}
}

std::string Multi(WkbSlice geometry) {
	const auto header = ReadWkbHeader(geometry.data, geometry.size);
	std::string out;
	if (IsLeaf(header.type)) {
		AppendHeader(out, MultiOf(header.type), header.vertex_type);
		Append(out, uint32_t(1));
	}
	AppendSlice(out, geometry);
	return out;
}

//===----------------------------------------------------------------------===//
// Taking apart
//===----------------------------------------------------------------------===//
WkbVertices LineVertices(WkbSlice line) {
	WkbCursor cursor(line.data, line.size);
	const auto header = cursor.TakeHeader();
	const auto stride = VertexWidth(header.vertex_type) * sizeof(double);
	const auto count = cursor.TakeCount();
	return WkbVertices {count, cursor.Take(uint64_t(count) * stride), stride};
}

bool PolygonRing(WkbSlice polygon, uint64_t index, WkbVertices &ring) {
	WkbCursor cursor(polygon.data, polygon.size);
	const auto header = cursor.TakeHeader();
	const auto stride = VertexWidth(header.vertex_type) * sizeof(double);
	const auto rings = cursor.TakeCount(sizeof(uint32_t));
	for (uint32_t i = 0; i < rings; i++) {
		const auto count = cursor.TakeCount();
		const auto coords = cursor.Take(uint64_t(count) * stride);
		if (i == index) {
			ring = WkbVertices {count, coords, stride};
		}
	}
	return index < rings;
}

//===----------------------------------------------------------------------===//
// Turning around
//===----------------------------------------------------------------------===//
//! The vertices in the opposite order; the size of a vertex is known to the compiler
template <size_t STRIDE>
static void ReverseVertices(const uint8_t *coords, uint32_t count, uint8_t *out) {
	for (auto from = coords + count * STRIDE; from != coords; out += STRIDE) {
		from -= STRIDE;
		std::memcpy(out, from, STRIDE);
	}
}

void Reverse(WkbSlice geometry, uint8_t *out) {
	struct Visitor {
		const uint8_t *begin;
		uint8_t *out;

		void Part(vibe::Family) {
		}
		void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
			const auto to = out + (coords - begin);
			switch (stride) {
			case 2 * sizeof(double):
				return ReverseVertices<2 * sizeof(double)>(coords, count, to);
			case 3 * sizeof(double):
				return ReverseVertices<3 * sizeof(double)>(coords, count, to);
			default:
				return ReverseVertices<4 * sizeof(double)>(coords, count, to);
			}
		}
	};
	std::memcpy(out, geometry.data, geometry.size);
	Visitor visitor {geometry.data, out};
	VisitWkb(geometry.data, geometry.size, visitor);
}

void FlipCoordinates(WkbSlice geometry, uint8_t *out) {
	struct Visitor {
		const uint8_t *begin;
		uint8_t *out;

		void Part(vibe::Family) {
		}
		void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
			auto to = out + (coords - begin);
			for (uint32_t i = 0; i < count; i++, coords += stride, to += stride) {
				std::memcpy(to, coords + sizeof(double), sizeof(double));
				std::memcpy(to + sizeof(double), coords, sizeof(double));
			}
		}
	};
	std::memcpy(out, geometry.data, geometry.size);
	Visitor visitor {geometry.data, out};
	VisitWkb(geometry.data, geometry.size, visitor);
}

} // namespace vibespatial
