#include "catch.hpp"

#include "geometry/error.hpp"
#include "geometry/wkb_edit.hpp"
#include "wkb_bytes.hpp"
#include "wkt_rows.hpp"

#include <memory>

using namespace vibespatial;
using namespace wkb_test;
using namespace wkt_test;
using Catch::Matchers::Contains;

static std::string Bytes(const std::string &wkt) {
	GeometryBatch batch;
	ReadWkt(wkt, batch);
	return WriteWkb(batch, 0);
}

static std::string Text(const std::string &wkb) {
	GeometryBatch batch;
	ReadWkb(Data(wkb), wkb.size(), batch);
	return WriteWkt(batch, 0);
}

static WkbSlice SliceOf(const std::string &wkb) {
	return WkbSlice {Data(wkb), wkb.size()};
}

//! Slices of geometries given as text; "NULL" has no bytes
struct Slices {
	explicit Slices(std::initializer_list<const char *> texts) {
		for (auto text : texts) {
			bytes.push_back(text == std::string("NULL") ? "" : Bytes(text));
		}
		for (auto &wkb : bytes) {
			slices.push_back(wkb.empty() ? WkbSlice {nullptr, 0} : SliceOf(wkb));
		}
	}
	std::vector<std::string> bytes;
	std::vector<WkbSlice> slices;
};

static std::string LineOf(std::initializer_list<const char *> points) {
	const Slices slices(points);
	const auto line = MakeLine(slices.slices);
	// The short way gives the same, or nothing
	std::string bytes(LineSize(points.size()), '\0');
	if (TryMakeLine(slices.slices.data(), points.size(), reinterpret_cast<uint8_t *>(&bytes[0]))) {
		REQUIRE(bytes == line);
	}
	return Text(line);
}

static std::string PolygonOf(const char *shell, std::initializer_list<const char *> holes) {
	const auto bytes = Bytes(shell);
	return Text(MakePolygon(SliceOf(bytes), Slices(holes).slices));
}

static std::string CollectionOf(std::initializer_list<const char *> members) {
	Slices slices(members);
	const Collection collection(slices.slices);
	std::string bytes(collection.Size(), '\0');
	collection.Write(reinterpret_cast<uint8_t *>(&bytes[0]));
	return Text(bytes);
}

TEST_CASE("A line through points", "[wkb_edit]") {
	REQUIRE(LineOf({"POINT (1 2)", "POINT (3 4)", "POINT (1 2)"}) == "LINESTRING (1 2, 3 4, 1 2)");
	REQUIRE(LineOf({"POINT EMPTY", "POINT (1 2)", "NULL", "POINT (3 4)"}) == "LINESTRING (1 2, 3 4)");
	REQUIRE(LineOf({}) == "LINESTRING EMPTY");
	REQUIRE(LineOf({"POINT Z EMPTY", "NULL"}) == "LINESTRING EMPTY");
	REQUIRE(LineOf({"POINT Z (1 2 3)", "POINT M (4 5 6)"}) == "LINESTRING ZM (1 2 3 0, 4 5 0 6)");
	REQUIRE(LineOf({"POINT ZM (1 2 3 4)", "POINT (5 6)"}) == "LINESTRING ZM (1 2 3 4, 5 6 0 0)");
	REQUIRE_THROWS_WITH(LineOf({"POINT (1 2)", "POINT EMPTY"}), Contains("two points or more"));
	REQUIRE_THROWS_WITH(LineOf({"POINT (1 2)", "MULTIPOINT (1 2)"}), "a POINT is needed, not a MULTIPOINT");
}

TEST_CASE("A polygon of closed lines", "[wkb_edit]") {
	const auto shell = "LINESTRING (0 0, 9 0, 9 9, 0 0)";
	REQUIRE(PolygonOf(shell, {}) == "POLYGON ((0 0, 9 0, 9 9, 0 0))");
	REQUIRE(PolygonOf(shell, {"NULL", "LINESTRING Z (4 1 1, 5 1 2, 5 2 3, 4 1 1)"}) ==
	        "POLYGON Z ((0 0 0, 9 0 0, 9 9 0, 0 0 0), (4 1 1, 5 1 2, 5 2 3, 4 1 1))");
	REQUIRE_THROWS_WITH(PolygonOf("LINESTRING (0 0, 9 0, 0 0)", {}), "the shell has fewer than 4 vertices");
	REQUIRE_THROWS_WITH(PolygonOf("LINESTRING EMPTY", {}), "the shell has fewer than 4 vertices");
	REQUIRE_THROWS_WITH(PolygonOf("LINESTRING (0 0, 9 0, 9 9, 0 1)", {}), "the shell is not closed");
	REQUIRE_THROWS_WITH(PolygonOf("LINESTRING Z (0 0 1, 9 0 1, 9 9 1, 0 0 2)", {}), "the shell is not closed");
	REQUIRE_THROWS_WITH(PolygonOf("POINT (0 0)", {}), "a LINESTRING is needed, not a POINT");
	REQUIRE_THROWS_WITH(PolygonOf(shell, {"NULL", "LINESTRING (1 1, 2 1)"}), "hole 2 has fewer than 4 vertices");
	REQUIRE_THROWS_WITH(PolygonOf(shell, {"LINESTRING (4 1, 5 1, 5 2, 4 2)"}), "hole 1 is not closed");
	REQUIRE_THROWS_WITH(PolygonOf(shell, {"POINT (1 1)"}), "hole 1: a LINESTRING is needed, not a POINT");
}

