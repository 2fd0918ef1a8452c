#include "engine/index/cell_reach.hpp"

#include "catch.hpp"

#include "engine/index/cell_index.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/geometry_batch.hpp"
#include "three_threads.hpp"

#include <cmath>
#include <limits>
#include <random>

using namespace vibespatial;
using vibe::Vec2;

namespace {

using Ring = std::vector<Vec2>;

//! Areas and lines; what cells find near a point is held against vibe::ShapeDistance() of each of them
struct Things {
	std::vector<std::unique_ptr<Shape>> shapes;
	std::vector<const vibe::ShapeView *> views;
	std::mt19937_64 random {7};
	size_t near = 0, far = 0;

	void Add(const std::vector<Ring> &rings, bool is_line) {
		GeometryBatch batch;
		const auto type = is_line ? GeometryType::MULTILINESTRING : GeometryType::MULTIPOLYGON;
		const auto member = is_line ? GeometryType::LINESTRING : GeometryType::POLYGON;
		batch.BeginRow(type, 0);
		batch.BeginNode(type, static_cast<uint32_t>(rings.size()));
		for (auto &ring : rings) {
			batch.BeginNode(member, 0);
			batch.BeginPart(FamilyOf(member));
			batch.BeginRing();
			for (auto &vertex : ring) {
				batch.AddVertex(vertex.x, vertex.y, 0, 0);
			}
			if (!is_line) {
				batch.AddVertex(ring[0].x, ring[0].y, 0, 0);
			}
		}
		batch.EndRow();
		shapes.push_back(std::make_unique<Shape>());
		shapes.back()->Build(batch.View(0));
		const auto &view = shapes.back()->View();
		const bool is_usable = !view.mixed && view.point_count == 0 &&
		                       (view.element_count == 1 || (view.element_count == 0 && view.dimension == 1));
		views.push_back(is_usable ? &view : nullptr);
	}
	double Uniform(double from, double to) {
		return std::uniform_real_distribution<double>(from, to)(random);
	}
	int Whole(int from, int to) {
		return std::uniform_int_distribution<int>(from, to)(random);
	}
	//! With a hole, where it is large enough: the second ring is inside the first, and the multipolygon invalid, but even-odd
	void AddRough(double x, double y, double radius, int corners, bool is_line) {
		std::vector<Ring> rings(corners > 20 && !is_line ? 2 : 1);
		for (size_t r = 0; r < rings.size(); r++) {
			for (int i = 0; i < corners; i++) {
				const double angle = 2 * M_PI * i / corners;
				const double length = radius * Uniform(0.6, 1) / (r == 0 ? 1 : 2);
				rings[r].push_back(Vec2 {x + length * std::cos(angle), y + length * std::sin(angle)});
			}
		}
		Add(rings, is_line);
	}

