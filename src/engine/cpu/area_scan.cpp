#include "engine/cpu/area_scan.hpp"

#include "engine/cpu/join.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/box_node.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <numeric>
#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace vibespatial {

using vibe::Box;
using vibe::Vec2;

//! Edges of a run, and blocks of runs from which these have groups
static constexpr uint32_t RUN_EDGES = 8;
static constexpr uint32_t BLOCKS_TO_GROUP = 8;
static constexpr uint32_t ALL_LANES = 255;
static constexpr size_t VERTEX_BYTES = 2 * sizeof(double);
static constexpr size_t HEADER_BYTES = 1 + sizeof(uint32_t);
static constexpr uint32_t POLYGON_CODE = 3;
static constexpr uint32_t MULTIPOLYGON_CODE = 6;

static constexpr size_t ROWS_PER_STEP = 128;
//! Points that are looked up at once, so that their memory accesses overlap
static constexpr size_t POINTS_AT_ONCE = 256;
static constexpr uint32_t LINE_BYTES = 64;
//! Of an item's runs
static constexpr uint32_t PREFETCHED_LINES = 7;
static constexpr size_t LOOKS_AHEAD = 12;

//! Cells for each box, and the most entries for each before the cells are made coarser
static constexpr double CELLS_PER_BOX = 8;
static constexpr double MAX_CELLS = 1 << 20;
static constexpr double ENTRIES_PER_BOX = 16;

//! What steps of a test cost, about
static constexpr uint64_t NANOSECONDS_PER_TEST = 40;
static constexpr uint64_t NANOSECONDS_PER_LOOK = 30;

namespace {

typedef int64_t Masks __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));
typedef int32_t FloatMasks __attribute__((vector_size(16)));

//! Floats above the values: not always the next, which would take branches that cannot be foretold
Floats Above(double a, double b, double c, double d) {
	constexpr float UNIT = FLT_EPSILON, LEAST = FLT_MIN, LOWEST = -FLT_MAX;
	Floats near {static_cast<float>(a), static_cast<float>(b), static_cast<float>(c), static_cast<float>(d)};
	near = near > LOWEST ? near : Floats {LOWEST, LOWEST, LOWEST, LOWEST};
	const Floats size = near > 0 ? near : -near;
	return near + (size * UNIT + LEAST);
}

} // namespace

struct AreaScan::Share {
	std::vector<Block> blocks;
	//! Lanes of the last block that are taken
	uint32_t taken = RUNS_AT_ONCE;
	std::vector<Ranges> groups;
	std::vector<Item> items;
	std::vector<Box> boxes;
	uint64_t vertices = 0;

	//! A lane of the last block, for the next run of the last item
	uint32_t AddRun();
	//! Ranges of many blocks, and addresses in place of numbers
	void Finish();

private:
	void AddBlock();
	void MoveLanes(uint32_t first);
	static Ranges NoRanges();
};

AreaScan::Ranges AreaScan::Share::NoRanges() {
	Ranges none;
	for (auto &column : none.least) {
		std::fill(std::begin(column), std::end(column), INFINITY);
	}
	return none;
}

void AreaScan::Share::AddBlock() {
	blocks.push_back(Block {NoRanges(), {}, {}, {}, {}});
	taken = 0;
}

inline uint32_t AreaScan::Share::AddRun() {
	auto &item = items.back();
	if (taken == RUNS_AT_ONCE) {
		// What began in a block of others moves on to its own
		const bool moves = item.block_count == 1 && item.lanes != ALL_LANES;
		AddBlock();
		if (moves) {
			MoveLanes(static_cast<uint32_t>(__builtin_ctz(item.lanes)));
			item.lanes = (1u << taken) - 1;
		}
		item.block_count = moves ? 1 : item.block_count + 1;
		item.first_block = static_cast<uint32_t>(blocks.size() - item.block_count);
	} else if (item.block_count == 0) {
		item.block_count = 1;
		item.first_block = static_cast<uint32_t>(blocks.size() - 1);
	}
	item.lanes |= 1u << taken;
	return taken++;
}

