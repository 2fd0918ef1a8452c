//===----------------------------------------------------------------------===//
// engine/index/polygon_scan_simd.hpp
//
// The vector code of the polygon scan. Three loops have variants, structs with the same interface that the scan takes as a
// template parameter:
//
//   PortableKernels   vectors of 16 bytes as the compiler provides them; every machine
//   Avx2Kernels       registers of 32 bytes; chosen at run time (HasWide())
//   NeonKernels       instructions that the compiler's vectors do not lead to
//
//   uint32_t POINTS                                 points per FindCells()
//   FindCells(cells, x, y, point, found, count)     cells of the points from `point` on that have entries
//   SidesOfRun(at, p)                               where the nine vertices of a run lie, seen from p
//   ReadRun(at)                                     range of the nine vertices of a run
//
// The masks of a comparison become bits in one of three ways: ScalarMasks, Sse2Masks, NeonMasks.
// test/unit/index/polygon_scan_simd.cpp holds all variants against scalar code.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/point_grid.hpp"
#include "engine/index/tuning.hpp"
#include "geometry/lanes.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace vibespatial {
namespace polygon_scan_simd {

using polygon_scan_tuning::RUN_EDGES;
using vibe::Vec2;

constexpr size_t VERTEX_BYTES = 2 * sizeof(double);
constexpr uint32_t STEP_BITS = 8;
constexpr uint32_t STEPS_PER_CELL = 1 << STEP_BITS;

typedef int64_t Masks __attribute__((vector_size(16)));
typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef int16_t Shorts __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));

template <class T>
T Load(const void *from) {
	T value;
	std::memcpy(&value, from, sizeof(value));
	return value;
}

inline Shorts All(int16_t value) {
	return Shorts {value, value, value, value, value, value, value, value};
}

//! The greatest of eight values
inline int16_t Greatest(Shorts values) {
	auto both = [](Shorts a, Shorts b) { return a > b ? a : b; };
	values = both(values, __builtin_shufflevector(values, values, 4, 5, 6, 7, 0, 1, 2, 3));
	values = both(values, __builtin_shufflevector(values, values, 2, 3, 0, 1, 6, 7, 4, 5));
	return std::max<int16_t>(values[0], values[1]);
}

//===----------------------------------------------------------------------===//
// From masks to bits
//===----------------------------------------------------------------------===//
struct ScalarMasks {
	//! Bits between two lanes in LaneBits()
	static constexpr uint32_t BITS_PER_LANE = 1;

	//! A bit for each of two lanes that is set
	static uint32_t TwoBits(Masks masks) {
		return (static_cast<uint32_t>(masks[0]) & 1) | (static_cast<uint32_t>(masks[1]) & 2);
	}
	//! A bit for each of eight lanes that is set, BITS_PER_LANE apart
	static uint64_t LaneBits(Shorts masks) {
		uint64_t bits = 0;
		for (size_t i = 0; i < 8; i++) {
			bits |= static_cast<uint64_t>(masks[i] & 1) << i;
		}
		return bits;
	}
	//! The parity of its bits is the parity of the lanes that are set
	static uint16_t Parity(Shorts masks) {
		return static_cast<uint16_t>(LaneBits(masks));
	}
};

#ifdef __SSE2__
struct Sse2Masks {
	static constexpr uint32_t BITS_PER_LANE = 1;

	static uint32_t TwoBits(Masks masks) {
		return static_cast<uint32_t>(_mm_movemask_pd(reinterpret_cast<__m128d>(masks)));
	}
	static uint64_t LaneBits(Shorts masks) {
		return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(reinterpret_cast<__m128i>(masks), __m128i {})));
	}
	static uint16_t Parity(Shorts masks) {
		return static_cast<uint16_t>(LaneBits(masks));
	}
};
typedef Sse2Masks NativeMasks;
#elif defined(__aarch64__)
struct NeonMasks {
	static constexpr uint32_t BITS_PER_LANE = 8;

	static uint32_t TwoBits(Masks masks) {
		return ScalarMasks::TwoBits(masks);
	}
	static uint64_t LaneBits(Shorts masks) {
		const uint8x8_t bytes = vmovn_u16(reinterpret_cast<uint16x8_t>(masks));
		return vget_lane_u64(vreinterpret_u64_u8(bytes), 0) & 0x0101010101010101ULL;
	}
	static uint16_t Parity(Shorts masks) {
		return vaddvq_u16(reinterpret_cast<uint16x8_t>(masks)) & 1;
	}
};
typedef NeonMasks NativeMasks;
#else
typedef ScalarMasks NativeMasks;
#endif