TEST_CASE("Geometries collected into one", "[wkb_edit]") {
	REQUIRE(CollectionOf({"POINT (1 2)", "POINT EMPTY", "NULL", "POINT (3 4)"}) == "MULTIPOINT ((1 2), (3 4))");
	REQUIRE(CollectionOf({"LINESTRING (1 2, 3 4)"}) == "MULTILINESTRING ((1 2, 3 4))");
	REQUIRE(CollectionOf({"POLYGON ((0 0, 1 0, 1 1, 0 0))"}) == "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))");
	REQUIRE(CollectionOf({"POINT (1 2)", "LINESTRING (1 2, 3 4)", "POINT (3 4)"}) ==
	        "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (1 2, 3 4), POINT (3 4))");
	REQUIRE(CollectionOf({"MULTIPOINT (1 2)", "MULTIPOINT (3 4)"}) ==
	        "GEOMETRYCOLLECTION (MULTIPOINT ((1 2)), MULTIPOINT ((3 4)))");
	REQUIRE(CollectionOf({"LINESTRING EMPTY", "MULTIPOINT (EMPTY)"}) == "GEOMETRYCOLLECTION EMPTY");
	// EMPTY ones are left out, their dimensions stay
	REQUIRE(CollectionOf({"LINESTRING M (0 0 1, 1 1 2)", "POINT Z EMPTY"}) ==
	        "MULTILINESTRING ZM ((0 0 0 1, 1 1 0 2))");
	REQUIRE(CollectionOf({"POLYGON Z EMPTY", "NULL"}) == "GEOMETRYCOLLECTION Z EMPTY");
	REQUIRE(CollectionOf({"POINT (1 2)", "GEOMETRYCOLLECTION M (POINT M EMPTY)"}) == "MULTIPOINT M ((1 2 0))");
	REQUIRE(CollectionOf({"POINT Z (1 2 3)", "POLYGON M ((0 0 5, 1 0 5, 1 1 5, 0 0 5))"}) ==
	        "GEOMETRYCOLLECTION ZM (POINT ZM (1 2 3 0), POLYGON ZM ((0 0 0 5, 1 0 0 5, 1 1 0 5, 0 0 0 5)))");
}

TEST_CASE("A geometry as a multi geometry", "[wkb_edit]") {
	const auto multi = [](const char *text) {
		const auto bytes = Bytes(text);
		return Text(Multi(SliceOf(bytes)));
	};
	REQUIRE(multi("POINT Z (1 2 3)") == "MULTIPOINT Z ((1 2 3))");
	REQUIRE(multi("LINESTRING EMPTY") == "MULTILINESTRING (EMPTY)");
	REQUIRE(multi("POLYGON ((0 0, 1 0, 1 1, 0 0))") == "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))");
	REQUIRE(multi("MULTIPOINT (1 2)") == "MULTIPOINT ((1 2))");
	REQUIRE(multi("GEOMETRYCOLLECTION (POINT (1 2))") == "GEOMETRYCOLLECTION (POINT (1 2))");
}

TEST_CASE("Another vertex type keeps the tree", "[wkb_edit]") {
	for (auto type : TYPES) {
		for (uint8_t from = 0; from < 4; from++) {
			const auto bytes = Sample(type, from);
			for (uint8_t to = 0; to < 4; to++) {
				const auto there = WithVertexType(SliceOf(bytes), to);
				REQUIRE(ReadWkbHeader(Data(there), there.size()).vertex_type == to);
				// nothing is lost on the way to more axes and back
				if ((from | to) == to) {
					REQUIRE(WithVertexType(SliceOf(there), from) == bytes);
				}
			}
		}
	}
	const auto point = Bytes("POINT M (1 2 3)");
	REQUIRE(Text(WithVertexType(SliceOf(point), VERTEX_Z)) == "POINT Z (1 2 0)");
}

static std::vector<std::string> Leaves(const std::string &bytes) {
	std::vector<std::string> leaves;
	Dump(SliceOf(bytes), [&](WkbSlice leaf, const int32_t *path, size_t depth) {
		std::string places;
		for (size_t i = 0; i < depth; i++) {
			places += std::to_string(path[i]) + " ";
		}
		leaves.push_back(places + Text(std::string(reinterpret_cast<const char *>(leaf.data), leaf.size)));
	});
	return leaves;
}

