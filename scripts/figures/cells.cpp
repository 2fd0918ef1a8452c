// Writes the cells that the engine builds for a set of areas, for the figure of the cell index (cells.py compiles and runs this).
//
// usage: cells POINTS MIN_X MIN_Y MAX_X MAX_Y < areas
//
// areas: the WKB of one polygon or multipolygon per line, in hexadecimal. POINTS is the number of points that the index is built
// for. Prints one line per cell in the window: depth, kind, edges, then the corners of the cell. Kinds: empty, full, edges.

#include "engine/index/cell_index.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/geometry_batch.hpp"
#include "geometry/wkb.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

using namespace vibespatial;

namespace {

struct Window {
	double min_x, min_y, max_x, max_y;
};

class CellPrinter {
public:
	CellPrinter(const CellIndex::Pieces &pieces_p, const Window &window_p) : pieces(pieces_p), window(window_p) {
	}

	//! The cells of a grid in `area`. Points outside of a grid belong to its border cells, so these reach to the edge of the area.
	void Print(const vibe::CellGrid &grid, const uint32_t *words, int depth, const Window &area) const {
		for (uint32_t row = 0; row <= grid.last_row; row++) {
			for (uint32_t column = 0; column <= grid.last_column; column++) {
				Window cell {grid.min_x + column * grid.width, grid.min_y + row * grid.height,
				             grid.min_x + (column + 1) * grid.width, grid.min_y + (row + 1) * grid.height};
				cell.min_x = column == 0 ? area.min_x : std::max(cell.min_x, area.min_x);
				cell.min_y = row == 0 ? area.min_y : std::max(cell.min_y, area.min_y);
				cell.max_x = column == grid.last_column ? area.max_x : std::min(cell.max_x, area.max_x);
				cell.max_y = row == grid.last_row ? area.max_y : std::min(cell.max_y, area.max_y);
				if (cell.min_x < window.max_x && cell.max_x > window.min_x && cell.min_y < window.max_y &&
				    cell.max_y > window.min_y) {
					PrintCell(words[grid.CellOf(column, row)], depth, cell);
				}
			}
		}
	}

private:
	const uint8_t *At(uint32_t unit) const {
		const size_t offset = size_t(unit) * vibe::CELL_UNIT_BYTES;
		return static_cast<const uint8_t *>(pieces.chunks[offset / CellIndex::CHUNK_BYTES]) +
		       offset % CellIndex::CHUNK_BYTES;
	}

	void PrintCell(uint32_t word, int depth, const Window &cell) const {
		const uint32_t kind = word >> vibe::CELL_KIND_SHIFT, value = word & vibe::CELL_MAX_VALUE;
		if (kind == vibe::CELL_GRID) {
			auto &grid = *reinterpret_cast<const vibe::CellGrid *>(At(value));
			Print(grid, reinterpret_cast<const uint32_t *>(&grid + 1), depth + 1, cell);
			return;
		}
		uint32_t edges = 0;
		if (kind == vibe::CELL_LIST) {
			auto &list = *reinterpret_cast<const vibe::CellList *>(At(value));
			auto partials = reinterpret_cast<const vibe::CellPartial *>(&list + 1);
			for (uint32_t i = 0; i < list.partial_count; i++) {
				edges += partials[i].edges;
			}
		}
		const char *name = kind == vibe::CELL_NOTHING ? "empty" : edges == 0 ? "full" : "edges";
		std::printf("%d,%s,%u,%.5f,%.5f,%.5f,%.5f\n", depth, name, edges, cell.min_x, cell.min_y, cell.max_x,
		            cell.max_y);
	}

	const CellIndex::Pieces &pieces;
	const Window &window;
};

std::string FromHex(const std::string &text) {
	std::string bytes;
	for (size_t i = 0; i + 1 < text.size(); i += 2) {
		bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
	}
	return bytes;
}

} // namespace

int main(int argc, char **argv) {
	if (argc != 6) {
		std::fprintf(stderr, "usage: cells POINTS MIN_X MIN_Y MAX_X MAX_Y < areas\n");
		return 2;
	}
	const Window window {std::atof(argv[2]), std::atof(argv[3]), std::atof(argv[4]), std::atof(argv[5])};
	std::vector<Shape> shapes;
	std::string line;
	while (std::getline(std::cin, line)) {
		const auto wkb = FromHex(line);
		GeometryBatch batch;
		ReadWkb(reinterpret_cast<const uint8_t *>(wkb.data()), wkb.size(), batch);
		shapes.emplace_back();
		shapes.back().Build(batch.View(0));
	}
	std::vector<const vibe::ShapeView *> views;
	for (auto &shape : shapes) {
		views.push_back(&shape.View());
	}
	Serial serial;
	auto index = CellIndex::Build(views, size_t(1) << 30, serial, std::strtoull(argv[1], nullptr, 10));
	if (!index) {
		std::fprintf(stderr, "the areas have no cell index\n");
		return 1;
	}
	const auto pieces = index->GetPieces();
	const auto &box = pieces.view.box;
	CellPrinter(pieces, window)
	    .Print(pieces.view.top, pieces.top_words, 0, Window {box.min_x, box.min_y, box.max_x, box.max_y});
	return 0;
}