//! From the last block but one to the last
void AreaScan::Share::MoveLanes(uint32_t first) {
	Block &from = blocks[blocks.size() - 2], &to = blocks.back();
	for (uint32_t lane = first; lane < RUNS_AT_ONCE; lane++, taken++) {
		for (size_t i = 0; i < Ranges::COLUMNS; i++) {
			std::swap(from.ranges.least[i][lane], to.ranges.least[i][taken]);
		}
		to.place[taken] = from.place[lane];
		to.min_x[taken] = from.min_x[lane];
		to.first_y[taken] = from.first_y[lane];
		to.last_y[taken] = from.last_y[lane];
	}
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
uint32_t FourBits(FloatMasks masks) {
#ifdef __SSE2__
	return static_cast<uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(masks)));
#else
	const FloatMasks bits = masks & FloatMasks {1, 2, 4, 8};
	return static_cast<uint32_t>(bits[0] | bits[1] | bits[2] | bits[3]);
#endif
}

template <class T>
T Load(const void *from) {
	T value;
	std::memcpy(&value, from, sizeof(value));
	return value;
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
	bool odd; // one is not finite, or repeats the one before
};

//! Of eight runs, a bit for each
struct Crossing {
	uint32_t odd;
	uint32_t looks;
};

//! The numbers of the bits that are set, one byte each
struct BitNumbers {
	uint64_t of[256];

	constexpr BitNumbers() : of() {
		for (uint32_t mask = 0; mask < 256; mask++) {
			uint32_t count = 0;
			for (uint32_t bit = 0; bit < 8; bit++) {
				if (mask >> bit & 1) {
					of[mask] |= static_cast<uint64_t>(bit) << 8 * count++;
				}
			}
		}
	}
};
#ifdef __SSE2__
constexpr BitNumbers BIT_NUMBERS;
#endif

} // namespace

//! At least so many, and eight more; never fewer, as those beyond are not looked at
inline void AreaScan::Lookup::Pairs::Fit(size_t most) {
	if (things.size() < most + RUNS_AT_ONCE) {
		things.resize(2 * (most + RUNS_AT_ONCE));
		owners.resize(things.size());
	}
}

//! Registers of 16 bytes, as every machine has them
struct AreaScan::Narrow {
	//! Points whose cells are found at once, and those of them in cells that are used: how many
	static constexpr uint32_t POINTS = 1;
	static inline uint32_t UsedCells(const PointGrid &grid, const uint64_t *used, const double *x, const double *y,
	                                 uint32_t point, uint32_t *cells, uint32_t *points) {
		const size_t cell = grid.CellOf(Vec2 {x[point], y[point]});
		*cells = static_cast<uint32_t>(cell);
		*points = point;
		return used[cell / 64] >> cell % 64 & 1;
	}

