#include "catch.hpp"

#include "geometry/error.hpp"
#include "geometry/geoarrow.hpp"
#include "wkb_bytes.hpp"

#include <cmath>
#include <limits>

using namespace vibespatial;
using namespace wkb_test;
using Catch::Matchers::Contains;

namespace {

const GeometryType KINDS[] = {GeometryType::POINT,      GeometryType::LINESTRING,      GeometryType::POLYGON,
                              GeometryType::MULTIPOINT, GeometryType::MULTILINESTRING, GeometryType::MULTIPOLYGON};

//! Memory for a column, made by GeoArrowWriter out of WKB; an empty string is NULL
struct Memory {
	GeoArrowType type;
	std::vector<GeoArrowSpan> spans[GEOARROW_LEVELS];
	std::vector<double> doubles[4];
	std::vector<int32_t> narrow[GEOARROW_LEVELS];
	std::vector<int64_t> wide[GEOARROW_LEVELS];
	std::vector<uint8_t> validity;
	GeoArrowColumn column;

	Memory(const GeoArrowType &type_p, const std::vector<std::string> &rows) : type(type_p) {
		GeoArrowWriter writer(type);
		validity.resize(rows.size() / 8 + 1);
		for (size_t i = 0; i < rows.size(); i++) {
			if (!rows[i].empty()) {
				writer.Count(Data(rows[i]), rows[i].size());
				validity[i / 8] |= uint8_t(1u << (i % 8));
			}
		}
		const auto levels = type.Levels();
		const auto vertices = levels == 0 ? rows.size() : writer.Counts().below[levels - 1];
		GeoArrowTarget target;
		for (uint32_t level = 0; level < levels; level++) {
			spans[level].resize(level == 0 ? rows.size() : writer.Counts().below[level - 1]);
			target.spans[level] = spans[level].data();
		}
		const auto width = type.Width();
		target.step = type.interleaved ? width : 1;
		for (uint32_t axis = 0; axis < width; axis++) {
			auto &memory = doubles[type.interleaved ? 0 : axis];
			memory.resize(vertices * target.step);
			target.axis[axis] = memory.data() + (type.interleaved ? axis : 0);
		}
		for (size_t i = 0; i < rows.size(); i++) {
			if (rows[i].empty()) {
				writer.WriteNull(i, target);
			} else {
				writer.Write(i, Data(rows[i]), rows[i].size(), target);
			}
		}
		column.type = type;
		for (uint32_t level = 0; level < levels; level++) {
			narrow[level] = {0};
			wide[level] = {0};
			for (auto &span : spans[level]) {
				REQUIRE(span.offset == uint64_t(wide[level].back()));
				wide[level].push_back(int64_t(span.offset + span.length));
				narrow[level].push_back(int32_t(wide[level].back()));
			}
			column.list[level].length = int64_t(spans[level].size());
		}
		column.vertices.length = int64_t(vertices);
		Point();
	}
	//! The column points at the memory
	void Point() {
		for (uint32_t level = 0; level < type.Levels(); level++) {
			column.list[level].data = type.large ? static_cast<const void *>(wide[level].data()) : narrow[level].data();
		}
		for (uint32_t axis = 0; axis < (type.interleaved ? 1 : type.Width()); axis++) {
			column.leaf[axis].data = doubles[axis].data();
			column.leaf[axis].length = int64_t(doubles[axis].size());
		}
		(type.Levels() > 0 ? column.list[0] : column.vertices).validity = validity.data();
	}
};

std::vector<std::string> Read(const GeoArrowColumn &column, int64_t first, size_t count) {
	std::vector<uint64_t> sizes(count);
	const auto total = MeasureGeoArrow(column, first, count, sizes.data());
	std::vector<std::string> rows;
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++) {
		std::string bytes(sizes[i], '?');
		if (sizes[i] > 0) {
			auto out = reinterpret_cast<uint8_t *>(&bytes[0]);
			REQUIRE(WriteGeoArrowWkb(column, first + int64_t(i), out) == out + sizes[i]);
		}
		sum += sizes[i];
		rows.push_back(bytes);
	}
	REQUIRE(sum == total);
	return rows;
}

std::vector<GeoArrowType> AllTypes() {
	std::vector<GeoArrowType> types;
	for (auto kind : KINDS) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			for (int bits = 0; bits < 4; bits++) {
				GeoArrowType type;
				type.kind = kind;
				type.vertex_type = vertex_type;
				type.interleaved = (bits & 1) != 0;
				type.large = (bits & 2) != 0;
				types.push_back(type);
			}
		}
	}
	return types;
}

GeoArrowType TypeOf(GeometryType kind) {
	GeoArrowType type;
	type.kind = kind;
	return type;
}

} // namespace

TEST_CASE("WKB into every native encoding and back is the same, byte for byte", "[geoarrow]") {
	for (auto &type : AllTypes()) {
		INFO("type " << int(type.kind) << " vertex type " << int(type.vertex_type) << " interleaved "
		             << type.interleaved);
		const std::vector<std::string> rows = {Sample(type.kind, type.vertex_type), "",
		                                       Empty(type.kind, type.vertex_type), Sample(type.kind, type.vertex_type),
		                                       ""};
		Memory memory(type, rows);
		REQUIRE(Read(memory.column, 0, rows.size()) == rows);
		REQUIRE(Read(memory.column, 2, 2) == std::vector<std::string>(rows.begin() + 2, rows.begin() + 4));
		// an array that begins later
		auto &outer = type.Levels() > 0 ? memory.column.list[0] : memory.column.vertices;
		outer.offset = 3;
		outer.length = 2;
		REQUIRE(Read(memory.column, 0, 2) == std::vector<std::string>(rows.begin() + 3, rows.end()));
	}
}