//! The lowest lane in LaneBits(); any lane where none is set
template <class MASKS = NativeMasks>
uint32_t LowestLane(uint64_t bits) {
	return static_cast<uint32_t>(__builtin_ctzll(bits | 1ULL << (8 * MASKS::BITS_PER_LANE - 1))) / MASKS::BITS_PER_LANE;
}

//===----------------------------------------------------------------------===//
// Coordinates in steps of a box
//===----------------------------------------------------------------------===//
constexpr int16_t LEAST_STEP = INT16_MIN;
constexpr int16_t MOST_STEPS = INT16_MAX;

//! Converts coordinates to steps. Monotone for all values.
struct Steps {
	struct Two {
		int16_t of[2];
	};
	//! Steps from the least to the greatest coordinate: one less than there are values, as rounding may add one
	static constexpr double COUNT = MOST_STEPS - LEAST_STEP - 1;

	Lanes least;
	Lanes per_unit;

	//! For coordinates inside the box
	Two Inside(Lanes at) const {
		return Rounded((at - least) * per_unit);
	}
	//! For any coordinates; those outside are clamped
	Two Of(Lanes at) const {
		at = (at - least) * per_unit;
		at = at > 0 ? at : Lanes {0, 0};
		at = at < COUNT ? at : Lanes {COUNT, COUNT};
		return Rounded(at);
	}
	//! For eight pairs at(0) .. at(7) inside the box: writes the steps of their first lanes and of their second lanes
	template <class AT>
	inline __attribute__((always_inline)) void OfEight(const AT &at, int16_t *first, int16_t *second) const {
		auto four = [&](size_t i) { return Even<Shorts>(Two32(at(i), at(i + 1)), Two32(at(i + 2), at(i + 3))); };
		const Shorts low = four(0), high = four(4);
		const Shorts firsts = Even<Shorts>(low, high);
		const Shorts seconds = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
		std::memcpy(first, &firsts, sizeof(firsts));
		std::memcpy(second, &seconds, sizeof(seconds));
	}

private:
	//! Rounds to the nearest: doubles of this size have no fraction, and the lowest bits hold the step
	static Masks Whole(Lanes at) {
		constexpr double NO_FRACTION = 0x1.8p52 + LEAST_STEP;
		return reinterpret_cast<Masks>(at + Lanes {NO_FRACTION, NO_FRACTION});
	}
	static Two Rounded(Lanes at) {
		const Masks whole = Whole(at);
		return Two {{static_cast<int16_t>(whole[0]), static_cast<int16_t>(whole[1])}};
	}
	Ints Two32(Lanes a, Lanes b) const {
		return __builtin_shufflevector(reinterpret_cast<Ints>(Whole((a - least) * per_unit)),
		                               reinterpret_cast<Ints>(Whole((b - least) * per_unit)), 0, 2, 4, 6);
	}
	template <class T, class FROM>
	static T Even(FROM a, FROM b) {
		return __builtin_shufflevector(reinterpret_cast<T>(a), reinterpret_cast<T>(b), 0, 2, 4, 6, 8, 10, 12, 14);
	}
};

//! Which of eight ranges a ray from (x, y) towards +x can meet
template <class RANGES>
Shorts CanMeetRay(const RANGES &ranges, Shorts x, Shorts y) {
	return (Load<Shorts>(ranges.min_y) <= y) & (Load<Shorts>(ranges.max_y) >= y) & (Load<Shorts>(ranges.max_x) >= x);
}

//===----------------------------------------------------------------------===//
// The three loops
//===----------------------------------------------------------------------===//
//! Where consecutive vertices lie, seen from a point: bit 2i is set where vertex i is right of it, bit 2i + 1 where it is above
struct Sides {
	uint64_t bits;
	bool same; // a vertex has the x or the y of the point
};

struct RunVertices {
	LaneRange range;
	bool finite;
};

//! A grid of cells, each with STEPS_PER_CELL columns and rows of steps
struct ScanGrid {
	const PointGrid &steps;
	uint32_t columns; // of cells
	//! A bit for each cell that has entries
	const uint64_t *used;
};

