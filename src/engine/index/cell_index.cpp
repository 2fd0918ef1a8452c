#include "engine/index/cell_index.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

namespace vibespatial {

using vibe::Box;
using vibe::ShapeView;
using vibe::Vec2;

namespace {

//! In cells. Positions are computed with an error below 2^-9: cells are at least 2^-40 of the coordinates wide, and a
//! crossing is off by at most a dozen roundings of these.
constexpr double SMALLEST_CELL = 1.0 / (1ULL << 40);
//! Edges are registered in cells that they miss by less than this
constexpr double EDGE_ROOM = 1.0 / 64;
//! Inside a cell finer grids cover this much more than the cell; less than EDGE_ROOM, so all edges there are known
constexpr double GRID_ROOM = 1.0 / 256;
//! Nearer to a reference point, the exact predicate decides on which side of it an edge passes
constexpr double REFERENCE_ROOM = 1.0 / 64;

//! Extents for which no product of the above over- or underflows; other axes have one cell
constexpr double SMALLEST_EXTENT = 1e-280;
constexpr double LARGEST_EXTENT = 1e300;
constexpr double SMALLEST_SLOPE = 1e-290;
constexpr double LARGEST_SLOPE = 1e290;

constexpr double MAX_ACROSS = 32768;
constexpr uint32_t MAX_DEPTH = 12;
//! Levels that may leave most edges in one cell: edges that meet in one vertex never part
constexpr uint32_t MAX_STUCK = 2;
//! Copies of an edge, by all levels together: long edges that cross each other all over never become few
constexpr double MAX_SPREAD = 32;

constexpr uint32_t CHUNK_EDGES = 16384;
constexpr uint32_t STRIPE_EDGES = 4096;
constexpr size_t MAX_STRIPES = 1024;
//! A cell with more edges is refined by all threads together
constexpr size_t SHARED_EDGES = 32768;

//! How fine the cells are
struct Fineness {
	double cells_per_edge;       // of the first grid
	double inner_cells_per_edge; // of those in its cells
	double entries_per_edge;     // long edges are in many cells: coarser cells when they would be in more
	uint32_t edges_per_cell;     // a cell with more gets a grid
};

using Edge = vibe::CellEdge;
using vibe::MovedSide;
using vibe::PassesBelow;
using vibe::PassesLeft;

//! Does the way from one reference point to another cross the edge an odd number of times?
bool Parts(const Edge &edge, const Vec2 &from, const Vec2 &to) {
	const Vec2 corner {from.x, to.y};
	bool odd = false;
	if ((edge.a.y > to.y) != (edge.b.y > to.y)) {
		odd = PassesLeft(edge, corner) != PassesLeft(edge, to);
	}
	if ((edge.a.x > from.x) != (edge.b.x > from.x)) {
		odd ^= PassesBelow(edge, corner) != PassesBelow(edge, from);
	}
	return odd;
}

//! The first of the reference points 0 .. last that lies beyond a crossing (last + 1: none), which is about `at` in their
//! count, or unknown (NaN); beyond(k) decides exactly
template <class BEYOND>
uint32_t FirstBeyond(double at, uint32_t last, const BEYOND &beyond) {
	if (at < -REFERENCE_ROOM) {
		return 0;
	}
	if (at > last + REFERENCE_ROOM) {
		return last + 1;
	}
	if (at == at) {
		const double half_up = at + 0.5; // the nearest one, or one beside it: the comparisons below decide
		const auto k = static_cast<uint32_t>(static_cast<int32_t>(half_up));
		const double near = static_cast<int32_t>(k);
		if (at > near + REFERENCE_ROOM) {
			return k + 1;
		}
		return at < near - REFERENCE_ROOM || beyond(k) ? k : k + 1;
	}
	uint32_t low = 0, high = last + 1;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (beyond(middle)) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low;
}

constexpr double UNKNOWN = std::numeric_limits<double>::quiet_NaN();

//! Sorted, small
class AreaSet {
public:
	void Flip(uint32_t area) {
		auto at = std::lower_bound(areas.begin(), areas.end(), area);
		if (at != areas.end() && *at == area) {
			areas.erase(at);
		} else {
			areas.insert(at, area);
		}
	}
	bool Has(uint32_t area) const {
		return std::binary_search(areas.begin(), areas.end(), area);
	}
	std::vector<uint32_t> areas;
};

//! Where an area changes its status at the first reference point of the rows
struct RowFlip {
	uint32_t row;
	uint32_t area;
};

//! Consecutive edges of one area: edge i runs from vertex i to i + 1
struct Run {
	uint32_t begin;
	uint32_t count;
	uint32_t area;
};

//! What happens in a cell, in the order of the edges: a run is in it, and the status of the area changes at its reference
//! point (FLIP), or just one of these
struct Item {
	uint32_t cell;
	uint32_t begin;
	uint32_t count; // of edges, and FLIP
	uint32_t area;

