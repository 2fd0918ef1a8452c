// The filter of floats in front of the exact test of edges: it decides nothing that the exact test does not, and most of it
#include "catch.hpp"

#include "vibe/rough.h"

#include <cmath>
#include <limits>
#include <random>

using namespace vibe;

namespace {

//! A box, and coordinates in it: anywhere, on a raster, or a hair beside other coordinates
class Coordinates {
public:
	Coordinates(unsigned seed, const Box &box) : box(box), random(seed) {
	}
	Vec2 Next() {
		Vec2 v {One(box.min_x, box.max_x), One(box.min_y, box.max_y)};
		if (random() % 4 == 0) {
			v.x = Beside(last.x, box.min_x, box.max_x);
		}
		if (random() % 4 == 0) {
			v.y = Beside(last.y, box.min_y, box.max_y);
		}
		last = v;
		return v;
	}
	//! On the line through both, or a hair beside it
	Vec2 Between(const Vec2 &a, const Vec2 &b) {
		const double t = Share();
		const Vec2 v {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)};
		return Vec2 {Beside(v.x, box.min_x, box.max_x), Beside(v.y, box.min_y, box.max_y)};
	}
	uint64_t Number() {
		return random();
	}

	const Box box;

private:
	double Share() {
		return std::uniform_real_distribution<double>(0, 1)(random);
	}
	double One(double min, double max) {
		const double share = random() % 3 == 0 ? double(random() % 9) / 8 : Share();
		return std::min(max, std::max(min, min + share * (max - min)));
	}
	//! By some units in the last place, or by as much as floats cannot tell
	double Beside(double value, double min, double max) {
		switch (random() % 4) {
		case 0:
			return value;
		case 1:
			for (uint64_t i = random() % 3; i > 0; i--) {
				value = std::nextafter(value, random() % 2 ? max : min);
			}
			break;
		default:
			value += (Share() - 0.5) * std::pow(10.0, -4 - double(random() % 6)) * (max - min);
		}
		return std::min(max, std::max(min, value));
	}

	std::mt19937_64 random;
	Vec2 last {0, 0};
};

struct Tally {
	uint64_t all = 0, open = 0, wrong = 0;
};

//! Edges, points and reference points in a box, many of them close to one another
Tally Compare(const Box &box, unsigned seed, size_t count) {
	Coordinates at(seed, box);
	const auto frame = RoughFrame::Of(box);
	Tally tally;
	for (size_t i = 0; i < count; i++) {
		const Vec2 a = at.Next(), b = at.Next();
		const Vec2 p = at.Number() % 3 == 0 ? at.Between(a, b) : at.Next();
		const Vec2 reference = at.Number() % 3 == 0 ? at.Between(a, b) : at.Next();
		bool on = false;
		const bool exact = CrossesWay(CellEdge {a, b}, p, reference, on);
		const auto rough = RoughCrossesWay(frame.Of(a), frame.Of(b), frame.Of(p), frame.Of(reference), frame.tolerance);
		const auto left = RoughLeft(frame.Of(a), frame.Of(b), frame.Of(p), frame.tolerance);
		tally.all++;
		tally.open += rough == ROUGH_OPEN;
		tally.wrong += rough != ROUGH_OPEN && (on || (rough == ROUGH_YES) != exact);
		tally.wrong += left != ROUGH_OPEN && Orient2d(a, b, p) != (left == ROUGH_YES ? 1 : -1);
	}
	return tally;
}

} // namespace

TEST_CASE("What floats decide is what the exact test decides", "[rough]") {
	const Box boxes[] = {{-180, -90, 180, 90},         {500000, 5400000, 501000, 5401000}, {-1e-9, -1e-9, 1e-9, 1e-9},
	                     {1e9, 1e9, 1e9 + 1, 1e9 + 3}, {-9e17, -9e17, 9e17, 9e17},         {0, 0, 1, 1e6}};
	unsigned seed = 1;
	for (auto &box : boxes) {
		const auto tally = Compare(box, seed++, 200000);
		INFO("box from " << box.min_x << " to " << box.max_x << ", open " << tally.open << " of " << tally.all);
		CHECK(tally.wrong == 0);
		// Half of the points are meant to be close to something
		CHECK(tally.open > tally.all / 100);
		CHECK(tally.open < tally.all * 9 / 10);
	}
}

TEST_CASE("A box that floats have no room for leaves everything open", "[rough]") {
	for (auto &box : {Box {-1e200, -1, 1e200, 1}, Box {0, 0, 1e-30, 1e-30}, Box {3, 3, 3, 3}, Box::Empty()}) {
		CHECK(std::isinf(RoughFrame::Of(box).tolerance));
	}
	for (auto &box : {Box {-1e200, -1, 1e200, 1}, Box {5, 5, 5 + 1e-9, 6}}) {
		const auto tally = Compare(box, 9, 5000);
		CHECK(tally.open == tally.all);
		CHECK(tally.wrong == 0);
	}
}

TEST_CASE("Floats decide almost all edges of points that are nowhere in particular", "[rough]") {
	// A layer of 360 degrees with cells of a tenth, edges of a hundredth
	std::mt19937_64 random(4);
	std::uniform_real_distribution<double> x(-180, 179.9), y(-90, 89.9), in_cell(0, 0.1), step(-0.01, 0.01);
	const auto frame = RoughFrame::Of(Box {-180, -90, 180, 90});
	uint64_t open = 0, all = 100000;
	for (uint64_t i = 0; i < all; i++) {
		const Vec2 corner {x(random), y(random)}, reference {corner.x + 0.05, corner.y + 0.05};
		const Vec2 p {corner.x + in_cell(random), corner.y + in_cell(random)},
		    a {corner.x + in_cell(random), corner.y + in_cell(random)};
		const Vec2 b {a.x + step(random), a.y + step(random)};
		open +=
		    RoughCrossesWay(frame.Of(a), frame.Of(b), frame.Of(p), frame.Of(reference), frame.tolerance) == ROUGH_OPEN;
	}
	WARN(100.0 * double(open) / double(all) << " % of the edges are left to doubles");
	CHECK(open < all / 100);
}
