#include "catch.hpp"

#include "engine/relate/simple.hpp"
#include "engine/shape/plain_chain.hpp"
#include "wkt_rows.hpp"

#include <cmath>
#include <random>

using namespace vibespatial;
using vibe::Vec2;

using Chain = std::vector<Vec2>;

static bool IsPlain(const Chain &chain) {
	return IsPlainChain(chain.data(), chain.size());
}

//! By the sweep, to which more than one line goes: another is far away
static bool IsSimpleBySweep(const Chain &chain) {
	GeometryBatch batch;
	batch.BeginRow(GeometryType::MULTILINESTRING, VERTEX_XY);
	batch.BeginNode(GeometryType::MULTILINESTRING, 2);
	const auto add = [&](const Chain &line) {
		batch.BeginNode(GeometryType::LINESTRING, 0);
		batch.BeginPart(vibe::FAMILY_LINE);
		batch.BeginRing();
		for (const auto &p : line) {
			batch.AddVertex(p.x, p.y, 0, 0);
		}
	};
	add(chain);
	add({{1e6, 1e6}, {1e6 + 1, 1e6}});
	batch.EndRow();
	return IsSimple(batch, 0);
}

static Chain Spiral(size_t count) {
	Chain chain;
	for (size_t i = 0; i < count; i++) {
		const double angle = 0.1 * double(i);
		chain.push_back(Vec2 {angle * std::cos(angle), angle * std::sin(angle)});
	}
	return chain;
}

TEST_CASE("Long chains that nothing is wrong with are plain", "[plain_chain]") {
	Chain line, saw;
	for (int i = 0; i < 10000; i++) {
		line.push_back(Vec2 {double(i), double(i % 7)});
		saw.push_back(Vec2 {double(i / 2), double(i % 2)});
	}
	REQUIRE(IsPlain(line));
	REQUIRE(IsPlain(saw));
	REQUIRE(IsPlain(Spiral(500)));
	// closed, from any vertex on
	for (size_t first = 0; first < 100; first++) {
		Chain ring;
		for (size_t i = 0; i <= 100; i++) {
			const double angle = double((first + i) % 100) * 0.0628318530717958;
			ring.push_back(Vec2 {std::cos(angle), std::sin(angle)});
		}
		REQUIRE(IsPlain(ring));
	}
}

TEST_CASE("A chain that meets itself anywhere is not plain", "[plain_chain]") {
	for (size_t n = 80; n < 400; n += 53) {
		auto chain = Spiral(n);
		const auto last = chain.back();
		// across the turn before
		chain.push_back(Vec2 {last.x * 0.05, last.y * 0.05});
		REQUIRE_FALSE(IsPlain(chain));
		// an end on a vertex or inside of a segment
		chain.back() = chain[n / 2];
		REQUIRE_FALSE(IsPlain(chain));
		chain.back() = Vec2 {(chain[2].x + chain[3].x) / 2, (chain[2].y + chain[3].y) / 2};
		REQUIRE_FALSE(IsPlain(chain));
		// back on itself
		chain.back() = chain[n - 2];
		REQUIRE_FALSE(IsPlain(chain));
	}
	REQUIRE_FALSE(IsPlain({{0, 0}, {4, 0}, {2, 0}}));
	REQUIRE_FALSE(IsPlain({{0, 0}, {0, 0}, {2, 0}}));
	REQUIRE_FALSE(IsPlain({{0, 0}, {1, 0}, {0, 0}}));
	REQUIRE_FALSE(IsPlain({{1, 1}}));
	REQUIRE_FALSE(IsPlain({}));
}

TEST_CASE("Where a chain is plain the sweep finds nothing", "[plain_chain]") {
	std::mt19937 random(7);
	size_t plain = 0, simple = 0;
	for (int round = 0; round < 20000; round++) {
		const int count = 2 + int(random() % (round % 10 == 0 ? 90 : 14));
		const int grid = 3 + int(random() % 40), step = 1 + int(random() % 3);
		Chain chain {{double(random() % grid), double(random() % grid)}};
		while (int(chain.size()) < count) {
			const auto last = chain.back();
			const Vec2 next {last.x + double(int(random() % (2 * step + 1)) - step) + (round % 3 == 0 ? step : 0),
			                 last.y + double(int(random() % (2 * step + 1)) - step)};
			if (next != last) {
				chain.push_back(next);
			}
		}
		if (random() % 4 == 0 && chain.back() != chain.front()) {
			chain.push_back(chain.front());
		}
		const bool is_simple = IsSimpleBySweep(chain);
		// exact on chains this short: no work is left over
		REQUIRE(IsPlain(chain) == is_simple);
		plain += IsPlain(chain);
		simple += is_simple;
	}
	REQUIRE(plain > 2000);
	REQUIRE(simple < 18000);
}
