//===----------------------------------------------------------------------===//
// Builds a PolygonScan: one pass over the WKB of all polygons, then the grid of their boxes.
//===----------------------------------------------------------------------===//
#include "engine/index/polygon_scan.hpp"
#include "engine/index/polygon_scan_simd.hpp"
#include "geometry/wkb_visit.hpp"
#include "vibe/shape_build.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <numeric>

namespace vibespatial {

using namespace polygon_scan_simd;
using namespace polygon_scan_tuning;
using vibe::Box;

static constexpr uint32_t ALL_LANES = 255;
static constexpr uint32_t LINE_BYTES = 64;

class PolygonScanBuilder {
public:
	PolygonScanBuilder(PolygonScan &scan, Parallel &parallel) : scan(scan), parallel(parallel) {
	}

	//! False where a row cannot be scanned
	bool ReadRows(const JoinRows &rows);
	//! False where the boxes overlap too much
	bool SetGrid();

private:
	using Block = PolygonScan::Block;
	using Entries = PolygonScan::Entries;
	using Item = PolygonScan::Item;
	using Place = PolygonScan::Place;
	using Ranges = PolygonScan::Ranges;
	static constexpr uint32_t ITEMS_AT_ONCE = PolygonScan::ITEMS_AT_ONCE;
	static constexpr uint32_t RUNS_AT_ONCE = PolygonScan::RUNS_AT_ONCE;

	struct Share;
	struct Reader;

	PolygonScan &scan;
	Parallel &parallel;
};

//! The result of one step
struct PolygonScanBuilder::Share {
	//! A run of the current item, whose box is not known yet
	struct Run {
		LaneRange range;
		Lanes ends_y; // y of the first vertex and of the last
		uint32_t place;
	};
	UninitializedVector<Run> runs;
	PolygonScan::Storage storage;
	//! Used lanes of the last block
	uint32_t taken = RUNS_AT_ONCE;
	std::vector<Item> items;
	//! Index of the first block of each item
	std::vector<uint32_t> first_blocks;
	std::vector<Box> boxes;
	uint64_t vertices = 0;

	//! Converts the runs to blocks of the last item; false where its box is too large for steps
	bool EndItem();
	//! Builds the groups, and sets the pointers of the items
	void Finish();

private:
	static Ranges NoRanges();
};

PolygonScan::Ranges PolygonScanBuilder::Share::NoRanges() {
	Ranges none;
	for (uint32_t lane = 0; lane < RUNS_AT_ONCE; lane++) {
		none.min_y[lane] = none.min_x[lane] = MOST_STEPS;
		none.max_y[lane] = none.max_x[lane] = LEAST_STEP;
	}
	return none;
}

bool PolygonScanBuilder::Share::EndItem() {
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
	// A small item shares the last block with the items before it
	if (count > RUNS_AT_ONCE - taken) {
		taken = RUNS_AT_ONCE;
	}
	const uint32_t first_lane = taken % RUNS_AT_ONCE;
	first_blocks.back() = static_cast<uint32_t>(storage.blocks.size()) - (first_lane != 0);
	item.block_count = (count + RUNS_AT_ONCE - 1) / RUNS_AT_ONCE;
	item.lanes = ALL_LANES;
	if (item.block_count == 1) {
		item.lanes = ((1u << count) - 1) << first_lane;
	}
	uint32_t next = 0;
	for (; next + RUNS_AT_ONCE <= count; next += RUNS_AT_ONCE) {
		const auto eight = runs.data() + next;
		storage.blocks.resize(storage.blocks.size() + 1);
		auto &block = storage.blocks.back();
		steps.OfEight([&](size_t i) { return eight[i].range.min; }, block.ranges.min_x, block.ranges.min_y);
		steps.OfEight([&](size_t i) { return eight[i].range.max; }, block.ranges.max_x, block.ranges.max_y);
		steps_of_y.OfEight([&](size_t i) { return eight[i].ends_y; }, block.first_y, block.last_y);
		for (uint32_t i = 0; i < RUNS_AT_ONCE; i++) {
			block.place[i] = eight[i].place;
		}
	}
	for (; next < count; next++) {
		if (taken == RUNS_AT_ONCE) {
			storage.blocks.resize(storage.blocks.size() + 1);
			taken = 0;
		}
		const auto &run = runs[next];
		auto &block = storage.blocks.back();
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
		auto &block = storage.blocks.back();
		for (; taken < RUNS_AT_ONCE; taken++) {
			block.ranges.min_y[taken] = block.ranges.min_x[taken] = MOST_STEPS;
			block.ranges.max_y[taken] = block.ranges.max_x[taken] = LEAST_STEP;
		}
	}
	runs.clear();
	return true;
}

void PolygonScanBuilder::Share::Finish() {
	auto &groups = storage.groups;
	size_t group_count = 0;
	for (auto &item : items) {
		group_count += item.block_count > BLOCKS_TO_GROUP ? item.block_count / RUNS_AT_ONCE + 1 : 0;
	}
	groups.reserve(group_count);
	for (size_t i = 0; i < items.size(); i++) {
		auto &item = items[i];
		item.blocks = storage.blocks.data() + first_blocks[i];
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
			group.min_y[lane] = ~Greatest(~Load<Shorts>(ranges.min_y));
			group.max_y[lane] = Greatest(Load<Shorts>(ranges.max_y));
			group.max_x[lane] = Greatest(Load<Shorts>(ranges.max_x));
		}
	}
	// Frees what only building needs: many shares wait for the others
	runs = {};
	first_blocks = {};
}

