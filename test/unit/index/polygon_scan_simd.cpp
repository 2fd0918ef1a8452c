#include "engine/index/polygon_scan_simd.hpp"

#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace vibespatial;
using namespace vibespatial::polygon_scan_simd;

namespace {

std::mt19937 Generator() {
	return std::mt19937(7);
}

//! Coordinates that are often equal, and sometimes not finite
double Coordinate(std::mt19937 &random) {
	switch (random() % 64) {
	case 0:
		return std::nan("");
	case 1:
		return std::numeric_limits<double>::infinity();
	case 2:
		return -std::numeric_limits<double>::infinity();
	case 3:
		return -0.0;
	default:
		return static_cast<double>(random() % 9) - 4;
	}
}

//===----------------------------------------------------------------------===//
// Scalar code that says what each kernel computes
//===----------------------------------------------------------------------===//
Sides ExpectedSides(const double *vertices, uint32_t count, const Vec2 &p) {
	Sides sides {0, false};
	for (uint32_t i = 0; i < count; i++) {
		const double x = vertices[2 * i], y = vertices[2 * i + 1];
		sides.bits |= uint64_t(x > p.x) << 2 * i | uint64_t(y > p.y) << (2 * i + 1);
		sides.same = sides.same || x == p.x || y == p.y;
	}
	return sides;
}

struct Box2 {
	double min[2] = {INFINITY, INFINITY};
	double max[2] = {-INFINITY, -INFINITY};
	bool finite = true;
};
Box2 ExpectedRange(const double *vertices, uint32_t count) {
	Box2 box;
	for (uint32_t i = 0; i < 2 * count; i++) {
		box.min[i % 2] = std::fmin(box.min[i % 2], vertices[i]);
		box.max[i % 2] = std::fmax(box.max[i % 2], vertices[i]);
		box.finite = box.finite && std::isfinite(vertices[i]);
	}
	return box;
}

template <class MASKS>
void CheckMasks() {
	auto random = Generator();
	for (int round = 0; round < 1000; round++) {
		Masks two;
		Shorts eight;
		for (int i = 0; i < 8; i++) {
			eight[i] = random() % 2 ? -1 : 0;
		}
		two[0] = random() % 2 ? -1 : 0;
		two[1] = random() % 2 ? -1 : 0;
		REQUIRE(MASKS::TwoBits(two) == ScalarMasks::TwoBits(two));
		REQUIRE(__builtin_parity(MASKS::Parity(eight)) == __builtin_parity(ScalarMasks::Parity(eight)));
		uint64_t bits = MASKS::LaneBits(eight), expected = ScalarMasks::LaneBits(eight);
		for (; expected != 0; expected &= expected - 1, bits &= bits - 1) {
			REQUIRE(bits != 0);
			REQUIRE(LowestLane<MASKS>(bits) == LowestLane<ScalarMasks>(expected));
		}
		REQUIRE(bits == 0);
		REQUIRE(LowestLane<MASKS>(0) < 8);
	}
}

template <class KERNELS>
void CheckRuns() {
	auto random = Generator();
	int same = 0, finite = 0;
	for (int round = 0; round < 20000; round++) {
		// One double too many, so that runs are not aligned
		double values[2 * (RUN_EDGES + 1) + 1];
		for (auto &value : values) {
			value = round % 2 ? Coordinate(random) : static_cast<double>(random()) - 2e9;
		}
		const double *vertices = values + round % 2;
		const auto *at = reinterpret_cast<const uint8_t *>(vertices);
		const Vec2 p {Coordinate(random), Coordinate(random)};
		const auto sides = KERNELS::SidesOfRun(at, p), expected = ExpectedSides(vertices, RUN_EDGES + 1, p);
		REQUIRE(sides.bits == expected.bits);
		REQUIRE(sides.same == expected.same);
		const auto run = KERNELS::ReadRun(at);
		const auto box = ExpectedRange(vertices, RUN_EDGES + 1);
		REQUIRE(run.finite == box.finite);
		// The range of a run that is not finite is never used
		for (int axis = 0; axis < 2 && box.finite; axis++) {
			REQUIRE(run.range.min[axis] == box.min[axis]);
			REQUIRE(run.range.max[axis] == box.max[axis]);
		}
		same += sides.same;
		finite += run.finite;
	}
	CHECK(same > 1000);
	CHECK(finite > 1000);
	CHECK(finite < 20000);
}

template <class KERNELS>
void CheckCells() {
	auto random = Generator();
	for (uint32_t columns : {1u, 3u, 100u}) {
		const uint32_t rows = 7;
		PointGrid grid {};
		grid.min_x = -1;
		grid.min_y = -2;
		grid.last_column = columns * STEPS_PER_CELL - 1;
		grid.last_row = rows * STEPS_PER_CELL - 1;
		grid.columns_per_x = grid.last_column / 3.0;
		grid.rows_per_y = grid.last_row / 5.0;
		std::vector<uint64_t> used(columns * rows / 64 + 1);
		for (auto &word : used) {
			word = uint64_t(random()) << 32 | random();
		}
		const ScanGrid cells {grid, columns, used.data()};
		std::vector<double> x, y;
		for (size_t i = 0; i < polygon_scan_tuning::POINTS_AT_ONCE; i++) {
			// NaN is never looked up
			auto next = [&] {
				const double value = Coordinate(random) + static_cast<double>(random() % 1000) / 1000;
				return std::isnan(value) ? 0 : value;
			};
			x.push_back(next());
			y.push_back(next());
		}
		FoundCells found;
		size_t count = 0;
		for (uint32_t point = 0; point < x.size(); point += KERNELS::POINTS) {
			count += KERNELS::FindCells(cells, x.data(), y.data(), point, found, count);
		}
		size_t expected = 0;
		for (uint32_t point = 0; point < x.size(); point++) {
			const uint32_t column = grid.Column(x[point]), row = grid.Row(y[point]);
			const uint32_t cell = row / STEPS_PER_CELL * columns + column / STEPS_PER_CELL;
			if (!(used[cell / 64] >> cell % 64 & 1)) {
				continue;
			}
			REQUIRE(expected < count);
			REQUIRE(found.points[expected] == point);
			REQUIRE(found.cells[expected] == cell);
			// Only the lowest 16 bits are used
			REQUIRE(static_cast<uint16_t>(found.steps[expected]) ==
			        (column % STEPS_PER_CELL | row % STEPS_PER_CELL << STEP_BITS));
			expected++;
		}
		CHECK(expected == count);
		CHECK(expected > 0);
	}
}

} // namespace