	//! Numbers from `first` on; room for eight more than there are
	static inline void Count(uint32_t first, uint32_t count, uint32_t owner, uint32_t *things, uint32_t *owners) {
		for (uint32_t i = 0; i < count; i++) {
			things[i] = first + i;
			owners[i] = owner;
		}
	}
	//! Which of eight are not above `most`: a bit for each
	static inline uint32_t Meeting(const Ranges &ranges, const float *most) {
		FloatMasks low {-1, -1, -1, -1}, high = low;
		for (size_t i = 0; i < Ranges::COLUMNS; i++) {
			const Floats here {most[i], most[i], most[i], most[i]};
			low &= Load<Floats>(ranges.least[i]) <= here;
			high &= Load<Floats>(ranges.least[i] + 4) <= here;
		}
		return FourBits(low) | FourBits(high) << 4;
	}
	//! Of those that meet, the ones that are crossed an odd number of times, and the ones that have to be looked at: all edges
	//! of a run that is right of the point are crossed as often, but for twos, as a line from its first vertex to its last
	static inline Crossing CrossingOf(const Block &block, const float *most, float y, uint32_t lanes) {
		const uint32_t meeting = Meeting(block.ranges, most + 1) & lanes;
		Crossing result {0, meeting};
		for (uint32_t mask = meeting; mask != 0; mask &= mask - 1) {
			const auto lane = static_cast<uint32_t>(__builtin_ctz(mask));
			const float first = block.first_y[lane], last = block.last_y[lane];
			const bool sure = (block.min_x[lane] > most[0]) & (first != y) & (last != y);
			result.looks ^= static_cast<uint32_t>(sure) << lane;
			result.odd |= static_cast<uint32_t>(sure & ((first > y) != (last > y))) << lane;
		}
		return result;
	}
	//! Of eight things those that have a bit, and how many
	static inline uint32_t Pick(const uint32_t *from, uint32_t mask, uint32_t owner, uint32_t *things,
	                            uint32_t *owners) {
		uint32_t count = 0;
		for (; mask != 0; mask &= mask - 1) {
			things[count] = from[__builtin_ctz(mask)];
			owners[count++] = owner;
		}
		return count;
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
		Lanes before = LoadLanes(at), rest = before - before;
		Masks repeated {0, 0};
		LaneRange range;
		range.Add(before);
		for (uint32_t i = 1; i <= edges; i++) {
			const Lanes vertex = LoadLanes(at + i * VERTEX_BYTES);
			const Masks same = vertex == before;
			repeated |= same & __builtin_shufflevector(same, same, 1, 0);
			rest += vertex - vertex;
			range.Add(vertex);
			before = vertex;
		}
		// v - v is 0 for a finite v and NaN for all others
		return Vertices {range, repeated[0] != 0 || !(rest[0] + rest[1] == 0)};
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

//! Registers of 32 bytes
struct AreaScan::Wide {
	static constexpr uint32_t POINTS = 4;

	VIBESPATIAL_WIDE static inline __m128i Places(__m256d at, double first, double per, uint32_t last) {
		at = _mm256_mul_pd(_mm256_sub_pd(at, _mm256_set1_pd(first)), _mm256_set1_pd(per));
		at = _mm256_max_pd(at, _mm256_setzero_pd());
		at = _mm256_min_pd(at, _mm256_set1_pd(static_cast<int32_t>(last)));
		return _mm256_cvttpd_epi32(at);
	}
	VIBESPATIAL_WIDE static inline uint32_t UsedCells(const PointGrid &grid, const uint64_t *used, const double *x,
	                                                  const double *y, uint32_t point, uint32_t *cells,
	                                                  uint32_t *points) {
		const __m128i columns = Places(_mm256_loadu_pd(x + point), grid.min_x, grid.columns_per_x, grid.last_column);
		const __m128i rows = Places(_mm256_loadu_pd(y + point), grid.min_y, grid.rows_per_y, grid.last_row);
		const __m128i width = _mm_set1_epi32(static_cast<int32_t>(grid.last_column + 1));
		const __m128i all = _mm_add_epi32(_mm_mullo_epi32(rows, width), columns);
		const __m128i words = _mm_i32gather_epi32(reinterpret_cast<const int *>(used), _mm_srli_epi32(all, 5), 4);
		const __m128i bits = _mm_sllv_epi32(words, _mm_andnot_si128(all, _mm_set1_epi32(31)));
		const auto mask = static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(bits)));
		const __m128i order = _mm_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(BIT_NUMBERS.of[mask])));
		const __m128i kept = _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(all), order));
		_mm_storeu_si128(reinterpret_cast<__m128i *>(cells), kept);
		_mm_storeu_si128(reinterpret_cast<__m128i *>(points),
		                 _mm_add_epi32(order, _mm_set1_epi32(static_cast<int32_t>(point))));
		return static_cast<uint32_t>(__builtin_popcount(mask));
	}

	VIBESPATIAL_WIDE static inline uint32_t Bits(__m256 masks) {
		return static_cast<uint32_t>(_mm256_movemask_ps(masks));
	}
	VIBESPATIAL_WIDE static inline uint32_t Meeting(const Ranges &ranges, const float *most) {
		const __m256 a = _mm256_cmp_ps(_mm256_loadu_ps(ranges.least[0]), _mm256_set1_ps(most[0]), _CMP_LE_OQ);
		const __m256 b = _mm256_cmp_ps(_mm256_loadu_ps(ranges.least[1]), _mm256_set1_ps(most[1]), _CMP_LE_OQ);
		const __m256 c = _mm256_cmp_ps(_mm256_loadu_ps(ranges.least[2]), _mm256_set1_ps(most[2]), _CMP_LE_OQ);
		return Bits(_mm256_and_ps(a, _mm256_and_ps(b, c)));
	}
	VIBESPATIAL_WIDE static inline Crossing CrossingOf(const Block &block, const float *most, float y, uint32_t lanes) {
		const uint32_t meeting = Meeting(block.ranges, most + 1) & lanes;
		const __m256 here = _mm256_set1_ps(y);
		const __m256 first = _mm256_loadu_ps(block.first_y), last = _mm256_loadu_ps(block.last_y);
		const __m256 right = _mm256_cmp_ps(_mm256_loadu_ps(block.min_x), _mm256_set1_ps(most[0]), _CMP_GT_OQ);
		const __m256 apart =
		    _mm256_and_ps(_mm256_cmp_ps(first, here, _CMP_NEQ_OQ), _mm256_cmp_ps(last, here, _CMP_NEQ_OQ));
		const __m256 across =
		    _mm256_xor_ps(_mm256_cmp_ps(first, here, _CMP_GT_OQ), _mm256_cmp_ps(last, here, _CMP_GT_OQ));
		const uint32_t sure = meeting & Bits(_mm256_and_ps(right, apart));
		return Crossing {sure & Bits(across), meeting & ~sure};
	}
	VIBESPATIAL_WIDE static inline void Store(__m256i numbers, uint32_t *to) {
		_mm256_storeu_si256(reinterpret_cast<__m256i *>(to), numbers);
	}
	VIBESPATIAL_WIDE static inline void Count(uint32_t first, uint32_t count, uint32_t owner, uint32_t *things,
	                                          uint32_t *owners) {
		const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
		uint32_t i = 0;
		do { // most often once
			Store(_mm256_add_epi32(_mm256_set1_epi32(static_cast<int32_t>(first + i)), numbers), things + i);
			Store(_mm256_set1_epi32(static_cast<int32_t>(owner)), owners + i);
			i += 8;
		} while (i < count);
	}
	VIBESPATIAL_WIDE static inline uint32_t Pick(const uint32_t *from, uint32_t mask, uint32_t owner, uint32_t *things,
	                                             uint32_t *owners) {
		const __m256i order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(BIT_NUMBERS.of[mask])));
		const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
		Store(_mm256_permutevar8x32_epi32(all, order), things);
		Store(_mm256_set1_epi32(static_cast<int32_t>(owner)), owners);
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
		const auto last = Narrow::SidesOf(at + RUN_EDGES * VERTEX_BYTES, 1, p);
		return Sides {bits | last.bits << 2 * RUN_EDGES, last.same || _mm256_movemask_pd(same) != 0};
	}

	VIBESPATIAL_WIDE static inline Vertices ReadRun(const uint8_t *at) {
		auto coordinates = reinterpret_cast<const double *>(at);
		__m256d odd = _mm256_setzero_pd(), rest = odd;
		__m256d min = _mm256_loadu_pd(coordinates), max = min;
#pragma GCC unroll 4
		for (uint32_t i = 0; i < 2 * RUN_EDGES; i += 4) {
			const __m256d pair = _mm256_loadu_pd(coordinates + i), next = _mm256_loadu_pd(coordinates + i + 2);
			const __m256d same = _mm256_cmp_pd(pair, next, _CMP_EQ_OQ);
			odd = _mm256_or_pd(odd, _mm256_and_pd(same, _mm256_permute_pd(same, 5)));
			rest = _mm256_add_pd(rest, _mm256_sub_pd(next, next));
			min = _mm256_min_pd(next, min);
			max = _mm256_max_pd(next, max);
		}
		odd = _mm256_or_pd(odd, _mm256_cmp_pd(rest, _mm256_setzero_pd(), _CMP_NEQ_UQ));
		LaneRange range;
		range.min = _mm_min_pd(_mm256_castpd256_pd128(min), _mm256_extractf128_pd(min, 1));
		range.max = _mm_max_pd(_mm256_castpd256_pd128(max), _mm256_extractf128_pd(max, 1));
		return Vertices {range, _mm256_movemask_pd(odd) != 0};
	}
};
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
		if (!share.items.empty() && share.items.back().block_count > 1) {
			share.taken = RUNS_AT_ONCE;
		}
		share.items.push_back(Item {wkb, nullptr, nullptr, 0, 0, row, 0});
		share.boxes.push_back(Box::Empty());
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		share.vertices += count;
		plain = plain && count >= 4 && stride == VERTEX_BYTES && IsClosed(coords, count);
		if (!plain) {
			return;
		}
