#include "engine/index/cell_grid.hpp"

#include "engine/index/cell_edges.hpp"

#include <algorithm>
#include <cmath>

namespace vibespatial {
namespace cell_build {

using namespace cell_tuning;
using vibe::Box;
using vibe::Vec2;

//! Extents for which no product with a slope or a number of cells over- or underflows; other axes have one cell
static constexpr double SMALLEST_EXTENT = 1e-280;
static constexpr double LARGEST_EXTENT = 1e300;

static double Between(double low, double value, double high) {
	return std::min(std::max(low, value), high);
}

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

Fineness Coarser(const Fineness &fineness) {
	return Fineness {fineness.cells_per_edge / 8, fineness.inner_cells_per_edge / 4, 2, fineness.edges_per_cell * 4};
}

//! Divides an axis into at most `wanted` cells; one cell where the coordinates do not allow more
static void SetAxis(double min, double max, double largest, double wanted, double &per_unit, double &size,
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

double SetGrid(PointGrid &grid, const Box &box, const Vec2 &largest, const EdgeSums &edges, double cells_per_edge,
               double entries_per_edge) {
	grid.min_x = box.min_x;
	grid.min_y = box.min_y;
	const double width = box.max_x - box.min_x, height = box.max_y - box.min_y;
	const double cells = cells_per_edge * edges.count;
	double columns = std::sqrt(cells * (width / height)), rows = std::sqrt(cells * (height / width));
	if (!std::isfinite(columns) || !std::isfinite(rows)) {
		// The aspect ratio over- or underflows: divide the longer side only
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
	double more = columns * (edges.width / width) + rows * (edges.height / height);
	double most = (entries_per_edge - 1) * edges.count;
	if (edges.reach > 0) {
		// Not only along itself but all around
		const double x = (edges.width / edges.count + 2 * edges.reach) / width;
		const double y = (edges.height / edges.count + 2 * edges.reach) / height;
		auto entries = [&] { return std::min(columns, 1 + columns * x) * std::min(rows, 1 + rows * y); };
		while (entries() > NEAR_ENTRIES) {
			columns *= 0.9;
			rows *= 0.9;
		}
		more = (entries() - 1) * edges.count;
		most = NEAR_ENTRIES * edges.count;
	}
	if (more > most) {
		columns *= most / more;
		rows *= most / more;
	}
	SetAxis(box.min_x, box.max_x, largest.x, columns, grid.columns_per_x, grid.width, grid.last_column);
	SetAxis(box.min_y, box.max_y, largest.y, rows, grid.rows_per_y, grid.height, grid.last_row);
	return 1 + std::min(more, most) / edges.count;
}

} // namespace cell_build
} // namespace vibespatial
