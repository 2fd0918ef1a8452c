#include "catch.hpp"

#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"
#include "wkb_bytes.hpp"

#include <cmath>

using namespace vibespatial;
using namespace wkb_test;
using Catch::Matchers::Contains;

static std::string RoundTrip(const std::string &bytes) {
	GeometryBatch batch;
	ReadWkb(Data(bytes), bytes.size(), batch);
	REQUIRE(batch.RowCount() == 1);
	REQUIRE(WkbSize(batch, 0) == bytes.size());
	return WriteWkb(batch, 0);
}

static std::string FromHex(const std::string &hex) {
	std::string bytes;
	for (size_t i = 0; i < hex.size(); i += 2) {
		bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
	}
	return bytes;
}

namespace {

//! Writes down what VisitWkb says: P/L/A for a part, the vertex counts of its rings, the sum of all x
struct Diary {
	std::string parts;
	double sum = 0;
	size_t strides = 0;

	void Part(vibe::Family family) {
		parts += "PLA"[family];
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		parts += std::to_string(count) + ".";
		strides = stride;
		for (uint32_t i = 0; i < count; i++) {
			sum += LoadDouble(coords + i * stride);
		}
	}
};

} // namespace

TEST_CASE("WKB of every type and dimension comes back byte for byte", "[wkb]") {
	for (auto type : TYPES) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			INFO("type " << int(type) << " vertex type " << int(vertex_type));
			for (const auto &bytes : {Sample(type, vertex_type), Empty(type, vertex_type)}) {
				REQUIRE(RoundTrip(bytes) == bytes);
				GeometryBatch batch;
				ReadWkb(Data(bytes), bytes.size(), batch);
				REQUIRE(batch.type[0] == type);
				REQUIRE(batch.vertex_type[0] == vertex_type);
				const auto header = ReadWkbHeader(Data(bytes), bytes.size());
				REQUIRE(header.type == type);
				REQUIRE(header.vertex_type == vertex_type);
			}
			GeometryBatch batch;
			const auto empty = Empty(type, vertex_type);
			ReadWkb(Data(empty), empty.size(), batch);
			REQUIRE(batch.valid[0] == 1);
			REQUIRE(batch.IsEmpty(0));
		}
	}
}

TEST_CASE("WKB is what DuckDB 1.5.5 stores", "[wkb]") {
	// hex(ST_AsWKB('<text>'::GEOMETRY)) in DuckDB 1.5.5
	const std::pair<const char *, const char *> stored[] = {
	    {"POINT(1 2)", "0101000000000000000000F03F0000000000000040"},
	    {"POINT EMPTY", "0101000000000000000000F87F000000000000F87F"},
	    {"POINT ZM(1 2 3 4)", "01B90B0000000000000000F03F000000000000004000000000000008400000000000001040"},
	    {"LINESTRING M(1 2 3,4 5 6)",
	     "01D207000002000000000000000000F03F00000000000000400000000000000840000000000000104000"
	     "000000000014400000000000001840"},
	    {"POLYGON EMPTY", "010300000000000000"},
	    {"MULTIPOINT(1 2,EMPTY)", "0104000000020000000101000000000000000000F03F0000000000000040010100000000000000"
	                              "0000F87F000000000000F87F"},
	    {"MULTILINESTRING((0 0,1 1),EMPTY)", "0105000000020000000102000000020000000000000000000000000000000000000000000"
	                                         "0000000F03F000000000000F03F0102000000"
	                                         "00000000"},
	    {"MULTIPOLYGON(((0 0,1 0,1 1,0 0)),EMPTY)",
	     "0106000000020000000103000000010000000400000000000000000000000000000000000000000000000000F03F0000000000000000"
	     "000000000000F03F000000000000F03F00000000000000000000000000000000010300000000000000"},
	    {"GEOMETRYCOLLECTION M(POINT M(1 2 3),GEOMETRYCOLLECTION M EMPTY)",
	     "01D70700000200000001D1070000000000000000F03F0000000000000040000000000000084001D707000000000000"},
	};
	for (const auto &geometry : stored) {
		INFO(geometry.first);
		const auto bytes = FromHex(geometry.second);
		REQUIRE(RoundTrip(bytes) == bytes);
	}
}

