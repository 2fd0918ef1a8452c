#include "engine/index/cell_index.hpp"

#include "catch.hpp"

#include "engine/index/polygon_scan.hpp"
#include "engine/index/polygon_scan_simd.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/geometry_batch.hpp"
#include "geometry/wkb.hpp"
#include "three_threads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace vibespatial;
using vibe::Vec2;

namespace {

using Ring = std::vector<Vec2>;

//! Areas, and the answers of their cells, and of their WKB as it is, held against each area asked alone
struct Areas {
	std::vector<std::unique_ptr<Shape>> shapes;
	std::vector<std::string> wkb;
	std::vector<const vibe::ShapeView *> views;
	std::mt19937_64 random {42};
	size_t boundary = 0, interior = 0;
	bool scanned = false;

	//! All rings are the shells of one multipolygon: they may cross, overlap or lie inside each other
	void Add(const std::vector<Ring> &rings) {
		GeometryBatch batch;
		Write(rings, batch);
		shapes.push_back(std::make_unique<Shape>());
		shapes.back()->Build(batch.View(0));
		const auto &view = shapes.back()->View();
		views.push_back(view.element_count == 1 && !view.mixed ? &view : nullptr);
	}
	//! What no Shape can be made of
	void AddUnusable(const Ring &ring) {
		GeometryBatch batch;
		Write({ring}, batch);
		views.push_back(views[0]);
	}
	void Write(const std::vector<Ring> &rings, GeometryBatch &batch) {
		batch.BeginRow(GeometryType::MULTIPOLYGON, 0);
		batch.BeginNode(GeometryType::MULTIPOLYGON, static_cast<uint32_t>(rings.size()));
		for (auto &ring : rings) {
			batch.BeginNode(GeometryType::POLYGON, 0);
			batch.BeginPart(FamilyOf(GeometryType::POLYGON));
			batch.BeginRing();
			for (auto &vertex : ring) {
				batch.AddVertex(vertex.x, vertex.y, 0, 0);
			}
			batch.AddVertex(ring[0].x, ring[0].y, 0, 0);
		}
		batch.EndRow();
		wkb.push_back(WriteWkb(batch, 0));
	}
	double Uniform(double from, double to) {
		return std::uniform_real_distribution<double>(from, to)(random);
	}
	int Whole(int from, int to) {
		return std::uniform_int_distribution<int>(from, to)(random);
	}
	void AddCircle(double x, double y, double radius, int corners, double roughness = 0) {
		Ring ring;
		for (int i = 0; i < corners; i++) {
			const double angle = 2 * M_PI * i / corners, r = radius * (1 - roughness * Uniform(0, 1));
			ring.push_back(Vec2 {x + r * std::cos(angle), y + r * std::sin(angle)});
		}
		Add({ring});
	}

	using Hits = std::vector<std::pair<uint32_t, int>>;

