#include "catch.hpp"

#include "engine/measure/hausdorff.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/wkb.hpp"
#include "vibe/hausdorff.h"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;
using vibe::Vec2;

namespace {

//! All vertices of one against all points and edges of the other
double Directed(const vibe::ShapeView &s, const vibe::ShapeView &t) {
	double far = 0;
	auto add = [&](const Vec2 &p) {
		double near = vibe::Infinity();
		for (uint32_t i = 0; i < t.point_count; i++) {
			near = std::min(near, vibe::LinearMetric::Length(p.x - t.points[i].x, p.y - t.points[i].y));
		}
		for (uint32_t i = 0; i < t.vertex_count; i++) {
			if (t.IsEdge(i)) {
				near = std::min(near, vibe::LinearMetric::PointSegment(p, t.Vertex(i), t.Vertex(i + 1)));
			}
		}
		far = std::max(far, near);
	};
	for (uint32_t i = 0; i < s.point_count; i++) {
		add(s.points[i]);
	}
	for (uint32_t i = 0; i < s.vertex_count; i++) {
		add(s.Vertex(i));
	}
	return far;
}

void Build(const std::string &left, const std::string &right, Shape (&shapes)[2]) {
	GeometryBatch batch;
	wkt_test::ReadWkt(left, batch);
	wkt_test::ReadWkt(right, batch);
	shapes[0].Build(batch.View(0));
	shapes[1].Build(batch.View(1));
}

double Of(const std::string &left, const std::string &right) {
	Shape shapes[2];
	Build(left, right, shapes);
	const double distance = vibe::HausdorffDistance(shapes[0].View(), shapes[1].View());
	CHECK(distance == vibe::HausdorffDistance(shapes[1].View(), shapes[0].View()));
	return distance;
}

} // namespace

TEST_CASE("hausdorff: small cases", "[hausdorff]") {
	CHECK(Of("POINT (0 0)", "POINT (3 4)") == 5);
	CHECK(Of("POINT (1 1)", "POINT (1 1)") == 0);
	CHECK(Of("LINESTRING (0 0, 2 0)", "LINESTRING (0 1, 1 3, 2 1)") == 3);
	// Vertices alone count: the middle of the first line is farther from the second
	CHECK(Of("LINESTRING (0 0, 100 0, 10 100, 10 100)", "LINESTRING (0 100, 0 10, 80 10)") ==
	      Approx(22.360679774997898));
	// Rings count, areas do not
	CHECK(Of("POINT (5 5)", "POLYGON ((0 0, 10 0, 10 10, 0 10, 0 0))") == Approx(std::sqrt(50.0)));
	CHECK(Of("MULTIPOINT (0 0, 10 0, 5 5)", "MULTIPOINT (0 1, 10 0)") == Approx(std::sqrt(41.0)));
	// Squares of these over- and underflow
	CHECK(Of("POINT (0 0)", "POINT (3e200 4e200)") == Approx(5e200));
	CHECK(Of("POINT (0 0)", "POINT (3e-200 4e-200)") == Approx(5e-200));
	CHECK(Of("LINESTRING (0 0, 1 0)", "LINESTRING (0 0, 0.5 0, 1 0)") == 0);
}

TEST_CASE("hausdorff: the search finds what all pairs would", "[hausdorff]") {
	std::mt19937 random(5);
	size_t several = 0;
	for (int round = 0; round < 300; round++) {
		// Long enough for boxes over the edges, in every third round
		const size_t count = round % 3 == 0 ? 400 : 2 + random() % 20;
		std::string texts[2];
		for (auto &text : texts) {
			const bool points = random() % 4 == 0;
			text = points ? "MULTIPOINT (" : "LINESTRING (";
			double x = random() % 20, y = random() % 20;
			for (size_t i = 0; i < count; i++) {
				x += static_cast<double>(random() % 9) / 4 - 1;
				y += static_cast<double>(random() % 9) / 4 - 1;
				text += (i > 0 ? ", " : "") + std::to_string(x) + " " + std::to_string(y);
			}
			text += ")";
		}
		Shape shapes[2];
		Build(texts[0], texts[1], shapes);
		const auto &a = shapes[0].View(), &b = shapes[1].View();
		const double expected = std::max(Directed(a, b), Directed(b, a));
		const double found = vibe::HausdorffDistance(a, b);
		REQUIRE(std::abs(found - expected) <= 1e-12 * expected);
		// By several threads: the same bits
		vibe::HausdorffSearch<vibe::SquareMetric> all {0};
		for (uint32_t lane = 0; lane < 32; lane++) {
			all.far = std::max(all.far, vibe::SearchHausdorff(a, b, vibe::Lane {lane, 32}).far);
		}
		REQUIRE(vibe::FinishHausdorff(all, a, b) == found);
		REQUIRE(vibespatial::HausdorffDistance(a, b) == found);
		several += count > 32;
	}
	CHECK(several == 100);
}

TEST_CASE("hausdorff: a search that can be stopped finds the same", "[hausdorff]") {
	std::mt19937 random(6);
	std::string texts[2];
	for (auto &text : texts) {
		text = "LINESTRING (";
		for (int i = 0; i < 10000; i++) {
			text += (i > 0 ? ", " : "") + std::to_string(random() % 1000) + " " + std::to_string(random() % 1000);
		}
		text += ")";
	}
	Shape shapes[2];
	Build(texts[0], texts[1], shapes);
	struct Counted : WorkScope {
		void Check() override {
			checks++;
		}
		MemoryAccount *MakeAccount() override {
			return nullptr;
		}
		size_t checks = 0;
	} scope;
	WorkScope::Use use(&scope);
	const double found = vibespatial::HausdorffDistance(shapes[0].View(), shapes[1].View());
	CHECK(found == vibe::HausdorffDistance(shapes[0].View(), shapes[1].View()));
	CHECK(found > 0);
	CHECK(scope.checks >= 5);
}