TEST_CASE("The leaves of a geometry and the way to them", "[wkb_edit]") {
	using Strings = std::vector<std::string>;
	REQUIRE(Leaves(Bytes("POINT EMPTY")) == Strings {"POINT EMPTY"});
	REQUIRE(Leaves(Bytes("GEOMETRYCOLLECTION (GEOMETRYCOLLECTION EMPTY)")).empty());
	REQUIRE(Leaves(Bytes("MULTIPOINT Z (1 2 3, EMPTY)")) == Strings {"1 POINT Z (1 2 3)", "2 POINT Z EMPTY"});
	REQUIRE(Leaves(Bytes("GEOMETRYCOLLECTION (POINT (1 1), GEOMETRYCOLLECTION (MULTILINESTRING ((0 0, 1 1)), "
	                     "POLYGON EMPTY), GEOMETRYCOLLECTION EMPTY, POINT (2 2))")) ==
	        Strings {"1 POINT (1 1)", "2 1 1 LINESTRING (0 0, 1 1)", "2 2 POLYGON EMPTY", "4 POINT (2 2)"});
	REQUIRE(Leaves(Nested(WKB_MAX_DEPTH - 1)).size() == 1);
	REQUIRE_THROWS_AS(Leaves(Nested(WKB_MAX_DEPTH + 1)), GeometryError);
}

template <class EDIT>
static std::string Edited(const std::string &bytes, EDIT &&edit) {
	std::string out(bytes.size(), '\0');
	edit(SliceOf(bytes), reinterpret_cast<uint8_t *>(&out[0]));
	return out;
}

TEST_CASE("Lines and rings turned around", "[wkb_edit]") {
	REQUIRE(Text(Edited(Bytes("LINESTRING ZM (1 2 3 4, 5 6 7 8, 9 10 11 12)"), Reverse)) ==
	        "LINESTRING ZM (9 10 11 12, 5 6 7 8, 1 2 3 4)");
	REQUIRE(Text(Edited(Bytes("GEOMETRYCOLLECTION (POINT (1 2), POLYGON ((0 0, 1 0, 1 1, 0 0), EMPTY))"), Reverse)) ==
	        "GEOMETRYCOLLECTION (POINT (1 2), POLYGON ((0 0, 1 1, 1 0, 0 0), ()))");
	REQUIRE(Text(Edited(Bytes("MULTIPOINT M (1 2 3, EMPTY)"), FlipCoordinates)) == "MULTIPOINT M ((2 1 3), EMPTY)");
	for (auto type : TYPES) {
		for (uint8_t vertex_type = 0; vertex_type < 4; vertex_type++) {
			const auto bytes = Sample(type, vertex_type);
			REQUIRE(Edited(Edited(bytes, Reverse), Reverse) == bytes);
			REQUIRE(Edited(Edited(bytes, FlipCoordinates), FlipCoordinates) == bytes);
		}
	}
}

TEST_CASE("Cut bytes are refused, not read past", "[wkb_edit]") {
	for (auto type : TYPES) {
		const auto bytes = Sample(type, VERTEX_Z);
		for (size_t size = 0; size < bytes.size(); size++) {
			// memory of just that size, so that a sanitizer sees the first byte too many
			std::unique_ptr<uint8_t[]> cut(new uint8_t[size]);
			std::copy(bytes.begin(), bytes.begin() + size, cut.get());
			const WkbSlice slice {cut.get(), size};
			std::string out(size, '\0');
			const auto data = reinterpret_cast<uint8_t *>(&out[0]);
			REQUIRE_THROWS_AS(Dump(slice, [](WkbSlice, const int32_t *, size_t) {}), GeometryError);
			REQUIRE_THROWS_AS(Reverse(slice, data), GeometryError);
			REQUIRE_THROWS_AS(FlipCoordinates(slice, data), GeometryError);
			REQUIRE_THROWS_AS(WithVertexType(slice, VERTEX_XY), GeometryError);
			std::vector<WkbSlice> members {slice};
			REQUIRE_THROWS_AS(Collection(members), GeometryError);
			REQUIRE_THROWS_AS(MakeLine({slice, slice}), GeometryError);
			REQUIRE_THROWS_AS(MakePolygon(slice, {}), GeometryError);
			if (type == GeometryType::POLYGON) {
				WkbVertices ring;
				REQUIRE_THROWS_AS(PolygonRing(slice, 0, ring), GeometryError);
			} else if (type == GeometryType::LINESTRING) {
				REQUIRE_THROWS_AS(LineVertices(slice), GeometryError);
			}
		}
	}
}