	Hits Expected(const Vec2 &p) {
		Hits hits;
		for (uint32_t i = 0; i < views.size(); i++) {
			const auto location = views[i] ? vibe::LocateInElement(*views[i], 0, p) : vibe::LOC_EXTERIOR;
			if (location != vibe::LOC_EXTERIOR) {
				hits.emplace_back(i, location);
				(location == vibe::LOC_BOUNDARY ? boundary : interior)++;
			}
		}
		return hits;
	}
	//! Points with wrong answers
	size_t Wrong(const CellIndex &index, const std::vector<Vec2> &points) {
		std::vector<double> x, y;
		std::vector<Hits> many(points.size());
		for (auto &point : points) {
			x.push_back(point.x);
			y.push_back(point.y);
		}
		index.LocateMany(x.data(), y.data(), points.size(), [&](size_t i, uint32_t area, vibe::Location location) {
			many[i].emplace_back(area, location);
			return false;
		});
		size_t wrong = 0;
		for (size_t i = 0; i < points.size(); i++) {
			Hits one;
			index.Locate(points[i], [&](uint32_t area, vibe::Location location) {
				one.emplace_back(area, location);
				return false;
			});
			std::sort(one.begin(), one.end());
			std::sort(many[i].begin(), many[i].end());
			const auto expected = Expected(points[i]);
			wrong += one != expected || many[i] != expected;
		}
		return wrong;
	}
	size_t Wrong(const PolygonScan &scan, const std::vector<Vec2> &points) {
		std::vector<double> x, y;
		for (auto &point : points) {
			x.push_back(point.x);
			y.push_back(point.y);
		}
		PolygonScan::FoundRows found;
		PolygonScan::Lookup lookup;
		scan.Locate(x.data(), y.data(), points.size(), found, lookup);
		std::vector<Hits> many(points.size());
		for (auto &one : found) {
			many[one.point].emplace_back(one.row, one.location);
		}
		size_t wrong = 0;
		for (size_t i = 0; i < points.size(); i++) {
			std::sort(many[i].begin(), many[i].end());
			wrong += many[i] != Expected(points[i]);
		}
		CHECK(lookup.tests >= found.size());
		return wrong;
	}
	std::unique_ptr<PolygonScan> Scan(Parallel &parallel) const {
		JoinRows rows;
		for (size_t i = 0; i < wkb.size(); i++) {
			const auto data = reinterpret_cast<const uint8_t *>(wkb[i].data());
			rows.push_back(JoinRow {views[i] ? data : nullptr, static_cast<uint32_t>(wkb[i].size())});
		}
		return PolygonScan::Build(rows, parallel);
	}
	//! Vertices and points of edges, their neighbours among the doubles, and points mixed from two vertices
	std::vector<Vec2> Points(size_t count) {
		std::vector<const vibe::ShapeView *> there;
		for (auto view : views) {
			if (view && view->vertex_count > 0) {
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
			const double t = Whole(0, 4) / 4.0;
			points.push_back(a);
			points.push_back(Vec2 {nudge(a.x), nudge(a.y)});
			points.push_back(Vec2 {a.x * (1 - t) + b.x * t, a.y * (1 - t) + b.y * t});
			points.push_back(Vec2 {a.x, c.y});
			points.push_back(Vec2 {a.x * (1 - t) + c.x * t, a.y * (1 - t) + c.y * t});
			const double u = Uniform(0, 1);
			points.push_back(Vec2 {a.x * (1 - u) + c.x * u, c.y * (1 - u) + b.y * u});
		}
		return points;
	}
	size_t WrongOf(size_t count, const std::vector<Vec2> &more = {}) {
		Serial serial;
		ThreeThreads threads;
		auto points = Points(count);
		points.insert(points.end(), more.begin(), more.end());
		// As fine as can be, as coarse as can be, and between
		size_t edges = 0, wrong = 0;
		for (auto view : views) {
			edges += view ? view->vertex_count : 0;
		}
		for (const uint64_t expected_points : {uint64_t(0), uint64_t(1), uint64_t(edges)}) {
			auto index = CellIndex::Build(views, size_t(1) << 30, serial, expected_points);
			auto same = CellIndex::Build(views, size_t(1) << 30, threads, expected_points);
			REQUIRE(index);
			REQUIRE(same);
			CHECK(index->MemoryUsage() > 0);
			CHECK(index->GetFigures().cells == same->GetFigures().cells);
			CHECK(index->GetFigures().stored_vertices == same->GetFigures().stored_vertices);
			wrong += Wrong(*index, points) + Wrong(*same, {points.begin(), points.begin() + points.size() / 8});
		}
		auto scan = Scan(serial), same = Scan(threads);
		REQUIRE(!scan == !same);
		scanned = scan != nullptr;
		if (scan) {
			wrong += Wrong(*scan, points) + Wrong(*same, points);
			polygon_scan_simd::portable_only = true;
			wrong += Wrong(*scan, points) + Wrong(*Scan(serial), points);
			polygon_scan_simd::portable_only = false;
		}
		return wrong;
	}
};

} // namespace

TEST_CASE("cells: one square, and points around it", "[cell_index]") {
	Areas areas;
	areas.Add({{{0, 0}, {4, 0}, {4, 4}, {0, 4}}});
	std::vector<Vec2> points;
	for (int x = -2; x <= 10; x++) {
		for (int y = -2; y <= 10; y++) {
			points.push_back(Vec2 {x / 2.0, y / 2.0});
		}
	}
	const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
	points.insert(points.end(), {{nan, 1}, {1, nan}, {infinity, 1}, {1, -infinity}, {1e300, 2}});
	CHECK(areas.WrongOf(0, points) == 0);
	CHECK(areas.scanned);
	CHECK(areas.interior > 0);
	CHECK(areas.boundary > 0);
}

TEST_CASE("cells: no areas, and areas left out", "[cell_index]") {
	Serial serial;
	Areas areas;
	auto index = CellIndex::Build({nullptr, nullptr}, 1 << 20, serial);
	REQUIRE(index);
	CHECK(areas.Wrong(*index, {{0, 0}, {1, 1}}) == 0);
	areas.Add({{{0, 0}, {4, 0}, {4, 4}, {0, 4}}});
	areas.Add({{{1, 0}, {4, 0}, {4, 4}, {0, 4}}});
	areas.views[0] = nullptr;
	CHECK(areas.WrongOf(1000) == 0);
	CHECK(areas.scanned);
}

TEST_CASE("cells: a hit may end the search", "[cell_index]") {
	Serial serial;
	Areas areas;
	areas.AddCircle(0, 0, 10, 100);
	areas.AddCircle(1, 0, 10, 100);
	areas.AddCircle(0, 1, 10, 100);
	auto index = CellIndex::Build(areas.views, 1 << 28, serial);
	REQUIRE(index);
	size_t hits = 0;
	for (double x = -9; x < 9; x += 0.25) {
		index->Locate(Vec2 {x, 0.5}, [&](uint32_t, vibe::Location) { return ++hits > 0; });
	}
	CHECK(hits == 72);
	const double x[] = {0, 0.5}, y[] = {0, 0.5};
	std::vector<size_t> points;
	index->LocateMany(x, y, 2, [&](size_t point, uint32_t, vibe::Location) {
		points.push_back(point);
		return true;
	});
	CHECK(points == std::vector<size_t> {0, 1});
}

TEST_CASE("cells: tiled areas with shared borders", "[cell_index]") {
	// A jittered mesh: every inner vertex belongs to four areas
	Areas areas;
	constexpr int N = 12;
	Vec2 mesh[N + 1][N + 1];
	for (int i = 0; i <= N; i++) {
		for (int k = 0; k <= N; k++) {
			mesh[i][k] = Vec2 {i + areas.Uniform(-0.4, 0.4), k + areas.Uniform(-0.4, 0.4)};
		}
	}
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < N; k++) {
			areas.Add({{mesh[i][k], mesh[i + 1][k], mesh[i + 1][k + 1], mesh[i][k + 1]}});
		}
	}
	CHECK(areas.WrongOf(3000) == 0);
	CHECK(areas.scanned);
}

