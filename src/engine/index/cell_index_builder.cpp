#include "engine/index/cell_index_builder.hpp"

#include "engine/index/cell_edges.hpp"
#include "engine/index/cell_grid.hpp"
#include "engine/index/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vibespatial {

using namespace cell_build;
using namespace cell_tuning;
using vibe::Box;
using vibe::PassesBelow;
using vibe::ShapeView;
using vibe::Vec2;
using Edge = vibe::CellEdge;

std::unique_ptr<CellIndexBuilder::Worker> CellIndexBuilder::TakeWorker() {
	std::lock_guard<std::mutex> guard(lock);
	if (idle.empty()) {
		return std::make_unique<Worker>();
	}
	auto worker = std::move(idle.back());
	idle.pop_back();
	return worker;
}

void CellIndexBuilder::ReturnWorker(std::unique_ptr<Worker> worker) {
	std::lock_guard<std::mutex> guard(lock);
	idle.push_back(std::move(worker));
}

bool CellIndexBuilder::TakeMemory(size_t bytes) {
	const size_t all = memory.fetch_add(bytes) + bytes;
	if (all > memory_limit || (reserve && !reserve(all))) {
		over_limit = true;
	}
	return !over_limit;
}

CellIndexBuilder::Unit *CellIndexBuilder::Allocate(Worker &worker, size_t units, uint32_t &value) {
	if (units > worker.left) {
		// Starts a new chunk, or several where the request is larger than a chunk
		const size_t count = (units + CellIndex::CHUNK_UNITS - 1) / CellIndex::CHUNK_UNITS;
		std::lock_guard<std::mutex> guard(lock);
		const size_t first = index->chunks.size();
		index->pool_units += count * CellIndex::CHUNK_UNITS;
		if ((first + count) * CellIndex::CHUNK_UNITS > CellIndex::MAX_VALUE) {
			over_limit = true;
		}
		if (over_limit || !TakeMemory(count * CellIndex::CHUNK_UNITS * sizeof(Unit))) {
			return nullptr;
		}
		index->memory.emplace_back(new Unit[count * CellIndex::CHUNK_UNITS]);
		for (size_t i = 0; i < count; i++) {
			index->chunks.push_back(index->memory.back().get() + i * CellIndex::CHUNK_UNITS);
		}
		worker.at = index->memory.back().get();
		worker.value = static_cast<uint32_t>(first * CellIndex::CHUNK_UNITS);
		worker.left = static_cast<uint32_t>(count * CellIndex::CHUNK_UNITS);
	}
	Unit *at = worker.at;
	value = worker.value;
	worker.at += units;
	worker.value += static_cast<uint32_t>(units);
	worker.left -= static_cast<uint32_t>(units);
	return at;
}

uint32_t CellIndexBuilder::WriteFull(Worker &worker, const std::vector<uint32_t> &full) {
	if (full.empty()) {
		return 0;
	}
	if (full.size() == 1) {
		return full[0] | uint32_t(CellIndex::FULL) << CellIndex::KIND_SHIFT;
	}
	if (full == worker.last_full) {
		return worker.last_full_word; // neighbouring cells often have the same areas
	}
	const CellIndex::List list {0, static_cast<uint32_t>(full.size())};
	const size_t bytes = sizeof(list) + full.size() * sizeof(uint32_t);
	uint32_t value;
	Unit *at = Allocate(worker, (bytes + sizeof(Unit) - 1) / sizeof(Unit), value);
	if (!at) {
		return 0;
	}
	std::memcpy(at, &list, sizeof(list));
	std::memcpy(at->bytes + sizeof(list), full.data(), full.size() * sizeof(uint32_t));
	worker.last_full = full;
	worker.last_full_word = value | uint32_t(CellIndex::LIST) << CellIndex::KIND_SHIFT;
	return worker.last_full_word;
}

