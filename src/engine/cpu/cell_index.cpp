#include "engine/cpu/cell_index.hpp"

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
constexpr double EDGE_ROOM = 1.0 / 32;
//! Inside a cell finer grids cover this much more than the cell; less than EDGE_ROOM, so all edges there are known
constexpr double GRID_ROOM = 1.0 / 128;
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

constexpr uint32_t CHUNK_VERTICES = 16384;
constexpr uint32_t STRIPE_EDGES = 4096;
constexpr size_t MAX_STRIPES = 1024;
//! A cell with more edges is refined by all threads together
constexpr size_t SHARED_EDGES = 32768;

struct Edge {
	Vec2 a;
	Vec2 b;
};

//! How fine the cells are
struct Fineness {
	double cells_per_edge;       // of the first grid
	double inner_cells_per_edge; // of those in its cells
	double entries_per_edge;     // long edges are in many cells: coarser cells when they would be in more
	uint32_t edges_per_cell;     // a cell with more gets a grid
};

//! The side of ab on which q lies after a move by an infinitely small (e, e^2): never 0
int MovedSide(const Edge &edge, const Vec2 &q) {
	const int side = vibe::Orient2d(edge.a, edge.b, q);
	if (side != 0) {
		return side;
	}
	if (edge.a.y != edge.b.y) {
		return edge.a.y > edge.b.y ? 1 : -1;
	}
	return edge.b.x > edge.a.x ? 1 : -1;
}

//! Does the edge pass left of q, of those that cross y = q.y?
bool PassesLeft(const Edge &edge, const Vec2 &q) {
	return (MovedSide(edge, q) > 0) != (edge.b.y > q.y);
}

//! Does the edge pass below q, of those that cross x = q.x?
bool PassesBelow(const Edge &edge, const Vec2 &q) {
	return (MovedSide(edge, q) > 0) == (edge.b.x > q.x);
}

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
		const auto k = static_cast<uint32_t>(static_cast<int32_t>(at + 0.5));
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

//! Edges in the order of their areas
struct EdgeSet {
	std::vector<Edge> edges;
	std::vector<uint32_t> areas;

	void Clear() {
		edges.clear();
		areas.clear();
	}
};

//! Where an area changes its status at the first reference point of the rows
struct RowFlip {
	uint32_t row;
	uint32_t area;
};

//! Consecutive edges of one source that meet one stripe of rows
struct Run {
	uint32_t stripe;
	uint32_t source;
	uint32_t begin;
	uint32_t end;
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

	struct Item {
		uint32_t cell;
		uint32_t what; // edge * 2, and 1 when it is a crossing of the row's reference line
	};
	//! What one depth of one thread works with
	struct Level {
		EdgeSet set;
		AreaSet start;
		std::vector<RowFlip> flips;
		std::vector<Item> items; // grows only; item_count are in use
		size_t item_count = 0;
		std::vector<uint32_t> cell_begin;
		std::vector<uint32_t> sorted;
		AreaSet active;
		std::vector<Vec2> vertices; // grows only
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
		EdgeSet set;
		AreaSet start;
		std::vector<RowFlip> flips;
	};

	template <class SOURCE>
	void BuildStriped(const SOURCE &source, const Grid &grid, const Box &region, const AreaSet &start,
	                  const std::vector<RowFlip> &flips, uint32_t depth, uint32_t stuck, double spread);
	void BuildRows(Worker &worker, const Grid &grid, const Box &region, uint32_t row_begin, uint32_t row_end,
	               const EdgeSet &set, const AreaSet &start, const std::vector<RowFlip> &flips, uint32_t depth,
	               uint32_t stuck, double spread);
	void Register(Level &level, const Grid &grid, uint32_t row_begin, uint32_t row_end, const Edge &edge,
	              uint32_t number, bool from_outside);
	uint32_t Refine(Worker &worker, const Grid &grid, const Box &region, uint32_t column, uint32_t row,
	                const EdgeSet &set, const uint32_t *items, size_t item_count, const AreaSet &active, uint32_t depth,
	                uint32_t stuck, double spread);
	uint32_t WriteCell(Worker &worker, Level &level, const EdgeSet &set, const uint32_t *items, size_t item_count);
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

	std::mutex lock;
	std::vector<std::unique_ptr<Worker>> idle;
	std::vector<std::unique_ptr<Shared>> shared;
	std::atomic<bool> over_limit {false};
};

CellIndex::~CellIndex() = default;