TEST_CASE("Reading WKB fills the columns", "[wkb]") {
	GeometryBatch batch;
	const auto polygon = Sample(GeometryType::POLYGON, VERTEX_Z | VERTEX_M);
	ReadWkb(Data(polygon), polygon.size(), batch);
	REQUIRE(batch.part_ring == CountedVector<uint32_t> {0, 3});
	REQUIRE(batch.ring_start == CountedVector<uint32_t> {0, 5, 9, 9});
	// The sample counts 1.25, 2.5, 3.75 .. through all its doubles
	for (uint32_t i = 0; i < 9; i++) {
		REQUIRE(batch.x[i] == 1.25 * (4 * i + 1));
		REQUIRE(batch.y[i] == 1.25 * (4 * i + 2));
		REQUIRE(batch.z[i] == 1.25 * (4 * i + 3));
		REQUIRE(batch.m[i] == 1.25 * (4 * i + 4));
	}
	const auto line = Sample(GeometryType::LINESTRING, VERTEX_M);
	ReadWkb(Data(line), line.size(), batch);
	REQUIRE(batch.RowCount() == 2);
	REQUIRE(batch.m[10] == 1.25 * 6);
	REQUIRE(std::isnan(batch.z[10]));
	REQUIRE(WriteWkb(batch, 0) == polygon);
	REQUIRE(WriteWkb(batch, 1) == line);
}

TEST_CASE("Only a point of NaN throughout is EMPTY", "[wkb]") {
	const auto half = Wkb().Header(GeometryType::POINT).Doubles({NaN, 1}).bytes;
	const auto with_z = Wkb().Header(GeometryType::POINT, VERTEX_Z).Doubles({NaN, NaN, 3}).bytes;
	for (const auto &bytes : {half, with_z}) {
		GeometryBatch batch;
		ReadWkb(Data(bytes), bytes.size(), batch);
		REQUIRE_FALSE(batch.IsEmpty(0));
		REQUIRE(RoundTrip(bytes) == bytes);
		double x, y;
		REQUIRE(ReadWkbPoint(Data(bytes), bytes.size(), x, y));
		vibe::Box box;
		REQUIRE(WkbBounds(Data(bytes), bytes.size(), box) == 1);
	}
	// Another NaN than the usual one is EMPTY too
	auto negative = Wkb().Header(GeometryType::POINT).Doubles({-NaN, -NaN}).bytes;
	GeometryBatch batch;
	ReadWkb(Data(negative), negative.size(), batch);
	REQUIRE(batch.IsEmpty(0));
	REQUIRE(WriteWkb(batch, 0) == Empty(GeometryType::POINT, VERTEX_XY));
}

TEST_CASE("Collections nest 16 deep and no deeper", "[wkb]") {
	// A point in 15 collections is the 16th level
	const auto deepest = Nested(15);
	REQUIRE(RoundTrip(deepest) == deepest);
	auto multi = Sample(GeometryType::MULTIPOINT, 0);
	for (int i = 0; i < 15; i++) {
		multi = Wkb().Header(GeometryType::GEOMETRYCOLLECTION).Count(1).Append(multi).bytes;
	}
	REQUIRE(RoundTrip(multi) == multi);

	GeometryBatch batch;
	for (uint32_t collections : {16u, 17u, 1000u}) {
		const auto deep = Nested(collections);
		REQUIRE_THROWS_WITH(ReadWkb(Data(deep), deep.size(), batch), Contains("more than 16 deep"));
		Diary diary;
		REQUIRE_THROWS_WITH(VisitWkb(Data(deep), deep.size(), diary), Contains("more than 16 deep"));
	}
	REQUIRE(batch.RowCount() == 0);
}

