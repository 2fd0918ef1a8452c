#include "engine/shape/shape.hpp"

#include "catch.hpp"

#include "geometry/wkb.hpp"
#include "same_shape.hpp"
#include "wkt_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace vibespatial;

namespace {

std::string Bytes(const std::string &wkt) {
	GeometryBatch row;
	wkt_test::ReadWkt(wkt, row);
	return WriteWkb(row, 0);
}

bool IsPlain(const std::string &wkb) {
	Shape shape;
	return shape.BuildPlain(reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size());
}

//! A ring of `n` corners around a place, in either direction
std::string Ring(std::mt19937 &random, int n, double size, bool backward) {
	std::uniform_real_distribution<double> radius(0.6, 1);
	std::string first, text;
	for (int i = 0; i < n; i++) {
		const double angle = (backward ? -2 : 2) * M_PI * i / n, r = size * radius(random);
		const std::string vertex = std::to_string(r * std::cos(angle)) + " " + std::to_string(r * std::sin(angle));
		first = i == 0 ? vertex : first;
		text += vertex + ", ";
	}
	return "(" + text + first + ")";
}

} // namespace

TEST_CASE("a shape from plain bytes is the shape from columns", "[shape]") {
	std::mt19937 random(4);
	// One shape for all: what is left of a larger one must not show
	Shape plain, built;
	int wrong = 0;
	for (int i = 0; i < 300; i++) {
		const int n = 3 + static_cast<int>(random() % (i % 3 == 0 ? 600 : 80));
		const std::string shell = Ring(random, n, 10, random() % 2 == 0);
		const std::string hole = Ring(random, 5, 2, random() % 2 == 0);
		std::string wkt = i % 4 < 2 ? "LINESTRING " : "POLYGON (";
		if (i % 4 == 1) {
			wkt.append("(").append(std::to_string(i)).append(" 99, ").append(shell, 1, std::string::npos);
		} else {
			wkt.append(shell);
		}
		if (i % 4 > 1) {
			wkt.append(i % 4 == 3 ? ", " + hole : "").append(")");
		}
		const auto wkb = Bytes(wkt);
		GeometryBatch row;
		wkt_test::ReadWkt(wkt, row);
		built.Build(row.View(0));
		REQUIRE(plain.BuildPlain(reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size()));
		wrong += !SameShape(plain.View(), built.View());
	}
	CHECK(wrong == 0);
}

TEST_CASE("bytes that are not plain are left to the long way", "[shape]") {
	const auto square = Bytes("POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))");
	REQUIRE(IsPlain(square));
	REQUIRE(IsPlain(Bytes("LINESTRING (0 0, 1 1)")));
	for (auto wkt : {"POINT (1 1)", "LINESTRING EMPTY", "POLYGON EMPTY", "LINESTRING (1 1, 1 1)",
	                 "LINESTRING (0 0, 1 1, 1 1, 2 2)", "POLYGON ((0 0, 4 0, 4 0, 4 4, 0 0))",
	                 "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 1))", "LINESTRING Z (0 0 1, 1 1 1)",
	                 "MULTILINESTRING ((0 0, 1 1))", "GEOMETRYCOLLECTION (LINESTRING (0 0, 1 1))"}) {
		CHECK_FALSE(IsPlain(Bytes(wkt)));
	}
	for (size_t size = 0; size < square.size(); size++) {
		CHECK_FALSE(IsPlain(square.substr(0, size)));
	}
	CHECK_FALSE(IsPlain(square + '\0'));
	for (double value : {NAN, INFINITY, -INFINITY}) {
		auto wkb = square;
		std::memcpy(&wkb[13 + 2 * 16 + 8], &value, sizeof(value));
		CHECK_FALSE(IsPlain(wkb));
	}
	auto many_rings = square, many_vertices = square, big_endian = square;
	std::memset(&many_rings[5], 0xff, 4);
	std::memset(&many_vertices[9], 0xff, 4);
	big_endian[0] = 0;
	CHECK_FALSE(IsPlain(many_rings));
	CHECK_FALSE(IsPlain(many_vertices));
	CHECK_FALSE(IsPlain(big_endian));
}