TEST_CASE("cells: whole coordinates, crossing rings and overlapping parts", "[cell_index]") {
	// Vertices meet edges, edges overlap and lie on the borders of cells
	for (int seed = 0; seed < 25; seed++) {
		Areas areas;
		areas.random.seed(seed);
		const int size = 4 << (seed % 4);
		for (int i = 0; i < 12; i++) {
			std::vector<Ring> rings(areas.Whole(1, 3));
			for (auto &ring : rings) {
				const int corners = areas.Whole(3, 12);
				while (static_cast<int>(ring.size()) < corners) {
					ring.push_back(Vec2 {double(areas.Whole(0, size)), double(areas.Whole(0, size))});
				}
			}
			areas.Add(rings);
		}
		std::vector<Vec2> points;
		points.reserve(400);
		for (int i = 0; i < 400; i++) {
			points.push_back(Vec2 {areas.Whole(-2, 2 * size + 2) / 2.0, areas.Whole(-2, 2 * size + 2) / 2.0});
		}
		CHECK(areas.WrongOf(600, points) == 0);
	}
}

TEST_CASE("cells: many rectangles on a raster", "[cell_index]") {
	Areas areas;
	for (int i = 0; i < 300; i++) {
		const double x = areas.Whole(0, 63), y = areas.Whole(0, 63), w = areas.Whole(1, 8), h = areas.Whole(1, 8);
		areas.Add({{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}});
	}
	std::vector<Vec2> points;
	for (int x = 0; x <= 142; x++) {
		for (int y = 0; y <= 142; y += 3) {
			points.push_back(Vec2 {x / 2.0, y / 2.0});
		}
	}
	CHECK(areas.WrongOf(600, points) == 0);
}

