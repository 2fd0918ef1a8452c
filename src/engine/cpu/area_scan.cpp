#include "engine/cpu/area_scan.hpp"

#include "engine/cpu/join.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/box_node.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace vibespatial {

using vibe::Box;
using vibe::Vec2;

//! Edges of a run, and runs under one range where an item has many
static constexpr uint32_t RUN_EDGES = 16;
static constexpr uint32_t RUNS_PER_GROUP = 16;
static constexpr uint32_t RUNS_TO_GROUP = 4 * RUNS_PER_GROUP;
static constexpr size_t VERTEX_BYTES = 2 * sizeof(double);
static constexpr size_t HEADER_BYTES = 1 + sizeof(uint32_t);
static constexpr uint32_t POLYGON_CODE = 3;
static constexpr uint32_t MULTIPOLYGON_CODE = 6;

static constexpr size_t ROWS_PER_STEP = 128;
//! Points that are looked up at once, so that their memory accesses overlap
static constexpr size_t POINTS_AT_ONCE = 256;
static constexpr uint32_t LINE_BYTES = 64;
//! Of an item's ranges
static constexpr uint32_t PREFETCHED_LINES = 4;
static constexpr size_t LOOKS_AHEAD = 8;

//! Cells for each box, and the most entries for each before the cells are made coarser
static constexpr double CELLS_PER_BOX = 8;
static constexpr double MAX_CELLS = 1 << 20;
static constexpr double ENTRIES_PER_BOX = 16;

//! What steps of a test cost, about
static constexpr uint64_t NANOSECONDS_PER_TEST = 40;
static constexpr uint64_t NANOSECONDS_PER_LOOK = 30;

static_assert(RUN_EDGES <= 16 && RUNS_PER_GROUP <= 16, "four bits for their numbers");
static uint32_t Place(size_t begin, uint32_t count) {
	return static_cast<uint32_t>(begin) << 4 | (count - 1);
}

//! A float above the value: not always the next, which would take a branch that cannot be foretold
static float Above(double value) {
	const auto near = static_cast<float>(value);
	return std::fabs(near) <= FLT_MAX ? vibe::box_node_detail::Next(near, 1) : near;
}

struct AreaScan::Share {
	std::vector<Range> runs;
	std::vector<Range> groups;
	std::vector<Item> items;
	std::vector<Box> boxes;
	uint64_t vertices = 0;
};

namespace {

typedef int64_t Masks __attribute__((vector_size(16)));

} // namespace

//! For VisitWkb
struct AreaScan::Reader {
	Share &share;
	const uint8_t *wkb = nullptr;
	uint32_t row = 0;
	bool plain = true;
	//! Where the items and runs of the row begin
	size_t first_item = 0;
	size_t first_run = 0;