//! Points in cells that have entries
struct FoundCells {
	//! FindCells() of wide kernels writes this many at once
	static constexpr uint32_t MAX_POINTS = 4;
	static constexpr size_t SIZE = polygon_scan_tuning::POINTS_AT_ONCE + MAX_POINTS;

	uint32_t cells[SIZE];
	uint32_t points[SIZE];
	//! Of the point in its cell: column, and row << STEP_BITS
	uint32_t steps[SIZE];
};

struct PortableKernels {
	static constexpr uint32_t POINTS = 1;

	//! Writes the points to `found` from `count` on, and returns how many of them are in used cells
	static inline uint32_t FindCells(const ScanGrid &grid, const double *x, const double *y, uint32_t point,
	                                 FoundCells &found, size_t count) {
		const auto place = grid.steps.PlaceOf(Vec2 {x[point], y[point]});
		const uint32_t cell = (place.row >> STEP_BITS) * grid.columns + (place.column >> STEP_BITS);
		found.cells[count] = cell;
		found.points[count] = point;
		found.steps[count] = place.column % STEPS_PER_CELL | place.row % STEPS_PER_CELL << STEP_BITS;
		return grid.used[cell / 64] >> cell % 64 & 1;
	}

	static inline Sides SidesOf(const uint8_t *at, uint32_t count, const Vec2 &p) {
		const Lanes here {p.x, p.y};
		uint64_t bits = 0;
		Masks same {0, 0};
		for (uint32_t i = 0; i < count; i++) {
			const Lanes vertex = LoadLanes(at + i * VERTEX_BYTES);
			bits |= static_cast<uint64_t>(NativeMasks::TwoBits(vertex > here)) << 2 * i;
			same |= vertex == here;
		}
		return Sides {bits, (same[0] | same[1]) != 0};
	}
	static inline Sides SidesOfRun(const uint8_t *at, const Vec2 &p) {
		return SidesOf(at, RUN_EDGES + 1, p);
	}

	static inline RunVertices Read(const uint8_t *at, uint32_t edges) {
		Lanes rest {0, 0};
		LaneRange range;
		for (uint32_t i = 0; i <= edges; i++) {
			const Lanes vertex = LoadLanes(at + i * VERTEX_BYTES);
			rest += vertex - vertex;
			range.Add(vertex);
		}
		// v - v is 0 for a finite v and NaN for all others
		return RunVertices {range, rest[0] + rest[1] == 0};
	}
	static inline RunVertices ReadRun(const uint8_t *at) {
		return Read(at, RUN_EDGES);
	}
};

//! Tests set this to run the portable kernels on every machine
inline std::atomic<bool> portable_only {false};

#ifdef __SSE2__
#define VIBESPATIAL_WIDE __attribute__((target("avx2,popcnt")))

inline bool HasWide() {
	static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
	return wide && !portable_only;
}

//! For each mask of four bits: the numbers of its set bits, one byte each
struct BitNumbers {
	int32_t of[16];

	constexpr BitNumbers() : of() {
		for (int32_t mask = 0; mask < 16; mask++) {
			int32_t count = 0;
			for (int32_t bit = 0; bit < 4; bit++) {
				if (mask >> bit & 1) {
					of[mask] |= bit << 8 * count++;
				}
			}
		}
	}
};
constexpr BitNumbers BIT_NUMBERS;

struct Avx2Kernels {
	static constexpr uint32_t POINTS = FoundCells::MAX_POINTS;