	//! Vertices, points of edges, points at the limit from both as far as doubles go, and their neighbours
	std::vector<Vec2> Points(size_t count, double limit) {
		std::vector<const vibe::ShapeView *> there;
		for (auto view : views) {
			if (view) {
				there.push_back(view);
			}
		}
		auto nudge = [&](double value) {
			const int to = Whole(-1, 1);
			return to == 0 ? value : std::nextafter(value, to * std::numeric_limits<double>::infinity());
		};
		std::vector<Vec2> points;
		while (points.size() < count) {
			const auto &view = *there[random() % there.size()], &other = *there[random() % there.size()];
			const uint32_t i = random() % view.vertex_count;
			const Vec2 a = view.Vertex(i), b = view.Vertex(i + 1 < view.vertex_count ? i + 1 : i);
			const Vec2 c = other.Vertex(random() % other.vertex_count);
			const double t = Whole(0, 4) / 4.0, u = Uniform(0, 1), angle = Uniform(0, 2 * M_PI);
			const Vec2 on {a.x * (1 - t) + b.x * t, a.y * (1 - t) + b.y * t};
			const double dx = b.x - a.x, dy = b.y - a.y, length = std::sqrt(dx * dx + dy * dy);
			points.push_back(a);
			points.push_back(on);
			points.push_back(Vec2 {nudge(a.x + limit), a.y});
			points.push_back(Vec2 {a.x, nudge(a.y - limit)});
			points.push_back(Vec2 {nudge(on.x + limit * std::cos(angle)), nudge(on.y + limit * std::sin(angle))});
			if (length > 0) {
				points.push_back(Vec2 {nudge(on.x - limit * dy / length), nudge(on.y + limit * dx / length)});
			}
			points.push_back(Vec2 {on.x + Uniform(-2, 2) * limit, on.y + Uniform(-2, 2) * limit});
			points.push_back(Vec2 {a.x * (1 - u) + c.x * u, a.y * (1 - u) + c.y * u});
		}
		return points;
	}
	vibe::Box Bounds() const {
		vibe::Box box = vibe::Box::Empty();
		for (auto view : views) {
			if (view) {
				box.Add(view->box);
			}
		}
		return box;
	}
	size_t Wrong(const CellIndex &index, const std::vector<Vec2> &points, double limit) {
		std::vector<double> x, y;
		for (auto &point : points) {
			x.push_back(point.x);
			y.push_back(point.y);
		}
		std::vector<std::vector<uint32_t>> many(points.size());
		index.LocateMany(x.data(), y.data(), points.size(), [&](size_t i, uint32_t area, vibe::Location) {
			many[i].push_back(area);
			return false;
		});
		size_t wrong = 0;
		const vibe::u32 zero = 0;
		for (size_t i = 0; i < points.size(); i++) {
			std::vector<uint32_t> one, expected;
			index.Locate(points[i], [&](uint32_t area, vibe::Location) {
				one.push_back(area);
				return false;
			});
			const auto point = vibe::ShapeOfPoint(&points[i], &zero);
			for (uint32_t k = 0; k < views.size(); k++) {
				if (views[k] && vibe::ShapeDistance(point, *views[k], limit) <= limit) {
					expected.push_back(k);
				}
			}
			std::sort(one.begin(), one.end());
			std::sort(many[i].begin(), many[i].end());
			wrong += one != expected || many[i] != expected;
			near += expected.size();
			far += views.size() - expected.size();
		}
		return wrong;
	}
	//! Wrong answers with cells as fine as can be and coarse ones, built by one thread and by several
	size_t WrongOf(size_t count, double limit) {
		Serial serial;
		ThreeThreads threads;
		const auto points = Points(count, limit);
		const auto reach = CellIndex::ReachOf(limit, Bounds());
		REQUIRE(reach.limit == limit);
		CHECK(std::sqrt(reach.square) <= limit);
		CHECK(std::sqrt(std::nextafter(reach.square, HUGE_VAL)) > limit);
		size_t wrong = 0;
		for (const uint64_t expected_points : {uint64_t(0), uint64_t(1)}) {
			auto index = CellIndex::Build(views, size_t(1) << 30, serial, expected_points, reach);
			auto same = CellIndex::Build(views, size_t(1) << 30, threads, expected_points, reach);
			REQUIRE(index);
			REQUIRE(same);
			CHECK(index->GetFigures().cells == same->GetFigures().cells);
			CHECK(index->GetFigures().stored_vertices == same->GetFigures().stored_vertices);
			wrong += Wrong(*index, points, limit) +
			         Wrong(*same, {points.begin(), points.begin() + points.size() / 8}, limit);
		}
		return wrong;
	}
};

} // namespace

TEST_CASE("near cells: a square with points all around", "[cell_index]") {
	for (const double limit : {0.0, 0.25, 0.5, 1.0, 3.0, 1e6}) {
		Things things;
		things.Add({{{0, 0}, {4, 0}, {4, 4}, {0, 4}}}, false);
		things.Add({{{6, 0}, {6, 4}, {9, 4}}}, true);
		CHECK(things.WrongOf(2000, limit) == 0);
		CHECK(things.near > 0);
	}
}

TEST_CASE("near cells: rough areas and lines, small and large, at all limits", "[cell_index]") {
	for (int seed = 0; seed < 4; seed++) {
		for (const double limit : {0.0, 1e-9, 0.01, 0.3, 2.0, 15.0, 500.0}) {
			Things things;
			things.random.seed(seed);
			for (int i = 0; i < 25; i++) {
				const int corners = i == 0 ? 1500 : things.Whole(3, 60);
				things.AddRough(things.Uniform(0, 60), things.Uniform(0, 40), i == 0 ? 25 : things.Uniform(0.2, 6),
				                corners, seed == 3 || (seed > 0 && i % 3 == 1));
			}
			INFO("seed " << seed << ", limit " << limit);
			CHECK(things.WrongOf(800, limit) == 0);
			CHECK(things.near > 0);
			CHECK((things.far > 0 || limit > 10));
		}
	}
}

TEST_CASE("near cells: whole coordinates, where many points are at the limit", "[cell_index]") {
	// Distances of 3, 4, 5: exactly at the limit, along the axes and across
	for (int seed = 0; seed < 12; seed++) {
		Things things;
		things.random.seed(seed);
		for (int i = 0; i < 10; i++) {
			std::vector<Ring> rings(things.Whole(1, 2));
			for (auto &ring : rings) {
				for (int corners = things.Whole(3, 9); corners > 0; corners--) {
					ring.push_back(Vec2 {double(things.Whole(0, 30)), double(things.Whole(0, 30))});
				}
			}
			things.Add(rings, i % 2 == 0);
		}
		Serial serial;
		for (const double limit : {0.0, 1.0, 5.0, std::nextafter(5.0, 0.0)}) {
			const auto index =
			    CellIndex::Build(things.views, size_t(1) << 30, serial, 0, CellIndex::ReachOf(limit, things.Bounds()));
			REQUIRE(index);
			std::vector<Vec2> points;
			for (int x = -8; x <= 38; x += 1 + seed % 2) {
				for (int y = -8; y <= 38; y++) {
					points.push_back(Vec2 {double(x), double(y)});
				}
			}
			CHECK(things.Wrong(*index, points, limit) == 0);
		}
	}
}

