#include "engine/index/area_scan.hpp"

#include "geometry/wkb_visit.hpp"
#include "vibe/shape_build.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <numeric>
#ifdef __SSE2__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace vibespatial {

using vibe::Box;
using vibe::Vec2;

//! Edges of a run, and blocks of runs from which these have groups
static constexpr uint32_t RUN_EDGES = 8;
static constexpr uint32_t BLOCKS_TO_GROUP = 4;
static constexpr uint32_t ALL_LANES = 255;
static constexpr size_t VERTEX_BYTES = 2 * sizeof(double);
static constexpr size_t HEADER_BYTES = 1 + sizeof(uint32_t);
static constexpr uint32_t POLYGON_CODE = 3;
static constexpr uint32_t MULTIPOLYGON_CODE = 6;

static constexpr size_t ROWS_PER_STEP = 128;
//! Points that are looked up at once, so that their memory accesses overlap
static constexpr size_t POINTS_AT_ONCE = 512;
static constexpr uint32_t POINTS_PER_STEP = 4;
static constexpr uint32_t LINE_BYTES = 64;
//! While vertices are read, farther than hardware does; the next row mostly follows
static constexpr uint32_t READ_AHEAD_BYTES = 2048;
//! Of an item's ranges
static constexpr uint32_t PREFETCHED_LINES = 4;

//! Cells for each box, and the most entries for each before the cells are made coarser
static constexpr double CELLS_PER_BOX = 5;
static constexpr uint32_t STEP_BITS = 8;
static constexpr uint32_t STEPS_PER_CELL = 1 << STEP_BITS;
static constexpr double MAX_CELLS = 1 << 20;
static constexpr double ENTRIES_PER_BOX = 16;
static constexpr size_t BANDS_PER_THREAD = 2;

//! A Step's range
static constexpr int16_t LEAST_STEP = INT16_MIN;
static constexpr int16_t MOST_STEPS = INT16_MAX;

//! What steps of a test cost, about
static constexpr uint64_t NANOSECONDS_PER_TEST = 40;
static constexpr uint64_t NANOSECONDS_PER_LOOK = 30;

namespace {

typedef int64_t Masks __attribute__((vector_size(16)));
typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef int16_t Shorts __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));

} // namespace

struct AreaScan::Share {
	//! What reading a run tells, until its item's box is known
	struct Run {
		LaneRange range;
		Lanes ends_y; // of the first vertex and of the last
		uint32_t place;
	};
	UninitializedVector<Run> runs;
	UninitializedVector<Block> blocks;
	//! Lanes of the last block that are taken
	uint32_t taken = RUNS_AT_ONCE;
	std::vector<Ranges> groups;
	std::vector<Item> items;
	//! Number of each item's first block
	std::vector<uint32_t> first_blocks;
	std::vector<Box> boxes;
	uint64_t vertices = 0;

	//! Gives the runs to the last item; false where its box is too large for steps
	bool EndItem();
	//! Ranges of many blocks, and addresses in place of numbers
	void Finish();

private:
	static Ranges NoRanges();
};

AreaScan::Ranges AreaScan::Share::NoRanges() {
	Ranges none;
	for (uint32_t lane = 0; lane < RUNS_AT_ONCE; lane++) {
		none.min_y[lane] = none.min_x[lane] = MOST_STEPS;
		none.max_y[lane] = none.max_x[lane] = LEAST_STEP;
	}
	return none;
}

//===----------------------------------------------------------------------===//
// Loops in registers
//===----------------------------------------------------------------------===//
namespace {

// A bit for each lane
uint32_t TwoBits(Masks masks) {
#ifdef __SSE2__
	return static_cast<uint32_t>(_mm_movemask_pd(reinterpret_cast<__m128d>(masks)));
#else
	return (static_cast<uint32_t>(masks[0]) & 1) | (static_cast<uint32_t>(masks[1]) & 2);
#endif
}
constexpr Shorts LANE_BITS {1, 2, 4, 8, 16, 32, 64, 128};

//! A bit for each of eight lanes that is set, and the number of the lowest; any where there is none
#ifdef __aarch64__
constexpr uint32_t BITS_PER_LANE = 8;
#else
constexpr uint32_t BITS_PER_LANE = 1;
#endif
uint64_t SpreadBits(Shorts masks) {
#ifdef __aarch64__
	const uint8x8_t bytes = vmovn_u16(reinterpret_cast<uint16x8_t>(masks));
	return vget_lane_u64(vreinterpret_u64_u8(bytes), 0) & 0x0101010101010101ULL;
#elif defined(__SSE2__)
	return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(reinterpret_cast<__m128i>(masks), __m128i {})));
#else
	uint64_t bits = 0;
	for (size_t i = 0; i < 8; i++) {
		bits |= static_cast<uint64_t>(masks[i] & 1) << i;
	}
	return bits;
#endif
}
uint32_t LowestLane(uint64_t bits) {
	return static_cast<uint32_t>(__builtin_ctzll(bits | 1ULL << (8 * BITS_PER_LANE - 1))) / BITS_PER_LANE;
}
//! As many bits as lanes are set, but for twos
uint16_t Parity(Shorts masks) {
#ifdef __aarch64__
	return vaddvq_u16(reinterpret_cast<uint16x8_t>(masks)) & 1;
#else
	return static_cast<uint16_t>(SpreadBits(masks));
#endif
}

template <class T>
T Load(const void *from) {
	T value;
	std::memcpy(&value, from, sizeof(value));
	return value;
}

//! Coordinates in steps of a box: monotone, whatever they are
struct Steps {
	struct Two {
		int16_t of[2];
	};
	//! So many from the least to the most: one less than there are, as what is rounded may come out above
	static constexpr double COUNT = MOST_STEPS - LEAST_STEP - 1;

	Lanes least;
	Lanes per_unit;