	VIBESPATIAL_WIDE static inline uint32_t FindCells(const ScanGrid &grid, const double *x, const double *y,
	                                                  uint32_t point, FoundCells &found, size_t count) {
		const auto &steps = grid.steps;
		const __m128i columns = Places(_mm256_loadu_pd(x + point), steps.min_x, steps.columns_per_x, steps.last_column);
		const __m128i rows = Places(_mm256_loadu_pd(y + point), steps.min_y, steps.rows_per_y, steps.last_row);
		const __m128i width = _mm_set1_epi32(static_cast<int32_t>(grid.columns));
		const __m128i cells =
		    _mm_add_epi32(_mm_mullo_epi32(_mm_srli_epi32(rows, STEP_BITS), width), _mm_srli_epi32(columns, STEP_BITS));
		const __m128i in_cell = _mm_blendv_epi8(_mm_slli_epi32(rows, STEP_BITS), columns, _mm_set1_epi32(255));
		const auto used = reinterpret_cast<const int *>(grid.used);
		const __m128i words = _mm_i32gather_epi32(used, _mm_srli_epi32(cells, 5), 4);
		const __m128i bits = _mm_sllv_epi32(words, _mm_andnot_si128(cells, _mm_set1_epi32(31)));
		const auto mask = static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(bits)));
		const __m128i order = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(BIT_NUMBERS.of[mask]));
		const __m128i points = _mm_add_epi32(order, _mm_set1_epi32(static_cast<int32_t>(point)));
		_mm_storeu_si128(reinterpret_cast<__m128i *>(found.cells + count), Ordered(cells, order));
		_mm_storeu_si128(reinterpret_cast<__m128i *>(found.points + count), points);
		_mm_storeu_si128(reinterpret_cast<__m128i *>(found.steps + count), Ordered(in_cell, order));
		return static_cast<uint32_t>(__builtin_popcount(mask));
	}

	VIBESPATIAL_WIDE static inline Sides SidesOfRun(const uint8_t *at, const Vec2 &p) {
		const __m256d here = _mm256_setr_pd(p.x, p.y, p.x, p.y);
		uint64_t bits = 0;
		__m256d same = _mm256_setzero_pd();
#pragma GCC unroll 8
		for (uint32_t i = 0; i < RUN_EDGES; i += 2) {
			const __m256d pair = _mm256_loadu_pd(reinterpret_cast<const double *>(at + i * VERTEX_BYTES));
			const int above = _mm256_movemask_pd(_mm256_cmp_pd(pair, here, _CMP_GT_OQ));
			bits |= static_cast<uint64_t>(static_cast<uint32_t>(above)) << 2 * i;
			same = _mm256_or_pd(same, _mm256_cmp_pd(pair, here, _CMP_EQ_OQ));
		}
		const auto last = PortableKernels::SidesOf(at + RUN_EDGES * VERTEX_BYTES, 1, p);
		return Sides {bits | last.bits << 2 * RUN_EDGES, last.same || _mm256_movemask_pd(same) != 0};
	}

	VIBESPATIAL_WIDE static inline RunVertices ReadRun(const uint8_t *at) {
		auto coordinates = reinterpret_cast<const double *>(at);
		__m256d min = _mm256_loadu_pd(coordinates), max = min, rest = _mm256_sub_pd(min, min);
#pragma GCC unroll 4
		for (uint32_t i = 2; i < 2 * RUN_EDGES; i += 4) {
			const __m256d pair = _mm256_loadu_pd(coordinates + i);
			rest = _mm256_add_pd(rest, _mm256_sub_pd(pair, pair));
			min = _mm256_min_pd(pair, min);
			max = _mm256_max_pd(pair, max);
		}
		const int odd = _mm256_movemask_pd(_mm256_cmp_pd(rest, _mm256_setzero_pd(), _CMP_NEQ_UQ));
		LaneRange range;
		range.min = _mm_min_pd(_mm256_castpd256_pd128(min), _mm256_extractf128_pd(min, 1));
		range.max = _mm_max_pd(_mm256_castpd256_pd128(max), _mm256_extractf128_pd(max, 1));
		return RunVertices {range, odd == 0};
	}

private:
	VIBESPATIAL_WIDE static inline __m128i Places(__m256d at, double first, double per, uint32_t last) {
		at = _mm256_mul_pd(_mm256_sub_pd(at, _mm256_set1_pd(first)), _mm256_set1_pd(per));
		at = _mm256_max_pd(at, _mm256_setzero_pd());
		at = _mm256_min_pd(at, _mm256_set1_pd(static_cast<int32_t>(last)));
		return _mm256_cvttpd_epi32(at);
	}
	VIBESPATIAL_WIDE static inline __m128i Ordered(__m128i values, __m128i order) {
		return _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(values), order));
	}
};
typedef Avx2Kernels WideKernels;

#elif defined(__aarch64__)
#define VIBESPATIAL_WIDE

inline bool HasWide() {
	return !portable_only;
}

struct NeonKernels {
	static constexpr uint32_t POINTS = FoundCells::MAX_POINTS;

