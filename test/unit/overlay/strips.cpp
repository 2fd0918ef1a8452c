#include "engine/overlay/strips.hpp"

#include "catch.hpp"

#include <cmath>
#include <random>
#include <set>

using namespace vibespatial;
using vibe::Vec2;

namespace {

//! Pairs that Visit() reports, and how many times it reports one
struct Found {
	std::set<std::pair<uint32_t, uint32_t>> pairs;
	size_t visits = 0;
};

Found Visit(CountedVector<StripPiece> pieces) {
	Found found;
	CrowdedPairs::Visit(pieces, [&](uint32_t one, uint32_t other) {
		found.visits++;
		found.pairs.insert(std::minmax(one, other));
	});
	return found;
}

StripPiece Piece(size_t number, const Vec2 &p, const Vec2 &q, double reach = 0) {
	return StripPiece {p, q, reach, uint32_t(number)};
}

//! Parallel lines that are all as long as the whole, at an angle
CountedVector<StripPiece> Hatch(size_t count, double angle) {
	CountedVector<StripPiece> pieces;
	const Vec2 along {std::cos(angle), std::sin(angle)};
	for (size_t i = 0; i < count; i++) {
		const double step = double(i) / double(count);
		const Vec2 p {-along.y * step, along.x * step};
		pieces.push_back(Piece(i, p, Vec2 {p.x + along.x, p.y + along.y}));
	}
	return pieces;
}

bool Meet(const StripPiece &l, const StripPiece &r) {
	return vibe::Orient2d(l.p, l.q, r.p) * vibe::Orient2d(l.p, l.q, r.q) <= 0 &&
	       vibe::Orient2d(r.p, r.q, l.p) * vibe::Orient2d(r.p, r.q, l.q) <= 0;
}

} // namespace

TEST_CASE("Parallel edges of any direction are seldom compared", "[strips]") {
	for (double angle : {0.0, 0.3, 0.7853981633974483, 1.2, 1.5707963267948966, 2.2}) {
		const auto few = Visit(Hatch(1000, angle)).visits, many = Visit(Hatch(4000, angle)).visits;
		// All pairs: 499,500 and 7,998,000
		CHECK(few < 40000);
		CHECK(many < 6 * few + 4000);
	}
}

TEST_CASE("Crowds of several directions are divided again", "[strips]") {
	// Verticals on the left, horizontals on the right: neither direction of strips is good for both
	const auto mixed = [](size_t count) {
		CountedVector<StripPiece> pieces;
		for (size_t i = 0; i < count / 2; i++) {
			const double step = double(i) / double(count / 2);
			pieces.push_back(Piece(2 * i, Vec2 {step, 0}, Vec2 {step, 1}));
			pieces.push_back(Piece(2 * i + 1, Vec2 {2, step}, Vec2 {3, step}));
		}
		return pieces;
	};
	const auto few = Visit(mixed(1000)).visits, many = Visit(mixed(4000)).visits;
	CHECK(few < 40000);
	CHECK(many < 6 * few + 4000);
}

TEST_CASE("No pair that meets is missed", "[strips]") {
	std::mt19937_64 random(5);
	std::uniform_real_distribution<double> place(-1, 1);
	for (double size : {0.01, 0.3, 2.0}) {
		for (double offset : {0.0, 1e9}) {
			CountedVector<StripPiece> pieces;
			for (size_t i = 0; i < 600; i++) {
				const Vec2 p {offset + place(random), place(random)};
				// Most of them in one direction, some upright
				const Vec2 d {i % 7 == 0 ? 0 : size, i % 7 == 0 ? size : size * (0.5 + 0.1 * place(random))};
				pieces.push_back(Piece(i, p, Vec2 {p.x + d.x, p.y + d.y}));
			}
			const auto found = Visit(pieces);
			size_t missed = 0;
			for (uint32_t i = 0; i < pieces.size(); i++) {
				for (uint32_t k = i + 1; k < pieces.size(); k++) {
					missed += Meet(pieces[i], pieces[k]) && found.pairs.count({i, k}) == 0;
				}
			}
			CHECK(missed == 0);
		}
	}
}

TEST_CASE("Ends within reach are not missed, and reach does not multiply pieces", "[strips]") {
	CountedVector<StripPiece> pieces;
	for (size_t i = 0; i < 500; i++) {
		const double x = double(i);
		pieces.push_back(Piece(2 * i, Vec2 {x, 0}, Vec2 {x, 1}, 0.3));
		pieces.push_back(Piece(2 * i + 1, Vec2 {x + 0.25, 0.5}, Vec2 {x + 0.3, 0.5}, 0.3));
	}
	const auto found = Visit(pieces);
	size_t missed = 0;
	for (uint32_t i = 0; i < 500; i++) {
		missed += found.pairs.count({2 * i, 2 * i + 1}) == 0;
	}
	CHECK(missed == 0);
	// All within the reach of all: each pair a few times at most
	for (auto &piece : pieces) {
		piece.reach = 1000;
	}
	CHECK(Visit(pieces).visits < 1000 * 1000);
}