TEST_CASE("VisitWkb meets parts and rings in order", "[wkb]") {
	const auto visit = [](const std::string &bytes) {
		Diary diary;
		VisitWkb(Data(bytes), bytes.size(), diary);
		return diary;
	};
	REQUIRE(visit(Sample(GeometryType::POINT, 0)).parts == "P1.");
	REQUIRE(visit(Sample(GeometryType::LINESTRING, 0)).parts == "L3.");
	REQUIRE(visit(Sample(GeometryType::POLYGON, 0)).parts == "A5.4.0.");
	REQUIRE(visit(Sample(GeometryType::MULTIPOINT, 0)).parts == "P1.PP1.");
	REQUIRE(visit(Sample(GeometryType::MULTILINESTRING, 0)).parts == "L3.LL3.");
	REQUIRE(visit(Sample(GeometryType::MULTIPOLYGON, 0)).parts == "A5.4.0.AA5.4.0.");
	REQUIRE(visit(Sample(GeometryType::GEOMETRYCOLLECTION, 0)).parts ==
	        "P1.L3.A5.4.0.P1.PP1.L3.LL3.A5.4.0.AA5.4.0.A5.4.0.P");
	REQUIRE(visit(Empty(GeometryType::POINT, 0)).parts == "P");
	REQUIRE(visit(Empty(GeometryType::LINESTRING, 0)).parts == "L");
	REQUIRE(visit(Empty(GeometryType::POLYGON, 0)).parts == "A");
	REQUIRE(visit(Empty(GeometryType::GEOMETRYCOLLECTION, 0)).parts.empty());
	for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
		const auto diary = visit(Sample(GeometryType::LINESTRING, vertex_type));
		const auto width = VertexWidth(vertex_type);
		REQUIRE(diary.strides == width * 8);
		REQUIRE(diary.sum == 1.25 * (3 + 3 * width));
	}
}

TEST_CASE("Bounds come straight from the bytes", "[wkb]") {
	vibe::Box box;
	for (auto type : TYPES) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			const auto bytes = Sample(type, vertex_type);
			GeometryBatch batch;
			ReadWkb(Data(bytes), bytes.size(), batch);
			REQUIRE(WkbBounds(Data(bytes), bytes.size(), box) == batch.x.size());
			const auto expected = batch.Bounds(0);
			REQUIRE(box.min_x == expected.min_x);
			REQUIRE(box.min_y == expected.min_y);
			REQUIRE(box.max_x == expected.max_x);
			REQUIRE(box.max_y == expected.max_y);
			const auto empty = Empty(type, vertex_type);
			REQUIRE(WkbBounds(Data(empty), empty.size(), box) == 0);
			REQUIRE(box.IsEmpty());
		}
	}
	const auto line = Wkb().Header(GeometryType::LINESTRING).Count(3).Doubles({1, 20, -3, NaN, 2, -INF}).bytes;
	REQUIRE(WkbBounds(Data(line), line.size(), box) == 3);
	REQUIRE(box.min_x == -3);
	REQUIRE(box.max_x == 2);
	REQUIRE(box.min_y == -INF);
	REQUIRE(box.max_y == 20);
}

TEST_CASE("A point is read without a batch", "[wkb]") {
	double x = 0, y = 0;
	for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
		const auto bytes = Sample(GeometryType::POINT, vertex_type);
		REQUIRE(ReadWkbPoint(Data(bytes), bytes.size(), x, y));
		REQUIRE(x == 1.25);
		REQUIRE(y == 2.5);
		const auto empty = Empty(GeometryType::POINT, vertex_type);
		REQUIRE_FALSE(ReadWkbPoint(Data(empty), empty.size(), x, y));
		REQUIRE_THROWS_WITH(ReadWkbPoint(Data(bytes), bytes.size() - 1, x, y), Contains("ends too early"));
		const auto longer = bytes + "x";
		REQUIRE_THROWS_WITH(ReadWkbPoint(Data(longer), longer.size(), x, y), Contains("goes on after"));
	}
	const auto line = Sample(GeometryType::LINESTRING, 0);
	REQUIRE_THROWS_WITH(ReadWkbPoint(Data(line), line.size(), x, y), Contains("not a LINESTRING"));
}

TEST_CASE("NULL has no WKB", "[wkb]") {
	GeometryBatch batch;
	batch.AppendNull();
	REQUIRE_THROWS_AS(WriteWkb(batch, 0), GeometryError);
	REQUIRE_THROWS_AS(WkbSize(batch, 0), GeometryError);
}

//! All readers refuse the bytes with that message, and the batch stays as it was
static void RequireRefused(const std::string &bytes, const std::string &message) {
	INFO(message);
	GeometryBatch batch;
	const auto before = Sample(GeometryType::GEOMETRYCOLLECTION, 0);
	ReadWkb(Data(before), before.size(), batch);
	REQUIRE_THROWS_AS(ReadWkb(Data(bytes), bytes.size(), batch), GeometryError);
	REQUIRE_THROWS_WITH(ReadWkb(Data(bytes), bytes.size(), batch), Contains(message));
	REQUIRE(batch.RowCount() == 1);
	REQUIRE(batch.z.empty());
	REQUIRE(batch.m.empty());
	REQUIRE(WriteWkb(batch, 0) == before);
	ReadWkb(Data(before), before.size(), batch);
	REQUIRE(WriteWkb(batch, 1) == before);

	Diary diary;
	REQUIRE_THROWS_WITH(VisitWkb(Data(bytes), bytes.size(), diary), Contains(message));
	vibe::Box box;
	REQUIRE_THROWS_WITH(WkbBounds(Data(bytes), bytes.size(), box), Contains(message));
}

