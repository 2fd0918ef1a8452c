#include "catch.hpp"

#include "vibe/segment.h"

#include <cmath>
#include <limits>
#include <random>

using vibe::Orient2d;
using vibe::Vec2;

static int Exact(const Vec2 &a, const Vec2 &b, const Vec2 &c) {
	return vibe::orient2d_detail::SignByExactSum(a.x, a.y, b.x, b.y, c.x, c.y);
}

TEST_CASE("orient2d turns", "[orient2d]") {
	CHECK(Orient2d({0, 0}, {1, 0}, {0, 1}) == 1);
	CHECK(Orient2d({0, 0}, {0, 1}, {1, 0}) == -1);
	CHECK(Orient2d({0, 0}, {1, 1}, {3, 3}) == 0);
	CHECK(Orient2d({5, 7}, {5, 7}, {5, 7}) == 0);
}

TEST_CASE("the exact sum knows the sign of one unit in the last place", "[orient2d]") {
	// c above, on and below the line y = x by the smallest possible step
	double up = std::nextafter(0.5, 1);
	CHECK(Exact({12, 12}, {24, 24}, {0.5, up}) == 1);
	CHECK(Exact({12, 12}, {24, 24}, {0.5, 0.5}) == 0);
	CHECK(Exact({12, 12}, {24, 24}, {up, 0.5}) == -1);
}

TEST_CASE("orient2d holds at the ends of the range of doubles", "[orient2d]") {
	const double huge = std::numeric_limits<double>::max();
	const double tiny = std::numeric_limits<double>::denorm_min();
	CHECK(Orient2d({-huge, -huge}, {huge, huge}, {0, 0}) == 0);
	CHECK(Orient2d({-huge, -huge}, {huge, huge}, {0, tiny}) == 1);
	CHECK(Orient2d({-huge, -huge}, {huge, huge}, {tiny, 0}) == -1);
	CHECK(Orient2d({0, 0}, {tiny, tiny}, {2 * tiny, 2 * tiny}) == 0);
	CHECK(Orient2d({0, 0}, {tiny, tiny}, {2 * tiny, 3 * tiny}) == 1);
	CHECK(Orient2d({0, 0}, {huge, tiny}, {huge, 0}) == -1);
	CHECK(Orient2d({1, tiny}, {2, 2 * tiny}, {3, 3 * tiny}) == 0);
	CHECK(Orient2d({1, tiny}, {2, 2 * tiny}, {3, 4 * tiny}) == 1);
}

TEST_CASE("orient2d and CrossSign agree with the exact sum", "[orient2d]") {
	std::mt19937_64 random(1);
	auto uniform = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
	auto any = [&](int exponents) {
		return std::ldexp(uniform(-1, 1), static_cast<int>(random() % (2 * exponents)) - exponents);
	};
	int wrong = 0, zeros = 0;
	for (int i = 0; i < 200000; i++) {
		Vec2 a, b, c;
		switch (i % 4) {
		case 0: // on an edge, up to rounding
		case 1: {
			a = i % 4 == 0 ? Vec2 {uniform(-180, 180), uniform(-90, 90)} : Vec2 {any(30), any(30)};
			b = i % 4 == 0 ? Vec2 {a.x + uniform(-1, 1), a.y + uniform(-1, 1)} : Vec2 {any(30), any(30)};
			double t = uniform(-1, 2);
			c = Vec2 {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)};
			break;
		}
		case 2: // on a line through the origin, at any scale
			a = Vec2 {any(500), 0};
			a.y = a.x;
			b = Vec2 {2 * a.x, 2 * a.y};
			c = Vec2 {any(500), 0};
			c.y = random() % 2 ? c.x : std::nextafter(c.x, 0);
			break;
		default: // any exponents at all
			a = Vec2 {any(1020), any(1020)};
			b = Vec2 {any(1020), any(1020)};
			c = random() % 2 ? a : Vec2 {any(1020), any(1020)};
		}
		int expected = Exact(a, b, c);
		zeros += expected == 0;
		wrong += Orient2d(a, b, c) != expected || Orient2d(b, c, a) != expected || Orient2d(b, a, c) != -expected;
		wrong += vibe::CrossSign(c, a, c, b) != expected;
	}
	CHECK(wrong == 0);
	CHECK(zeros > 10000);
}

TEST_CASE("contacts of two segments", "[segment]") {
	using namespace vibe;
	auto kind = [](Vec2 p, Vec2 q, Vec2 r, Vec2 s) { return Contact(p, q, r, s).kind; };
	CHECK(kind({0, 0}, {2, 2}, {0, 2}, {2, 0}) == CONTACT_CROSS);
	CHECK(kind({0, 0}, {2, 2}, {3, 3}, {4, 4}) == CONTACT_NONE);
	CHECK(kind({0, 0}, {2, 2}, {0, 1}, {1, 2}) == CONTACT_NONE);
	CHECK(kind({0, 0}, {2, 0}, {1, 0}, {1, 5}) == CONTACT_TOUCH);
	CHECK(kind({0, 0}, {2, 0}, {2, 0}, {3, 0}) == CONTACT_TOUCH);
	auto overlap = Contact({4, 0}, {0, 0}, {1, 0}, {9, 0});
	CHECK(overlap.kind == CONTACT_OVERLAP);
	CHECK(overlap.first == Vec2 {4, 0});
	CHECK(overlap.second == Vec2 {1, 0});
}

TEST_CASE("the order of crossings on an edge", "[segment]") {
	using vibe::CompareCrossings;
	Vec2 p {0, 0}, q {3, 0};
	CHECK(CompareCrossings(p, q, {1, -1}, {1, 1}, {2, -1}, {2, 1}) == -1);
	CHECK(CompareCrossings(p, q, {2, -1}, {2, 1}, {1, -1}, {1, 1}) == 1);
	CHECK(CompareCrossings(p, q, {1, -1}, {1, 1}, {0, -1}, {2, 1}) == 0);
	// Both cross at x = 1/3, which no double is, by different edges; then one of them one step off
	CHECK(CompareCrossings(p, q, {0, -1}, {1, 2}, {-1, -2}, {1, 1}) == 0);
	CHECK(CompareCrossings(p, q, {0, -1}, {std::nextafter(1, 2), 2}, {-1, -2}, {1, 1}) == 1);
	CHECK(CompareCrossings(p, q, {0, -1}, {std::nextafter(1, 0), 2}, {-1, -2}, {1, 1}) == -1);
}
