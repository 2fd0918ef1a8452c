//===----------------------------------------------------------------------===//
// wkb_bytes.hpp
//
// WKB written by hand, byte after byte, so that tests do not depend on the writer they test
//===----------------------------------------------------------------------===//
#pragma once

#include "geometry/geometry_batch.hpp"

#include <cstring>
#include <limits>
#include <string>

namespace wkb_test {

using vibespatial::GeometryType;

constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
constexpr double INF = std::numeric_limits<double>::infinity();

class Wkb {
public:
	Wkb &Header(GeometryType type, uint8_t vertex_type = 0) {
		return Code(static_cast<uint32_t>(type) + 1000u * vertex_type);
	}
	Wkb &Code(uint32_t code) {
		bytes.push_back(1);
		return Count(code);
	}
	Wkb &Count(uint32_t value) {
		return Raw(&value, sizeof(value));
	}
	Wkb &Doubles(std::initializer_list<double> values) {
		for (auto value : values) {
			Raw(&value, sizeof(value));
		}
		return *this;
	}
	Wkb &Append(const std::string &other) {
		bytes += other;
		return *this;
	}
	//! `count` vertices, all doubles different from each other
	Wkb &Vertices(uint32_t count, uint8_t vertex_type) {
		for (size_t i = 0; i < count * vibespatial::VertexWidth(vertex_type); i++) {
			Doubles({next += 1.25});
		}
		return *this;
	}

	std::string bytes;

private:
	Wkb &Raw(const void *from, size_t size) {
		bytes.append(static_cast<const char *>(from), size);
		return *this;
	}

	double next = 0;
};

constexpr GeometryType TYPES[] = {GeometryType::POINT,
                                  GeometryType::LINESTRING,
                                  GeometryType::POLYGON,
                                  GeometryType::MULTIPOINT,
                                  GeometryType::MULTILINESTRING,
                                  GeometryType::MULTIPOLYGON,
                                  GeometryType::GEOMETRYCOLLECTION};

//! EMPTY: a point of NaN, otherwise a count of 0
inline std::string Empty(GeometryType type, uint8_t vertex_type) {
	Wkb wkb;
	wkb.Header(type, vertex_type);
	if (type == GeometryType::POINT) {
		for (size_t i = 0; i < vibespatial::VertexWidth(vertex_type); i++) {
			wkb.Doubles({NaN});
		}
	} else {
		wkb.Count(0);
	}
	return wkb.bytes;
}

//! Something of every level: a polygon with a hole and an empty ring, multis with an EMPTY member, a collection of
//! all types with a collection in it
inline std::string Sample(GeometryType type, uint8_t vertex_type) {
	Wkb wkb;
	wkb.Header(type, vertex_type);
	switch (type) {
	case GeometryType::POINT:
		wkb.Vertices(1, vertex_type);
		break;
	case GeometryType::LINESTRING:
		wkb.Count(3).Vertices(3, vertex_type);
		break;
	case GeometryType::POLYGON:
		wkb.Count(3).Count(5).Vertices(5, vertex_type).Count(4).Vertices(4, vertex_type).Count(0);
		break;
	case GeometryType::GEOMETRYCOLLECTION:
		wkb.Count(8);
		for (auto member : TYPES) {
			if (member != GeometryType::GEOMETRYCOLLECTION) {
				wkb.Append(Sample(member, vertex_type));
			}
		}
		wkb.Append(Empty(GeometryType::GEOMETRYCOLLECTION, vertex_type));
		wkb.Header(GeometryType::GEOMETRYCOLLECTION, vertex_type).Count(2);
		wkb.Append(Sample(GeometryType::POLYGON, vertex_type)).Append(Empty(GeometryType::POINT, vertex_type));
		break;
	default: {
		const auto member = static_cast<GeometryType>(static_cast<uint8_t>(type) - 3);
		wkb.Count(3);
		wkb.Append(Sample(member, vertex_type)).Append(Empty(member, vertex_type)).Append(Sample(member, vertex_type));
		break;
	}
	}
	return wkb.bytes;
}

//! A point inside `collections` collections
inline std::string Nested(uint32_t collections) {
	auto bytes = Sample(GeometryType::POINT, 0);
	for (uint32_t i = 0; i < collections; i++) {
		bytes = Wkb().Header(GeometryType::GEOMETRYCOLLECTION).Count(1).Append(bytes).bytes;
	}
	return bytes;
}

inline const uint8_t *Data(const std::string &bytes) {
	return reinterpret_cast<const uint8_t *>(bytes.data());
}

} // namespace wkb_test