//! Writes a cell that has edges, and returns its word
uint32_t CellIndexBuilder::WriteCell(Worker &worker, Level &level, const CellIndex::Frame &frame, const ItemSpan &items,
                                     const AreaSet &inside_areas, const std::vector<uint32_t> &near) {
	auto &partials = level.partials;
	partials.clear();
	level.full = near;
	const auto &active = inside_areas.areas;
	size_t next_active = 0;
	uint64_t edge_count = 0;
	for (const Item *item = items.begin; item < items.end;) {
		uint32_t begin = item->begin, end = begin + item->Count();
		const uint32_t area = item->area;
		for (item++; item < items.end && item->area == area && (item->begin == end || item->Count() == 0); item++) {
			end += item->Count(); // the run continues in the item of another chunk, or of an edge that left the cell
		}
		if (begin == end) {
			continue;
		}
		edge_count += end - begin;
		bool inside = false;
		if (partials.empty() || partials.back().area != area) {
			while (next_active < active.size() && active[next_active] < area) {
				level.full.push_back(active[next_active++]);
			}
			inside = next_active < active.size() && active[next_active] == area;
			next_active += inside;
		} else {
			partials.back().more = true;
		}
		while (true) {
			const uint32_t edges = std::min(end - begin, CellIndex::MAX_EDGES);
			partials.push_back(CellIndex::Partial {begin, area, CellIndex::Extent {0, 0, 255, 255},
			                                       static_cast<uint8_t>(edges), inside, false, IsLine(area)});
			begin += edges;
			if (begin == end) {
				break;
			}
			partials.back().more = true;
			inside = false;
		}
	}
	level.full.insert(level.full.end(), active.begin() + next_active, active.end());
	if (partials.size() >= CellIndex::PARTIALS_WITH_EXTENT) {
		for (auto &partial : partials) {
			const Vec2 *vertex = vertices + partial.begin;
			Box box {vertex->x, vertex->y, vertex->x, vertex->y};
			for (uint32_t i = 1; i <= partial.edges; i++) {
				box.Add(vertex[i].x, vertex[i].y);
			}
			partial.extent = frame.Of(box);
		}
	}

	const CellIndex::List list {static_cast<uint32_t>(partials.size()), static_cast<uint32_t>(level.full.size())};
	const size_t partial_bytes = partials.size() * sizeof(CellIndex::Partial);
	const size_t full_bytes = level.full.size() * sizeof(uint32_t);
	uint32_t value;
	Unit *at = Allocate(worker, (sizeof(list) + partial_bytes + full_bytes + sizeof(Unit) - 1) / sizeof(Unit), value);
	if (!at) {
		return 0;
	}
	uint8_t *to = at->bytes;
	std::memcpy(to, &list, sizeof(list));
	std::memcpy(to + sizeof(list), partials.data(), partial_bytes);
	if (full_bytes > 0) {
		std::memcpy(to + sizeof(list) + partial_bytes, level.full.data(), full_bytes);
	}
	worker.figures.partial_cells++;
	worker.figures.stored_vertices += edge_count + partials.size();
	worker.figures.largest_cell = std::max(worker.figures.largest_cell, edge_count);
	return value | uint32_t(CellIndex::LIST) << CellIndex::KIND_SHIFT;
}

//! The areas that contain the first reference point, and the rows where that changes on the way up; `from` is the reference
//! point whose areas are there already
void CellIndexBuilder::SetStart(Task &task, const Vec2 &from) const {
	const Grid &grid = *task.grid;
	const Vec2 first = grid.Reference(0, 0);
	auto sides_of = [&](const Vec2 &v) { return (v.y > first.y) | (v.x > from.x) << 1 | (v.x > first.x) << 2; };
	task.flips.clear();
	for (auto &run : task.runs) {
		if (run.is_line) {
			continue;
		}
		int sides = sides_of(vertices[run.begin]);
		for (uint32_t i = run.begin; i < run.begin + run.count; i++) {
			const int before = sides;
			sides = sides_of(vertices[i + 1]);
			if (sides == before) {
				continue; // most edges
			}
			const Edge edge {vertices[i], vertices[i + 1]};
			if (Separates(edge, from, first)) {
				task.start.Flip(run.area);
			}
			if ((edge.a.x > first.x) != (edge.b.x > first.x)) {
				const double y = edge.a.y + (first.x - edge.a.x) / (edge.b.x - edge.a.x) * (edge.b.y - edge.a.y);
				const double at_row = grid.last_row == 0 ? UNKNOWN : (y - grid.min_y) * grid.rows_per_y - 0.5;
				const uint32_t beyond = FirstBeyond(
				    at_row, grid.last_row, [&](uint32_t k) { return PassesBelow(edge, grid.Reference(0, k)); });
				if (beyond > 0 && beyond <= grid.last_row) {
					task.flips.push_back(RowFlip {beyond, run.area});
				}
			}
		}
	}
	std::sort(task.flips.begin(), task.flips.end(),
	          [](const RowFlip &left, const RowFlip &right) { return left.row < right.row; });
}