#ifdef __SSE2__
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
		bool odd = false;
		for (uint32_t first = 0; first + 1 < count; first += RUN_EDGES) {
			const uint32_t edges = std::min(RUN_EDGES, count - 1 - first);
			const uint8_t *at = coords + first * VERTEX_BYTES;
			const Vertices run = edges == RUN_EDGES ? LANES::ReadRun(at) : Narrow::Read(at, edges);
			whole.Add(run.range);
			odd |= run.odd;
			const Floats least = -Above(-run.range.min[1], run.range.max[0], run.range.max[1], -run.range.min[0]);
			const uint32_t lane = share.AddRun();
			auto &block = share.blocks.back();
			for (size_t i = 0; i < Ranges::COLUMNS; i++) {
				block.ranges.least[i][lane] = least[i];
			}
			block.place[lane] = Place::Of(static_cast<size_t>(at - wkb), edges);
			block.min_x[lane] = least[3];
			block.first_y[lane] = static_cast<float>(LoadLanes(at)[1]);
			block.last_y[lane] = static_cast<float>(LoadLanes(at + edges * VERTEX_BYTES)[1]);
		}
		share.boxes.back().Add(Box {whole.min[0], whole.min[1], whole.max[0], whole.max[1]});
		plain = !odd;
	}
#ifdef __SSE2__
	__attribute__((flatten)) VIBESPATIAL_WIDE void ReadWide(uint32_t count, const uint8_t *coords) {
		ReadRing<Wide>(count, coords);
	}