TEST_CASE("cells: one area with very many edges", "[cell_index]") {
	Areas areas;
	areas.AddCircle(3, -7, 5, 40000, 0.2);
	areas.AddCircle(3, -7, 4.5, 20);
	CHECK(areas.WrongOf(150) == 0);
	CHECK(areas.scanned);
}

TEST_CASE("polygon scan: what points in a huge polygon cost", "[cell_index]") {
	constexpr int VERTICES = 1000000, POINTS = 2048;
	Areas areas;
	areas.AddCircle(0, 0, 5, VERTICES);
	Serial serial;
	const auto scan = areas.Scan(serial);
	REQUIRE(scan);
	std::vector<double> x(POINTS), y(POINTS);
	for (int i = 0; i < POINTS; i++) {
		x[i] = areas.Uniform(-3, 3);
		y[i] = areas.Uniform(-3, 3);
	}
	PolygonScan::FoundRows found;
	PolygonScan::Lookup lookup;
	scan->Locate(x.data(), y.data(), x.size(), found, lookup);
	CHECK(found.size() == POINTS);
	// The ranges of all its runs were compared, eight blocks of eight runs of eight edges at a time: so cells pay
	CHECK(lookup.nanoseconds >= uint64_t(POINTS) * (VERTICES / 512));
	// There is no room for all runs of all points
	CHECK(lookup.MemoryUsage() < size_t(64) << 20);
}

TEST_CASE("polygon scan: areas of any size, anywhere", "[cell_index]") {
	// What is compared first is 65,534 steps of a box, whatever that is
	for (const double scale : {5e-324, 1e-310, 1e-200, 1e-9, 1.0, 1e9, 1e100, 1e300}) {
		for (const double offset : {0.0, 1.0, 1e6}) {
			Areas areas;
			for (int i = 0; i < 6; i++) {
				const double x = areas.Whole(0, 9), y = areas.Whole(0, 9);
				auto at = [&](double a, double b) { return Vec2 {(offset + a) * scale, (offset + b) * scale}; };
				Ring ring, flat, upright;
				for (int corner = 0; corner < 30; corner++) {
					const int along = corner % 2 * 10 + areas.Whole(0, 9); // never twice the same
					ring.push_back(at(x + along, y + areas.Whole(0, 20)));
					flat.push_back(at(along, y));
					upright.push_back(at(x, along));
				}
				areas.Add({ring});
				areas.Add({flat});
				areas.Add({upright});
			}
			CHECK(areas.WrongOf(300) == 0);
			CHECK(areas.scanned);
			CHECK(areas.interior > 0);
			CHECK(areas.boundary > 0);
		}
	}
	// No box of these has steps
	Areas areas;
	areas.AddCircle(0, 0, 1.5e308, 40);
	areas.AddCircle(0, 0, 1, 40);
	Serial serial;
	CHECK(!areas.Scan(serial));
}

TEST_CASE("cells: small areas beside large ones", "[cell_index]") {
	// Of every number of edges: their runs share blocks, fill them or have several
	Areas areas;
	for (int corners = 3; corners < 700; corners += corners < 150 ? 1 : 37) {
		areas.AddCircle(areas.Uniform(0, 100), areas.Uniform(0, 100), areas.Uniform(2, 20), corners, 0.3);
		areas.AddCircle(areas.Uniform(0, 100), areas.Uniform(0, 100), areas.Uniform(2, 20), areas.Whole(3, 70), 0.1);
	}
	CHECK(areas.WrongOf(2000) == 0);
	CHECK(areas.scanned);
	CHECK(areas.interior > 1000);
}