	//! Of what is inside
	Two Inside(Lanes at) const {
		return Rounded((at - least) * per_unit);
	}
	Two Of(Lanes at) const {
		at = (at - least) * per_unit;
		at = at > 0 ? at : Lanes {0, 0};
		at = at < COUNT ? at : Lanes {COUNT, COUNT};
		return Rounded(at);
	}
	//! Of eight that are inside, one for each i: those of the first lanes, and of the second
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
	//! In the lowest bits, from the least step on, rounded to the nearest: numbers that large have no fraction
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

int16_t Most(Shorts values) {
	auto both = [](Shorts a, Shorts b) { return a > b ? a : b; };
	values = both(values, __builtin_shufflevector(values, values, 4, 5, 6, 7, 0, 1, 2, 3));
	values = both(values, __builtin_shufflevector(values, values, 2, 3, 0, 1, 6, 7, 4, 5));
	return std::max<int16_t>(values[0], values[1]);
}

Shorts All(int16_t value) {
	return Shorts {value, value, value, value, value, value, value, value};
}

//! Where consecutive vertices are, seen from a point: bit 2i tells whether vertex i is right of it, bit 2i + 1 whether it is
//! above it
struct Sides {
	uint64_t bits;
	bool same; // a vertex has the point's x or y
};

//! What reading a run tells of its vertices
struct Vertices {
	LaneRange range;
	bool finite;
};

//! Which of eight a ray towards +x can meet
template <class RANGES>
Shorts Meeting(const RANGES &ranges, Shorts x, Shorts y) {
	return (Load<Shorts>(ranges.min_y) <= y) & (Load<Shorts>(ranges.max_y) >= y) & (Load<Shorts>(ranges.max_x) >= x);
}

} // namespace

struct AreaScan::Located {
	uint32_t cells[POINTS_AT_ONCE + POINTS_PER_STEP];
	uint32_t points[POINTS_AT_ONCE + POINTS_PER_STEP];
	uint32_t steps[POINTS_AT_ONCE + POINTS_PER_STEP];
};

//! Registers of 16 bytes, as every machine has them
struct AreaScan::Narrow {
	//! Points whose cells are found at once, and those of them in cells that are used: how many
	static constexpr uint32_t POINTS = 1;
	static inline uint32_t FindCells(const AreaScan &scan, const double *x, const double *y, uint32_t point,
	                                 Located &located, size_t count) {
		const auto place = scan.grid.PlaceOf(Vec2 {x[point], y[point]});
		const uint32_t cell = (place.row >> STEP_BITS) * scan.columns + (place.column >> STEP_BITS);
		located.cells[count] = cell;
		located.points[count] = point;
		located.steps[count] = place.column % STEPS_PER_CELL | place.row % STEPS_PER_CELL << STEP_BITS;
		return scan.used_cells[cell / 64] >> cell % 64 & 1;
	}

	static inline Sides SidesOf(const uint8_t *at, uint32_t count, const Vec2 &p) {
		const Lanes here {p.x, p.y};
		uint64_t bits = 0;
		Masks same {0, 0};
		for (uint32_t i = 0; i < count; i++) {
			const Lanes vertex = LoadLanes(at + i * VERTEX_BYTES);
			bits |= static_cast<uint64_t>(TwoBits(vertex > here)) << 2 * i;
			same |= vertex == here;
		}
		return Sides {bits, (same[0] | same[1]) != 0};
	}
	static inline Sides SidesOfRun(const uint8_t *at, const Vec2 &p) {
		return SidesOf(at, RUN_EDGES + 1, p);
	}

	static inline Vertices Read(const uint8_t *at, uint32_t edges) {
		Lanes rest {0, 0};
		LaneRange range;
		for (uint32_t i = 0; i <= edges; i++) {
			const Lanes vertex = LoadLanes(at + i * VERTEX_BYTES);
			rest += vertex - vertex;
			range.Add(vertex);
		}
		// v - v is 0 for a finite v and NaN for all others
		return Vertices {range, rest[0] + rest[1] == 0};
	}
	static inline Vertices ReadRun(const uint8_t *at) {
		return Read(at, RUN_EDGES);
	}
};

#ifdef __SSE2__
#define VIBESPATIAL_WIDE __attribute__((target("avx2,popcnt")))

static bool IsWide() {
	static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
	return wide && !AreaScan::only_narrow;
}

namespace {

//! The numbers of those of four bits that are set, one byte each
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

} // namespace

//! Registers of 32 bytes
struct AreaScan::Wide {
	static constexpr uint32_t POINTS = POINTS_PER_STEP;