//! Builds a grid inside a cell; 0 where that does not help
uint32_t CellIndexBuilder::Refine(Worker &worker, const Task &task, uint32_t column, uint32_t row,
                                  const ItemSpan &items, const AreaSet &active, const std::vector<uint32_t> &near,
                                  uint32_t stuck, double spread) {
	if (task.depth >= MAX_DEPTH || stuck > MAX_STUCK) {
		return 0;
	}
	const Grid &grid = *task.grid;
	Box cell = task.region;
	if (grid.last_column > 0) {
		cell.min_x = std::max(cell.min_x, grid.min_x + (column - GRID_ROOM) * grid.width);
		cell.max_x = std::min(cell.max_x, grid.min_x + (column + 1 + GRID_ROOM) * grid.width);
	}
	if (grid.last_row > 0) {
		cell.min_y = std::max(cell.min_y, grid.min_y + (row - GRID_ROOM) * grid.height);
		cell.max_y = std::min(cell.max_y, grid.min_y + (row + 1 + GRID_ROOM) * grid.height);
	}
	Level &level = worker.LevelOf(task.depth + 1);
	Task &inner = level.task;
	auto &runs = inner.runs;
	runs.clear();
	// The grid covers the edges inside the cell, or with a reach all points of it
	Box content = reach.limit < 0 ? Box::Empty() : cell;
	double sum_x = 0, sum_y = 0, largest_x = 0, largest_y = 0;
	size_t edge_count = 0;
	for (const Item *item = items.begin; item < items.end; item++) {
		const uint32_t count = item->Count();
		if (count == 0) {
			continue;
		}
		runs.push_back(Run {item->begin, count, item->area, IsLine(item->area)});
		edge_count += count;
		const Vec2 *vertex = vertices + item->begin;
		Vec2 before;
		for (uint32_t i = 0; i <= count; i++) {
			const Vec2 &v = vertex[i];
			largest_x = std::max(largest_x, std::fabs(v.x));
			largest_y = std::max(largest_y, std::fabs(v.y));
			const Vec2 here {std::min(std::max(v.x, cell.min_x), cell.max_x),
			                 std::min(std::max(v.y, cell.min_y), cell.max_y)};
			content.Add(here.x, here.y);
			sum_x += i > 0 ? std::fabs(here.x - before.x) : 0;
			sum_y += i > 0 ? std::fabs(here.y - before.y) : 0;
			before = here;
		}
	}
	if (content.IsEmpty()) {
		return 0;
	}
	if (reach.limit >= 0) {
		largest_x = std::max({largest_x + reach.outer, std::fabs(cell.min_x), std::fabs(cell.max_x)});
		largest_y = std::max({largest_y + reach.outer, std::fabs(cell.min_y), std::fabs(cell.max_y)});
	}
	Grid finer {};
	const EdgeSums sums {static_cast<double>(edge_count), sum_x, sum_y, reach.outer};
	const double copies = SetGrid(finer, content, Vec2 {largest_x, largest_y}, sums, fineness.inner_cells_per_edge,
	                              fineness.entries_per_edge);
	if (reach.limit < 0) {
		spread *= copies; // with a reach, most copies are dropped: BuildNearRows() counts those that stay
	}
	if ((finer.last_column == 0 && finer.last_row == 0) || spread > MAX_SPREAD) {
		return 0;
	}

	const size_t cells = size_t(finer.last_column + 1) * (finer.last_row + 1);
	constexpr size_t HEAD = sizeof(Grid) / sizeof(Unit);
	static_assert(sizeof(Grid) % sizeof(Unit) == 0, "words follow in the next unit");
	uint32_t value;
	Unit *at = Allocate(worker, HEAD + (cells * sizeof(uint32_t) + sizeof(Unit) - 1) / sizeof(Unit), value);
	if (!at) {
		return 0;
	}
	finer.words = reinterpret_cast<uint32_t *>(at + HEAD);
	inner.grid = new (at) Grid(finer);
	inner.region = content;
	inner.depth = task.depth + 1;
	inner.stuck = stuck;
	inner.spread = spread;
	worker.figures.grids++;
	worker.figures.cells += cells;
	inner.start = active;
	inner.near = near;
	SetStart(inner, grid.Reference(column, row));

	if (edge_count >= SHARED_EDGES) {
		auto later = std::make_unique<Task>(std::move(inner));
		std::lock_guard<std::mutex> guard(lock);
		shared.push_back(std::move(later));
	} else {
		level.items.count = 0;
		for (auto &run : runs) {
			AddItems(level.items, *inner.grid, run, vertices, false, reach.outer);
		}
		const ItemSpan span {level.items.begin(), level.items.end()};
		BuildRows(worker, inner, 0, finer.last_row + 1, &span, 1);
	}
	return value | uint32_t(CellIndex::GRID) << CellIndex::KIND_SHIFT;
}