TEST_CASE("polygon scan: masks become the same bits in every way", "[cell_index]") {
	CheckMasks<ScalarMasks>();
	CheckMasks<NativeMasks>();
}

TEST_CASE("polygon scan: portable kernels compute what scalar code does", "[cell_index]") {
	CheckRuns<PortableKernels>();
	CheckCells<PortableKernels>();
	auto random = Generator();
	for (uint32_t edges = 1; edges <= RUN_EDGES; edges++) {
		std::vector<double> vertices;
		for (uint32_t i = 0; i < 2 * (edges + 1); i++) {
			vertices.push_back(Coordinate(random));
		}
		const auto *at = reinterpret_cast<const uint8_t *>(vertices.data());
		const Vec2 p {0, 1};
		CHECK(PortableKernels::SidesOf(at, edges + 1, p).bits == ExpectedSides(vertices.data(), edges + 1, p).bits);
		CHECK(PortableKernels::Read(at, edges).finite == ExpectedRange(vertices.data(), edges + 1).finite);
	}
}

#ifndef VIBESPATIAL_NO_WIDE
TEST_CASE("polygon scan: wide kernels compute what scalar code does", "[cell_index]") {
	if (!HasWide()) {
		WARN("this machine has no wide registers");
		return;
	}
	CheckRuns<WideKernels>();
	CheckCells<WideKernels>();
}
#endif

TEST_CASE("polygon scan: steps are monotone and stay in their range", "[cell_index]") {
	auto random = Generator();
	for (int round = 0; round < 1000; round++) {
		const double unit = std::ldexp(1, int(random() % 80) - 60);
		const double low = (static_cast<double>(random()) - 2e9) * unit;
		const double extent = (1 + static_cast<double>(random())) * unit;
		const Steps steps {Lanes {low, -low}, Lanes {Steps::COUNT, Steps::COUNT} / Lanes {extent, extent}};
		std::vector<double> at;
		for (int i = 0; i < 8; i++) {
			at.push_back(low + extent * (random() % 1001) / 1000.0);
		}
		std::sort(at.begin(), at.end());
		int16_t first[8], second[8];
		steps.OfEight([&](size_t i) { return Lanes {at[i], -low + (at[i] - low)}; }, first, second);
		for (int i = 0; i < 8; i++) {
			const auto one = steps.Of(Lanes {at[i], -low + (at[i] - low)});
			REQUIRE(one.of[0] == first[i]);
			REQUIRE(one.of[1] == second[i]);
			REQUIRE((i == 0 || first[i - 1] <= first[i]));
		}
		REQUIRE(steps.Of(Lanes {low - extent, -low}).of[0] == LEAST_STEP);
		REQUIRE(steps.Of(Lanes {low + 2 * extent, -low}).of[0] >= MOST_STEPS - 1);
	}
	CHECK(Greatest(Shorts {-3, 5, 2, -9, 5, 1, 0, 4}) == 5);
	CHECK(Greatest(Shorts {-3, -5, -2, -9, -5, -1, -8, -4}) == -1);
}