	VIBESPATIAL_WIDE static inline __m128i Places(__m256d at, double first, double per, uint32_t last) {
		at = _mm256_mul_pd(_mm256_sub_pd(at, _mm256_set1_pd(first)), _mm256_set1_pd(per));
		at = _mm256_max_pd(at, _mm256_setzero_pd());
		at = _mm256_min_pd(at, _mm256_set1_pd(static_cast<int32_t>(last)));
		return _mm256_cvttpd_epi32(at);
	}
	VIBESPATIAL_WIDE static inline uint32_t FindCells(const AreaScan &scan, const double *x, const double *y,
	                                                  uint32_t point, Located &located, size_t count) {
		const auto &grid = scan.grid;
		const __m128i columns = Places(_mm256_loadu_pd(x + point), grid.min_x, grid.columns_per_x, grid.last_column);
		const __m128i rows = Places(_mm256_loadu_pd(y + point), grid.min_y, grid.rows_per_y, grid.last_row);
		const __m128i width = _mm_set1_epi32(static_cast<int32_t>(scan.columns));
		const __m128i all =
		    _mm_add_epi32(_mm_mullo_epi32(_mm_srli_epi32(rows, STEP_BITS), width), _mm_srli_epi32(columns, STEP_BITS));
		const __m128i steps = _mm_blendv_epi8(_mm_slli_epi32(rows, STEP_BITS), columns, _mm_set1_epi32(255));
		const auto used = reinterpret_cast<const int *>(scan.used_cells.data());
		const __m128i words = _mm_i32gather_epi32(used, _mm_srli_epi32(all, 5), 4);
		const __m128i bits = _mm_sllv_epi32(words, _mm_andnot_si128(all, _mm_set1_epi32(31)));
		const auto mask = static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(bits)));
		const __m128i order = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(BIT_NUMBERS.of[mask]));
		const __m128i points = _mm_add_epi32(order, _mm_set1_epi32(static_cast<int32_t>(point)));
		_mm_storeu_si128(reinterpret_cast<__m128i *>(located.cells + count), Ordered(all, order));
		_mm_storeu_si128(reinterpret_cast<__m128i *>(located.points + count), points);
		_mm_storeu_si128(reinterpret_cast<__m128i *>(located.steps + count), Ordered(steps, order));
		return static_cast<uint32_t>(__builtin_popcount(mask));
	}
	VIBESPATIAL_WIDE static inline __m128i Ordered(__m128i values, __m128i order) {
		return _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(values), order));
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
		const auto last = Narrow::SidesOf(at + RUN_EDGES * VERTEX_BYTES, 1, p);
		return Sides {bits | last.bits << 2 * RUN_EDGES, last.same || _mm256_movemask_pd(same) != 0};
	}

	VIBESPATIAL_WIDE static inline Vertices ReadRun(const uint8_t *at) {
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
		return Vertices {range, odd == 0};
	}
};
#elif defined(__aarch64__)
#define VIBESPATIAL_WIDE

static bool IsWide() {
	return !AreaScan::only_narrow;
}

//! Instructions that vectors of the compiler do not lead to
struct AreaScan::Wide {
	static constexpr uint32_t POINTS = POINTS_PER_STEP;

	static inline uint32x4_t Places(const double *at, double first, double per, uint32_t last) {
		// Conversions round towards zero and stop at the ends of their ranges
		const float64x2_t low = vmulq_n_f64(vsubq_f64(vld1q_f64(at), vdupq_n_f64(first)), per);
		const float64x2_t high = vmulq_n_f64(vsubq_f64(vld1q_f64(at + 2), vdupq_n_f64(first)), per);
		const uint32x4_t all = vqmovn_high_u64(vqmovn_u64(vcvtq_u64_f64(low)), vcvtq_u64_f64(high));
		return vminq_u32(all, vdupq_n_u32(last));
	}
	static inline uint32_t FindCells(const AreaScan &scan, const double *x, const double *y, uint32_t point,
	                                 Located &located, size_t first) {
		const auto &grid = scan.grid;
		const uint32x4_t columns = Places(x + point, grid.min_x, grid.columns_per_x, grid.last_column);
		const uint32x4_t rows = Places(y + point, grid.min_y, grid.rows_per_y, grid.last_row);
		uint32_t cells[POINTS], steps[POINTS];
		vst1q_u32(cells, vmlaq_n_u32(vshrq_n_u32(columns, STEP_BITS), vshrq_n_u32(rows, STEP_BITS), scan.columns));
		vst1q_u32(steps, vsliq_n_u32(columns, rows, STEP_BITS));
		size_t count = first;
#pragma GCC unroll 4
		for (uint32_t i = 0; i < POINTS; i++) {
			located.cells[count] = cells[i];
			located.points[count] = point + i;
			located.steps[count] = steps[i];
			count += scan.used_cells[cells[i] / 64] >> cells[i] % 64 & 1;
		}
		return static_cast<uint32_t>(count - first);
	}