	static inline uint32_t FindCells(const ScanGrid &grid, const double *x, const double *y, uint32_t point,
	                                 FoundCells &found, size_t first) {
		const auto &steps = grid.steps;
		const uint32x4_t columns = Places(x + point, steps.min_x, steps.columns_per_x, steps.last_column);
		const uint32x4_t rows = Places(y + point, steps.min_y, steps.rows_per_y, steps.last_row);
		uint32_t cells[POINTS], in_cell[POINTS];
		vst1q_u32(cells, vmlaq_n_u32(vshrq_n_u32(columns, STEP_BITS), vshrq_n_u32(rows, STEP_BITS), grid.columns));
		vst1q_u32(in_cell, vsliq_n_u32(columns, rows, STEP_BITS));
		size_t count = first;
#pragma GCC unroll 4
		for (uint32_t i = 0; i < POINTS; i++) {
			found.cells[count] = cells[i];
			found.points[count] = point + i;
			found.steps[count] = in_cell[i];
			count += grid.used[cells[i] / 64] >> cells[i] % 64 & 1;
		}
		return static_cast<uint32_t>(count - first);
	}

	static inline Sides SidesOfRun(const uint8_t *at, const Vec2 &p) {
		const float64x2_t here {p.x, p.y};
		uint64x2_t above[RUN_EDGES + 1], same = vdupq_n_u64(0);
#pragma GCC unroll 9
		for (uint32_t i = 0; i <= RUN_EDGES; i++) {
			const float64x2_t vertex = Load<float64x2_t>(at + i * VERTEX_BYTES);
			above[i] = vcgtq_f64(vertex, here);
			same = vorrq_u64(same, vceqq_f64(vertex, here));
		}
		uint16x8_t four[2];
#pragma GCC unroll 2
		for (uint32_t i = 0; i < 2; i++) {
			const uint64x2_t *of = above + 4 * i;
			four[i] = Joined(vuzp1q_u32(vreinterpretq_u32_u64(of[0]), vreinterpretq_u32_u64(of[1])),
			                 vuzp1q_u32(vreinterpretq_u32_u64(of[2]), vreinterpretq_u32_u64(of[3])));
		}
		const uint8x16_t bits {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
		uint8x16_t sums = vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(four[0]), vreinterpretq_u8_u16(four[1])), bits);
		sums = vpaddq_u8(sums, sums);
		sums = vpaddq_u8(sums, sums);
		sums = vpaddq_u8(sums, sums);
		const uint64_t first = vgetq_lane_u16(vreinterpretq_u16_u8(sums), 0);
		const uint64_t last = (vgetq_lane_u64(above[RUN_EDGES], 0) & 1) | (vgetq_lane_u64(above[RUN_EDGES], 1) & 2);
		return Sides {first | last << 2 * RUN_EDGES, vmaxvq_u32(vreinterpretq_u32_u64(same)) != 0};
	}

	static inline RunVertices ReadRun(const uint8_t *at) {
		auto min = Load<float64x2_t>(at), max = min;
#pragma GCC unroll 4
		for (uint32_t i = 1; i <= RUN_EDGES; i += 2) {
			const auto vertex = Load<float64x2_t>(at + i * VERTEX_BYTES),
			           next = Load<float64x2_t>(at + (i + 1) * VERTEX_BYTES);
			// NaN where one of both is
			min = vminq_f64(min, vminq_f64(vertex, next));
			max = vmaxq_f64(max, vmaxq_f64(vertex, next));
		}
		LaneRange range;
		range.min = min;
		range.max = max;
		const float64x2_t rest = vaddq_f64(vsubq_f64(min, min), vsubq_f64(max, max));
		return RunVertices {range, vaddvq_f64(rest) == 0};
	}

private:
	static inline uint32x4_t Places(const double *at, double first, double per, uint32_t last) {
		// Conversions round towards zero and saturate
		const float64x2_t low = vmulq_n_f64(vsubq_f64(vld1q_f64(at), vdupq_n_f64(first)), per);
		const float64x2_t high = vmulq_n_f64(vsubq_f64(vld1q_f64(at + 2), vdupq_n_f64(first)), per);
		const uint32x4_t all = vqmovn_high_u64(vqmovn_u64(vcvtq_u64_f64(low)), vcvtq_u64_f64(high));
		return vminq_u32(all, vdupq_n_u32(last));
	}
	static inline uint16x8_t Joined(uint32x4_t low, uint32x4_t high) {
		return vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
	}
};
typedef NeonKernels WideKernels;

#else
#define VIBESPATIAL_NO_WIDE
#endif

} // namespace polygon_scan_simd
} // namespace vibespatial