#endif
	static bool IsClosed(const uint8_t *coords, uint32_t count) {
		const Masks same = LoadLanes(coords) == LoadLanes(coords + (count - 1) * VERTEX_BYTES);
		return same[0] != 0 && same[1] != 0;
	}
};

void AreaScan::Share::Finish() {
	size_t group_count = 0;
	for (auto &item : items) {
		group_count += item.block_count > BLOCKS_TO_GROUP ? item.block_count / RUNS_AT_ONCE + 1 : 0;
	}
	groups.reserve(group_count);
	for (auto &item : items) {
		item.blocks = blocks.data() + item.first_block;
		if (item.block_count <= BLOCKS_TO_GROUP) {
			continue;
		}
		item.groups = groups.data() + groups.size();
		for (uint32_t block = 0; block < item.block_count; block++) {
			const uint32_t lane = block % RUNS_AT_ONCE;
			if (lane == 0) {
				groups.push_back(NoRanges());
			}
			for (size_t i = 0; i < Ranges::COLUMNS; i++) {
				const auto &least = item.blocks[block].ranges.least[i];
				groups.back().least[i][lane] = *std::min_element(least, least + RUNS_AT_ONCE);
			}
		}
	}
}

std::atomic<bool> AreaScan::only_narrow {false};

AreaScan::AreaScan() = default;
AreaScan::~AreaScan() = default;

std::unique_ptr<AreaScan> AreaScan::Build(const std::vector<JoinRow> &rows, Parallel &parallel) {
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
		share.Finish();
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
	return scan->SetGrid() ? std::move(scan) : nullptr;
}