TEST_CASE("Points are written as a block", "[geoarrow]") {
	for (auto &type : AllTypes()) {
		if (type.kind != GeometryType::POINT) {
			continue;
		}
		const std::vector<std::string> rows = {Sample(type.kind, type.vertex_type), Empty(type.kind, type.vertex_type),
		                                       Sample(type.kind, type.vertex_type)};
		Memory memory(type, rows);
		// another NaN is EMPTY as well
		for (auto &axis : memory.doubles) {
			for (auto &value : axis) {
				value = std::isnan(value) ? -std::numeric_limits<double>::quiet_NaN() : value;
			}
		}
		const auto size = PointWkbSize(type);
		std::string block(rows.size() * size, '?');
		CheckGeoArrowPoints(memory.column, 0, rows.size(), [](size_t) { return true; });
		WriteGeoArrowPoints(memory.column, 0, rows.size(), reinterpret_cast<uint8_t *>(&block[0]));
		REQUIRE(block == rows[0] + rows[1] + rows[2]);
	}
}

TEST_CASE("Single kinds become multi kinds, others are refused", "[geoarrow]") {
	for (auto kind : {GeometryType::MULTIPOINT, GeometryType::MULTILINESTRING, GeometryType::MULTIPOLYGON}) {
		const auto single = static_cast<GeometryType>(uint8_t(kind) - 3);
		Memory memory(TypeOf(kind), {Sample(single, 0), Empty(single, 0)});
		const auto rows = Read(memory.column, 0, 2);
		REQUIRE(rows[0].substr(9) == Sample(single, 0));
		REQUIRE(rows[1] == Empty(kind, 0));
		REQUIRE_THROWS_WITH(Memory(TypeOf(single), {Sample(kind, 0)}), Contains(" in a column of "));
		REQUIRE_THROWS_WITH(Memory(TypeOf(kind), {Sample(kind, 1)}), Contains(" Z in a column of "));
		const auto whole = Sample(kind, 0);
		for (size_t size = 0; size < whole.size(); size++) {
			REQUIRE_THROWS_AS(Memory(TypeOf(kind), {whole.substr(0, size) + (size == 0 ? "\1" : "")}), GeometryError);
		}
		REQUIRE_THROWS_AS(Memory(TypeOf(kind), {whole + "x"}), GeometryError);
	}
	REQUIRE_THROWS_WITH(Memory(TypeOf(GeometryType::MULTIPOINT), {Empty(GeometryType::GEOMETRYCOLLECTION, 0)}),
	                    Contains("GEOMETRYCOLLECTION in a column of MULTIPOINT"));
}

TEST_CASE("Offsets and lengths that do not fit are refused", "[geoarrow]") {
	for (auto &type : AllTypes()) {
		if (type.vertex_type != 0) {
			continue;
		}
		INFO("type " << int(type.kind) << " interleaved " << type.interleaved << " large " << type.large);
		const auto sample = Sample(type.kind, 0);
		Memory memory(type, {sample, sample});
		const auto fails = [&] { REQUIRE_THROWS_AS(Read(memory.column, 0, 2), GeometryError); };
		REQUIRE_THROWS_AS(Read(memory.column, 1, 2), GeometryError);
		REQUIRE_THROWS_AS(Read(memory.column, -1, 1), GeometryError);
		for (uint32_t level = 0; level < type.Levels(); level++) {
			for (auto bad : {-1, 1000000, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
				for (size_t at = 0; at < memory.wide[level].size(); at++) {
					const auto good = memory.narrow[level][at];
					memory.narrow[level][at] = bad;
					memory.wide[level][at] = bad;
					fails();
					memory.narrow[level][at] = good;
					memory.wide[level][at] = good;
				}
			}
			memory.column.list[level].length--;
			fails();
			memory.column.list[level].length++;
			memory.column.list[level].data = nullptr;
			fails();
			memory.Point();
			memory.column.list[level].offset = std::numeric_limits<int64_t>::max();
			fails();
			memory.column.list[level].offset = 0;
		}
		memory.column.leaf[0].length--;
		fails();
		memory.column.leaf[0].length++;
		memory.column.vertices.length = -1;
		fails();
	}
}

TEST_CASE("NULL inside of a geometry is refused", "[geoarrow]") {
	const uint8_t none[16] = {};
	Memory memory(TypeOf(GeometryType::MULTIPOLYGON), {Sample(GeometryType::MULTIPOLYGON, 0)});
	for (auto array :
	     {&memory.column.list[1], &memory.column.list[2], &memory.column.vertices, &memory.column.leaf[1]}) {
		array->validity = none;
		REQUIRE_THROWS_WITH(Read(memory.column, 0, 1), Contains("NULL among the"));
		array->validity = nullptr;
	}
	REQUIRE(Read(memory.column, 0, 1)[0] == Sample(GeometryType::MULTIPOLYGON, 0));
}

TEST_CASE("A box is a polygon", "[geoarrow]") {
	GeoArrowColumn column;
	column.type.kind = GeometryType::POLYGON;
	column.type.box = true;
	const double low[] = {1, 5}, high[] = {3, 4};
	for (uint32_t axis = 0; axis < 4; axis++) {
		column.leaf[axis].data = axis < 2 ? low : high;
		column.leaf[axis].length = 2;
	}
	column.vertices.length = 2;
	const auto rows = Read(column, 0, 2);
	REQUIRE(rows[0].size() == 93);
	REQUIRE(LoadDouble(Data(rows[0]) + 13) == 1);
	REQUIRE(LoadDouble(Data(rows[0]) + 13 + 16 + 8) == 3);
	REQUIRE(rows[1] == Empty(GeometryType::POLYGON, 0));
}