TEST_CASE("Broken headers are refused in words", "[wkb]") {
	RequireRefused("", "WKB ends too early: 5 bytes needed at byte 0, 0 left");
	RequireRefused(std::string("\1\1\0\0", 4), "ends too early");
	auto big_endian = Sample(GeometryType::POINT, 0);
	big_endian[0] = 0;
	RequireRefused(big_endian, "big-endian at byte 0");
	auto no_order = Sample(GeometryType::POINT, 0);
	no_order[0] = 2;
	RequireRefused(no_order, "1 expected, 2 found");
	for (uint32_t code : {0u, 8u, 15u, 1000u, 1008u, 4001u, 7007u, 0x00010001u}) {
		RequireRefused(Wkb().Code(code).Doubles({1, 2}).bytes, "unknown geometry type " + std::to_string(code));
	}
	for (uint32_t flags : {0x80000000u, 0x40000000u, 0x20000000u}) {
		RequireRefused(Wkb().Code(1 | flags).Doubles({1, 2}).bytes, "extended WKB");
	}
	REQUIRE_THROWS_WITH(ReadWkbHeader(nullptr, 0), Contains("ends too early"));
	const auto unknown = Wkb().Code(8).bytes;
	REQUIRE_THROWS_WITH(ReadWkbHeader(Data(unknown), unknown.size()), Contains("unknown geometry type 8"));
}

TEST_CASE("Truncated and overlong WKB is refused", "[wkb]") {
	for (auto type : TYPES) {
		for (uint8_t vertex_type : {0, 3}) {
			const auto bytes = Sample(type, vertex_type);
			for (size_t size = 0; size < bytes.size(); size++) {
				RequireRefused(bytes.substr(0, size), "ends too early");
			}
			RequireRefused(bytes + '\0',
			               "goes on after its geometry: 1 bytes more at byte " + std::to_string(bytes.size()));
			RequireRefused(bytes + bytes, "goes on after its geometry");
		}
	}
}

TEST_CASE("A count larger than the bytes left is refused before anything is allocated", "[wkb]") {
	for (auto type : TYPES) {
		if (type == GeometryType::POINT) {
			continue;
		}
		for (uint32_t count : {0xFFFFFFFFu, 0x80000000u, 0x10000000u, 0x0FFFFFFFu, 3u}) {
			RequireRefused(Wkb().Header(type).Count(count).bytes, "ends too early");
			RequireRefused(Wkb().Header(type, 3).Count(count).Count(1).bytes, "ends too early");
		}
	}
	RequireRefused(Wkb().Header(GeometryType::POLYGON).Count(2).Count(0xFFFFFFFF).Count(0).bytes, "ends too early");
	// Counts times a vertex that wrap 32 bits: 0x10000001 * 16 = 16
	RequireRefused(Wkb().Header(GeometryType::POLYGON).Count(1).Count(0x10000001).Doubles({1, 2}).bytes,
	               "ends too early");
	RequireRefused(Wkb().Header(GeometryType::LINESTRING).Count(0x10000001).Doubles({1, 2}).bytes, "ends too early");
}