TEST_CASE("cells: clusters far apart", "[cell_index]") {
	// All but one of the areas are in one cell of any grid over all of them, and need all threads there
	Areas areas;
	areas.Add({{{1e6, 1e6}, {1e6 + 1, 1e6}, {1e6, 1e6 + 1}}});
	for (int i = 0; i < 200; i++) {
		areas.AddCircle(areas.Uniform(0, 1), areas.Uniform(0, 1), areas.Uniform(0.001, 0.1), areas.Whole(3, 40));
	}
	areas.AddCircle(0.5, 0.5, 0.6, 40000, 0.1);
	CHECK(areas.WrongOf(300) == 0);
}

TEST_CASE("cells: edges that never part", "[cell_index]") {
	// 500 long triangles with a common tip, and again as one ring
	Areas areas;
	Ring all;
	for (int i = 0; i < 500; i++) {
		const double from = 2 * M_PI * i / 500, to = from + 0.02;
		const Ring triangle {{1, 1}, {1 + std::cos(from), 1 + std::sin(from)}, {1 + std::cos(to), 1 + std::sin(to)}};
		areas.Add({triangle});
		all.insert(all.end(), triangle.begin(), triangle.end());
	}
	areas.Add({all});
	CHECK(areas.WrongOf(600) == 0);
}

TEST_CASE("cells: coordinates large, small and both", "[cell_index]") {
	const double scales[] = {1e300, 1e-300, 1e-310, 8e307, 1e154, 1e-160, 4.9e-324 * 64};
	for (const double scale : scales) {
		Areas areas;
		for (int i = 0; i < 30; i++) {
			const double x = areas.Uniform(-1, 1), y = areas.Uniform(-1, 1);
			Ring ring;
			for (int k = 0; k < 8; k++) {
				ring.push_back(Vec2 {(x + areas.Uniform(-0.5, 0.5)) * scale, (y + areas.Uniform(-0.5, 0.5)) * scale});
			}
			areas.Add({ring});
		}
		CHECK(areas.WrongOf(300) == 0);
	}
	Areas areas;
	for (int i = 0; i < 60; i++) {
		const double x_scale = std::pow(10, areas.Whole(-300, 300)), y_scale = std::pow(10, areas.Whole(-300, 300));
		Ring ring;
		for (int k = 0; k < 6; k++) {
			ring.push_back(Vec2 {areas.Uniform(-1, 1) * x_scale, areas.Uniform(-1, 1) * y_scale});
		}
		areas.Add({ring});
	}
	CHECK(areas.WrongOf(400) == 0);
}

TEST_CASE("cells: far from the origin, where doubles are sparse", "[cell_index]") {
	Areas areas;
	for (int i = 0; i < 40; i++) {
		Ring ring;
		for (int k = 0; k < 7; k++) {
			ring.push_back(Vec2 {1e15 + areas.Whole(0, 40) / 8.0, -1e15 + areas.Whole(0, 40) / 8.0});
		}
		areas.Add({ring});
	}
	CHECK(areas.WrongOf(600) == 0);
}

TEST_CASE("cells: heavily overlapping areas are left to others", "[cell_index]") {
	Serial serial;
	Areas areas;
	for (int i = 0; i < 400; i++) {
		areas.AddCircle(areas.Uniform(0, 1), areas.Uniform(0, 1), 100, 64);
	}
	CHECK_FALSE(CellIndex::Build(areas.views, 1 << 19, serial));
	// Over the limit with fine cells, under it with coarse ones
	Areas few;
	for (int i = 0; i < 3000; i++) {
		few.AddCircle(few.Uniform(0, 1000), few.Uniform(0, 1000), few.Uniform(5, 20), 16);
	}
	size_t most = 0;
	const auto fine = CellIndex::Build(few.views, SIZE_MAX, serial, 0, vibe::CellReach::None(), [&](size_t bytes) {
		most = std::max(most, bytes);
		return true;
	});
	// And what is only needed while it is built
	CHECK(most > fine->MemoryUsage() + 3000 * 16 * sizeof(uint32_t));
	const size_t limit = most / 2;
	auto index = CellIndex::Build(few.views, limit, serial);
	REQUIRE(index);
	CHECK(index->MemoryUsage() <= limit);
	CHECK(few.Wrong(*index, few.Points(60)) == 0);
}

