#include "engine/index/cell_edges.hpp"

#include <cmath>

namespace vibespatial {
namespace cell_build {

using cell_tuning::ITEMS_TO_MERGE;
using vibe::PassesLeft;
using vibe::Vec2;
using Edge = vibe::CellEdge;

//! Slopes for which no product with an extent (cell_grid.cpp) over- or underflows
static constexpr double SMALLEST_SLOPE = 1e-290;
static constexpr double LARGEST_SLOPE = 1e290;

namespace {

//! The cell of a vertex without a margin at its borders: edges inside are in no other cell
struct SafeCell {
	Vec2 reference;
	double half_x, half_y;
	uint32_t column, row;

	SafeCell(const PointGrid &grid, const Vec2 &v, double reach) : column(grid.Column(v.x)), row(grid.Row(v.y)) {
		reference = grid.Reference(column, row);
		half_x = (0.5 - EDGE_ROOM) * grid.width - reach;
		half_y = (0.5 - EDGE_ROOM) * grid.height - reach;
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
	//! Registers edges in the cell; `flip`: they change the status at its reference point
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
	//! The edge passes left of the cell's reference point and right of the one before
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
	Item *Recent() {
		return list.begin() + (list.count - first > ITEMS_TO_MERGE ? list.count - ITEMS_TO_MERGE : first);
	}

	ItemList &list;
	const uint32_t area;
	const size_t first;
};

} // namespace

void AddItems(ItemList &list, const PointGrid &grid, const Run &run, const Vec2 *vertices, bool from_outside,
              double reach) {
	ItemWriter writer(list, run.area);
	const bool is_line = run.is_line;
	const uint32_t columns = grid.last_column + 1;
	const uint32_t end = run.begin + run.count;
	for (uint32_t i = run.begin; i < end;) {
		const SafeCell safe(grid, vertices[i], reach);
		if (safe.Has(vertices[i])) {
			// Most edges are in one cell, and consecutive edges are often in the same one
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
				writer.Add(cell, first, i - first, flips && !is_line && (safe.column > 0 || from_outside));
				if (next_flips && !is_line && safe.column < grid.last_column) {
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
		const double from_row = (low.y - reach - grid.min_y) * grid.rows_per_y - EDGE_ROOM;
		const double to_row = (high.y + reach - grid.min_y) * grid.rows_per_y + EDGE_ROOM;
		const double from_column = (min_x - reach - grid.min_x) * grid.columns_per_x - EDGE_ROOM;
		const double to_column = (max_x + reach - grid.min_x) * grid.columns_per_x + EDGE_ROOM;
		if (to_row < 0 || from_row >= grid.last_row + 1 || to_column < 0 || from_column >= columns) {
			continue; // crosses no path between reference points either
		}
		const uint32_t first_row = PointGrid::Place(from_row, grid.last_row);
		const uint32_t last_row = PointGrid::Place(to_row, grid.last_row);
		const uint32_t first_column = PointGrid::Place(from_column, grid.last_column);
		const uint32_t last_column = PointGrid::Place(to_column, grid.last_column);

		// Its columns in each row; all cells of its box where the slope has not the full precision
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
				const double bottom = grid.min_y + (row - EDGE_ROOM) * grid.height - reach;
				const double top = grid.min_y + (row + 1 + EDGE_ROOM) * grid.height + reach;
				const double x0 = bottom <= low.y ? low.x : low.x + (bottom - low.y) * slope;
				const double x1 = top >= high.y ? high.x : low.x + (top - low.y) * slope;
				const double from_here = ((x0 < x1 ? x0 : x1) - reach - grid.min_x) * grid.columns_per_x - EDGE_ROOM;
				const double to_here = ((x0 < x1 ? x1 : x0) + reach - grid.min_x) * grid.columns_per_x + EDGE_ROOM;
				if (to_here < 0 || from_here >= columns) {
					from = 1, to = 0;
				} else {
					from = std::max(from, PointGrid::Place(from_here, grid.last_column));
					to = std::min(to, PointGrid::Place(to_here, grid.last_column));
				}
			}
			for (uint32_t column = from; column <= to; column++) {
				writer.Add(row_cell + column, number, 1, false);
			}
			const Vec2 reference = grid.Reference(from, row);
			if ((low.y > reference.y) != (high.y > reference.y) && !is_line) {
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

} // namespace cell_build
} // namespace vibespatial