size_t CellIndex::MemoryUsage() const {
	return top_words.capacity() * sizeof(uint32_t) + pool_units * sizeof(Unit) + chunks.capacity() * sizeof(Unit *);
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

vibe::Location CellIndex::LocateAmong(const Partial *&partial, const Vec2 *&vertices, const Vec2 &reference,
                                      const Vec2 &p) {
	bool inside = partial->inside, on = false, more;
	do {
		const uint64_t edges = partial->edges;
		const Vec2 *const at = vertices;
		more = partial->more;
		const Compared is(at, partial->vertices, p, reference);
		vertices += partial->vertices;
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
		    index->pool_units * sizeof(Unit) + index->top_words.size() * sizeof(uint32_t) > memory_limit) {
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

//! Adds the cells of the rows [row_begin, row_end) that the edge meets, and its crossings of their reference lines
void CellIndexBuilder::Register(Level &level, const Grid &grid, uint32_t row_begin, uint32_t row_end, const Edge &edge,
                                uint32_t number, bool from_outside) {
	const uint32_t columns = grid.last_column + 1;
	const bool up = edge.a.y <= edge.b.y;
	const Vec2 &low = up ? edge.a : edge.b, &high = up ? edge.b : edge.a;
	const double from_row = (low.y - grid.min_y) * grid.rows_per_y - EDGE_ROOM;
	const double to_row = (high.y - grid.min_y) * grid.rows_per_y + EDGE_ROOM;
	const double from_column = ((low.x < high.x ? low.x : high.x) - grid.min_x) * grid.columns_per_x - EDGE_ROOM;
	const double to_column = ((low.x < high.x ? high.x : low.x) - grid.min_x) * grid.columns_per_x + EDGE_ROOM;
	if (to_row < row_begin || from_row >= row_end || to_column < 0 || from_column >= columns) {
		return; // crosses no way between reference points either
	}
	const uint32_t first_row = std::max(Grid::Place(from_row, grid.last_row), row_begin);
	const uint32_t last_row = std::min(Grid::Place(to_row, grid.last_row), row_end - 1);
	const uint32_t first_column = Grid::Place(from_column, grid.last_column);
	const uint32_t last_column = Grid::Place(to_column, grid.last_column);

	// Where it is in each row; in all cells of its box when that is not to be had with full precision
	const double slope = (high.x - low.x) / (high.y - low.y);
	const bool precise = low.x == high.x || (std::fabs(slope) > SMALLEST_SLOPE && std::fabs(slope) < LARGEST_SLOPE);
	const bool divide = precise && first_column != last_column && grid.height > 0;
	for (uint32_t row = first_row; row <= last_row; row++) {
		const uint32_t row_cell = (row - row_begin) * columns;
		if (level.items.size() < level.item_count + columns + 1) {
			level.items.resize(2 * (level.item_count + columns + 1));
		}
		Item *item = level.items.data() + level.item_count;
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
			*item++ = Item {row_cell + column, number * 2};
		}
		const double line = grid.Reference(0, row).y;
		if ((low.y > line) != (high.y > line)) {
			const double x = low.x + (line - low.y) * slope;
			const bool known = precise && grid.last_column > 0;
			const double at = known ? (x - grid.min_x) * grid.columns_per_x - 0.5 : UNKNOWN;
			const uint32_t column =
			    FirstBeyond(at, grid.last_column, [&](uint32_t k) { return PassesLeft(edge, grid.Reference(k, row)); });
			if (column <= grid.last_column && (column > 0 || from_outside)) {
				*item++ = Item {row_cell + column, number * 2 + 1};
			}
		}
		level.item_count = static_cast<size_t>(item - level.items.data());
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

//! The word of a cell with edges: items that are no crossings
uint32_t CellIndexBuilder::WriteCell(Worker &worker, Level &level, const EdgeSet &set, const uint32_t *items,
                                     size_t item_count) {
	if (level.vertices.size() < 2 * item_count) {
		level.vertices.resize(4 * item_count);
	}
	Vec2 *vertex = level.vertices.data();
	level.partials.clear();
	level.full.clear();
	const auto &active = level.active.areas;
	size_t next_active = 0;
	uint32_t last = 0;
	size_t edge_count = 0;
	for (size_t i = 0; i < item_count; i++) {
		if (items[i] & 1) {
			continue;
		}
		const uint32_t number = items[i] / 2;
		const uint32_t area = set.areas[number];
		const Edge &edge = set.edges[number];
		edge_count++;
		const bool first = level.partials.empty() || level.partials.back().area != area;
		const bool apart = first || set.edges[last].b != edge.a;
		if (first) {
			while (next_active < active.size() && active[next_active] < area) {
				level.full.push_back(active[next_active++]);
			}
			const bool inside = next_active < active.size() && active[next_active] == area;
			next_active += inside;
			level.partials.push_back(CellIndex::Partial {0, area, 0, inside, false});
		} else if (level.partials.back().vertices + (apart ? 2 : 1) > 64) {
			level.partials.back().more = true;
			level.partials.push_back(CellIndex::Partial {0, area, 0, false, false});
		}
		auto &partial = level.partials.back();
		if (apart || partial.vertices == 0) {
			*vertex++ = edge.a;
			partial.vertices++;
		}
		partial.edges |= uint64_t(1) << (partial.vertices - 1);
		*vertex++ = edge.b;
		partial.vertices++;
		last = number;
	}
	level.full.insert(level.full.end(), active.begin() + next_active, active.end());

	const size_t vertices = static_cast<size_t>(vertex - level.vertices.data());
	const CellIndex::List list {static_cast<uint32_t>(level.partials.size()), static_cast<uint32_t>(level.full.size())};
	const size_t partial_bytes = level.partials.size() * sizeof(CellIndex::Partial);
	const size_t full_bytes = level.full.size() * sizeof(uint32_t);
	const size_t head = (sizeof(list) + partial_bytes + full_bytes + sizeof(Unit) - 1) / sizeof(Unit);
	uint32_t value;
	Unit *at = Allocate(worker, head + vertices, value);
	if (!at) {
		return 0;
	}
	uint8_t *to = at->bytes;
	std::memcpy(to, &list, sizeof(list));
	std::memcpy(to + sizeof(list), level.partials.data(), partial_bytes);
	if (full_bytes > 0) {
		std::memcpy(to + sizeof(list) + partial_bytes, level.full.data(), full_bytes);
	}
	std::memcpy(at + head, level.vertices.data(), vertices * sizeof(Vec2));

	worker.figures.partial_cells++;
	worker.figures.stored_vertices += vertices;
	worker.figures.largest_cell = std::max<uint64_t>(worker.figures.largest_cell, edge_count);
	return value | uint32_t(CellIndex::LIST) << CellIndex::KIND_SHIFT;
}

//! A grid inside a cell; 0 when a finer one does not help. `region`: where all edges are known, and all edges are.
uint32_t CellIndexBuilder::Refine(Worker &worker, const Grid &grid, const Box &region, uint32_t column, uint32_t row,
                                  const EdgeSet &set, const uint32_t *items, size_t item_count, const AreaSet &active,
                                  uint32_t depth, uint32_t stuck, double spread) {
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
	EdgeSet &inner = level.set;
	inner.Clear();
	Box content = Box::Empty();
	double sum_x = 0, sum_y = 0, largest_x = 0, largest_y = 0;
	for (size_t i = 0; i < item_count; i++) {
		if (items[i] & 1) {
			continue;
		}
		const Edge &edge = set.edges[items[i] / 2];
		const Box part {
		    std::max(std::min(edge.a.x, edge.b.x), cell.min_x), std::max(std::min(edge.a.y, edge.b.y), cell.min_y),
		    std::min(std::max(edge.a.x, edge.b.x), cell.max_x), std::min(std::max(edge.a.y, edge.b.y), cell.max_y)};
		inner.edges.push_back(edge);
		inner.areas.push_back(set.areas[items[i] / 2]);
		if (!(part.min_x <= part.max_x && part.min_y <= part.max_y)) {
			continue; // not in the cell after all
		}
		content.Add(part);
		sum_x += part.max_x - part.min_x;
		sum_y += part.max_y - part.min_y;
		largest_x = std::max(largest_x, std::max(std::fabs(edge.a.x), std::fabs(edge.b.x)));
		largest_y = std::max(largest_y, std::max(std::fabs(edge.a.y), std::fabs(edge.b.y)));
	}
	if (content.IsEmpty()) {
		return 0;
	}
	Grid finer {};
	spread *= SetGrid(finer, content, largest_x, largest_y, static_cast<double>(inner.edges.size()), sum_x, sum_y,
	                  fineness.inner_cells_per_edge);
	if ((finer.last_column == 0 && finer.last_row == 0) || spread > MAX_SPREAD) {
		return 0;
	}

	const size_t cells = size_t(finer.last_column + 1) * (finer.last_row + 1);
	constexpr size_t HEAD = sizeof(Grid) / sizeof(Unit);
	static_assert(sizeof(Grid) % sizeof(Unit) == 0, "words follow in the next unit");
	uint32_t value;
	Unit *at = Allocate(worker, HEAD + (cells + 3) / 4, value);
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
	for (size_t i = 0; i < inner.edges.size(); i++) {
		const Edge &edge = inner.edges[i];
		if (Parts(edge, from, first)) {
			level.start.Flip(inner.areas[i]);
		}
		if ((edge.a.x > first.x) != (edge.b.x > first.x)) {
			const double y = edge.a.y + (first.x - edge.a.x) / (edge.b.x - edge.a.x) * (edge.b.y - edge.a.y);
			const double place = finer.last_row == 0 ? UNKNOWN : (y - finer.min_y) * finer.rows_per_y - 0.5;
			const uint32_t beyond = FirstBeyond(place, finer.last_row,
			                                    [&](uint32_t k) { return PassesBelow(edge, finer.Reference(0, k)); });
			if (beyond > 0 && beyond <= finer.last_row) {
				level.flips.push_back(RowFlip {beyond, inner.areas[i]});
			}
		}
	}
	std::sort(level.flips.begin(), level.flips.end(),
	          [](const RowFlip &left, const RowFlip &right) { return left.row < right.row; });

	if (inner.edges.size() >= SHARED_EDGES) {
		auto later = std::make_unique<Shared>(Shared {written, content, depth + 1, stuck, spread, std::move(inner),
		                                              std::move(level.start), std::move(level.flips)});
		std::lock_guard<std::mutex> guard(lock);
		shared.push_back(std::move(later));
	} else {
		BuildRows(worker, *written, content, 0, finer.last_row + 1, inner, level.start, level.flips, depth + 1, stuck,
		          spread);
	}
	return value | uint32_t(CellIndex::GRID) << CellIndex::KIND_SHIFT;
}

//! Fills the words of some rows from the edges that meet them. `start`: the areas that hold the first reference point of
//! row 0, at depth 0 a point left of everything.
void CellIndexBuilder::BuildRows(Worker &worker, const Grid &grid, const Box &region, uint32_t row_begin,
                                 uint32_t row_end, const EdgeSet &set, const AreaSet &start,
                                 const std::vector<RowFlip> &flips, uint32_t depth, uint32_t stuck, double spread) {
	Level &level = worker.LevelOf(depth);
	const uint32_t columns = grid.last_column + 1;
	const size_t cells = size_t(row_end - row_begin) * columns;
	level.item_count = 0;
	for (size_t i = 0; i < set.edges.size(); i++) {
		Register(level, grid, row_begin, row_end, set.edges[i], static_cast<uint32_t>(i), depth == 0);
	}
	auto &begin = level.cell_begin;
	begin.assign(cells + 2, 0);
	const Item *const items_end = level.items.data() + level.item_count;
	for (const Item *item = level.items.data(); item < items_end; item++) {
		begin[item->cell + 2]++;
	}
	for (size_t cell = 2; cell < cells + 2; cell++) {
		begin[cell] += begin[cell - 1];
	}
	if (level.sorted.size() < level.item_count) {
		level.sorted.resize(2 * level.item_count);
	}
	for (const Item *item = level.items.data(); item < items_end; item++) {
		level.sorted[begin[item->cell + 1]++] = item->what;
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
		uint32_t full_word = 0;
		bool changed = true;
		for (uint32_t column = 0; column < columns; column++) {
			const uint32_t count = cell_begin[column + 1] - cell_begin[column];
			if (count == 0) {
				if (changed) {
					full_word = WriteFull(worker, level.active.areas);
					changed = false;
				}
				worker.figures.full_cells += full_word != 0;
				word[column] = full_word;
				continue;
			}
			const uint32_t *items = level.sorted.data() + cell_begin[column];
			uint32_t crossings = 0;
			for (uint32_t i = 0; i < count; i++) {
				if (items[i] & 1) {
					level.active.Flip(set.areas[items[i] / 2]);
					changed = true;
					crossings++;
				}
			}
			const uint32_t edges = count - crossings;
			uint32_t here = 0;
			if (edges > fineness.edges_per_cell) {
				const bool most = edges > set.edges.size() / 4 * 3;
				here = Refine(worker, grid, region, column, row, set, items, count, level.active, depth, stuck + most,
				              spread);
			}
			if (here == 0) {
				here = edges > 0 ? WriteCell(worker, level, set, items, count) : WriteFull(worker, level.active.areas);
			}
			word[column] = here;
		}
	}
}

namespace {

//! The areas themselves: all their vertices, one after the other
class AreaSource {
public:
	explicit AreaSource(const std::vector<const ShapeView *> &areas) : areas(areas), begin(areas.size() + 1, 0) {
		for (size_t i = 0; i < areas.size(); i++) {
			begin[i + 1] = begin[i] + (areas[i] ? areas[i]->AreaVertexEnd() : 0);
		}
	}
	size_t Size() const {
		return begin.back();
	}
	//! use(area, number, edge) for the edges of places [from, to)
	template <class USE>
	void Visit(size_t from, size_t to, const USE &use) const {
		size_t area = std::upper_bound(begin.begin(), begin.end(), from) - begin.begin() - 1;
		for (; area < areas.size() && begin[area] < to; area++) {
			if (begin[area] == begin[area + 1]) {
				continue;
			}
			const ShapeView &view = *areas[area];
			const uint32_t first = static_cast<uint32_t>(std::max(from, begin[area]) - begin[area]);
			const uint32_t end = static_cast<uint32_t>(std::min(to, begin[area + 1]) - begin[area]);
			for (uint32_t i = first; i < end; i++) {
				if (view.IsEdge(i)) {
					use(static_cast<uint32_t>(area), i, Edge {view.Vertex(i), view.Vertex(i + 1)});
				}
			}
		}
	}
	void Copy(const Run &run, EdgeSet &set) const {
		const ShapeView &view = *areas[run.source];
		const size_t before = set.edges.size();
		set.edges.resize(before + (run.end - run.begin));
		Edge *to = set.edges.data() + before;
		for (uint32_t i = run.begin; i < run.end; i++) {
			*to++ = Edge {view.Vertex(i), view.Vertex(i + 1)};
		}
		set.areas.insert(set.areas.end(), run.end - run.begin, run.source);
	}

private:
	const std::vector<const ShapeView *> &areas;
	std::vector<size_t> begin;
};

class SetSource {
public:
	explicit SetSource(const EdgeSet &set) : set(set) {
	}
	size_t Size() const {
		return set.edges.size();
	}
	template <class USE>
	void Visit(size_t from, size_t to, const USE &use) const {
		for (size_t i = from; i < to; i++) {
			use(0, static_cast<uint32_t>(i), set.edges[i]);
		}
	}
	void Copy(const Run &run, EdgeSet &to) const {
		to.edges.insert(to.edges.end(), set.edges.begin() + run.begin, set.edges.begin() + run.end);
		to.areas.insert(to.areas.end(), set.areas.begin() + run.begin, set.areas.begin() + run.end);
	}

private:
	const EdgeSet &set;
};

} // namespace

//! Builds a grid by all threads: first which edges meet which stripe of rows, then stripe by stripe
template <class SOURCE>
void CellIndexBuilder::BuildStriped(const SOURCE &source, const Grid &grid, const Box &region, const AreaSet &start,
                                    const std::vector<RowFlip> &flips, uint32_t depth, uint32_t stuck, double spread) {
	const size_t rows = size_t(grid.last_row) + 1;
	const size_t wanted = std::min({rows, MAX_STRIPES, source.Size() / STRIPE_EDGES + 1});
	uint32_t shift = 0; // 2^shift rows a stripe
	while ((rows >> shift) > wanted) {
		shift++;
	}
	const size_t stripes = ((rows - 1) >> shift) + 1;
	const size_t chunks = (source.Size() + CHUNK_VERTICES - 1) / CHUNK_VERTICES;
	struct Chunk {
		std::vector<Run> runs;              // by stripe, then in order
		std::vector<uint32_t> stripe_begin; // stripes + 1
	};
	std::vector<Chunk> of_chunk(chunks);
	parallel.For(chunks, [&](size_t chunk) {
		std::vector<Run> runs;
		std::vector<uint32_t> open(stripes, UINT32_MAX); // the latest run
		auto &begin = of_chunk[chunk].stripe_begin;
		begin.assign(stripes + 1, 0);
		const size_t from = chunk * CHUNK_VERTICES;
		source.Visit(
		    from, std::min(source.Size(), from + CHUNK_VERTICES), [&](uint32_t area, uint32_t i, const Edge &edge) {
			    const double low = edge.a.y < edge.b.y ? edge.a.y : edge.b.y,
			                 high = edge.a.y < edge.b.y ? edge.b.y : edge.a.y;
			    const uint32_t last =
			        Grid::Place((high - grid.min_y) * grid.rows_per_y + EDGE_ROOM, grid.last_row) >> shift;
			    for (uint32_t s = Grid::Place((low - grid.min_y) * grid.rows_per_y - EDGE_ROOM, grid.last_row) >> shift;
			         s <= last; s++) {
				    if (open[s] != UINT32_MAX && runs[open[s]].end == i && runs[open[s]].source == area) {
					    runs[open[s]].end++;
					    continue;
				    }
				    open[s] = static_cast<uint32_t>(runs.size());
				    runs.push_back(Run {s, area, i, i + 1});
				    begin[s + 1]++;
			    }
		    });
		for (size_t s = 0; s < stripes; s++) {
			begin[s + 1] += begin[s];
		}
		std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
		of_chunk[chunk].runs.resize(runs.size());
		for (auto &run : runs) {
			of_chunk[chunk].runs[next[run.stripe]++] = run;
		}
	});

	parallel.For(stripes, [&](size_t stripe) {
		if (over_limit) {
			return;
		}
		auto worker = TakeWorker();
		EdgeSet &set = worker->LevelOf(depth).set;
		set.Clear();
		for (auto &chunk : of_chunk) {
			for (uint32_t i = chunk.stripe_begin[stripe]; i < chunk.stripe_begin[stripe + 1]; i++) {
				source.Copy(chunk.runs[i], set);
			}
		}
		const uint32_t row_begin = static_cast<uint32_t>(stripe << shift);
		const uint32_t row_end = static_cast<uint32_t>(std::min(rows, (stripe + 1) << shift));
		BuildRows(*worker, grid, region, row_begin, row_end, set, start, flips, depth, stuck, spread);
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
		index->top_words.assign(1, 0);
		index->top.words = index->top_words.data();
		return std::move(index);
	}
	const AreaSource source(areas);
	const size_t chunks = (source.Size() + CHUNK_VERTICES - 1) / CHUNK_VERTICES;
	struct Sums {
		double x = 0, y = 0;
		uint64_t edges = 0;
	};
	std::vector<Sums> of_chunk(chunks);
	parallel.For(chunks, [&](size_t chunk) {
		Sums sums;
		const size_t from = chunk * CHUNK_VERTICES;
		source.Visit(from, std::min(source.Size(), from + CHUNK_VERTICES), [&](uint32_t, uint32_t, const Edge &edge) {
			sums.x += std::fabs(edge.b.x - edge.a.x);
			sums.y += std::fabs(edge.b.y - edge.a.y);
			sums.edges++;
		});
		of_chunk[chunk] = sums;
	});
	Sums all;
	for (auto &sums : of_chunk) {
		all.x += sums.x;
		all.y += sums.y;
		all.edges += sums.edges;
	}
	figures.edges = all.edges;

	Grid &grid = index->top;
	const double spread = SetGrid(grid, box, std::max(std::fabs(box.min_x), std::fabs(box.max_x)),
	                              std::max(std::fabs(box.min_y), std::fabs(box.max_y)), static_cast<double>(all.edges),
	                              all.x, all.y, fineness.cells_per_edge);
	const size_t cells = size_t(grid.last_column + 1) * (grid.last_row + 1);
	if (cells * sizeof(uint32_t) > memory_limit) {
		return nullptr;
	}
	index->top_words.resize(cells);
	grid.words = index->top_words.data();
	figures.grids = 1;
	figures.cells = cells;

	BuildStriped(source, grid, box, AreaSet(), {}, 0, 0, spread);
	while (!shared.empty() && !over_limit) {
		const auto next = std::move(shared.back());
		shared.pop_back();
		BuildStriped(SetSource(next->set), *next->grid, next->region, next->start, next->flips, next->depth,
		             next->stuck, next->spread);
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
                                            Parallel &parallel) {
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
	static constexpr Fineness FINENESS[] = {{2, 1, 6, 24}, {0.25, 0.25, 2, 64}, {0.015625, 0.0625, 2, 256}};
	for (auto &fineness : FINENESS) {
		auto index = CellIndexBuilder(areas, memory_limit, fineness, parallel).Build();
		if (index) {
			return index;
		}
	}
	return nullptr;
}

} // namespace vibespatial
