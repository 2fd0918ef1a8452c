#include "engine/index/polygon_scan.hpp"

#include "engine/index/polygon_scan_simd.hpp"

#include <algorithm>

// The steps of a look-up are inlined into LocateWide(), where they are compiled for the wide registers
#define VIBESPATIAL_INLINE inline __attribute__((always_inline))

namespace vibespatial {

using namespace polygon_scan_simd;
using namespace polygon_scan_tuning;

static constexpr uint32_t LINE_BYTES = 64;
static constexpr Shorts LANE_BITS {1, 2, 4, 8, 16, 32, 64, 128};

PolygonScan::PolygonScan() = default;
PolygonScan::~PolygonScan() = default;

template <class KERNELS>
VIBESPATIAL_INLINE void PolygonScan::FindBoxHits(Lookup &lookup, const double *x, const double *y, uint32_t begin,
                                                 uint32_t end) const {
	FoundCells found;
	const ScanGrid scan_grid {grid, columns, used_cells.data()};
	size_t count = 0;
	uint32_t point = begin;
	for (; point + KERNELS::POINTS <= end; point += KERNELS::POINTS) {
		count += KERNELS::FindCells(scan_grid, x, y, point, found, count);
	}
	for (; point < end; point++) {
		count += PortableKernels::FindCells(scan_grid, x, y, point, found, count);
	}
	const uint32_t *const begins = cell_begin.data();
	const Entries *const all = entries.data();
	for (size_t k = 0; k < count; k++) {
		__builtin_prefetch(&begins[found.cells[k]]);
	}
	size_t most = 0;
	for (size_t k = 0; k < count; k++) {
		const uint32_t first = begins[found.cells[k]], last = begins[found.cells[k] + 1];
		__builtin_prefetch(&all[first]);
		most += last - first;
	}
	if (lookup.box_hits.size() <= most * ITEMS_AT_ONCE) {
		lookup.box_hits.resize(2 * most * ITEMS_AT_ONCE + 1);
	}
	auto next = lookup.box_hits.data();
	for (size_t k = 0; k < count; k++) {
		const uint32_t number = found.points[k];
		const auto here = reinterpret_cast<Bytes>(All(static_cast<int16_t>(found.steps[k])));
		const Entries *some = all + begins[found.cells[k]], *const end = all + begins[found.cells[k] + 1];
		do {
			const auto inside = (Load<Bytes>(some->least) <= here) & (Load<Bytes>(some->most) >= here);
			auto add = [&](uint64_t bits) __attribute__((always_inline)) {
				const uint32_t item = some->items[LowestLane(bits)];
				*next = Lookup::BoxHit {item, number};
				__builtin_prefetch(&items[item]);
				next += bits != 0;
				return bits & (bits - 1);
			};
			// Most points have one or two, which branch prediction cannot tell: two are written without a branch
			uint64_t rest = add(add(NativeMasks::LaneBits(reinterpret_cast<Shorts>(inside) == All(-1))));
			while (rest != 0) {
				rest = add(rest);
			}
		} while (++some != end);
	}
	lookup.candidate_count = static_cast<size_t>(next - lookup.box_hits.data());
}

VIBESPATIAL_INLINE void PolygonScan::SetCandidates(Lookup &lookup, const double *x, const double *y) const {
	if (lookup.candidates.size() < lookup.candidate_count) {
		lookup.candidates.resize(2 * lookup.candidate_count);
	}
	Candidate *const candidates = lookup.candidates.data();
	const auto *const box_hits = lookup.box_hits.data();
	const Item *const first_item = items.data();
	const size_t count = lookup.candidate_count;
	for (size_t number = 0; number < count; number++) {
		const uint32_t point = box_hits[number].point;
		const Item &item = first_item[box_hits[number].item];
		const auto at = Steps {Load<Lanes>(item.least), Load<Lanes>(item.steps)}.Of(Lanes {x[point], y[point]});
		candidates[number] = Candidate {&item, point, 0, false, at.of[0], at.of[1]};
		auto first = item.groups ? reinterpret_cast<const uint8_t *>(item.groups)
		                         : reinterpret_cast<const uint8_t *>(item.blocks);
		for (uint32_t line = 0; line < PREFETCHED_LINES; line++) {
			__builtin_prefetch(first + line * LINE_BYTES);
		}
	}
}

//! Makes room for the runs and blocks of the candidates from `first` on that are compared together, and returns their end. Points in huge
//! polygons have room for few, as all runs of a polygon may have to be tested.
VIBESPATIAL_INLINE size_t PolygonScan::TakeCandidates(Lookup &lookup, size_t first) {
	const Candidate *const candidates = lookup.candidates.data();
	size_t end = first, blocks = 0;
	do {
		blocks += candidates[end++].item->block_count;
	} while (end < lookup.candidate_count && blocks < BLOCKS_AT_ONCE);
	if (lookup.runs.size() <= blocks * RUNS_AT_ONCE) {
		lookup.runs.resize(2 * blocks * RUNS_AT_ONCE + 1);
	}
	if (lookup.blocks.size() < blocks) {
		lookup.blocks.resize(2 * blocks);
	}
	lookup.nanoseconds += NANOSECONDS_PER_RANGES * blocks / RUNS_AT_ONCE;
	return end;
}

//! Compares the candidates with the ranges of runs. Where all of a run is right of the point, the parity of its crossings is
//! that of a line from its first vertex to its last. The edges of the other runs that the ray can meet have to be tested.
VIBESPATIAL_INLINE void PolygonScan::CompareRanges(Lookup &lookup, size_t first_candidate, size_t end_candidate) {
	auto next = lookup.runs.data();
	Candidate *const candidates = lookup.candidates.data();
	auto compare = [&](const Block &block, Shorts x, Shorts y, Shorts own, uint32_t number)
	    __attribute__((always_inline)) {
		const Shorts first = Load<Shorts>(block.first_y), last = Load<Shorts>(block.last_y);
		const Shorts can_meet = CanMeetRay(block.ranges, x, y) & own;
		const Shorts decided = (Load<Shorts>(block.ranges.min_x) > x) & (first != y) & (last != y);
		auto add = [&](uint64_t bits) __attribute__((always_inline)) {
			*next = Lookup::RunTest {block.place[LowestLane(bits)], number};
			next += bits != 0;
			return bits & (bits - 1);
		};
		// Most blocks have none or one, which branch prediction cannot tell: one is written without a branch
		uint64_t rest = add(NativeMasks::LaneBits(can_meet & ~decided));
		while (rest != 0) {
			rest = add(rest);
		}
		return can_meet & decided & ((first > y) ^ (last > y));
	};
	auto next_block = lookup.blocks.data();
	for (auto number = static_cast<uint32_t>(first_candidate); number < end_candidate; number++) {
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
		// The blocks of groups are prefetched while other candidates are compared
		for (uint32_t first = 0; item.groups && first < item.block_count; first += RUNS_AT_ONCE) {
			uint64_t bits = NativeMasks::LaneBits(CanMeetRay(item.groups[first / RUNS_AT_ONCE], x, y));
			for (; bits != 0; bits &= bits - 1) {
				const Block *block = item.blocks + first + LowestLane(bits);
				*next_block++ = Lookup::BlockTest {block, number};
				for (uint32_t line = 0; line < sizeof(Block); line += LINE_BYTES) {
					__builtin_prefetch(reinterpret_cast<const uint8_t *>(block) + line);
				}
			}
		}
		candidate.crossings = NativeMasks::Parity(crossed);
	}
	for (auto test = lookup.blocks.data(); test < next_block; test++) {
		auto &candidate = candidates[test->candidate];
		const Shorts crossed = compare(*test->block, All(candidate.x), All(candidate.y), All(-1), test->candidate);
		candidate.crossings ^= NativeMasks::Parity(crossed);
	}
	lookup.run_count = static_cast<size_t>(next - lookup.runs.data());
	for (auto run = lookup.runs.data(); run < next; run++) {
		const uint8_t *edges = candidates[run->candidate].item->wkb + Place::Begin(run->place);
		for (uint32_t line = 0; line <= RUN_EDGES * VERTEX_BYTES; line += LINE_BYTES) {
			__builtin_prefetch(edges + line);
		}
	}
}

template <class KERNELS>
VIBESPATIAL_INLINE void PolygonScan::TestRuns(Lookup &lookup, const double *x, const double *y) {
	const auto *const runs = lookup.runs.data();
	const size_t run_count = lookup.run_count;
	Candidate *const candidates = lookup.candidates.data();
	//! The bits of Sides that tell what is right of the point
	constexpr uint64_t RIGHT = 0x5555555555555555ULL;
	lookup.open.resize(std::max(lookup.open.size(), run_count + 1));
	OpenEdges *next = lookup.open.data();
	for (size_t i = 0; i < run_count; i++) {
		auto &candidate = candidates[runs[i].candidate];
		const uint8_t *edges = candidate.item->wkb + Place::Begin(runs[i].place);
		const uint32_t count = Place::Count(runs[i].place);
		const Vec2 p {x[candidate.point], y[candidate.point]};
		const Sides sides =
		    count == RUN_EDGES ? KERNELS::SidesOfRun(edges, p) : PortableKernels::SidesOf(edges, count + 1, p);
		// Of the edges that pass the y of the point, those right of it are crossed and those left of it are not. The others, and
		// all edges where a vertex has the x or y of the point, are rare and tested exactly.
		const uint64_t all = RIGHT & ((1ULL << 2 * count) - 1);
		const uint64_t passing = (sides.bits ^ sides.bits >> 2) >> 1 & all;
		const uint64_t crossed = passing & sides.bits & sides.bits >> 2;
		const uint64_t open = passing & ~crossed & (sides.bits | sides.bits >> 2);
		candidate.crossings ^= static_cast<uint16_t>(sides.same ? 0 : crossed);
		next->edges = edges;
		next->candidate = runs[i].candidate;
		next->bits = static_cast<uint32_t>(sides.same ? all : open);
		next += next->bits != 0;
	}
	for (const OpenEdges *open = lookup.open.data(); open < next; open++) {
		auto &candidate = lookup.candidates[open->candidate];
		vibe::RayCounter counter {Vec2 {x[candidate.point], y[candidate.point]},
		                          static_cast<bool>(__builtin_parity(candidate.crossings)), candidate.on_boundary};
		for (uint32_t bits = open->bits; bits != 0 && !counter.on; bits &= bits - 1) {
			const uint8_t *edge = open->edges + static_cast<uint32_t>(__builtin_ctz(bits)) / 2 * VERTEX_BYTES;
			const Lanes a = LoadLanes(edge), b = LoadLanes(edge + VERTEX_BYTES);
			counter.Add(Vec2 {a[0], a[1]}, Vec2 {b[0], b[1]});
		}
		candidate.crossings = counter.odd;
		candidate.on_boundary = counter.on;
	}
}

//! Makes one answer of the polygons of a row that contain the same point: the crossings of all their edges count together
size_t PolygonScan::MergeMembers(Found *found, size_t count) {
	size_t kept = 0;
	for (size_t i = 0; i < count;) {
		auto all = found[i];
		bool on_boundary = false, odd = false;
		for (; i < count && found[i].point == all.point && found[i].row == all.row; i++) {
			on_boundary |= found[i].location == vibe::LOC_BOUNDARY;
			odd ^= found[i].location == vibe::LOC_INTERIOR;
		}
		all.location = on_boundary ? vibe::LOC_BOUNDARY : vibe::LOC_INTERIOR;
		found[kept] = all;
		kept += on_boundary | odd;
	}
	return kept;
}

void PolygonScan::AddFound(const Lookup &lookup, FoundRows &found) {
	const size_t before = found.size();
	found.resize(before + lookup.candidate_count);
	Found *const begin = found.data() + before, *next = begin;
	for (size_t i = 0; i < lookup.candidate_count; i++) {
		auto &candidate = lookup.candidates[i];
		next->point = candidate.point;
		next->row = candidate.item->row;
		next->location = candidate.on_boundary ? vibe::LOC_BOUNDARY : vibe::LOC_INTERIOR;
		next += candidate.on_boundary | __builtin_parity(candidate.crossings);
	}
	auto count = static_cast<size_t>(next - begin);
	bool members = false;
	for (size_t i = 1; i < count; i++) {
		members |= (begin[i].point == begin[i - 1].point) & (begin[i].row == begin[i - 1].row);
	}
	if (members) {
		count = MergeMembers(begin, count);
	}
	found.resize(before + count);
}

template <class KERNELS>
VIBESPATIAL_INLINE void PolygonScan::LocateAll(const double *x, const double *y, size_t count, FoundRows &found,
                                               Lookup &lookup) const {
	found.clear();
	for (size_t begin = 0; begin < count; begin += POINTS_AT_ONCE) {
		FindBoxHits<KERNELS>(lookup, x, y, static_cast<uint32_t>(begin),
		                     static_cast<uint32_t>(std::min(count, begin + POINTS_AT_ONCE)));
		SetCandidates(lookup, x, y);
		for (size_t first = 0, end; first < lookup.candidate_count; first = end) {
			end = TakeCandidates(lookup, first);
			CompareRanges(lookup, first, end);
			TestRuns<KERNELS>(lookup, x, y);
			lookup.nanoseconds += NANOSECONDS_PER_RUN * lookup.run_count;
		}
		AddFound(lookup, found);
		lookup.tests += lookup.candidate_count;
		lookup.nanoseconds += NANOSECONDS_PER_TEST * lookup.candidate_count;
	}
}

#ifndef VIBESPATIAL_NO_WIDE
__attribute__((flatten)) VIBESPATIAL_WIDE void PolygonScan::LocateWide(const double *x, const double *y, size_t count,
                                                                       FoundRows &found, Lookup &lookup) const {
	LocateAll<WideKernels>(x, y, count, found, lookup);
}
#endif

void PolygonScan::Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const {
#ifndef VIBESPATIAL_NO_WIDE
	if (HasWide()) {
		LocateWide(x, y, count, found, lookup);
		return;
	}
#endif
	LocateAll<PortableKernels>(x, y, count, found, lookup);
}

size_t PolygonScan::MemoryUsage() const {
	size_t bytes = items.capacity() * sizeof(Item) + polygons.rows.capacity() * sizeof(uint32_t) +
	               polygons.boxes.capacity() * sizeof(vibe::Box) + cell_begin.capacity() * sizeof(uint32_t) +
	               entries.capacity() * sizeof(Entries) + used_cells.capacity() * sizeof(uint64_t) +
	               storage.capacity() * sizeof(Storage);
	for (auto &some : storage) {
		bytes += some.blocks.capacity() * sizeof(Block) + some.groups.capacity() * sizeof(Ranges);
	}
	return bytes;
}

} // namespace vibespatial