//! Columns and rows are monotone in x and y, whatever the extent: a point in a box is in one of its cells
bool AreaScan::SetGrid() {
	const auto &boxes = polygons.boxes;
	Box all = Box::Empty();
	for (auto &box : boxes) {
		all.Add(box);
	}
	const double count = static_cast<double>(boxes.size());
	const double width = all.max_x - all.min_x, height = all.max_y - all.min_y;
	//! The cells of a box: as many columns and rows from the first ones; none for an EMPTY one
	struct Extent {
		uint32_t column, row, columns, rows;
	};
	UninitializedVector<Extent> extents(boxes.size());
	double cells = std::min(std::max(CELLS_PER_BOX * count, 1.0), MAX_CELLS);
	for (;; cells /= 4) {
		const double aspect = width / height;
		const double wanted = aspect > 0 && std::isfinite(aspect) ? std::sqrt(cells * aspect)
		                      : width > height                    ? cells
		                                                          : 1;
		const double columns = std::floor(std::min(std::max(wanted, 1.0), cells)), rows = std::floor(cells / columns);
		grid.min_x = all.min_x;
		grid.min_y = all.min_y;
		grid.last_column = static_cast<uint32_t>(columns) - 1;
		grid.last_row = static_cast<uint32_t>(rows) - 1;
		grid.columns_per_x = width > 0 ? columns / width : 0;
		grid.rows_per_y = height > 0 ? rows / height : 0;
		double total = 0;
		for (size_t i = 0; i < boxes.size(); i++) {
			const auto &box = boxes[i];
			const uint32_t column = grid.Column(box.min_x), row = grid.Row(box.min_y);
			extents[i] = box.IsEmpty()
			                 ? Extent {0, 0, 0, 0}
			                 : Extent {column, row, grid.Column(box.max_x) - column + 1, grid.Row(box.max_y) - row + 1};
			total += static_cast<double>(extents[i].columns) * extents[i].rows;
		}
		if (total <= ENTRIES_PER_BOX * count) {
			break;
		}
		if (cells < count / 4) {
			return false;
		}
	}
	const size_t columns = size_t(grid.last_column) + 1;
	cell_begin.assign(columns * (size_t(grid.last_row) + 1) + 1, 0);
	auto visit = [&](const Extent &extent, const auto &use) {
		for (uint32_t row = extent.row; row < extent.row + extent.rows; row++) {
			const size_t begin = row * columns + extent.column;
			for (size_t cell = begin; cell < begin + extent.columns; cell++) {
				use(cell);
			}
		}
	};
	for (auto &extent : extents) {
		visit(extent, [&](size_t cell) { cell_begin[cell + 1]++; });
	}
	for (size_t i = 1; i < cell_begin.size(); i++) {
		cell_begin[i] += cell_begin[i - 1];
	}
	entries.resize(cell_begin.back());
	// From the last to the first, so that each cell has its items in order
	for (size_t i = boxes.size(); i-- > 0;) {
		const auto box = vibe::NodeBox::Of(boxes[i]);
		const Entry entry {{box.min_x, box.min_y, -box.max_x, -box.max_y}, static_cast<uint32_t>(i)};
		visit(extents[i], [&](size_t cell) { entries[--cell_begin[cell + 1]] = entry; });
	}
	// What was counted down to the beginning of each cell is one place too far
	cell_begin.erase(cell_begin.begin());
	cell_begin.push_back(static_cast<uint32_t>(entries.size()));
	used_cells.assign(cell_begin.size() / 64 + 1, 0);
	for (size_t cell = 0; cell + 1 < cell_begin.size(); cell++) {
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
	uint32_t cells[POINTS_AT_ONCE + LANES::POINTS];
	uint32_t points[POINTS_AT_ONCE + LANES::POINTS];
	size_t count = 0;
	uint32_t point = begin;
	for (; point + LANES::POINTS <= end; point += LANES::POINTS) {
		count += LANES::UsedCells(grid, used_cells.data(), x, y, point, cells + count, points + count);
	}
	for (; point < end; point++) {
		count += Narrow::UsedCells(grid, used_cells.data(), x, y, point, cells + count, points + count);
	}
	for (size_t k = 0; k < count; k++) {
		__builtin_prefetch(&cell_begin[cells[k]]);
	}
	// Lists instead of loops in loops: how long those are cannot be foretold
	Floats here[POINTS_AT_ONCE];
	size_t most = 0;
	for (size_t k = 0; k < count; k++) {
		const Vec2 p {x[points[k]], y[points[k]]};
		here[k] = Above(p.x, p.y, -p.x, -p.y);
		__builtin_prefetch(&entries[cell_begin[cells[k]]]);
		most += cell_begin[cells[k] + 1] - cell_begin[cells[k]];
	}
	auto &boxes = lookup.boxes;
	boxes.Fit(most);
	uint32_t *const numbers = boxes.things.data(), *const owners = boxes.owners.data();
	const uint32_t *const begins = cell_begin.data();
	size_t total = 0;
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t first = begins[cells[k]], some = begins[cells[k] + 1] - first;
		LANES::Count(first, some, k, numbers + total, owners + total);
		total += some;
	}
	if (lookup.candidates.size() <= most) {
		lookup.candidates.resize(2 * most + 1);
	}
	Candidate *next = lookup.candidates.data();
	const Entry *const all = entries.data();
	const Item *const first_item = items.data();
	for (size_t k = 0; k < total; k++) {
		const Entry &entry = all[numbers[k]];
		const Floats at = here[owners[k]];
		next->item = first_item + entry.item;
		next->point = points[owners[k]];
		next->odd = next->on = false;
		std::memcpy(next->most, &at, sizeof(at));
		next += FourBits(Load<Floats>(entry.least) <= at) == 15;
	}
	lookup.candidate_count = static_cast<size_t>(next - lookup.candidates.data());
	for (auto candidate = lookup.candidates.data(); candidate < next; candidate++) {
		__builtin_prefetch(candidate->item);
	}
}

