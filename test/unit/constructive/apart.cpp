#include "engine/constructive/apart.hpp"

#include "catch.hpp"

#include "engine/constructive/buffer.hpp"
#include "engine/measure/measure.hpp"
#include "engine/relate/validity.hpp"
#include "wkt_rows.hpp"

#include <algorithm>
#include <ctime>
#include <random>

using namespace vibespatial;
using vibe::Box;
using wkt_test::WriteWkt;

namespace {

CountedVector<Box> Sorted(CountedVector<Box> boxes) {
	std::sort(boxes.begin(), boxes.end(), [](const Box &a, const Box &b) { return a.min_x < b.min_x; });
	return boxes;
}

void AddSquare(GeometryBatch &batch, double x, double y, double size) {
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	batch.BeginRing();
	for (const auto &p : {vibe::Vec2 {x, y}, {x + size, y}, {x + size, y + size}, {x, y + size}, {x, y}}) {
		batch.AddVertex(p.x, p.y, 0, 0);
	}
}

//! A multipolygon of squares, side by side in rows
GeometryBatch Squares(size_t count, double size, size_t side) {
	GeometryBatch batch;
	batch.BeginRow(GeometryType::MULTIPOLYGON, VERTEX_XY);
	batch.BeginNode(GeometryType::MULTIPOLYGON, uint32_t(count));
	for (size_t i = 0; i < count; i++) {
		const auto column = i % side, row = i / side;
		AddSquare(batch, double(column), double(row), size);
	}
	batch.EndRow();
	return batch;
}

GeometryBatch BufferOf(const GeometryBatch &batch, double distance) {
	Overlay overlay;
	Serial serial;
	GeometryBatch out;
	Buffer(batch, 0, distance, BufferStyle(), overlay, serial, out);
	return out;
}

//! The same through an overlay alone
GeometryBatch UnionOfBuffers(const GeometryBatch &batch, double distance) {
	const auto view = batch.View(0);
	Overlay overlay;
	Serial serial;
	GeometryBatch rows, out;
	for (auto part = view.part_begin; part < view.part_end; part++) {
		GeometryBatch one;
		one.BeginRow(GeometryType::POLYGON, VERTEX_XY);
		one.BeginNode(GeometryType::POLYGON, 0);
		one.BeginPart(vibe::FAMILY_POLYGON);
		one.BeginRing();
		for (auto i = view.ring_start[view.part_ring[part]]; i < view.ring_start[view.part_ring[part] + 1]; i++) {
			one.AddVertex(view.x[i], view.y[i], 0, 0);
		}
		one.EndRow();
		Buffer(one, 0, distance, BufferStyle(), overlay, serial, rows);
	}
	AppendUnion(rows, overlay, serial, out);
	return out;
}

} // namespace

TEST_CASE("Boxes that meet no other", "[apart]") {
	std::mt19937 random(3);
	size_t all = 0;
	for (int round = 0; round < 400; round++) {
		CountedVector<Box> boxes;
		const auto count = 1 + random() % 40, size = 1 + random() % 4;
		for (size_t i = 0; i < count; i++) {
			const auto x = double(random() % 40), y = double(random() % 40);
			// Some are long, some are points
			boxes.push_back(Box {x, y, x + double(random() % (i % 9 == 0 ? 30 : size)), y + double(random() % size)});
		}
		boxes = Sorted(boxes);
		const auto apart = FindApart(boxes);
		REQUIRE(apart.size() == boxes.size());
		size_t meeting = 0;
		for (size_t i = 0; i < boxes.size(); i++) {
			bool meets = false;
			for (size_t k = 0; k < boxes.size(); k++) {
				meets = meets || (i != k && boxes[i].Intersects(boxes[k]));
			}
			REQUIRE_FALSE((meets && apart[i]));
			meeting += meets;
			all += apart[i];
		}
		REQUIRE((meeting > 0 || std::count(apart.begin(), apart.end(), 1) == ptrdiff_t(count)));
	}
	CHECK(all > 500);
}