//! Sorts the items by cell, keeping the order of the edges, and returns the number of edges
size_t CellIndexBuilder::SortItems(Level &level, const Grid &grid, uint32_t row_begin, uint32_t row_end,
                                   const ItemSpan *spans, size_t span_count) {
	const uint32_t columns = grid.last_column + 1;
	const size_t cells = size_t(row_end - row_begin) * columns;
	const uint32_t first_cell = row_begin * columns;
	auto &begin = level.cell_begin;
	begin.assign(cells + 2, 0);
	size_t item_count = 0, edge_count = 0;
	for (size_t i = 0; i < span_count; i++) {
		for (const Item *item = spans[i].begin; item < spans[i].end; item++) {
			begin[item->cell - first_cell + 2]++;
			edge_count += item->Count();
		}
		item_count += static_cast<size_t>(spans[i].end - spans[i].begin);
	}
	for (size_t cell = 2; cell < cells + 2; cell++) {
		begin[cell] += begin[cell - 1];
	}
	level.sorted.count = 0;
	level.sorted.Reserve(item_count);
	Item *const sorted = level.sorted.begin();
	for (size_t i = 0; i < span_count; i++) {
		for (const Item *item = spans[i].begin; item < spans[i].end; item++) {
			sorted[begin[item->cell - first_cell + 1]++] = *item;
		}
	}
	return edge_count;
}

//! The edges in a cell; changes the areas that contain its reference point
uint32_t CellIndexBuilder::CountEdges(const ItemSpan &items, AreaSet &active) {
	uint32_t edges = 0;
	for (const Item *item = items.begin; item < items.end;) {
		const uint32_t area = item->area;
		uint32_t sum = 0, flips_here = 0;
		for (; item < items.end && item->area == area; item++) {
			sum += item->Count();
			flips_here ^= item->count;
		}
		edges += sum;
		if (flips_here & Item::FLIP) {
			active.Flip(area);
		}
	}
	return edges;
}

//! The areas that contain the first reference point of each row, one row after the other
class CellIndexBuilder::RowStarts {
public:
	explicit RowStarts(const Task &task) : task(task), areas(task.start) {
	}
	const AreaSet &Of(uint32_t row) {
		while (flip < task.flips.size() && task.flips[flip].row <= row) {
			areas.Flip(task.flips[flip++].area);
		}
		return areas;
	}

private:
	const Task &task;
	AreaSet areas;
	size_t flip = 0;
};