//! The runs that candidates compare: all, or those of the groups that a ray can meet
template <class LANES>
inline __attribute__((always_inline)) void AreaScan::FindRuns(Lookup &lookup) {
	auto &runs = lookup.runs;
	size_t most = 0;
	for (size_t number = 0; number < lookup.candidate_count; number++) {
		const Item &item = *lookup.candidates[number].item;
		auto at = item.groups ? reinterpret_cast<const uint8_t *>(item.groups)
		                      : reinterpret_cast<const uint8_t *>(item.blocks);
		for (uint32_t line = 0; line < PREFETCHED_LINES; line++) {
			__builtin_prefetch(at + line * LINE_BYTES);
		}
		most += item.block_count;
	}
	runs.Fit(most);
	lookup.looks.Fit(most * RUNS_AT_ONCE);
	uint32_t *const things = runs.things.data(), *const owners = runs.owners.data();
	size_t count = 0;
	for (uint32_t number = 0; number < lookup.candidate_count; number++) {
		const auto &candidate = lookup.candidates[number];
		const Item &item = *candidate.item;
		if (!item.groups) {
			LANES::Count(0, item.block_count, number, things + count, owners + count);
			count += item.block_count;
			continue;
		}
		for (uint32_t first = 0; first < item.block_count; first += RUNS_AT_ONCE) {
			uint32_t numbers[RUNS_AT_ONCE];
			std::iota(numbers, numbers + RUNS_AT_ONCE, first);
			const uint32_t mask = LANES::Meeting(item.groups[first / RUNS_AT_ONCE], candidate.most + 1);
			count += LANES::Pick(numbers, mask, number, things + count, owners + count);
		}
	}
	runs.count = count;
}

template <class LANES>
inline __attribute__((always_inline)) void AreaScan::FindLooks(Lookup &lookup, const double *y) {
	const auto &runs = lookup.runs;
	Candidate *const candidates = lookup.candidates.data();
	uint32_t *const things = lookup.looks.things.data(), *const owners = lookup.looks.owners.data();
	size_t count = 0;
	for (size_t i = 0; i < runs.count; i++) {
		const uint32_t number = runs.owners[i];
		auto &candidate = candidates[number];
		const Item &item = *candidate.item;
		const Block &block = item.blocks[runs.things[i]];
		const auto crossing =
		    LANES::CrossingOf(block, candidate.most, static_cast<float>(y[candidate.point]), item.lanes);
		candidate.odd ^= static_cast<bool>(__builtin_parity(crossing.odd));
		count += LANES::Pick(block.place, crossing.looks, number, things + count, owners + count);
	}
	lookup.looks.count = count;
}