	void Row(const uint8_t *data, uint32_t size, uint32_t number) {
		wkb = data;
		row = number;
		first_item = share.items.size();
		const uint32_t code = size < HEADER_BYTES ? 0 : vibe::LoadCount(data + 1);
		plain = (code == POLYGON_CODE || code == MULTIPOLYGON_CODE) && size < Range::MAX_BEGIN;
	}
	void Part(vibe::Family) {
		End();
		first_run = share.runs.size();
		share.items.push_back(Item {wkb, nullptr, nullptr, 0, row});
		share.boxes.push_back(Box::Empty());
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		share.vertices += count;
		plain = plain && count >= 4 && stride == VERTEX_BYTES && IsClosed(coords, count);
		if (!plain) {
			return;
		}
		Lanes before = LoadLanes(coords), rest = before - before;
		Masks repeated {0, 0};
		LaneRange whole;
		for (uint32_t first = 0; first + 1 < count; first += RUN_EDGES) {
			const uint32_t edges = std::min(RUN_EDGES, count - 1 - first);
			const uint8_t *at = coords + first * VERTEX_BYTES;
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
			whole.Add(range);
			share.runs.push_back(
			    Range {{-Above(-range.min[1]), -Above(range.max[1]), -Above(range.max[0])}, Place(at - wkb, edges)});
		}
		share.boxes.back().Add(Box {whole.min[0], whole.min[1], whole.max[0], whole.max[1]});
		// v - v is 0 for a finite v and NaN for all others
		plain = repeated[0] == 0 && rest[0] + rest[1] == 0;
	}
	//! The item was read, or the whole row
	void End() {
		if (share.items.size() > first_item) {
			share.items.back().range_count = static_cast<uint32_t>(share.runs.size() - first_run);
		}
	}

private:
	static bool IsClosed(const uint8_t *coords, uint32_t count) {
		const Masks same = LoadLanes(coords) == LoadLanes(coords + (count - 1) * VERTEX_BYTES);
		return same[0] != 0 && same[1] != 0;
	}
};

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
		share.runs.reserve(bytes / (RUN_EDGES * VERTEX_BYTES) + 2 * (end - step * ROWS_PER_STEP));
		for (size_t i = step * ROWS_PER_STEP; i < end && plain; i++) {
			if (!rows[i].data) {
				continue;
			}
			reader.Row(rows[i].data, rows[i].size, static_cast<uint32_t>(i));
			if (reader.plain) {
				VisitWkb(rows[i].data, rows[i].size, reader);
				reader.End();
			}
			if (!reader.plain) {
				plain = false;
			}
		}
		// Ranges of many runs, and addresses in place of numbers
		size_t run = 0;
		for (auto &item : share.items) {
			item.ranges = share.runs.data() + run;
			run += item.range_count;
		}
		size_t groups = 0;
		for (auto &item : share.items) {
			groups += item.range_count > RUNS_TO_GROUP ? item.range_count / RUNS_PER_GROUP + 1 : 0;
		}
		share.groups.reserve(groups);
		for (auto &item : share.items) {
			if (item.range_count <= RUNS_TO_GROUP) {
				continue;
			}
			const Range *first = share.groups.data() + share.groups.size();
			for (uint32_t begin = 0; begin < item.range_count; begin += RUNS_PER_GROUP) {
				Range group = item.ranges[begin];
				group.place = Place(begin, std::min(RUNS_PER_GROUP, item.range_count - begin));
				for (uint32_t i = begin + 1; i < begin + group.Count(); i++) {
					for (int k = 0; k < 3; k++) {
						group.least[k] = std::min(group.least[k], item.ranges[i].least[k]);
					}
				}
				share.groups.push_back(group);
			}
			item.runs = item.ranges;
			item.ranges = first;
			item.range_count = static_cast<uint32_t>(share.groups.data() + share.groups.size() - first);
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
	auto columns_of = [&](const Box &box) { return grid.Column(box.max_x) - grid.Column(box.min_x) + 1; };
	auto rows_of = [&](const Box &box) { return grid.Row(box.max_y) - grid.Row(box.min_y) + 1; };
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
		for (auto &box : boxes) {
			total += box.IsEmpty() ? 0 : static_cast<double>(columns_of(box)) * rows_of(box);
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
	auto visit = [&](const Box &box, const auto &use) {
		if (box.IsEmpty()) {
			return;
		}
		const uint32_t first = grid.Column(box.min_x), last_row = grid.Row(box.max_y);
		for (uint32_t row = grid.Row(box.min_y); row <= last_row; row++) {
			const size_t begin = row * columns + first;
			for (size_t cell = begin; cell < begin + columns_of(box); cell++) {
				use(cell);
			}
		}
	};
	for (auto &box : boxes) {
		visit(box, [&](size_t cell) { cell_begin[cell + 1]++; });
	}
	for (size_t i = 1; i < cell_begin.size(); i++) {
		cell_begin[i] += cell_begin[i - 1];
	}
	entries.resize(cell_begin.back());
	// From the last to the first, so that each cell has its items in order
	for (size_t i = boxes.size(); i-- > 0;) {
		const auto box = vibe::NodeBox::Of(boxes[i]);
		const Entry entry {{box.min_x, box.min_y, -box.max_x, -box.max_y}, static_cast<uint32_t>(i)};
		visit(boxes[i], [&](size_t cell) { entries[--cell_begin[cell + 1]] = entry; });
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
namespace {

typedef int32_t FloatMasks __attribute__((vector_size(16)));

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

//! At least so many; never fewer, as those beyond are not looked at
template <class T>
void Fit(UninitializedVector<T> &list, size_t count) {
	if (list.size() < count) {
		list.resize(2 * count);
	}
}

//! Where consecutive vertices are, seen from a point: bit 2i tells whether vertex i is right of it, bit 2i + 1 whether it is
//! above it
struct Sides {
	uint64_t bits;
	bool same; // a vertex has the point's x or y
};

struct TwoLanes {
	static inline Sides Of(const uint8_t *at, uint32_t count, const Vec2 &p) {
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
};

#ifdef __SSE2__
//! Two vertices at once
struct FourLanes {
	__attribute__((target("avx2"))) static inline Sides Of(const uint8_t *at, uint32_t count, const Vec2 &p) {
		const __m256d here = _mm256_setr_pd(p.x, p.y, p.x, p.y);
		uint64_t bits = 0;
		__m256d same = _mm256_setzero_pd();
		uint32_t i = 0;
		for (; i + 1 < count; i += 2) {
			const __m256d pair = _mm256_loadu_pd(reinterpret_cast<const double *>(at + i * VERTEX_BYTES));
			const int above = _mm256_movemask_pd(_mm256_cmp_pd(pair, here, _CMP_GT_OQ));
			bits |= static_cast<uint64_t>(static_cast<uint32_t>(above)) << 2 * i;
			same = _mm256_or_pd(same, _mm256_cmp_pd(pair, here, _CMP_EQ_OQ));
		}
		const auto last = i < count ? TwoLanes::Of(at + i * VERTEX_BYTES, 1, p) : Sides {0, false};
		return Sides {bits | last.bits << 2 * i, last.same || _mm256_movemask_pd(same) != 0};
	}
};
#endif

} // namespace

void AreaScan::FindCandidates(Lookup &lookup, const double *x, const double *y, uint32_t begin, uint32_t end) const {
	uint32_t cells[POINTS_AT_ONCE];
	uint32_t points[POINTS_AT_ONCE];
	size_t count = 0;
	for (uint32_t i = begin; i < end; i++) {
		const size_t cell = grid.CellOf(Vec2 {x[i], y[i]});
		cells[count] = static_cast<uint32_t>(cell);
		points[count] = i;
		count += used_cells[cell / 64] >> cell % 64 & 1;
	}
	for (size_t k = 0; k < count; k++) {
		__builtin_prefetch(&cell_begin[cells[k]]);
	}
	size_t most = 0;
	for (size_t k = 0; k < count; k++) {
		__builtin_prefetch(&entries[cell_begin[cells[k]]]);
		most += cell_begin[cells[k] + 1] - cell_begin[cells[k]];
	}
	Fit(lookup.candidates, most);
	Candidate *next = lookup.candidates.data();
	for (size_t k = 0; k < count; k++) {
		const Vec2 p {x[points[k]], y[points[k]]};
		const Floats here {Above(p.x), Above(p.y), Above(-p.x), Above(-p.y)};
		const uint32_t last = cell_begin[cells[k] + 1];
		for (uint32_t i = cell_begin[cells[k]]; i < last; i++) {
			Floats least;
			std::memcpy(&least, entries[i].least, sizeof(least));
			next->point = points[k];
			next->item = &items[entries[i].item];
			next->odd = next->on = false;
			next += FourBits(least <= here) == 15;
		}
	}
	lookup.candidate_count = static_cast<size_t>(next - lookup.candidates.data());
	for (auto candidate = lookup.candidates.data(); candidate < next; candidate++) {
		__builtin_prefetch(candidate->item);
	}
}

void AreaScan::FindLooks(Lookup &lookup, const double *x, const double *y) const {
	for (size_t number = 0; number < lookup.candidate_count; number++) {
		const Item &item = *lookup.candidates[number].item;
		const auto ranges = reinterpret_cast<const uint8_t *>(item.ranges);
		for (uint32_t i = 0; i < PREFETCHED_LINES; i++) {
			__builtin_prefetch(ranges + i * LINE_BYTES);
		}
	}
	size_t count = 0;
	for (uint32_t number = 0; number < lookup.candidate_count; number++) {
		const Item &item = *lookup.candidates[number].item;
		const uint32_t point = lookup.candidates[number].point;
		const Floats here {Above(y[point]), Above(-y[point]), Above(-x[point]), 0};
		auto meets = [&](const Range &range) {
			Floats least;
			std::memcpy(&least, &range, sizeof(least));
			return (FourBits(least <= here) & 7) == 7;
		};
		auto add = [&](const Range *runs, uint32_t run_count) {
			Fit(lookup.looks, count + run_count);
			Look *next = lookup.looks.data() + count;
			for (const Range *run = runs; run < runs + run_count; run++) {
				next->run = run;
				next->candidate = number;
				next += meets(*run);
			}
			count = static_cast<size_t>(next - lookup.looks.data());
		};
		if (!item.runs) {
			add(item.ranges, item.range_count);
			continue;
		}
		for (const Range *group = item.ranges; group < item.ranges + item.range_count; group++) {
			if (meets(*group)) {
				add(item.runs + group->Begin(), group->Count());
			}
		}
	}
	lookup.look_count = count;
}

template <class SIDES>
inline __attribute__((always_inline)) void AreaScan::LookAtAll(Lookup &lookup, const double *x, const double *y) {
	auto edges_of = [&](const Look &look) { return lookup.candidates[look.candidate].item->wkb + look.run->Begin(); };
	auto prefetch = [&](size_t i) {
		const uint8_t *edges = edges_of(lookup.looks[i]);
		for (uint32_t line = 0; line <= RUN_EDGES * VERTEX_BYTES; line += LINE_BYTES) {
			__builtin_prefetch(edges + line);
		}
	};
	for (size_t i = 0; i < std::min(lookup.look_count, LOOKS_AHEAD); i++) {
		prefetch(i);
	}
	constexpr uint64_t RIGHT = 0x5555555555555555ULL;
	for (size_t i = 0; i < lookup.look_count; i++) {
		if (i + LOOKS_AHEAD < lookup.look_count) {
			prefetch(i + LOOKS_AHEAD);
		}
		const Look &look = lookup.looks[i];
		const uint8_t *edges = edges_of(look);
		const uint32_t count = look.run->Count();
		auto &candidate = lookup.candidates[look.candidate];
		const Vec2 p {x[candidate.point], y[candidate.point]};
		const Sides sides = SIDES::Of(edges, count + 1, p);
		// Of the edges that pass the point's y, those right of it are crossed and those left of it are not. The others, and
		// all where a vertex is level with the point, are seldom: they are asked one by one
		const uint64_t all = RIGHT & ((1ULL << 2 * count) - 1);
		const uint64_t passing = (sides.bits ^ sides.bits >> 2) >> 1 & all;
		const uint64_t crossed = passing & sides.bits & sides.bits >> 2;
		uint64_t open = sides.same ? all : passing & ~crossed & (sides.bits | sides.bits >> 2);
		candidate.odd ^= !sides.same & static_cast<bool>(__builtin_parityll(crossed));
		if (open == 0) {
			continue;
		}
		vibe::RayCounter counter {p, candidate.odd, candidate.on};
		for (; open != 0 && !counter.on; open &= open - 1) {
			const uint8_t *edge = edges + static_cast<uint32_t>(__builtin_ctzll(open)) / 2 * VERTEX_BYTES;
			const Lanes a = LoadLanes(edge), b = LoadLanes(edge + VERTEX_BYTES);
			counter.Add(Vec2 {a[0], a[1]}, Vec2 {b[0], b[1]});
		}
		candidate.odd = counter.odd;
		candidate.on = counter.on;
	}
}

void AreaScan::LookAt(Lookup &lookup, const double *x, const double *y) {
#ifdef __SSE2__
	static const bool wide = __builtin_cpu_supports("avx2");
	if (wide) {
		LookAtWide(lookup, x, y);
		return;
	}
#endif
	LookAtAll<TwoLanes>(lookup, x, y);
}

#ifdef __SSE2__
__attribute__((target("avx2"))) void AreaScan::LookAtWide(Lookup &lookup, const double *x, const double *y) {
	LookAtAll<FourLanes>(lookup, x, y);
}
#endif

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

void AreaScan::Locate(const double *x, const double *y, size_t count, FoundRows &found, Lookup &lookup) const {
	found.clear();
	for (size_t begin = 0; begin < count; begin += POINTS_AT_ONCE) {
		FindCandidates(lookup, x, y, static_cast<uint32_t>(begin),
		               static_cast<uint32_t>(std::min(count, begin + POINTS_AT_ONCE)));
		FindLooks(lookup, x, y);
		LookAt(lookup, x, y);
		Find(lookup, found);
		lookup.tests += lookup.candidate_count;
		lookup.nanoseconds += NANOSECONDS_PER_TEST * lookup.candidate_count + NANOSECONDS_PER_LOOK * lookup.look_count;
	}
}

size_t AreaScan::MemoryUsage() const {
	size_t bytes = items.capacity() * sizeof(Item) + polygons.rows.capacity() * sizeof(uint32_t) +
	               polygons.boxes.capacity() * sizeof(Box) + cell_begin.capacity() * sizeof(uint32_t) +
	               entries.capacity() * sizeof(Entry) + used_cells.capacity() * sizeof(uint64_t) +
	               shares.capacity() * sizeof(Share);
	for (auto &share : shares) {
		bytes += (share.runs.capacity() + share.groups.capacity()) * sizeof(Range);
	}
	return bytes;
}

} // namespace vibespatial