TEST_CASE("near cells: many edges, which threads share", "[cell_index]") {
	Things things;
	things.AddRough(0, 0, 10, 40000, false);
	things.AddRough(3, 1, 10, 40000, true);
	CHECK(things.WrongOf(150, 0.05) == 0);
	CHECK(things.WrongOf(50, 3) == 0);
}

TEST_CASE("near cells: far from the origin, and hardly any extent", "[cell_index]") {
	Things things;
	for (int i = 0; i < 20; i++) {
		Ring ring;
		for (int k = 0; k < 7; k++) {
			ring.push_back(Vec2 {1e6 + things.Whole(0, 40) / 8.0, -1e6 + things.Whole(0, 40) / 8.0});
		}
		things.Add({ring}, i % 2 == 0);
	}
	CHECK(things.WrongOf(600, 0.125) == 0);
	CHECK(things.WrongOf(600, 0) == 0);
	Things flat;
	flat.Add({{{0, 1}, {5, 1}}}, true);
	flat.Add({{{-1, 1}, {2, 1}, {7, 1}}}, true);
	CHECK(flat.WrongOf(300, 0) == 0);
	CHECK(flat.WrongOf(300, 0.5) == 0);
	Things small;
	small.Add({{{0, 0}, {1e-60, 0}, {0, 1e-60}}}, false);
	small.Add({{{1e-60, 1e-60}, {2e-60, 3e-60}}}, true);
	CHECK(small.WrongOf(300, 1e-61) == 0);
	CHECK(small.WrongOf(300, 0) == 0);
}

TEST_CASE("near cells: limits that are out of range, and memory that is", "[cell_index]") {
	const vibe::Box box {-10, -10, 10, 10};
	const double infinity = std::numeric_limits<double>::infinity();
	for (const double limit : {-1.0, infinity, -infinity, std::nan(""), 1e-200, 1e-12, 1e80}) {
		CHECK(CellIndex::ReachOf(limit, box).limit < 0);
	}
	CHECK(CellIndex::ReachOf(1, vibe::Box::Empty()).limit < 0);
	CHECK(CellIndex::ReachOf(1, vibe::Box {0, 0, 1e100, 1}).limit < 0);
	CHECK(CellIndex::ReachOf(0, box).limit == 0);

	Serial serial;
	Things things;
	for (int i = 0; i < 400; i++) {
		things.AddRough(things.Uniform(0, 1), things.Uniform(0, 1), 100, 64, i % 2 == 0);
	}
	const auto reach = CellIndex::ReachOf(3, things.Bounds());
	CHECK_FALSE(CellIndex::Build(things.views, 1 << 19, serial, 0, reach));
	CHECK(CellIndex::Build({nullptr}, 1 << 19, serial, 0, reach));
	// Many areas within reach of every point take no more than some memory per edge
	const auto index = CellIndex::Build(things.views, SIZE_MAX, serial, 0, CellIndex::ReachOf(50, things.Bounds()));
	REQUIRE(index);
	CHECK(index->MemoryUsage() < index->GetFigures().edges * 4000);
	CHECK(things.Wrong(*index, things.Points(60, 50), 50) == 0);
}

TEST_CASE("near cells: a cell keeps the edges that can be near", "[cell_index]") {
	using namespace cell_build;
	// One cell, from 0 to 2: its centre is (1, 1), and no point is farther from it than 1.42
	PointGrid grid {};
	grid.width = grid.height = 2;
	const Vec2 vertices[] = {{2, -9}, {2, 9}, {4, 9}, {4, -9}, {9, -9}, {9, 9}};
	const Item items[] = {Item {0, 0, 5, 3}};
	const auto read = [&](double limit, bool inside, ItemList &kept) {
		const auto reach = CellIndex::ReachOf(limit, vibe::Box {0, -9, 9, 9});
		NearReader reader(grid, reach, vertices);
		AreaSet active;
		if (inside) {
			active.Flip(3);
		}
		active.Flip(8);
		NearCell cell;
		reader.Read(0, 0, ItemSpan {items, items + 1}, active, cell, kept);
		return cell;
	};
	ItemList kept;
	const auto touched = read(0.5, false, kept);
	CHECK(touched.near.empty());
	CHECK(touched.edges == 1);
	REQUIRE(kept.count == 1);
	CHECK(kept.begin()->begin == 0);
	CHECK(kept.begin()->count == 1);
	CHECK(touched.inside.areas == std::vector<uint32_t> {8});
	CHECK(read(1, true, kept).edges == 1);
	CHECK(read(2.2, true, kept).edges == 2);
	CHECK(read(2.2, true, kept).inside.areas == std::vector<uint32_t> {3, 8});
	const auto all = read(3, true, kept);
	CHECK(all.near == std::vector<uint32_t> {3});
	CHECK(all.edges == 0);
	CHECK(all.inside.areas == std::vector<uint32_t> {8});
}