	static inline uint16x8_t Joined(uint32x4_t low, uint32x4_t high) {
		return vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
	}
	static inline Sides SidesOfRun(const uint8_t *at, const Vec2 &p) {
		const float64x2_t here {p.x, p.y};
		auto coordinates = reinterpret_cast<const double *>(at);
		uint64x2_t above[RUN_EDGES + 1], same = vdupq_n_u64(0);
#pragma GCC unroll 9
		for (uint32_t i = 0; i <= RUN_EDGES; i++) {
			const float64x2_t vertex = vld1q_f64(coordinates + 2 * i);
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

	static inline Vertices ReadRun(const uint8_t *at) {
		auto coordinates = reinterpret_cast<const double *>(at);
		float64x2_t min = vld1q_f64(coordinates), max = min;
#pragma GCC unroll 4
		for (uint32_t i = 2; i <= 2 * RUN_EDGES; i += 4) {
			const float64x2_t vertex = vld1q_f64(coordinates + i), next = vld1q_f64(coordinates + i + 2);
			// NaN where one of both is
			min = vminq_f64(min, vminq_f64(vertex, next));
			max = vmaxq_f64(max, vmaxq_f64(vertex, next));
		}
		LaneRange range;
		range.min = min;
		range.max = max;
		const float64x2_t rest = vaddq_f64(vsubq_f64(min, min), vsubq_f64(max, max));
		return Vertices {range, vaddvq_f64(rest) == 0};
	}
};
#else
#define VIBESPATIAL_NARROW
#endif

//! For VisitWkb
struct AreaScan::Reader {
	Share &share;
	const uint8_t *wkb = nullptr;
	uint32_t row = 0;
	bool plain = true;

	void Row(const uint8_t *data, uint32_t size, uint32_t number) {
		wkb = data;
		row = number;
		const uint32_t code = size < HEADER_BYTES ? 0 : vibe::LoadCount(data + 1);
		plain = (code == POLYGON_CODE || code == MULTIPOLYGON_CODE) && size < Place::MAX_BEGIN;
	}
	void Part(vibe::Family) {
		End();
		share.items.push_back(Item {{}, {}, wkb, nullptr, nullptr, row, 0, 0});
		share.boxes.push_back(Box::Empty());
	}
	//! Of the item before, where there is one
	void End() {
		plain = plain && (share.items.empty() || share.EndItem());
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		share.vertices += count;
		plain = plain && stride == VERTEX_BYTES && IsRing(coords, count);
		if (!plain) {
			return;
		}
#ifndef VIBESPATIAL_NARROW
		if (IsWide()) {
			ReadWide(count, coords);
			return;
		}
#endif
		ReadRing<Narrow>(count, coords);
	}

private:
	template <class LANES>
	inline __attribute__((always_inline)) void ReadRing(uint32_t count, const uint8_t *coords) {
		LaneRange whole;
		bool finite = true;
		const size_t before = share.runs.size();
		share.runs.resize(before + (count + RUN_EDGES - 2) / RUN_EDGES);
		auto next = share.runs.data() + before;
		for (uint32_t first = 0; first + 1 < count; first += RUN_EDGES) {
			const uint32_t edges = std::min(RUN_EDGES, count - 1 - first);
			const uint8_t *at = coords + first * VERTEX_BYTES;
			for (uint32_t line = 0; line < RUN_EDGES * VERTEX_BYTES; line += LINE_BYTES) {
				__builtin_prefetch(at + READ_AHEAD_BYTES + line);
			}
			const Vertices run = edges == RUN_EDGES ? LANES::ReadRun(at) : Narrow::Read(at, edges);
			whole.Add(run.range);
			finite &= run.finite;
			const Lanes ends = __builtin_shufflevector(LoadLanes(at), LoadLanes(at + edges * VERTEX_BYTES), 1, 3);
			*next++ = Share::Run {run.range, ends, Place::Of(static_cast<size_t>(at - wkb), edges)};
		}
		share.boxes.back().Add(Box {whole.min[0], whole.min[1], whole.max[0], whole.max[1]});
		plain = finite;
	}
#ifndef VIBESPATIAL_NARROW
	__attribute__((flatten)) VIBESPATIAL_WIDE void ReadWide(uint32_t count, const uint8_t *coords) {
		ReadRing<Wide>(count, coords);
	}
#endif
	//! Closed, and with enough vertices that do not repeat the one before
	static bool IsRing(const uint8_t *coords, uint32_t count) {
		auto same = [&](uint32_t a, uint32_t b) {
			const Masks lanes = LoadLanes(coords + a * VERTEX_BYTES) == LoadLanes(coords + b * VERTEX_BYTES);
			return lanes[0] != 0 && lanes[1] != 0;
		};
		uint32_t distinct = 1;
		for (uint32_t i = 1; i < count && distinct < vibe::LeastVertices(true); i++) {
			distinct += !same(i - 1, i);
		}
		return distinct == vibe::LeastVertices(true) && same(0, count - 1);
	}
};

bool AreaScan::Share::EndItem() {
	auto &item = items.back();
	const Box &box = boxes.back();
	const auto count = static_cast<uint32_t>(runs.size());
	first_blocks.push_back(0);
	if (count == 0) {
		return true;
	}
	const Lanes least {box.min_x, box.min_y}, extent = Lanes {box.max_x, box.max_y} - least;
	if (!(extent[0] + extent[1] < INFINITY)) {
		return false;
	}
	Lanes per_unit = Lanes {Steps::COUNT, Steps::COUNT} / extent;
	per_unit = per_unit < DBL_MAX ? per_unit : Lanes {DBL_MAX, DBL_MAX};
	const Steps steps {least, per_unit};
	const Steps steps_of_y {{least[1], least[1]}, {per_unit[1], per_unit[1]}};
	std::memcpy(item.least, &least, sizeof(least));
	std::memcpy(item.steps, &per_unit, sizeof(per_unit));
	// Few share the last block with those before
	if (count > RUNS_AT_ONCE - taken) {
		taken = RUNS_AT_ONCE;
	}
	const uint32_t first_lane = taken % RUNS_AT_ONCE;
	first_blocks.back() = static_cast<uint32_t>(blocks.size()) - (first_lane != 0);
	item.block_count = (count + RUNS_AT_ONCE - 1) / RUNS_AT_ONCE;
	item.lanes = ALL_LANES;
	if (item.block_count == 1) {
		item.lanes = ((1u << count) - 1) << first_lane;
	}
	uint32_t next = 0;
	for (; next + RUNS_AT_ONCE <= count; next += RUNS_AT_ONCE) {
		const auto eight = runs.data() + next;
		blocks.resize(blocks.size() + 1);
		auto &block = blocks.back();
		steps.OfEight([&](size_t i) { return eight[i].range.min; }, block.ranges.min_x, block.ranges.min_y);
		steps.OfEight([&](size_t i) { return eight[i].range.max; }, block.ranges.max_x, block.ranges.max_y);
		steps_of_y.OfEight([&](size_t i) { return eight[i].ends_y; }, block.first_y, block.last_y);
		for (uint32_t i = 0; i < RUNS_AT_ONCE; i++) {
			block.place[i] = eight[i].place;
		}
	}
	for (; next < count; next++) {
		if (taken == RUNS_AT_ONCE) {
			blocks.resize(blocks.size() + 1);
			taken = 0;
		}
		const auto &run = runs[next];
		auto &block = blocks.back();
		const auto min = steps.Inside(run.range.min), max = steps.Inside(run.range.max);
		const auto ends = steps_of_y.Inside(run.ends_y);
		block.ranges.min_x[taken] = min.of[0];
		block.ranges.min_y[taken] = min.of[1];
		block.ranges.max_x[taken] = max.of[0];
		block.ranges.max_y[taken] = max.of[1];
		block.first_y[taken] = ends.of[0];
		block.last_y[taken] = ends.of[1];
		block.place[taken] = run.place;
		taken++;
	}
	if (item.block_count > 1) {
		auto &block = blocks.back();
		for (; taken < RUNS_AT_ONCE; taken++) {
			block.ranges.min_y[taken] = block.ranges.min_x[taken] = MOST_STEPS;
			block.ranges.max_y[taken] = block.ranges.max_x[taken] = LEAST_STEP;
		}
	}
	runs.clear();
	return true;
}

void AreaScan::Share::Finish() {
	size_t group_count = 0;
	for (auto &item : items) {
		group_count += item.block_count > BLOCKS_TO_GROUP ? item.block_count / RUNS_AT_ONCE + 1 : 0;
	}
	groups.reserve(group_count);
	for (size_t i = 0; i < items.size(); i++) {
		auto &item = items[i];
		item.blocks = blocks.data() + first_blocks[i];
		if (item.block_count <= BLOCKS_TO_GROUP) {
			continue;
		}
		item.groups = groups.data() + groups.size();
		for (uint32_t block = 0; block < item.block_count; block++) {
			const uint32_t lane = block % RUNS_AT_ONCE;
			if (lane == 0) {
				groups.push_back(NoRanges());
			}
			auto &group = groups.back();
			const auto &ranges = item.blocks[block].ranges;
			group.min_y[lane] = ~Most(~Load<Shorts>(ranges.min_y));
			group.max_y[lane] = Most(Load<Shorts>(ranges.max_y));
			group.max_x[lane] = Most(Load<Shorts>(ranges.max_x));
		}
	}
	runs = {};
	first_blocks = {};
}

std::atomic<bool> AreaScan::only_narrow {false};

AreaScan::AreaScan() = default;
AreaScan::~AreaScan() = default;

std::unique_ptr<AreaScan> AreaScan::Build(const JoinRows &rows, Parallel &parallel) {
	std::unique_ptr<AreaScan> scan(new AreaScan());
	auto &shares = scan->shares;
	shares = std::vector<Share>((rows.size() + ROWS_PER_STEP - 1) / ROWS_PER_STEP);
	std::atomic<bool> plain {true};
	parallel.For(shares.size(), [&](size_t step) {
		auto &share = shares[step];
		Reader reader {share};
		const size_t end = std::min(rows.size(), (step + 1) * ROWS_PER_STEP);
		size_t bytes = 0;
		for (size_t i = step * ROWS_PER_STEP; i < end; i++) {
			bytes += rows[i].data ? rows[i].size : 0;
		}
		share.blocks.reserve(bytes / (RUNS_AT_ONCE * RUN_EDGES * VERTEX_BYTES) + (end - step * ROWS_PER_STEP));
		for (size_t i = step * ROWS_PER_STEP; i < end && plain; i++) {
			if (!rows[i].data) {
				continue;
			}
			if (i + 1 < end) {
				__builtin_prefetch(rows[i + 1].data);
			}
			reader.Row(rows[i].data, rows[i].size, static_cast<uint32_t>(i));
			if (reader.plain) {
				VisitWkb(rows[i].data, rows[i].size, reader);
			}
			if (!reader.plain) {
				plain = false;
			}
		}
		reader.End();
		if (reader.plain) {
			share.Finish();
		} else {
			plain = false;
		}
	});
	if (!plain) {
		return nullptr;
	}
	size_t count = 0;
	for (auto &share : shares) {
		count += share.items.size();
	}
	auto &polygons = scan->polygons;
	polygons.boxes.reserve(count);
	polygons.rows.reserve(count);
	scan->items.reserve(count);
	for (auto &share : shares) {
		scan->items.insert(scan->items.end(), share.items.begin(), share.items.end());
		polygons.boxes.insert(polygons.boxes.end(), share.boxes.begin(), share.boxes.end());
		polygons.vertices += share.vertices;
		share.items = {};
		share.boxes = {};
	}
	for (auto &item : scan->items) {
		polygons.rows.push_back(item.row);
	}
	return scan->SetGrid(parallel) ? std::move(scan) : nullptr;
}

//! Columns and rows are monotone in x and y, whatever the extent: a point in a box is in one of its cells, and between its steps
bool AreaScan::SetGrid(Parallel &parallel) {
	const auto &boxes = polygons.boxes;
	Box all = Box::Empty();
	for (auto &box : boxes) {
		all.Add(box);
	}
	const double count = static_cast<double>(boxes.size());
	const double width = all.max_x - all.min_x, height = all.max_y - all.min_y;
	//! A box: first and last columns and rows of steps; none for an EMPTY one
	struct Extent {
		uint32_t min_x, min_y, max_x, max_y;
		bool empty;
	};
	UninitializedVector<Extent> extents(boxes.size());
	double cells = std::min(std::max(CELLS_PER_BOX * count, 1.0), MAX_CELLS);
	for (;; cells /= 4) {
		const double aspect = width / height;
		const double wanted = aspect > 0 && std::isfinite(aspect) ? std::sqrt(cells * aspect)
		                      : width > height                    ? cells
		                                                          : 1;
		const double across = std::floor(std::min(std::max(wanted, 1.0), cells)), down = std::floor(cells / across);
		columns = static_cast<uint32_t>(across);
		grid.last_column = columns * STEPS_PER_CELL - 1;
		grid.last_row = static_cast<uint32_t>(down) * STEPS_PER_CELL - 1;
		// The outermost steps are left to what lies outside
		grid.columns_per_x = width > 0 ? (grid.last_column - 2) / width : 0;
		grid.rows_per_y = height > 0 ? (grid.last_row - 2) / height : 0;
		grid.min_x = all.min_x - (width > 0 ? 1 / grid.columns_per_x : 0);
		grid.min_y = all.min_y - (height > 0 ? 1 / grid.rows_per_y : 0);
		double total = 0;
		for (size_t i = 0; i < boxes.size(); i++) {
			const auto &box = boxes[i];
			const auto least = grid.PlaceOf(Vec2 {box.min_x, box.min_y});
			const auto most = grid.PlaceOf(Vec2 {box.max_x, box.max_y});
			extents[i] = Extent {least.column, least.row, most.column, most.row, box.IsEmpty()};
			total += box.IsEmpty() ? 0
			                       : static_cast<double>((most.column >> STEP_BITS) - (least.column >> STEP_BITS) + 1) *
			                             ((most.row >> STEP_BITS) - (least.row >> STEP_BITS) + 1);
		}
		if (total <= ENTRIES_PER_BOX * count) {
			break;
		}
		if (cells < count / 4) {
			return false;
		}
	}
	// Threads have bands of rows. They count the items of each cell, and count them down again from the last item to the first, so
	// that each cell has its items in order.
	const size_t rows = (size_t(grid.last_row) + 1) / STEPS_PER_CELL, cell_count = columns * rows;
	const size_t bands = std::min(rows, BANDS_PER_THREAD * parallel.Threads());
	cell_begin.resize(cell_count + 1);
	used_cells.resize(cell_count / 64 + 1);
	UninitializedVector<uint32_t> item_counts(cell_count);
	std::vector<uint32_t> band_entries(bands + 1, 0);
	auto visit = [&](size_t band, const Extent &extent, const auto &use) {
		const size_t first = std::max<size_t>(rows * band / bands, extent.min_y >> STEP_BITS);
		const size_t end = std::min<size_t>(rows * (band + 1) / bands, (extent.max_y >> STEP_BITS) + 1);
		for (size_t row = first; row < end && !extent.empty; row++) {
			for (uint32_t column = extent.min_x >> STEP_BITS; column <= extent.max_x >> STEP_BITS; column++) {
				use(column, row);
			}
		}
	};
	parallel.For(bands, [&](size_t band) {
		const size_t first = rows * band / bands * columns, end = rows * (band + 1) / bands * columns;
		std::fill(item_counts.begin() + first, item_counts.begin() + end, 0);
		for (auto &extent : extents) {
			visit(band, extent, [&](size_t column, size_t row) { item_counts[row * columns + column]++; });
		}
		uint32_t total = 0;
		for (size_t cell = first; cell < end; cell++) {
			cell_begin[cell] = total;
			total += (item_counts[cell] + ITEMS_AT_ONCE - 1) / ITEMS_AT_ONCE;
		}
		band_entries[band + 1] = total;
	});
	std::partial_sum(band_entries.begin(), band_entries.end(), band_entries.begin());
	entries.resize(band_entries.back());
	cell_begin.back() = band_entries.back();
	parallel.For(bands, [&](size_t band) {
		const size_t first = rows * band / bands * columns, end = rows * (band + 1) / bands * columns;
		for (size_t cell = first; cell < end; cell++) {
			cell_begin[cell] += band_entries[band];
		}
		Entries none;
		std::fill(std::begin(none.least), std::end(none.least), UINT8_MAX);
		std::fill(std::begin(none.most), std::end(none.most), 0);
		std::fill(std::begin(none.items), std::end(none.items), 0);
		std::fill(entries.begin() + band_entries[band], entries.begin() + band_entries[band + 1], none);
		for (size_t i = boxes.size(); i-- > 0;) {
			const Extent &extent = extents[i];
			visit(band, extent, [&](uint32_t column, size_t row) {
				const size_t cell = row * columns + column;
				const uint32_t number = --item_counts[cell];
				auto &some = entries[cell_begin[cell] + number / ITEMS_AT_ONCE];
				const uint32_t lane = number % ITEMS_AT_ONCE;
				const auto step = [](uint32_t at, size_t place) {
					const auto from = static_cast<int32_t>(at) - static_cast<int32_t>(place * STEPS_PER_CELL);
					return static_cast<uint8_t>(std::min<int32_t>(std::max(from, 0), STEPS_PER_CELL - 1));
				};
				some.least[2 * lane] = step(extent.min_x, column);
				some.least[2 * lane + 1] = step(extent.min_y, row);
				some.most[2 * lane] = step(extent.max_x, column);
				some.most[2 * lane + 1] = step(extent.max_y, row);
				some.items[lane] = static_cast<uint32_t>(i);
			});
		}
	});
	for (size_t cell = 0; cell < cell_count; cell++) {
		used_cells[cell / 64] |= static_cast<uint64_t>(cell_begin[cell + 1] > cell_begin[cell]) << cell % 64;
	}
	return true;
}

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//
template <class LANES>
inline __attribute__((always_inline)) void AreaScan::FindCandidates(Lookup &lookup, const double *x, const double *y,
                                                                    uint32_t begin, uint32_t end) const {
	Located located;
	size_t count = 0;
	uint32_t point = begin;
	for (; point + LANES::POINTS <= end; point += LANES::POINTS) {
		count += LANES::FindCells(*this, x, y, point, located, count);
	}
	for (; point < end; point++) {
		count += Narrow::FindCells(*this, x, y, point, located, count);
	}
	const uint32_t *const begins = cell_begin.data();
	const Entries *const all = entries.data();
	for (size_t k = 0; k < count; k++) {
		__builtin_prefetch(&begins[located.cells[k]]);
	}
	size_t most = 0;
	for (size_t k = 0; k < count; k++) {
		const uint32_t first = begins[located.cells[k]], last = begins[located.cells[k] + 1];
		__builtin_prefetch(&all[first]);
		most += last - first;
	}
	if (lookup.meetings.size() <= most * ITEMS_AT_ONCE) {
		lookup.meetings.resize(2 * most * ITEMS_AT_ONCE + 1);
	}
	auto next = lookup.meetings.data();
	for (size_t k = 0; k < count; k++) {
		const uint32_t number = located.points[k];
		const auto here = reinterpret_cast<Bytes>(All(static_cast<int16_t>(located.steps[k])));
		const Entries *some = all + begins[located.cells[k]], *const end = all + begins[located.cells[k] + 1];
		do {
			const auto inside = (Load<Bytes>(some->least) <= here) & (Load<Bytes>(some->most) >= here);
			auto use = [&](uint64_t bits) __attribute__((always_inline)) {
				const uint32_t item = some->items[LowestLane(bits)];
				*next = Lookup::Meeting {item, number};
				__builtin_prefetch(&items[item]);
				next += bits != 0;
				return bits & (bits - 1);
			};
			// Mostly one or two, and which of both cannot be foretold
			uint64_t rest = use(use(SpreadBits(reinterpret_cast<Shorts>(inside) == All(-1))));
			while (rest != 0) {
				rest = use(rest);
			}
		} while (++some != end);
	}
	lookup.candidate_count = static_cast<size_t>(next - lookup.meetings.data());
}

inline __attribute__((always_inline)) void AreaScan::SetCandidates(Lookup &lookup, const double *x,
                                                                   const double *y) const {
	if (lookup.candidates.size() < lookup.candidate_count) {
		lookup.candidates.resize(2 * lookup.candidate_count);
	}
	Candidate *const candidates = lookup.candidates.data();
	const auto *const meetings = lookup.meetings.data();
	const Item *const first_item = items.data();
	const size_t count = lookup.candidate_count;
	size_t most = 0;
	for (size_t number = 0; number < count; number++) {
		const uint32_t point = meetings[number].point;
		const Item &item = first_item[meetings[number].item];
		const auto at = Steps {Load<Lanes>(item.least), Load<Lanes>(item.steps)}.Of(Lanes {x[point], y[point]});
		candidates[number] = Candidate {&item, point, 0, false, at.of[0], at.of[1]};
		auto first = item.groups ? reinterpret_cast<const uint8_t *>(item.groups)
		                         : reinterpret_cast<const uint8_t *>(item.blocks);
		for (uint32_t line = 0; line < PREFETCHED_LINES; line++) {
			__builtin_prefetch(first + line * LINE_BYTES);
		}
		most += item.block_count;
	}
	if (lookup.looks.size() <= most * RUNS_AT_ONCE) {
		lookup.looks.resize(2 * most * RUNS_AT_ONCE + 1);
	}
	if (lookup.blocks.size() < most) {
		lookup.blocks.resize(2 * most);
	}
}

//! Of the runs that a ray can meet, those that are right of the point are crossed as often, but for twos, as a line from the first
//! vertex to the last; the others have to be looked at
inline __attribute__((always_inline)) void AreaScan::FindLooks(Lookup &lookup) {
	auto next = lookup.looks.data();
	Candidate *const candidates = lookup.candidates.data();
	const auto count = static_cast<uint32_t>(lookup.candidate_count);
	auto compare = [&](const Block &block, Shorts x, Shorts y, Shorts own, uint32_t number)
	    __attribute__((always_inline)) {
		const Shorts first = Load<Shorts>(block.first_y), last = Load<Shorts>(block.last_y);
		const Shorts meeting = Meeting(block.ranges, x, y) & own;
		const Shorts sure = (Load<Shorts>(block.ranges.min_x) > x) & (first != y) & (last != y);
		auto use = [&](uint64_t bits) __attribute__((always_inline)) {
			*next = Lookup::Look {block.place[LowestLane(bits)], number};
			next += bits != 0;
			return bits & (bits - 1);
		};
		// Mostly none or one, and which of both cannot be foretold
		uint64_t rest = use(SpreadBits(meeting & ~sure));
		while (rest != 0) {
			rest = use(rest);
		}
		return meeting & sure & ((first > y) ^ (last > y));
	};
	auto next_block = lookup.blocks.data();
	for (uint32_t number = 0; number < count; number++) {
		auto &candidate = candidates[number];
		const Item &item = *candidate.item;
		const Shorts x = All(candidate.x), y = All(candidate.y);
		Shorts crossed {};
		if (!item.groups) {
			const Shorts own = (All(item.lanes) & LANE_BITS) != 0;
			const Block *block = item.blocks, *const end = block + item.block_count;
			do {
				crossed ^= compare(*block, x, y, own, number);
			} while (++block != end);
		}
		// Blocks of groups come while others are compared
		for (uint32_t first = 0; item.groups && first < item.block_count; first += RUNS_AT_ONCE) {
			uint64_t bits = SpreadBits(Meeting(item.groups[first / RUNS_AT_ONCE], x, y));
			for (; bits != 0; bits &= bits - 1) {
				const Block *block = item.blocks + first + LowestLane(bits);
				*next_block++ = Lookup::OneBlock {block, number};
				for (uint32_t line = 0; line < sizeof(Block); line += LINE_BYTES) {
					__builtin_prefetch(reinterpret_cast<const uint8_t *>(block) + line);
				}
			}
		}
		candidate.crossings = Parity(crossed);
	}
	for (auto one = lookup.blocks.data(); one < next_block; one++) {
		auto &candidate = candidates[one->candidate];
		const Shorts crossed = compare(*one->block, All(candidate.x), All(candidate.y), All(-1), one->candidate);
		candidate.crossings ^= Parity(crossed);
	}
	lookup.look_count = static_cast<size_t>(next - lookup.looks.data());
	for (auto look = lookup.looks.data(); look < next; look++) {
		const uint8_t *edges = candidates[look->candidate].item->wkb + Place::Begin(look->place);
		for (uint32_t line = 0; line <= RUN_EDGES * VERTEX_BYTES; line += LINE_BYTES) {
			__builtin_prefetch(edges + line);
		}
	}
}

template <class LANES>
inline __attribute__((always_inline)) void AreaScan::LookAt(Lookup &lookup, const double *x, const double *y) {
	const auto *const looks = lookup.looks.data();
	const size_t look_count = lookup.look_count;
	Candidate *const candidates = lookup.candidates.data();
	constexpr uint64_t RIGHT = 0x5555555555555555ULL;
	lookup.open.resize(std::max(lookup.open.size(), look_count + 1));
	Open *next = lookup.open.data();
	for (size_t i = 0; i < look_count; i++) {
		auto &candidate = candidates[looks[i].candidate];
		const uint8_t *edges = candidate.item->wkb + Place::Begin(looks[i].place);
		const uint32_t count = Place::Count(looks[i].place);
		const Vec2 p {x[candidate.point], y[candidate.point]};
		const Sides sides = count == RUN_EDGES ? LANES::SidesOfRun(edges, p) : Narrow::SidesOf(edges, count + 1, p);
		// Of the edges that pass the point's y, those right of it are crossed and those left of it are not. The others, and
		// all where a vertex is level with the point, are seldom
		const uint64_t all = RIGHT & ((1ULL << 2 * count) - 1);
		const uint64_t passing = (sides.bits ^ sides.bits >> 2) >> 1 & all;
		const uint64_t crossed = passing & sides.bits & sides.bits >> 2;
		const uint64_t open = passing & ~crossed & (sides.bits | sides.bits >> 2);
		candidate.crossings ^= static_cast<uint16_t>(sides.same ? 0 : crossed);
		next->edges = edges;
		next->candidate = looks[i].candidate;
		next->bits = static_cast<uint32_t>(sides.same ? all : open);
		next += next->bits != 0;
	}
	for (const Open *open = lookup.open.data(); open < next; open++) {
		auto &candidate = lookup.candidates[open->candidate];
		vibe::RayCounter counter {Vec2 {x[candidate.point], y[candidate.point]},
		                          static_cast<bool>(__builtin_parity(candidate.crossings)), candidate.on};
		for (uint32_t bits = open->bits; bits != 0 && !counter.on; bits &= bits - 1) {
			const uint8_t *edge = open->edges + static_cast<uint32_t>(__builtin_ctz(bits)) / 2 * VERTEX_BYTES;
			const Lanes a = LoadLanes(edge), b = LoadLanes(edge + VERTEX_BYTES);
			counter.Add(Vec2 {a[0], a[1]}, Vec2 {b[0], b[1]});
		}
		candidate.crossings = counter.odd;
		candidate.on = counter.on;
	}
}

//! The parts of a row that one point is in are one answer, as the crossings of all their edges are counted together
size_t AreaScan::JoinParts(Found *found, size_t count) {
	size_t kept = 0;
	for (size_t i = 0; i < count;) {
		auto all = found[i];
		bool on = false, odd = false;
		for (; i < count && found[i].point == all.point && found[i].row == all.row; i++) {
			on |= found[i].location == vibe::LOC_BOUNDARY;
			odd ^= found[i].location == vibe::LOC_INTERIOR;
		}
		all.location = on ? vibe::LOC_BOUNDARY : vibe::LOC_INTERIOR;
		found[kept] = all;
		kept += on | odd;
	}
	return kept;
}

void AreaScan::Find(const Lookup &lookup, FoundRows &found) {
	const size_t before = found.size();
	found.resize(before + lookup.candidate_count);
	Found *const begin = found.data() + before, *next = begin;
	for (size_t i = 0; i < lookup.candidate_count; i++) {
		auto &candidate = lookup.candidates[i];
		next->point = candidate.point;
		next->row = candidate.item->row;
		next->location = candidate.on ? vibe::LOC_BOUNDARY : vibe::LOC_INTERIOR;
		next += candidate.on | __builtin_parity(candidate.crossings);
	}
	auto count = static_cast<size_t>(next - begin);
	bool parts = false;
	for (size_t i = 1; i < count; i++) {
		parts |= (begin[i].point == begin[i - 1].point) & (begin[i].row == begin[i - 1].row);
	}
	if (parts) {
		count = JoinParts(begin, count);
	}
	found.resize(before + count);
}

template <class LANES>
inline __attribute__((always_inline)) void AreaScan::LocateAll(const double *x, const double *y, size_t count,
                                                               FoundRows &found, Lookup &lookup) const {
	found.clear();
	for (size_t begin = 0; begin < count; begin += POINTS_AT_ONCE) {
		FindCandidates<LANES>(lookup, x, y, static_cast<uint32_t>(begin),
		                      static_cast<uint32_t>(std::min(count, begin + POINTS_AT_ONCE)));
		SetCandidates(lookup, x, y);
		FindLooks(lookup);
		LookAt<LANES>(lookup, x, y);
		Find(lookup, found);
		lookup.tests += lookup.candidate_count;
		lookup.nanoseconds += NANOSECONDS_PER_TEST * lookup.candidate_count + NANOSECONDS_PER_LOOK * lookup.look_count;
	}
}

#ifndef VIBESPATIAL_NARROW
__attribute__((flatten)) VIBESPATIAL_WIDE void AreaScan::LocateWide(const double *x, const double *y, size_t count,
                                                                    FoundRows &found, Lookup &lookup) const {
	LocateAll<Wide>(x, y, count, found, lookup);
}
#endif

void AreaScan::Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const {
#ifndef VIBESPATIAL_NARROW
	if (IsWide()) {
		LocateWide(x, y, count, found, lookup);
		return;
	}
#endif
	LocateAll<Narrow>(x, y, count, found, lookup);
}

size_t AreaScan::MemoryUsage() const {
	size_t bytes = items.capacity() * sizeof(Item) + polygons.rows.capacity() * sizeof(uint32_t) +
	               polygons.boxes.capacity() * sizeof(Box) + cell_begin.capacity() * sizeof(uint32_t) +
	               entries.capacity() * sizeof(Entries) + used_cells.capacity() * sizeof(uint64_t) +
	               shares.capacity() * sizeof(Share);
	for (auto &share : shares) {
		bytes += share.blocks.capacity() * sizeof(Block) + share.groups.capacity() * sizeof(Ranges);
	}
	return bytes;
}

} // namespace vibespatial