TEST_CASE("Boxes in any order of y take time in proportion", "[apart]") {
	// Bars beside each other, steps, and columns: none may look at all the others again and again
	for (const double step : {0.0, 1.0, -1.0}) {
		CountedVector<Box> boxes;
		for (int i = 0; i < 200000; i++) {
			const double x = step == 0 ? 0 : i;
			const double y = step == 0 ? 2 * i : step * 2 * i;
			boxes.push_back(Box {x, y, x + (step == 0 ? 1 : 1e9), y + 1});
		}
		const auto apart = FindApart(boxes);
		REQUIRE(std::count(apart.begin(), apart.end(), 1) == 200000);
	}
}

TEST_CASE("Buffers of parts that lie apart are those of the overlay", "[apart][buffer]") {
	for (const double distance : {0.1, 0.3, 0.7, -0.05, 0.0}) {
		const auto squares = Squares(300, 0.5, 20);
		const auto one = BufferOf(squares, distance), other = UnionOfBuffers(squares, distance);
		REQUIRE(WriteWkt(one, 0) == WriteWkt(other, 0));
		REQUIRE(ValidityReason(one, 0) == "Valid Geometry");
	}
	// Some of them apart: squares of several sizes, of which a few meet, in any order
	std::mt19937 random(9);
	size_t multi = 0;
	for (int round = 0; round < 50; round++) {
		GeometryBatch batch;
		batch.BeginRow(GeometryType::MULTIPOLYGON, VERTEX_XY);
		batch.BeginNode(GeometryType::MULTIPOLYGON, 60);
		for (int i = 0; i < 60; i++) {
			AddSquare(batch, double(random() % 100), double(random() % 100), 1 + double(random() % 5));
		}
		batch.EndRow();
		const auto out = BufferOf(batch, 0.25), other = UnionOfBuffers(batch, 0.25);
		REQUIRE(out.type[0] == other.type[0]);
		REQUIRE(ValidityReason(out, 0) == "Valid Geometry");
		REQUIRE(WriteWkt(out, 0) == WriteWkt(other, 0));
		multi += out.row_part[1] > 20;
	}
	CHECK(multi == 50);
}

TEST_CASE("Buffers of parts apart and of parts that are crowded, together", "[apart][buffer]") {
	// A comb so dense that it is made in pieces, a square in its way, and squares far away
	std::string comb;
	for (int i = 0; i < 400; i++) {
		comb += std::to_string(i * 0.01) + (i % 2 == 0 ? " 0, " : " 1, ");
	}
	const std::string squares = "((10 10, 11 10, 11 11, 10 11, 10 10)), ((-9 0, -8 0, -8 1, -9 1, -9 0))";
	const std::string near = "((3.9 0.5, 5 0.5, 5 0.9, 3.9 0.9, 3.9 0.5))";
	const std::string dense = "((" + comb + "4 -1, 0 -1, 0 0))";
	const auto area = [](const std::string &parts) {
		const wkt_test::WktRow input("MULTIPOLYGON (" + parts + ")");
		Overlay overlay;
		Serial serial;
		GeometryBatch out;
		Buffer(input.batch, wkt_test::WktRow::ROW, 0.5, BufferStyle(), overlay, serial, out);
		REQUIRE(ValidityReason(out, 0) == "Valid Geometry");
		return Area(out.View(0));
	};
	const double apart = area(squares);
	CHECK(area(dense + ", " + squares) == Approx(area(dense) + apart));
	CHECK(area(squares + ", " + dense + ", " + near) == Approx(area(near + ", " + dense) + apart));
	CHECK(area(near + ", " + dense) < area(near) + area(dense));
}

TEST_CASE("A buffer of many parts takes time in proportion", "[apart][buffer]") {
	const auto time = [](size_t count) {
		const auto squares = Squares(count, 0.5, 200);
		double least = 1e18;
		for (int round = 0; round < 3; round++) {
			const auto begin = std::clock();
			REQUIRE(BufferOf(squares, 0.001).x.size() == count * 37);
			least = std::min(least, double(std::clock() - begin));
		}
		return least;
	};
	// 16 times as many; curves that were copied for each part took 200 times as long
	CHECK(time(16384) < 64 * time(1024));
}