TEST_CASE("Members must fit their parent", "[wkb]") {
	for (auto parent : {GeometryType::MULTIPOINT, GeometryType::MULTILINESTRING, GeometryType::MULTIPOLYGON}) {
		for (auto member : TYPES) {
			if (static_cast<uint8_t>(member) + 3 == static_cast<uint8_t>(parent)) {
				continue;
			}
			RequireRefused(Wkb().Header(parent).Count(1).Append(Sample(member, 0)).bytes, " inside a MULTI");
		}
	}
	RequireRefused(Wkb().Header(GeometryType::MULTIPOINT).Count(1).Append(Empty(GeometryType::LINESTRING, 0)).bytes,
	               "WKB has a LINESTRING inside a MULTIPOINT at byte 9");
	for (uint8_t outer = 0; outer < 4; outer++) {
		for (uint8_t inner = 0; inner < 4; inner++) {
			if (inner == outer) {
				continue;
			}
			const auto point = Sample(GeometryType::POINT, inner);
			RequireRefused(Wkb().Header(GeometryType::MULTIPOINT, outer).Count(1).Append(point).bytes,
			               "mixes dimensions");
			RequireRefused(Wkb().Header(GeometryType::GEOMETRYCOLLECTION, outer).Count(1).Append(point).bytes,
			               "mixes dimensions");
		}
	}
	const auto mixed =
	    Wkb().Header(GeometryType::GEOMETRYCOLLECTION, VERTEX_Z).Count(1).bytes + Sample(GeometryType::POINT, VERTEX_M);
	RequireRefused(mixed, "XYM inside XYZ at byte 9");
	// The byte order of a member
	auto member = Wkb().Header(GeometryType::MULTIPOINT).Count(1).Append(Sample(GeometryType::POINT, 0)).bytes;
	member[9] = 0;
	RequireRefused(member, "big-endian at byte 9");
}

TEST_CASE("Bytes that are stored as they are", "[wkb]") {
	const auto stored = [](const std::string &bytes) { return IsStoredWkb(Data(bytes), bytes.size()); };
	for (uint8_t vertex_type = 0; vertex_type <= 3; vertex_type++) {
		const auto part = [&](GeometryType type) {
			Wkb wkb;
			wkb.Header(type, vertex_type);
			if (type == GeometryType::POLYGON) {
				wkb.Count(2).Count(4).Vertices(4, vertex_type);
			}
			return type == GeometryType::POINT ? wkb.Vertices(1, vertex_type).bytes
			                                   : wkb.Count(4).Vertices(4, vertex_type).bytes;
		};
		const auto whole = [&](GeometryType type, GeometryType of) {
			return Wkb().Header(type, vertex_type).Count(2).Append(part(of)).Append(part(of)).bytes;
		};
		const std::string all[] = {part(GeometryType::POINT),
		                           part(GeometryType::LINESTRING),
		                           part(GeometryType::POLYGON),
		                           whole(GeometryType::MULTIPOINT, GeometryType::POINT),
		                           whole(GeometryType::MULTILINESTRING, GeometryType::LINESTRING),
		                           whole(GeometryType::MULTIPOLYGON, GeometryType::POLYGON)};
		for (auto &bytes : all) {
			CHECK(stored(bytes));
			CHECK(RoundTrip(bytes) == bytes);
			for (size_t size = 0; size < bytes.size(); size++) {
				// From the heap, where a read behind the end is seen
				CHECK_FALSE(stored(std::string(bytes, 0, size)));
			}
			CHECK_FALSE(stored(bytes + std::string(1, '\0')));
			CHECK_FALSE(stored(bytes + bytes));
			auto big = bytes;
			big[0] = 0;
			CHECK_FALSE(stored(big));
			auto extended = bytes;
			extended[4] = 0x20;
			CHECK_FALSE(stored(extended));
		}
		// Members of another type, or of other dimensions, and collections, which are left to the walk
		CHECK_FALSE(stored(whole(GeometryType::MULTIPOINT, GeometryType::LINESTRING)));
		CHECK_FALSE(stored(whole(GeometryType::GEOMETRYCOLLECTION, GeometryType::POINT)));
		CHECK_FALSE(
		    stored(Wkb().Header(GeometryType::MULTIPOINT, (vertex_type + 1) % 4).Count(1).Append(all[0]).bytes));
	}
	CHECK_FALSE(stored(Wkb().Code(8).Count(0).bytes));
	CHECK_FALSE(stored(Wkb().Code(4002).Count(0).bytes));
	CHECK_FALSE(stored(Wkb().Header(GeometryType::LINESTRING).Count(0xFFFFFFFF).bytes));
	CHECK_FALSE(stored(Wkb().Header(GeometryType::POLYGON).Count(0xFFFFFFFF).Count(0).bytes));
	CHECK(stored(Wkb().Header(GeometryType::POINT).Doubles({NaN, NaN}).bytes));
	CHECK(stored(Wkb().Header(GeometryType::MULTIPOLYGON).Count(0).bytes));
}
