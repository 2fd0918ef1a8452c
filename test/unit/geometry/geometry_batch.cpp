#include "catch.hpp"

#include "geometry/geometry_batch.hpp"

#include <cmath>
#include <limits>

using namespace vibespatial;

static constexpr double NaN = std::numeric_limits<double>::quiet_NaN();

static void AddPoint(GeometryBatch &batch, uint8_t vertex_type, double x, double y, double z, double m) {
	batch.BeginRow(GeometryType::POINT, vertex_type);
	batch.BeginNode(GeometryType::POINT, 0);
	batch.BeginPart(vibe::FAMILY_POINT);
	batch.BeginRing();
	batch.AddVertex(x, y, z, m);
	batch.EndRow();
}

static void AddRing(GeometryBatch &batch, double left, double low, double size) {
	batch.BeginRing();
	batch.AddVertex(left, low, 0, 0);
	batch.AddVertex(left + size, low, 0, 0);
	batch.AddVertex(left + size, low + size, 0, 0);
	batch.AddVertex(left, low, 0, 0);
}

//! MULTIPOLYGON of one polygon with a hole, an EMPTY one and one without a hole
static void AddMultiPolygon(GeometryBatch &batch) {
	batch.BeginRow(GeometryType::MULTIPOLYGON, VERTEX_XY);
	batch.BeginNode(GeometryType::MULTIPOLYGON, 3);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	AddRing(batch, 0, 0, 10);
	AddRing(batch, 7, 1, 2);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	AddRing(batch, -20, 5, 1);
	batch.EndRow();
}

TEST_CASE("A batch knows NULL from EMPTY", "[geometry_batch]") {
	GeometryBatch batch;
	batch.AppendNull();
	batch.BeginRow(GeometryType::LINESTRING, VERTEX_XY);
	batch.BeginNode(GeometryType::LINESTRING, 0);
	batch.BeginPart(vibe::FAMILY_LINE);
	batch.EndRow();
	batch.BeginRow(GeometryType::GEOMETRYCOLLECTION, VERTEX_Z);
	batch.BeginNode(GeometryType::GEOMETRYCOLLECTION, 0);
	batch.EndRow();

	REQUIRE(batch.RowCount() == 3);
	REQUIRE(batch.valid == CountedVector<uint8_t> {0, 1, 1});
	REQUIRE(batch.type[0] == GeometryType::INVALID);
	REQUIRE(batch.type[1] == GeometryType::LINESTRING);
	REQUIRE(batch.row_node == CountedVector<uint32_t> {0, 0, 1, 2});
	REQUIRE(batch.row_part == CountedVector<uint32_t> {0, 0, 1, 1});
	for (size_t row = 0; row < 3; row++) {
		REQUIRE(batch.IsEmpty(row));
		REQUIRE(batch.Bounds(row).IsEmpty());
	}
	REQUIRE(batch.View(0).part_begin == batch.View(0).part_end);
	REQUIRE_FALSE(batch.View(1).collection);
	REQUIRE(batch.View(2).collection);
}

TEST_CASE("A batch lays parts, rings and vertices out as prefix arrays", "[geometry_batch]") {
	GeometryBatch batch;
	AddPoint(batch, VERTEX_XY, 3, 4, 0, 0);
	AddMultiPolygon(batch);

	REQUIRE(batch.row_node == CountedVector<uint32_t> {0, 1, 5});
	REQUIRE(batch.node_children == CountedVector<uint32_t> {0, 3, 0, 0, 0});
	REQUIRE(batch.row_part == CountedVector<uint32_t> {0, 1, 4});
	REQUIRE(batch.part_ring == CountedVector<uint32_t> {0, 1, 3, 3, 4});
	REQUIRE(batch.ring_start == CountedVector<uint32_t> {0, 1, 5, 9, 13});

	const auto view = batch.View(1);
	REQUIRE(view.part_begin == 1);
	REQUIRE(view.part_end == 4);
	REQUIRE(view.part_family[view.part_begin] == vibe::FAMILY_POLYGON);
	const auto hole = view.part_ring[view.part_begin] + 1;
	REQUIRE(view.Vertex(view.ring_start[hole]) == (vibe::Vec2 {7, 1}));
	REQUIRE_FALSE(view.collection);

	const auto box = batch.Bounds(1);
	REQUIRE(box.min_x == -20);
	REQUIRE(box.min_y == 0);
	REQUIRE(box.max_x == 10);
	REQUIRE(box.max_y == 10);
	REQUIRE(batch.Bounds(0).max_y == 4);
	REQUIRE_FALSE(batch.IsEmpty(1));
}