//! Writes the words of some rows from their items
void CellIndexBuilder::BuildRows(Worker &worker, const Task &task, uint32_t row_begin, uint32_t row_end,
                                 const ItemSpan *spans, size_t span_count) {
	const Grid &grid = *task.grid;
	Level &level = worker.LevelOf(task.depth);
	const size_t edge_count = SortItems(level, grid, row_begin, row_end, spans, span_count);
	if (reach.limit >= 0) {
		BuildNearRows(worker, task, row_begin, row_end, row_end - row_begin > grid.last_row);
		return;
	}
	const uint32_t columns = grid.last_column + 1;
	const Item *const sorted = level.sorted.begin();
	RowStarts starts(task);
	for (uint32_t row = row_begin; row < row_end; row++) {
		if (over_limit) {
			return;
		}
		level.active = starts.Of(row);
		uint32_t *word = grid.words + grid.CellOf(0, row);
		const uint32_t *cell_begin = level.cell_begin.data() + size_t(row - row_begin) * columns;
		for (uint32_t column = 0; column < columns;) {
			uint32_t next = column;
			while (next < columns && cell_begin[next + 1] == cell_begin[next]) {
				next++;
			}
			if (next > column) {
				const uint32_t full_word = WriteFull(worker, level.active.areas);
				worker.figures.full_cells += full_word != 0 ? next - column : 0;
				std::fill(word + column, word + next, full_word);
				column = next;
				continue;
			}
			const ItemSpan items {sorted + cell_begin[column], sorted + cell_begin[column + 1]};
			const uint32_t edges = CountEdges(items, level.active);
			uint32_t here = 0;
			if (edges > fineness.edges_per_cell) {
				const bool most = edges > edge_count / 4 * 3;
				here = Refine(worker, task, column, row, items, level.active, {}, task.stuck + most, task.spread);
			}
			if (here == 0) {
				here = edges > 0
				           ? WriteCell(worker, level, CellIndex::Frame(grid, column, row), items, level.active, {})
				           : WriteFull(worker, level.active.areas);
			}
			word[column++] = here;
		}
	}
}

//! The same with a reach, from the sorted items. `is_whole`: these are all rows of the grid
void CellIndexBuilder::BuildNearRows(Worker &worker, const Task &task, uint32_t row_begin, uint32_t row_end,
                                     bool is_whole) {
	const Grid &grid = *task.grid;
	Level &level = worker.LevelOf(task.depth);
	const uint32_t columns = grid.last_column + 1;
	const Item *const sorted = level.sorted.begin();
	NearReader reader(grid, reach, vertices);
	NearCell &here = level.here;
	size_t kept_edges = 0;
	level.kept.count = 0;
	level.crowded.clear();
	RowStarts starts(task);
	for (uint32_t row = row_begin; row < row_end; row++) {
		if (over_limit) {
			return;
		}
		level.active = starts.Of(row);
		uint32_t *word = grid.words + grid.CellOf(0, row);
		const uint32_t *cell_begin = level.cell_begin.data() + size_t(row - row_begin) * columns;
		for (uint32_t column = 0; column < columns; column++) {
			const ItemSpan items {sorted + cell_begin[column], sorted + cell_begin[column + 1]};
			CountEdges(items, level.active);
			const size_t begin = level.kept.count;
			reader.Read(column, row, items, level.active, here, level.kept);
			here.near.insert(here.near.end(), task.near.begin(), task.near.end());
			kept_edges += here.edges;
			if (here.edges > fineness.edges_per_cell) {
				level.crowded.push_back(Crowded {here, column, row, begin, level.kept.count});
				continue;
			}
			if (here.edges > 0) {
				const ItemSpan kept {level.kept.begin() + begin, level.kept.end()};
				word[column] =
				    WriteCell(worker, level, CellIndex::Frame(grid, column, row), kept, here.inside, here.near);
			} else {
				auto &full = here.near;
				full.insert(full.end(), here.inside.areas.begin(), here.inside.areas.end());
				std::sort(full.begin(), full.end());
				word[column] = WriteFull(worker, full);
				worker.figures.full_cells += word[column] != 0;
			}
			level.kept.count = begin;
		}
	}

	size_t edges = 0;
	for (auto &run : task.runs) {
		edges += run.count;
	}
	const double copies = static_cast<double>(kept_edges) / static_cast<double>(std::max<size_t>(1, edges));
	const double spread = task.spread * (is_whole ? std::max(1.0, copies) : NEAR_STRIPED_SPREAD);
	for (auto &crowded : level.crowded) {
		const ItemSpan kept {level.kept.begin() + crowded.begin, level.kept.begin() + crowded.end};
		const bool most = crowded.cell.edges > edges / 4 * 3;
		uint32_t word = Refine(worker, task, crowded.column, crowded.row, kept, crowded.cell.inside, crowded.cell.near,
		                       task.stuck + most, spread);
		if (word == 0) {
			word = WriteCell(worker, level, CellIndex::Frame(grid, crowded.column, crowded.row), kept,
			                 crowded.cell.inside, crowded.cell.near);
		}
		grid.words[grid.CellOf(crowded.column, crowded.row)] = word;
	}
}