TEST_CASE("polygon scan: members, holes and groups of runs", "[cell_index]") {
	Areas areas;
	for (int i = 0; i < 40; i++) {
		std::vector<Ring> rings(areas.Whole(1, 6));
		for (auto &ring : rings) {
			// Up to a few groups of runs, and lengths that no run divides
			const int corners = areas.Whole(3, 40) * (i % 4 == 0 ? 97 : 1);
			const double x = areas.Uniform(0, 20), y = areas.Uniform(0, 20), radius = areas.Uniform(0.5, 4);
			for (int k = 0; k < corners; k++) {
				const double angle = 2 * M_PI * k / corners, r = radius * areas.Uniform(0.5, 1);
				ring.push_back(Vec2 {x + r * std::cos(angle), y + r * std::sin(angle)});
				// Vertices that repeat the one before, in some
				for (int more = i % 3 == 0 ? areas.Whole(-3, 2) : 0; more > 0; more--) {
					ring.push_back(ring.back());
				}
			}
		}
		areas.Add(rings);
	}
	CHECK(areas.WrongOf(2000) == 0);
	CHECK(areas.scanned);
	CHECK(areas.interior > 1000);
	CHECK(areas.boundary > 1000);
}

TEST_CASE("polygon scan: rows that it does not take", "[cell_index]") {
	Serial serial;
	auto scan = [&](const Ring &ring) {
		Areas areas;
		areas.AddCircle(9, 9, 1, 20);
		areas.AddUnusable(ring);
		return areas.Scan(serial) != nullptr;
	};
	// Too few vertices that do not repeat the one before, wherever they are
	CHECK(scan({{0, 0}, {4, 0}, {4, 4}}));
	CHECK(scan({{0, 0}, {0, 0}, {4, 0}, {4, 0}, {4, 4}, {0, 0}}));
	CHECK_FALSE(scan({{0, 0}, {4, 0}}));
	CHECK_FALSE(scan({{0, 0}, {4, 0}, {4, 0}}));
	CHECK_FALSE(scan({{0, 0}, {0, 0}, {4, 0}, {4, 0}, {4, 0}, {0, 0}}));
	CHECK_FALSE(scan({{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}));
	Ring turns(100, Vec2 {1, 1});
	CHECK_FALSE(scan(turns));
	turns.insert(turns.end(), {{2, 1}, {2, 2}});
	CHECK(scan(turns));
	CHECK_FALSE(scan({{0, 0}, {4, 0}, {4, NAN}}));
	CHECK_FALSE(scan({{0, 0}, {4, 0}, {INFINITY, 4}}));
	turns[50] = Vec2 {NAN, 1};
	CHECK_FALSE(scan(turns));
	Areas overlapping;
	for (int i = 0; i < 2000; i++) {
		overlapping.AddCircle(overlapping.Uniform(0, 1), overlapping.Uniform(0, 1), 100, 8);
	}
	CHECK_FALSE(overlapping.Scan(serial));
}

TEST_CASE("cells: the fewer points, the coarser", "[cell_index]") {
	Serial serial;
	Areas areas;
	for (int i = 0; i < 300; i++) {
		areas.AddCircle(areas.Uniform(0, 100), areas.Uniform(0, 100), areas.Uniform(1, 5), 64);
	}
	uint64_t before = 0;
	for (const uint64_t expected_points : {1, 10000, 30000, 1000000, 0}) {
		const auto cells = CellIndex::Build(areas.views, 1 << 28, serial, expected_points)->GetFigures().cells;
		CHECK(cells >= before);
		before = cells;
	}
	CHECK(before > 30000);
}