	static constexpr uint32_t FLIP = 1u << 31;
	uint32_t Count() const {
		return count & ~FLIP;
	}
};

//! Grows without being cleared
class ItemList {
public:
	void Reserve(size_t more) {
		if (count + more > capacity) {
			Grow(more);
		}
	}
	Item *begin() {
		return items.get();
	}
	Item *end() {
		return items.get() + count;
	}

	size_t count = 0;

private:
	void Grow(size_t more) {
		capacity = std::max(2 * (count + more), size_t(256));
		std::unique_ptr<Item[]> larger(new Item[capacity]);
		std::copy(begin(), end(), larger.get());
		items = std::move(larger);
	}

	std::unique_ptr<Item[]> items;
	size_t capacity = 0;
};

struct ItemSpan {
	const Item *begin;
	const Item *end;
};

} // namespace

class CellIndexBuilder {
public:
	CellIndexBuilder(const std::vector<const ShapeView *> &areas, size_t memory_limit, const Fineness &fineness,
	                 Parallel &parallel)
	    : areas(areas), memory_limit(memory_limit), fineness(fineness), parallel(parallel), index(new CellIndex()) {
	}

	//! Null when over the limit
	std::unique_ptr<CellIndex> Build();

private:
	using Grid = CellIndex::Grid;
	using Unit = CellIndex::Unit;

	//! What one depth of one thread works with
	struct Level {
		std::vector<Run> runs;
		AreaSet start;
		std::vector<RowFlip> flips;
		ItemList items;
		ItemList sorted;
		std::vector<uint32_t> cell_begin;
		AreaSet active;
		std::vector<CellIndex::Partial> partials;
		std::vector<uint32_t> full;
	};
	//! One thread's memory, and where it writes in the pool
	struct Worker {
		std::vector<std::unique_ptr<Level>> levels;
		Unit *at = nullptr;
		uint32_t value = 0;
		uint32_t left = 0;
		std::vector<uint32_t> last_full; // the latest list without edges, and its word
		uint32_t last_full_word = 0;
		CellIndex::Figures figures;

		Level &LevelOf(uint32_t depth) {
			while (levels.size() <= depth) {
				levels.push_back(std::make_unique<Level>());
			}
			return *levels[depth];
		}
	};
	//! A grid in a cell, with so many edges that all threads build it
	struct Shared {
		Grid *grid;
		Box region;
		uint32_t depth;
		uint32_t stuck;
		double spread;
		std::vector<Run> runs;
		AreaSet start;
		std::vector<RowFlip> flips;
	};

	void BuildStriped(const std::vector<Run> &runs, const Grid &grid, const Box &region, const AreaSet &start,
	                  const std::vector<RowFlip> &flips, uint32_t depth, uint32_t stuck, double spread);
	void BuildRows(Worker &worker, const Grid &grid, const Box &region, uint32_t row_begin, uint32_t row_end,
	               const ItemSpan *spans, size_t span_count, const AreaSet &start, const std::vector<RowFlip> &flips,
	               uint32_t depth, uint32_t stuck, double spread);
	void Walk(ItemList &list, const Grid &grid, const Run &run, bool from_outside) const;
	uint32_t Refine(Worker &worker, const Grid &grid, const Box &region, uint32_t column, uint32_t row,
	                const ItemSpan &items, const AreaSet &active, uint32_t depth, uint32_t stuck, double spread);
	uint32_t WriteCell(Worker &worker, Level &level, const CellIndex::Frame &frame, const ItemSpan &items);
	uint32_t WriteFull(Worker &worker, const std::vector<uint32_t> &full);

	static void SetAxis(double min, double max, double largest, double wanted, double &per_unit, double &size,
	                    uint32_t &last);
	double SetGrid(Grid &grid, const Box &box, double largest_x, double largest_y, double edge_count, double sum_x,
	               double sum_y, double cells_per_edge);

	std::unique_ptr<Worker> TakeWorker();
	void ReturnWorker(std::unique_ptr<Worker> worker);
	//! Null once the limit is reached
	Unit *Allocate(Worker &worker, size_t units, uint32_t &value);

	const std::vector<const ShapeView *> &areas;
	const size_t memory_limit;
	const Fineness fineness;
	Parallel &parallel;
	std::unique_ptr<CellIndex> index;
	Vec2 *vertices = nullptr;
	size_t fixed_bytes = 0; // beside the pool

	std::mutex lock;
	std::vector<std::unique_ptr<Worker>> idle;
	std::vector<std::unique_ptr<Shared>> shared;
	std::atomic<bool> over_limit {false};
};

CellIndex::~CellIndex() = default;

size_t CellIndex::MemoryUsage() const {
	return (size_t(top.last_column) + 1) * (size_t(top.last_row) + 1) * sizeof(uint32_t) + vertex_count * sizeof(Vec2) +
	       pool_units * sizeof(Unit) + chunks.capacity() * sizeof(Unit *);
}

CellIndex::Pieces CellIndex::GetPieces() const {
	static_assert(CHUNK_BYTES == CHUNK_UNITS * sizeof(Unit), "the pool without gaps");
	Pieces pieces {};
	pieces.view.box = box;
	pieces.view.top = top;
	pieces.top_words = top_words.get();
	pieces.top_word_count = (size_t(top.last_column) + 1) * (size_t(top.last_row) + 1);
	pieces.chunks.assign(chunks.begin(), chunks.end());
	pieces.vertices = vertices.get();
	pieces.vertex_count = vertex_count;
	return pieces;
}

namespace {

typedef double Pair __attribute__((vector_size(16)));
typedef int64_t PairMask __attribute__((vector_size(16)));

//! What comparisons say about up to 64 vertices, a bit for each
struct Compared {
	uint64_t left, right;         // of p
	uint64_t below, above;        // p
	uint64_t beyond, beyond_line; // the reference point's x, and its y