template <class LANES>
inline __attribute__((always_inline)) void AreaScan::LookAt(Lookup &lookup, const double *x, const double *y) {
	const auto &looks = lookup.looks;
	auto edges_of = [&](size_t i) {
		return lookup.candidates[looks.owners[i]].item->wkb + Place::Begin(looks.things[i]);
	};
	auto prefetch = [&](size_t i) {
		const uint8_t *edges = edges_of(i);
		for (uint32_t line = 0; line <= RUN_EDGES * VERTEX_BYTES; line += LINE_BYTES) {
			__builtin_prefetch(edges + line);
		}
	};
	for (size_t i = 0; i < std::min(looks.count, LOOKS_AHEAD); i++) {
		prefetch(i);
	}
	constexpr uint64_t RIGHT = 0x5555555555555555ULL;
	lookup.open.resize(std::max(lookup.open.size(), looks.count + 1));
	Open *next = lookup.open.data();
	for (size_t i = 0; i < looks.count; i++) {
		prefetch(std::min(i + LOOKS_AHEAD, looks.count - 1));
		const uint8_t *edges = edges_of(i);
		const uint32_t count = Place::Count(looks.things[i]);
		auto &candidate = lookup.candidates[looks.owners[i]];
		const Vec2 p {x[candidate.point], y[candidate.point]};
		const Sides sides = count == RUN_EDGES ? LANES::SidesOfRun(edges, p) : Narrow::SidesOf(edges, count + 1, p);
		// Of the edges that pass the point's y, those right of it are crossed and those left of it are not. The others, and
		// all where a vertex is level with the point, are seldom
		const uint64_t all = RIGHT & ((1ULL << 2 * count) - 1);
		const uint64_t passing = (sides.bits ^ sides.bits >> 2) >> 1 & all;
		const uint64_t crossed = passing & sides.bits & sides.bits >> 2;
		const uint64_t open = passing & ~crossed & (sides.bits | sides.bits >> 2);
		candidate.odd ^= !sides.same & static_cast<bool>(__builtin_parityll(crossed));
		next->edges = edges;
		next->candidate = looks.owners[i];
		next->bits = static_cast<uint32_t>(sides.same ? all : open);
		next += next->bits != 0;
	}
	for (const Open *open = lookup.open.data(); open < next; open++) {
		auto &candidate = lookup.candidates[open->candidate];
		vibe::RayCounter counter {Vec2 {x[candidate.point], y[candidate.point]}, candidate.odd, candidate.on};
		for (uint32_t bits = open->bits; bits != 0 && !counter.on; bits &= bits - 1) {
			const uint8_t *edge = open->edges + static_cast<uint32_t>(__builtin_ctz(bits)) / 2 * VERTEX_BYTES;
			const Lanes a = LoadLanes(edge), b = LoadLanes(edge + VERTEX_BYTES);
			counter.Add(Vec2 {a[0], a[1]}, Vec2 {b[0], b[1]});
		}
		candidate.odd = counter.odd;
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
		next += candidate.on | candidate.odd;
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
		FindRuns<LANES>(lookup);
		FindLooks<LANES>(lookup, y);
		LookAt<LANES>(lookup, x, y);
		Find(lookup, found);
		lookup.tests += lookup.candidate_count;
		lookup.nanoseconds += NANOSECONDS_PER_TEST * lookup.candidate_count + NANOSECONDS_PER_LOOK * lookup.looks.count;
	}
}

#ifdef __SSE2__
__attribute__((flatten)) VIBESPATIAL_WIDE void AreaScan::LocateWide(const double *x, const double *y, size_t count,
                                                                    FoundRows &found, Lookup &lookup) const {
	LocateAll<Wide>(x, y, count, found, lookup);
}
#endif

void AreaScan::Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const {
#ifdef __SSE2__
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
	               entries.capacity() * sizeof(Entry) + used_cells.capacity() * sizeof(uint64_t) +
	               shares.capacity() * sizeof(Share);
	for (auto &share : shares) {
		bytes += share.blocks.capacity() * sizeof(Block) + share.groups.capacity() * sizeof(Ranges);
	}
	return bytes;
}

} // namespace vibespatial