//! For VisitWkb
struct PolygonScanBuilder::Reader {
	Share &share;
	const uint8_t *wkb = nullptr;
	uint32_t row = 0;
	//! All rows so far can be scanned
	bool plain = true;

	void Row(const uint8_t *data, uint32_t size, uint32_t number) {
		wkb = data;
		row = number;
		const uint32_t code = size < vibe::WKB_HEADER_BYTES ? 0 : vibe::LoadCount(data + 1);
		plain = (code == vibe::WKB_POLYGON || code == vibe::WKB_MULTIPOLYGON) && size < Place::MAX_BEGIN;
	}
	void Part(vibe::Family) {
		End();
		share.items.push_back(Item {{}, {}, wkb, nullptr, nullptr, row, 0, 0});
		share.boxes.push_back(Box::Empty());
	}
	//! Ends the last item, if there is one
	void End() {
		plain = plain && (share.items.empty() || share.EndItem());
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		share.vertices += count;
		plain = plain && stride == VERTEX_BYTES && IsRing(coords, count);
		if (!plain) {
			return;
		}
#ifndef VIBESPATIAL_NO_WIDE
		if (HasWide()) {
			ReadWide(count, coords);
			return;
		}
#endif
		ReadRing<PortableKernels>(count, coords);
	}

private:
	template <class KERNELS>
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
			const RunVertices run = edges == RUN_EDGES ? KERNELS::ReadRun(at) : PortableKernels::Read(at, edges);
			whole.Add(run.range);
			finite &= run.finite;
			const Lanes ends = __builtin_shufflevector(LoadLanes(at), LoadLanes(at + edges * VERTEX_BYTES), 1, 3);
			*next++ = Share::Run {run.range, ends, Place::Of(static_cast<size_t>(at - wkb), edges)};
		}
		share.boxes.back().Add(Box {whole.min[0], whole.min[1], whole.max[0], whole.max[1]});
		plain = finite;
	}
#ifndef VIBESPATIAL_NO_WIDE
	__attribute__((flatten)) VIBESPATIAL_WIDE void ReadWide(uint32_t count, const uint8_t *coords) {
		ReadRing<WideKernels>(count, coords);
	}
#endif
	//! Whether the ring is closed and has enough vertices that differ from the one before
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

bool PolygonScanBuilder::ReadRows(const JoinRows &rows) {
	std::vector<Share> shares((rows.size() + ROWS_PER_STEP - 1) / ROWS_PER_STEP);
	std::atomic<bool> plain {true};
	parallel.For(shares.size(), [&](size_t step) {
		auto &share = shares[step];
		Reader reader {share};
		const size_t end = std::min(rows.size(), (step + 1) * ROWS_PER_STEP);
		size_t bytes = 0;
		for (size_t i = step * ROWS_PER_STEP; i < end; i++) {
			bytes += rows[i].data ? rows[i].size : 0;
		}
		share.storage.blocks.reserve(bytes / (RUNS_AT_ONCE * RUN_EDGES * VERTEX_BYTES) + (end - step * ROWS_PER_STEP));
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
		return false;
	}
	size_t count = 0;
	for (auto &share : shares) {
		count += share.items.size();
	}
	auto &polygons = scan.polygons;
	polygons.boxes.reserve(count);
	polygons.rows.reserve(count);
	scan.items.reserve(count);
	scan.storage.reserve(shares.size());
	for (auto &share : shares) {
		scan.items.insert(scan.items.end(), share.items.begin(), share.items.end());
		polygons.boxes.insert(polygons.boxes.end(), share.boxes.begin(), share.boxes.end());
		polygons.vertices += share.vertices;
		scan.storage.push_back(std::move(share.storage));
	}
	for (auto &item : scan.items) {
		polygons.rows.push_back(item.row);
	}
	return true;
}

//! Columns and rows are monotone in x and y: a point in a box is in one of the cells of the box, between its steps there
bool PolygonScanBuilder::SetGrid() {
	const auto &boxes = scan.polygons.boxes;
	auto &grid = scan.grid;
	auto &columns = scan.columns;
	Box all = Box::Empty();
	for (auto &box : boxes) {
		all.Add(box);
	}
	const double count = static_cast<double>(boxes.size());
	const double width = all.max_x - all.min_x, height = all.max_y - all.min_y;
	//! First and last column and row of a box, in steps
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
		// The outermost steps are for points outside of all boxes
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
	// Each step takes a band of rows. It counts the items of every cell, then counts down from the last item to the first, so
	// that the items of a cell are in order.
	const size_t rows = (size_t(grid.last_row) + 1) / STEPS_PER_CELL, cell_count = columns * rows;
	const size_t bands = std::min(rows, BANDS_PER_THREAD * parallel.Threads());
	auto &cell_begin = scan.cell_begin;
	auto &used_cells = scan.used_cells;
	auto &entries = scan.entries;
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

std::unique_ptr<PolygonScan> PolygonScan::Build(const JoinRows &rows, Parallel &parallel) {
	std::unique_ptr<PolygonScan> scan(new PolygonScan());
	PolygonScanBuilder builder(*scan, parallel);
	return builder.ReadRows(rows) && builder.SetGrid() ? std::move(scan) : nullptr;
}

} // namespace vibespatial