	Compared(const Vec2 *vertices, uint32_t count, const Vec2 &p, const Vec2 &reference) {
		const Pair at_p {p.x, p.y}, at_reference {reference.x, reference.y};
		PairMask less {0, 0}, more {0, 0}, more_than_reference {0, 0}, bit {1, 1};
		for (uint32_t i = 0; i < count; i++) {
			const Pair vertex {vertices[i].x, vertices[i].y};
			less |= (vertex < at_p) & bit;
			more |= (vertex > at_p) & bit;
			more_than_reference |= (vertex > at_reference) & bit;
			bit += bit;
		}
		left = static_cast<uint64_t>(less[0]);
		below = static_cast<uint64_t>(less[1]);
		right = static_cast<uint64_t>(more[0]);
		above = static_cast<uint64_t>(more[1]);
		beyond = static_cast<uint64_t>(more_than_reference[0]);
		beyond_line = static_cast<uint64_t>(more_than_reference[1]);
	}
};

//! A bit for each vertex: it and the next differ
uint64_t Changes(uint64_t bits) {
	return bits ^ bits >> 1;
}

} // namespace

vibe::Location CellIndex::LocateAmong(const Partial *&partial, const Vec2 &reference, const Vec2 &p,
                                      const Extent &way) const {
	bool inside = partial->inside, on = false, more;
	do {
		if (!partial->extent.Meets(way)) {
			more = partial->more;
			partial++;
			continue;
		}
		const uint64_t edges = (uint64_t(1) << partial->edges) - 1;
		const Vec2 *const at = &vertices[partial->begin];
		more = partial->more;
		const Compared is(at, partial->edges + 1u, p, reference);
		partial++;

		const uint64_t across = Changes(is.above) & edges; // edges that cross y = p.y, the first half of the way
		const uint64_t along = Changes(is.beyond) & edges; // x = reference.x, its second half
		const uint64_t level = ~(is.above | is.below) & (edges | edges << 1);
		if (level != 0) {
			// p may be a vertex, or on a horizontal edge
			on = on || (level & ~(is.left | is.right)) != 0 || (level & level >> 1 & Changes(is.right) & edges) != 0;
		}
		// Most edges lie on one side of p, and of the reference line, altogether
		const uint64_t passes_left = is.left & is.left >> 1;
		const uint64_t beside_p = passes_left | (is.right & is.right >> 1);
		const uint64_t beside_line = ~Changes(is.beyond_line);
		uint64_t crossed = across & ~along & beside_p & ~(passes_left ^ is.beyond);
		crossed |= along & ~across & beside_line & (is.beyond_line ^ is.above);
		crossed |=
		    across & along & beside_p & beside_line & (passes_left ^ is.above >> 1 ^ is.beyond_line ^ is.beyond >> 1);
		inside ^= __builtin_parityll(crossed);

		uint64_t open = (across & ~beside_p) | (along & ~beside_line);
		for (; open != 0; open &= open - 1) {
			const int i = __builtin_ctzll(open);
			const Edge edge {at[i], at[i + 1]};
			const bool is_across = across >> i & 1, is_along = along >> i & 1;
			int side = 0;
			if (is_across) {
				side = vibe::Orient2d(edge.a, edge.b, p);
				on = on || side == 0;
			}
			if (is_across && is_along) {
				inside ^= side != MovedSide(edge, reference);
			} else if (is_across) {
				const bool left = (side > 0) != (edge.b.y > p.y);
				inside ^= left == (edge.a.x > reference.x);
			} else {
				inside ^= PassesBelow(edge, reference) == (edge.a.y > p.y);
			}
		}
	} while (more);
	return on ? vibe::LOC_BOUNDARY : inside ? vibe::LOC_INTERIOR : vibe::LOC_EXTERIOR;
}

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

CellIndexBuilder::Unit *CellIndexBuilder::Allocate(Worker &worker, size_t units, uint32_t &value) {
	if (units > worker.left) {
		// What does not fit in what is left of the chunk gets a new one, or chunks of its own when it is large
		const size_t count = (units + CellIndex::CHUNK_UNITS - 1) / CellIndex::CHUNK_UNITS;
		std::lock_guard<std::mutex> guard(lock);
		const size_t first = index->chunks.size();
		index->pool_units += count * CellIndex::CHUNK_UNITS;
		if ((first + count) * CellIndex::CHUNK_UNITS > CellIndex::MAX_VALUE ||
		    index->pool_units * sizeof(Unit) + fixed_bytes > memory_limit) {
			over_limit = true;
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

//! At most `wanted` cells; one when there is no way to tell more apart
void CellIndexBuilder::SetAxis(double min, double max, double largest, double wanted, double &per_unit, double &size,
                               uint32_t &last) {
	const double extent = max - min;
	per_unit = 0;
	size = 0;
	last = 0;
	if (!(extent >= SMALLEST_EXTENT && extent <= LARGEST_EXTENT && largest <= LARGEST_EXTENT)) {
		return;
	}
	const double most = std::min(MAX_ACROSS, extent / (largest * SMALLEST_CELL));
	const double cells = std::floor(std::min(wanted, most));
	if (!(cells >= 2)) {
		size = extent;
		return;
	}
	size = extent / cells;
	per_unit = cells / extent;
	last = static_cast<uint32_t>(cells) - 1;
}

//! sum_x, sum_y: the widths and heights of all edges. Returns about how many cells an edge is in.
double CellIndexBuilder::SetGrid(Grid &grid, const Box &box, double largest_x, double largest_y, double edge_count,
                                 double sum_x, double sum_y, double cells_per_edge) {
	grid.min_x = box.min_x;
	grid.min_y = box.min_y;
	const double width = box.max_x - box.min_x, height = box.max_y - box.min_y;
	const double cells = cells_per_edge * edge_count;
	double columns = std::sqrt(cells * (width / height)), rows = std::sqrt(cells * (height / width));
	if (!std::isfinite(columns) || !std::isfinite(rows)) {
		// Thin beyond measure, or too large for one: cut the longer side
		columns = width > height ? cells : 1;
		rows = width > height ? 1 : cells;
	}
	if (columns < 1) {
		columns = 1;
		rows = cells;
	} else if (rows < 1) {
		rows = 1;
		columns = cells;
	}
	const double more = columns * (sum_x / width) + rows * (sum_y / height);
	const double most = (fineness.entries_per_edge - 1) * edge_count;
	if (more > most) {
		columns *= most / more;
		rows *= most / more;
	}
	SetAxis(box.min_x, box.max_x, largest_x, columns, grid.columns_per_x, grid.width, grid.last_column);
	SetAxis(box.min_y, box.max_y, largest_y, rows, grid.rows_per_y, grid.height, grid.last_row);
	return 1 + std::min(more, most) / edge_count;
}

namespace {

//! The cell of a vertex, less room at its borders: edges in there are in no other cell
template <class GRID>
struct SafeCell {
	Vec2 reference;
	double half_x, half_y;
	uint32_t column, row;

	SafeCell(const GRID &grid, const Vec2 &v) : column(grid.Column(v.x)), row(grid.Row(v.y)) {
		reference = grid.Reference(column, row);
		half_x = (0.5 - EDGE_ROOM) * grid.width;
		half_y = (0.5 - EDGE_ROOM) * grid.height;
	}
	bool Has(const Vec2 &v) const {
		return (std::fabs(v.x - reference.x) <= half_x) & (std::fabs(v.y - reference.y) <= half_y);
	}
};

//! Writes the items of one run
class ItemWriter {
public:
	ItemWriter(ItemList &list, uint32_t area) : list(list), area(area), first(list.count) {
	}
	void Reserve(size_t more) {
		list.Reserve(more);
	}
	//! Edges are in the cell, and its reference point changes its status
	void Add(uint32_t cell, uint32_t begin, uint32_t count, bool flip) {
		const uint32_t more = flip ? Item::FLIP : 0;
		Item *const end = list.end();
		for (Item *item = end, *stop = Recent(); item > stop;) {
			item--;
			if (item->cell == cell && item->begin + item->Count() == begin) {
				item->count = (item->count + count) ^ more;
				return;
			}
		}
		*end = Item {cell, begin, count | more, area};
		list.count++;
	}
	//! The edge passes left of the cell's reference point, and right of the one before
	void Flip(uint32_t cell, uint32_t edge) {
		Item *const end = list.end();
		for (Item *item = end, *stop = Recent(); item > stop;) {
			item--;
			if (item->cell == cell) {
				item->count ^= Item::FLIP;
				return;
			}
		}
		*end = Item {cell, edge, Item::FLIP, area};
		list.count++;
	}

private:
	static constexpr size_t LOOK_BACK = 4;
	Item *Recent() {
		return list.begin() + (list.count - first > LOOK_BACK ? list.count - LOOK_BACK : first);
	}

	ItemList &list;
	const uint32_t area;
	const size_t first;
};

} // namespace

//! Adds the cells that the edges of a run meet, and their crossings of the rows' reference lines
void CellIndexBuilder::Walk(ItemList &list, const Grid &grid, const Run &run, bool from_outside) const {
	ItemWriter writer(list, run.area);
	const uint32_t columns = grid.last_column + 1;
	const uint32_t end = run.begin + run.count;
	for (uint32_t i = run.begin; i < end;) {
		const SafeCell<Grid> safe(grid, vertices[i]);
		if (safe.Has(vertices[i])) {
			// Most edges are in one cell, and many follow each other there
			const uint32_t first = i;
			const Vec2 reference = safe.reference;
			bool above = vertices[i].y > reference.y;
			uint32_t flips = 0, next_flips = 0;
			for (; i < end && safe.Has(vertices[i + 1]); i++) {
				const bool above_before = above;
				above = vertices[i + 1].y > reference.y;
				if (above != above_before) {
					const Edge edge {vertices[i], vertices[i + 1]};
					const bool left = edge.a.x < reference.x && edge.b.x < reference.x;
					const bool right = edge.a.x > reference.x && edge.b.x > reference.x;
					(left || (!right && PassesLeft(edge, reference)) ? flips : next_flips) ^= 1;
				}
			}
			if (i > first) {
				const uint32_t cell = static_cast<uint32_t>(grid.CellOf(safe.column, safe.row));
				writer.Reserve(2);
				writer.Add(cell, first, i - first, flips && (safe.column > 0 || from_outside));
				if (next_flips && safe.column < grid.last_column) {
					writer.Flip(cell + 1, first);
				}
				if (i == end) {
					break;
				}
			}
		}
		const Edge edge {vertices[i], vertices[i + 1]};
		const uint32_t number = i++;
		const bool up = edge.a.y <= edge.b.y;
		const Vec2 &low = up ? edge.a : edge.b, &high = up ? edge.b : edge.a;
		const double min_x = low.x < high.x ? low.x : high.x, max_x = low.x < high.x ? high.x : low.x;
		const double from_row = (low.y - grid.min_y) * grid.rows_per_y - EDGE_ROOM;
		const double to_row = (high.y - grid.min_y) * grid.rows_per_y + EDGE_ROOM;
		const double from_column = (min_x - grid.min_x) * grid.columns_per_x - EDGE_ROOM;
		const double to_column = (max_x - grid.min_x) * grid.columns_per_x + EDGE_ROOM;
		if (to_row < 0 || from_row >= grid.last_row + 1 || to_column < 0 || from_column >= columns) {
			continue; // crosses no way between reference points either
		}
		const uint32_t first_row = Grid::Place(from_row, grid.last_row);
		const uint32_t last_row = Grid::Place(to_row, grid.last_row);
		const uint32_t first_column = Grid::Place(from_column, grid.last_column);
		const uint32_t last_column = Grid::Place(to_column, grid.last_column);

		// Where it is in each row; in all cells of its box when that is not to be had with full precision
		double slope = 0;
		bool precise = false;
		if (first_column != last_column) {
			slope = (high.x - low.x) / (high.y - low.y);
			precise = low.x == high.x || (std::fabs(slope) > SMALLEST_SLOPE && std::fabs(slope) < LARGEST_SLOPE);
		}
		const bool divide = precise && first_row != last_row && grid.height > 0;
		for (uint32_t row = first_row; row <= last_row; row++) {
			const uint32_t row_cell = row * columns;
			writer.Reserve(columns + 1);
			uint32_t from = first_column, to = last_column;
			if (divide) {
				const double bottom = grid.min_y + (row - EDGE_ROOM) * grid.height;
				const double top = grid.min_y + (row + 1 + EDGE_ROOM) * grid.height;
				const double x0 = bottom <= low.y ? low.x : low.x + (bottom - low.y) * slope;
				const double x1 = top >= high.y ? high.x : low.x + (top - low.y) * slope;
				const double from_here = ((x0 < x1 ? x0 : x1) - grid.min_x) * grid.columns_per_x - EDGE_ROOM;
				const double to_here = ((x0 < x1 ? x1 : x0) - grid.min_x) * grid.columns_per_x + EDGE_ROOM;
				if (to_here < 0 || from_here >= columns) {
					from = 1, to = 0;
				} else {
					from = std::max(from, Grid::Place(from_here, grid.last_column));
					to = std::min(to, Grid::Place(to_here, grid.last_column));
				}
			}
			for (uint32_t column = from; column <= to; column++) {
				writer.Add(row_cell + column, number, 1, false);
			}
			const Vec2 reference = grid.Reference(from, row);
			if ((low.y > reference.y) != (high.y > reference.y)) {
				uint32_t column = from;
				if (first_column == last_column) {
					column += !(max_x < reference.x || (min_x <= reference.x && PassesLeft(edge, reference)));
				} else {
					const double x = low.x + (reference.y - low.y) * slope;
					const double at = precise ? (x - grid.min_x) * grid.columns_per_x - 0.5 : UNKNOWN;
					column = FirstBeyond(at, grid.last_column,
					                     [&](uint32_t k) { return PassesLeft(edge, grid.Reference(k, row)); });
				}
				if (column <= grid.last_column && (column > 0 || from_outside)) {
					writer.Flip(row_cell + column, number);
				}
			}
		}
	}
}

uint32_t CellIndexBuilder::WriteFull(Worker &worker, const std::vector<uint32_t> &full) {
	if (full.empty()) {
		return 0;
	}
	if (full.size() == 1) {
		return full[0] | uint32_t(CellIndex::FULL) << CellIndex::KIND_SHIFT;
	}
	if (full == worker.last_full) {
		return worker.last_full_word; // neighbours often have the same areas
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

//! The word of a cell with edges
uint32_t CellIndexBuilder::WriteCell(Worker &worker, Level &level, const CellIndex::Frame &frame,
                                     const ItemSpan &items) {
	auto &partials = level.partials;
	partials.clear();
	level.full.clear();
	const auto &active = level.active.areas;
	size_t next_active = 0;
	uint64_t edge_count = 0;
	for (const Item *item = items.begin; item < items.end;) {
		uint32_t begin = item->begin, end = begin + item->Count();
		const uint32_t area = item->area;
		for (item++; item < items.end && item->area == area && (item->begin == end || item->Count() == 0); item++) {
			end += item->Count(); // goes on, in the items of another chunk or of an edge that left
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
			                                       static_cast<uint8_t>(edges), inside, false});
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

//! A grid inside a cell; 0 when a finer one does not help. `region`: where all edges are known, and all edges are.
uint32_t CellIndexBuilder::Refine(Worker &worker, const Grid &grid, const Box &region, uint32_t column, uint32_t row,
                                  const ItemSpan &items, const AreaSet &active, uint32_t depth, uint32_t stuck,
                                  double spread) {
	if (depth >= MAX_DEPTH || stuck > MAX_STUCK) {
		return 0;
	}
	// The cell, and its edges as far as they are in it
	Box cell = region;
	if (grid.last_column > 0) {
		cell.min_x = std::max(cell.min_x, grid.min_x + (column - GRID_ROOM) * grid.width);
		cell.max_x = std::min(cell.max_x, grid.min_x + (column + 1 + GRID_ROOM) * grid.width);
	}
	if (grid.last_row > 0) {
		cell.min_y = std::max(cell.min_y, grid.min_y + (row - GRID_ROOM) * grid.height);
		cell.max_y = std::min(cell.max_y, grid.min_y + (row + 1 + GRID_ROOM) * grid.height);
	}
	Level &level = worker.LevelOf(depth + 1);
	auto &runs = level.runs;
	runs.clear();
	Box content = Box::Empty();
	double sum_x = 0, sum_y = 0, largest_x = 0, largest_y = 0;
	size_t edge_count = 0;
	for (const Item *item = items.begin; item < items.end; item++) {
		const uint32_t count = item->Count();
		if (count == 0) {
			continue;
		}
		runs.push_back(Run {item->begin, count, item->area});
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
	Grid finer {};
	spread *= SetGrid(finer, content, largest_x, largest_y, static_cast<double>(edge_count), sum_x, sum_y,
	                  fineness.inner_cells_per_edge);
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
	Grid *written = new (at) Grid(finer);
	worker.figures.grids++;
	worker.figures.cells += cells;

	// The status of its first reference point, and where the way up from there changes it
	level.start = active;
	level.flips.clear();
	const Vec2 from = grid.Reference(column, row), first = finer.Reference(0, 0);
	auto sides_of = [&](const Vec2 &v) { return (v.y > first.y) | (v.x > from.x) << 1 | (v.x > first.x) << 2; };
	for (auto &run : runs) {
		int sides = sides_of(vertices[run.begin]);
		for (uint32_t i = run.begin; i < run.begin + run.count; i++) {
			const int before = sides;
			sides = sides_of(vertices[i + 1]);
			if (sides == before) {
				continue; // as most
			}
			const Edge edge {vertices[i], vertices[i + 1]};
			if (Parts(edge, from, first)) {
				level.start.Flip(run.area);
			}
			if ((edge.a.x > first.x) != (edge.b.x > first.x)) {
				const double y = edge.a.y + (first.x - edge.a.x) / (edge.b.x - edge.a.x) * (edge.b.y - edge.a.y);
				const double place = finer.last_row == 0 ? UNKNOWN : (y - finer.min_y) * finer.rows_per_y - 0.5;
				const uint32_t beyond = FirstBeyond(
				    place, finer.last_row, [&](uint32_t k) { return PassesBelow(edge, finer.Reference(0, k)); });
				if (beyond > 0 && beyond <= finer.last_row) {
					level.flips.push_back(RowFlip {beyond, run.area});
				}
			}
		}
	}
	std::sort(level.flips.begin(), level.flips.end(),
	          [](const RowFlip &left, const RowFlip &right) { return left.row < right.row; });

	if (edge_count >= SHARED_EDGES) {
		auto later = std::make_unique<Shared>(Shared {written, content, depth + 1, stuck, spread, std::move(runs),
		                                              std::move(level.start), std::move(level.flips)});
		std::lock_guard<std::mutex> guard(lock);
		shared.push_back(std::move(later));
	} else {
		level.items.count = 0;
		for (auto &run : runs) {
			Walk(level.items, *written, run, false);
		}
		const ItemSpan span {level.items.begin(), level.items.end()};
		BuildRows(worker, *written, content, 0, finer.last_row + 1, &span, 1, level.start, level.flips, depth + 1,
		          stuck, spread);
	}
	return value | uint32_t(CellIndex::GRID) << CellIndex::KIND_SHIFT;
}

//! Fills the words of some rows from their items. `start`: the areas that hold the first reference point of row 0, at
//! depth 0 a point left of everything.
void CellIndexBuilder::BuildRows(Worker &worker, const Grid &grid, const Box &region, uint32_t row_begin,
                                 uint32_t row_end, const ItemSpan *spans, size_t span_count, const AreaSet &start,
                                 const std::vector<RowFlip> &flips, uint32_t depth, uint32_t stuck, double spread) {
	Level &level = worker.LevelOf(depth);
	const uint32_t columns = grid.last_column + 1;
	const size_t cells = size_t(row_end - row_begin) * columns;
	const uint32_t first_cell = row_begin * columns;

	// In the order of the cells, and of the edges in each
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

	AreaSet row_start = start;
	size_t flip = 0;
	for (uint32_t row = row_begin; row < row_end; row++) {
		if (over_limit) {
			return;
		}
		while (flip < flips.size() && flips[flip].row <= row) {
			row_start.Flip(flips[flip++].area);
		}
		level.active = row_start;
		uint32_t *word = grid.words + grid.CellOf(0, row);
		const uint32_t *cell_begin = begin.data() + size_t(row - row_begin) * columns;
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
					level.active.Flip(area);
				}
			}
			uint32_t here = 0;
			if (edges > fineness.edges_per_cell) {
				const bool most = edges > edge_count / 4 * 3;
				here = Refine(worker, grid, region, column, row, items, level.active, depth, stuck + most, spread);
			}
			if (here == 0) {
				here = edges > 0 ? WriteCell(worker, level, CellIndex::Frame(grid, column, row), items)
				                 : WriteFull(worker, level.active.areas);
			}
			word[column++] = here;
		}
	}
}

namespace {

//! Runs in chunks of about as many edges
class ChunkedRuns {
public:
	explicit ChunkedRuns(const std::vector<Run> &runs) : runs(runs), begin(runs.size() + 1, 0) {
		for (size_t i = 0; i < runs.size(); i++) {
			begin[i + 1] = begin[i] + runs[i].count;
		}
	}
	size_t Edges() const {
		return begin.back();
	}
	size_t Count() const {
		return (Edges() + CHUNK_EDGES - 1) / CHUNK_EDGES;
	}
	//! use(number of the run, its part in the chunk)
	template <class USE>
	void Visit(size_t chunk, const USE &use) const {
		const size_t from = chunk * CHUNK_EDGES, to = from + CHUNK_EDGES;
		size_t i = std::upper_bound(begin.begin(), begin.end(), from) - begin.begin() - 1;
		for (; i < runs.size() && begin[i] < to; i++) {
			const uint32_t skip = static_cast<uint32_t>(std::max(from, begin[i]) - begin[i]);
			const uint32_t end = static_cast<uint32_t>(std::min(to, begin[i + 1]) - begin[i]);
			if (skip < end) {
				use(i, Run {runs[i].begin + skip, end - skip, runs[i].area});
			}
		}
	}

private:
	const std::vector<Run> &runs;
	std::vector<size_t> begin;
};

} // namespace

//! Builds a grid by all threads: first the items of each chunk of edges, then stripe by stripe of rows
void CellIndexBuilder::BuildStriped(const std::vector<Run> &runs, const Grid &grid, const Box &region,
                                    const AreaSet &start, const std::vector<RowFlip> &flips, uint32_t depth,
                                    uint32_t stuck, double spread) {
	const ChunkedRuns source(runs);
	const size_t rows = size_t(grid.last_row) + 1;
	const size_t wanted = std::min({rows, MAX_STRIPES, source.Edges() / STRIPE_EDGES + 1});
	uint32_t shift = 0; // 2^shift rows a stripe
	while ((rows >> shift) > wanted) {
		shift++;
	}
	const size_t stripes = ((rows - 1) >> shift) + 1;
	struct Chunk {
		std::unique_ptr<Item[]> items;      // by stripe, then in order
		std::vector<uint32_t> stripe_begin; // stripes + 1
	};
	std::vector<Chunk> chunks(source.Count());
	const double rows_per_cell = 1.0 / (static_cast<double>(grid.last_column) + 1);
	parallel.For(chunks.size(), [&](size_t number) {
		auto worker = TakeWorker();
		ItemList &list = worker->LevelOf(depth).items;
		list.count = 0;
		source.Visit(number, [&](size_t, const Run &run) { Walk(list, grid, run, depth == 0); });
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
		chunk.items.reset(new Item[list.count]);
		for (auto &item : list) {
			chunk.items[begin[stripe_of(item) + 1]++] = item;
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
		BuildRows(*worker, grid, region, row_begin, row_end, spans.data(), spans.size(), start, flips, depth, stuck,
		          spread);
		ReturnWorker(std::move(worker));
	});
}

std::unique_ptr<CellIndex> CellIndexBuilder::Build() {
	auto &figures = index->figures;
	for (auto area : areas) {
		if (area && area->AreaVertexEnd() > 0) {
			index->box.Add(area->box);
			figures.areas++;
		}
	}
	const Box &box = index->box;
	if (box.IsEmpty()) {
		index->top_words.reset(new uint32_t[1] {0});
		index->top.words = index->top_words.get();
		return std::move(index);
	}

	// All vertices in one place, the rings as runs of edges
	std::vector<Run> runs;
	std::vector<uint32_t> first_vertex(areas.size());
	uint32_t vertex_count = 0;
	for (size_t i = 0; i < areas.size(); i++) {
		first_vertex[i] = vertex_count;
		if (!areas[i]) {
			continue;
		}
		for (uint32_t r = 0; r < areas[i]->ring_count && areas[i]->rings[r].is_area; r++) {
			const auto &ring = areas[i]->rings[r];
			runs.push_back(Run {vertex_count + ring.begin, ring.end - ring.begin - 1, static_cast<uint32_t>(i)});
		}
		vertex_count += areas[i]->AreaVertexEnd();
	}
	fixed_bytes = vertex_count * sizeof(Vec2);
	if (fixed_bytes > memory_limit) {
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
				*to = here; // else the next part has it
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
	const double spread = SetGrid(grid, box, std::max(std::fabs(box.min_x), std::fabs(box.max_x)),
	                              std::max(std::fabs(box.min_y), std::fabs(box.max_y)),
	                              static_cast<double>(figures.edges), all.x, all.y, fineness.cells_per_edge);
	const size_t cells = size_t(grid.last_column + 1) * (grid.last_row + 1);
	fixed_bytes += cells * sizeof(uint32_t);
	if (fixed_bytes > memory_limit) {
		return nullptr;
	}
	index->top_words.reset(new uint32_t[cells]);
	grid.words = index->top_words.get();
	figures.grids = 1;
	figures.cells = cells;

	BuildStriped(runs, grid, box, AreaSet(), {}, 0, 0, spread);
	while (!shared.empty() && !over_limit) {
		const auto next = std::move(shared.back());
		shared.pop_back();
		BuildStriped(next->runs, *next->grid, next->region, next->start, next->flips, next->depth, next->stuck,
		             next->spread);
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

namespace {

constexpr Fineness FINEST {2, 0.5, 6, 32};
//! Coarser ones save next to nothing: every edge is read once anyway
constexpr Fineness COARSEST {1.0 / 8, 1.0 / 16, 6, 4096};

//! An edge costs as much more to build as it crosses borders of cells, sqrt(cells / edges); a point as much more as edges
//! are in its way to the reference point, sqrt(edges / cells). Measured, the sum over all edges and all points is least
//! with about so many cells; a half or the double of it cost a tenth more.
constexpr double CELLS_PER_POINT = 0.6;
//! Refining a cell costs as much as having so many more points in it look at its edges. Where the edges are, there are
//! points: taken as shared out alike.
constexpr double POINTS_PER_REFINED = 1500;

double Between(double low, double value, double high) {
	return std::min(std::max(low, value), high);
}

//! points: 0 when unknown
Fineness FinenessFor(double edges, double points) {
	if (points == 0 || edges == 0) {
		return FINEST;
	}
	const double cells = CELLS_PER_POINT * points / edges;
	Fineness fineness = FINEST;
	fineness.cells_per_edge = Between(COARSEST.cells_per_edge, cells, FINEST.cells_per_edge);
	fineness.inner_cells_per_edge = Between(COARSEST.inner_cells_per_edge, cells, FINEST.inner_cells_per_edge);
	fineness.edges_per_cell = static_cast<uint32_t>(
	    Between(FINEST.edges_per_cell, POINTS_PER_REFINED * edges / points, COARSEST.edges_per_cell));
	return fineness;
}

//! For less memory
Fineness Coarser(const Fineness &fineness) {
	return Fineness {fineness.cells_per_edge / 8, fineness.inner_cells_per_edge / 4, 2, fineness.edges_per_cell * 4};
}

} // namespace

std::unique_ptr<CellIndex> CellIndex::Build(const std::vector<const ShapeView *> &areas, size_t memory_limit,
                                            Parallel &parallel, uint64_t expected_points) {
	if (areas.size() > MAX_VALUE) {
		return nullptr;
	}
	uint64_t vertices = 0;
	for (auto area : areas) {
		vertices += area ? area->AreaVertexEnd() : 0;
	}
	if (vertices > INT32_MAX) {
		return nullptr; // edges are numbered with 31 bits
	}
	Fineness fineness = FinenessFor(static_cast<double>(vertices), static_cast<double>(expected_points));
	for (int attempt = 0; attempt < 3; attempt++) {
		auto index = CellIndexBuilder(areas, memory_limit, fineness, parallel).Build();
		if (index) {
			return index;
		}
		fineness = Coarser(fineness);
	}
	return nullptr;
}

} // namespace vibespatial