TEST_CASE("Bounds of a row of any length are those of all its vertices", "[geometry_batch]") {
	for (int count = 1; count < 20; count++) {
		for (int extreme = 0; extreme < count; extreme++) {
			GeometryBatch batch;
			AddPoint(batch, VERTEX_XY, -1000, 1000, 0, 0);
			batch.BeginRow(GeometryType::LINESTRING, VERTEX_XY);
			batch.BeginNode(GeometryType::LINESTRING, 0);
			batch.BeginPart(vibe::FAMILY_LINE);
			batch.BeginRing();
			for (int i = 0; i < count; i++) {
				// Vertices around (0, 0), one far off; NaN stays out
				batch.AddVertex(i == extreme ? -50 : i, i == extreme ? 70 : NaN, 0, 0);
			}
			batch.EndRow();
			const auto box = batch.Bounds(1);
			REQUIRE(box.min_x == -50);
			REQUIRE(box.max_x == (count == 1 ? -50 : extreme == count - 1 ? count - 2 : count - 1));
			REQUIRE(box.min_y == 70);
			REQUIRE(box.max_y == 70);
		}
	}
}

TEST_CASE("Z and M are columns only where a row has them", "[geometry_batch]") {
	GeometryBatch batch;
	AddPoint(batch, VERTEX_XY, 1, 2, 3, 4);
	REQUIRE(batch.z.empty());
	REQUIRE(batch.m.empty());
	AddPoint(batch, VERTEX_M, 1, 2, 3, 4);
	REQUIRE(batch.z.empty());
	REQUIRE(batch.m.size() == 2);
	REQUIRE(std::isnan(batch.m[0]));
	REQUIRE(batch.m[1] == 4);
	AddPoint(batch, VERTEX_Z, 1, 2, 3, 4);
	REQUIRE(batch.z.size() == 3);
	REQUIRE(batch.m.size() == 3);
	REQUIRE(std::isnan(batch.z[1]));
	REQUIRE(batch.z[2] == 3);
	REQUIRE(std::isnan(batch.m[2]));
	AddMultiPolygon(batch);
	REQUIRE(batch.z.size() == batch.x.size());
	REQUIRE(batch.m.size() == batch.x.size());
	REQUIRE(std::isnan(batch.z.back()));
	AddPoint(batch, VERTEX_Z | VERTEX_M, 1, 2, 3, 4);
	REQUIRE(batch.z.back() == 3);
	REQUIRE(batch.m.back() == 4);
}

TEST_CASE("Clear and Rollback leave no trace", "[geometry_batch]") {
	GeometryBatch batch;
	AddMultiPolygon(batch);
	const auto mark = batch.GetMark();
	const auto part_ring = batch.part_ring;
	const auto ring_start = batch.ring_start;

	AddPoint(batch, VERTEX_Z | VERTEX_M, 1, 2, 3, 4);
	// A row that is not finished
	batch.BeginRow(GeometryType::POLYGON, VERTEX_Z);
	batch.BeginNode(GeometryType::POLYGON, 0);
	batch.BeginPart(vibe::FAMILY_POLYGON);
	batch.BeginRing();
	batch.AddVertex(1, 2, 3, 4);
	batch.Rollback(mark);

	REQUIRE(batch.RowCount() == 1);
	REQUIRE(batch.row_node == CountedVector<uint32_t> {0, 4});
	REQUIRE(batch.row_part == CountedVector<uint32_t> {0, 3});
	REQUIRE(batch.node_type.size() == 4);
	REQUIRE(batch.part_ring == part_ring);
	REQUIRE(batch.ring_start == ring_start);
	REQUIRE(batch.x.size() == 12);
	REQUIRE(batch.y.size() == 12);
	REQUIRE(batch.z.empty());
	REQUIRE(batch.m.empty());

	batch.Clear();
	REQUIRE(batch.RowCount() == 0);
	REQUIRE(batch.row_node == CountedVector<uint32_t> {0});
	REQUIRE(batch.row_part == CountedVector<uint32_t> {0});
	REQUIRE(batch.part_ring == CountedVector<uint32_t> {0});
	REQUIRE(batch.ring_start == CountedVector<uint32_t> {0});
	REQUIRE(batch.x.empty());
	AddMultiPolygon(batch);
	REQUIRE(batch.part_ring == part_ring);
	REQUIRE(batch.ring_start == ring_start);
}