//! Builds a grid with all threads: first the items of each chunk of edges, then the words of each stripe of rows
void CellIndexBuilder::BuildStriped(const Task &task) {
	const Grid &grid = *task.grid;
	const ChunkedRuns source(task.runs);
	const size_t rows = size_t(grid.last_row) + 1;
	const size_t wanted = std::min({rows, MAX_STRIPES, source.Edges() / STRIPE_EDGES + 1});
	uint32_t shift = 0; // a stripe has 2^shift rows
	while ((rows >> shift) > wanted) {
		shift++;
	}
	const size_t stripes = ((rows - 1) >> shift) + 1;
	struct Chunk {
		std::unique_ptr<Item[]> items;      // sorted by stripe, otherwise in order
		std::vector<uint32_t> stripe_begin; // stripes + 1
	};
	std::vector<Chunk> chunks(source.Count());
	const double rows_per_cell = 1.0 / (static_cast<double>(grid.last_column) + 1);
	std::atomic<size_t> item_bytes {0};
	parallel.For(chunks.size(), [&](size_t number) {
		if (over_limit) {
			return;
		}
		auto worker = TakeWorker();
		ItemList &list = worker->LevelOf(task.depth).items;
		list.count = 0;
		source.Visit(
		    number, [&](size_t, const Run &run) { AddItems(list, grid, run, vertices, task.depth == 0, reach.outer); });
		auto &chunk = chunks[number];
		auto &begin = chunk.stripe_begin;
		begin.assign(stripes + 2, 0);
		auto stripe_of = [&](const Item &item) {
			return static_cast<uint32_t>(
			           static_cast<int32_t>((static_cast<int32_t>(item.cell) + 0.5) * rows_per_cell)) >>
			       shift;
		};
		for (auto &item : list) {
			begin[stripe_of(item) + 2]++;
		}
		for (size_t s = 2; s < stripes + 2; s++) {
			begin[s] += begin[s - 1];
		}
		if (TakeMemory(list.count * sizeof(Item))) {
			item_bytes += list.count * sizeof(Item);
			chunk.items.reset(new Item[list.count]);
			for (auto &item : list) {
				chunk.items[begin[stripe_of(item) + 1]++] = item;
			}
		}
		ReturnWorker(std::move(worker));
	});

	parallel.For(stripes, [&](size_t stripe) {
		if (over_limit) {
			return;
		}
		auto worker = TakeWorker();
		std::vector<ItemSpan> spans;
		for (auto &chunk : chunks) {
			const Item *items = chunk.items.get();
			if (chunk.stripe_begin[stripe] < chunk.stripe_begin[stripe + 1]) {
				spans.push_back(ItemSpan {items + chunk.stripe_begin[stripe], items + chunk.stripe_begin[stripe + 1]});
			}
		}
		const uint32_t row_begin = static_cast<uint32_t>(stripe << shift);
		const uint32_t row_end = static_cast<uint32_t>(std::min(rows, (stripe + 1) << shift));
		BuildRows(*worker, task, row_begin, row_end, spans.data(), spans.size());
		ReturnWorker(std::move(worker));
	});
	memory -= item_bytes;
}

std::unique_ptr<CellIndex> CellIndexBuilder::Build() {
	auto &figures = index->figures;
	for (auto area : areas) {
		if (area && VerticesOf(*area) > 0) {
			index->box.Add(area->box);
			figures.areas++;
		}
	}
	index->reach = reach;
	if (!index->box.IsEmpty() && reach.limit >= 0) {
		index->box = Grow(index->box, reach.limit);
	}
	const Box &box = index->box;
	if (box.IsEmpty()) {
		index->top_words.reset(new uint32_t[1] {0});
		index->top.words = index->top_words.get();
		return std::move(index);
	}

	// Copies all vertices into one array; each ring is a run of edges
	Task task {};
	auto &runs = task.runs;
	std::vector<uint32_t> first_vertex(areas.size());
	uint32_t vertex_count = 0;
	for (size_t i = 0; i < areas.size(); i++) {
		first_vertex[i] = vertex_count;
		if (!areas[i]) {
			continue;
		}
		const auto number = static_cast<uint32_t>(i);
		const bool is_line = IsLine(number);
		for (uint32_t r = 0; r < areas[i]->ring_count && areas[i]->rings[r].is_area != is_line; r++) {
			const auto &ring = areas[i]->rings[r];
			runs.push_back(Run {vertex_count + ring.begin, ring.end - ring.begin - 1, number, is_line});
		}
		vertex_count += VerticesOf(*areas[i]);
	}
	if (!TakeMemory(vertex_count * sizeof(Vec2) + runs.size() * sizeof(Run))) {
		return nullptr;
	}
	index->vertices.reset(new Vec2[vertex_count]);
	index->vertex_count = vertex_count;
	vertices = index->vertices.get();
	const ChunkedRuns source(runs);
	struct Sums {
		double x = 0, y = 0;
	};
	std::vector<Sums> of_chunk(source.Count());
	parallel.For(source.Count(), [&](size_t chunk) {
		Sums sums;
		source.Visit(chunk, [&](size_t number, const Run &run) {
			const ShapeView &view = *areas[run.area];
			const uint32_t first = run.begin - first_vertex[run.area];
			Vec2 *to = vertices + run.begin, here = view.Vertex(first);
			for (uint32_t i = 1; i <= run.count; i++) {
				const Vec2 next = view.Vertex(first + i);
				sums.x += std::fabs(next.x - here.x);
				sums.y += std::fabs(next.y - here.y);
				*to++ = here;
				here = next;
			}
			if (run.begin + run.count == runs[number].begin + runs[number].count) {
				*to = here; // otherwise the next chunk writes it
			}
		});
		of_chunk[chunk] = sums;
	});
	Sums all;
	for (auto &sums : of_chunk) {
		all.x += sums.x;
		all.y += sums.y;
	}
	figures.edges = source.Edges();

	Grid &grid = index->top;
	const Vec2 largest {std::max(std::fabs(box.min_x), std::fabs(box.max_x)),
	                    std::max(std::fabs(box.min_y), std::fabs(box.max_y))};
	const EdgeSums sums {static_cast<double>(figures.edges), all.x, all.y, reach.outer};
	task.spread = SetGrid(grid, box, largest, sums, fineness.cells_per_edge, fineness.entries_per_edge);
	const size_t cells = size_t(grid.last_column + 1) * (grid.last_row + 1);
	if (!TakeMemory(cells * sizeof(uint32_t))) {
		return nullptr;
	}
	index->top_words.reset(new uint32_t[cells]);
	grid.words = index->top_words.get();
	figures.grids = 1;
	figures.cells = cells;

	task.grid = &grid;
	task.region = box;
	if (reach.limit >= 0) {
		task.spread = 1;
	}
	BuildStriped(task);
	while (!shared.empty() && !over_limit) {
		const auto next = std::move(shared.back());
		shared.pop_back();
		BuildStriped(*next);
	}
	if (over_limit) {
		return nullptr;
	}
	for (auto &worker : idle) {
		figures.grids += worker->figures.grids;
		figures.cells += worker->figures.cells;
		figures.full_cells += worker->figures.full_cells;
		figures.partial_cells += worker->figures.partial_cells;
		figures.stored_vertices += worker->figures.stored_vertices;
		figures.largest_cell = std::max(figures.largest_cell, worker->figures.largest_cell);
	}
	return std::move(index);
}

std::unique_ptr<CellIndex> CellIndex::Build(const std::vector<const ShapeView *> &areas, size_t memory_limit,
                                            Parallel &parallel, uint64_t expected_points, const vibe::CellReach &reach,
                                            const std::function<bool(size_t bytes)> &reserve) {
	if (areas.size() > MAX_VALUE) {
		return nullptr;
	}
	uint64_t vertices = 0;
	for (auto area : areas) {
		vertices += area ? CellIndexBuilder::VerticesOf(*area) : 0;
	}
	if (vertices > INT32_MAX) {
		return nullptr; // edge numbers have 31 bits
	}
	Fineness fineness = FinenessFor(static_cast<double>(vertices), static_cast<double>(expected_points));
	for (int attempt = 0; attempt < 3; attempt++) {
		auto index = CellIndexBuilder(areas, memory_limit, fineness, reach, parallel, reserve).Build();
		if (index) {
			return index;
		}
		fineness = Coarser(fineness);
	}
	return nullptr;
}

} // namespace vibespatial
