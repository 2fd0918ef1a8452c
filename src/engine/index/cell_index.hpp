//===----------------------------------------------------------------------===//
// engine/index/cell_index.hpp
//
// Promise: exact, the answer of vibe::LocateInElement for every area and every point. Finds which of many areas contain a
// point, with a grid of cells over all of them that is finer where there are many edges. A cell that an area fills answers
// at once. A cell with edges knows on which side of them its reference point lies; a point there tests only these edges.
//
// Why it is exact. Columns and rows are monotone functions of x and y, so everything between two points of a cell is in
// that cell, and edges are registered with a margin for rounding in every cell that they meet. The status of a point is
// that of the reference point, changed by every edge that the path between them crosses: along y = p.y to x = ref.x, then
// along x = ref.x. The path is taken as moved by an infinitely small (e, e^2), so that it meets no vertex and no corner of
// it lies on an edge; a point that is not on an edge keeps its status when moved so little. The path stays in the cell and
// the tests are exact, so additional edges among those tested do no harm.
//
// With a reach it finds the areas and lines that are near a point instead: at most so far away, by the distance that
// vibe::ShapeDistance computes. A cell then has the edges that can be near one of its points, and is filled by the areas and
// lines that are near all of them. cell_reach.hpp says why nothing is missed.
//
// The index holds one copy of all vertices; cells refer to runs of consecutive edges in it. cell_index_builder.cpp builds
// it, vibe/cells.h has the layout that the GPU shares.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/index/point_grid.hpp"
#include "engine/index/tuning.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

class CellIndex {
public:
	//! Numbers for EXPLAIN ANALYZE
	struct Figures {
		uint64_t areas = 0;
		uint64_t edges = 0;           // of all areas
		uint64_t grids = 0;           // the top grid and those inside its cells
		uint64_t cells = 0;           // of all grids
		uint64_t full_cells = 0;      // cells without edges, filled by one or more areas
		uint64_t partial_cells = 0;   // cells with edges
		uint64_t stored_vertices = 0; // vertices that cells refer to, counted once per cell
		uint64_t largest_cell = 0;    // edges of the cell that has the most
	};

	//! areas[i] has one element that is an area (element_count == 1, not mixed), and is not needed after building; null
	//! pointers are skipped. Returns null when the index would take more than memory_limit bytes even with coarse cells, as
	//! with areas that overlap heavily: a tree of boxes serves these better. expected_points: the approximate number of
	//! look-ups (0: unknown, assumed to be many). With fewer points the cells are coarser, as finer ones would not pay.
	//! With a reach (ReachOf()), areas[i] may also be nothing but lines. `reserve`: called by any thread, before memory is
	//! taken, with all bytes that building has taken until then; false is as the limit.
	static std::unique_ptr<CellIndex> Build(const std::vector<const vibe::ShapeView *> &areas, size_t memory_limit,
	                                        Parallel &parallel, uint64_t expected_points = 0,
	                                        const vibe::CellReach &reach = vibe::CellReach::None(),
	                                        const std::function<bool(size_t bytes)> &reserve = nullptr);
	//! The reach for a limit; None() where it is out of the range that vibe::CellReach serves. `box`: of all areas and lines
	static vibe::CellReach ReachOf(double limit, const vibe::Box &box);
	~CellIndex();

	size_t MemoryUsage() const;
	const Figures &GetFigures() const {
		return figures;
	}

	//! The whole index as pieces of memory, to be copied to a GPU. The pool is the concatenation of the chunks; `view` gets the
	//! addresses of the copy.
	struct Pieces {
		vibe::CellsView view;
		const uint32_t *top_words;
		size_t top_word_count;
		std::vector<const void *> chunks;
		const vibe::Vec2 *vertices;
		size_t vertex_count;
	};
	static constexpr size_t CHUNK_BYTES = (size_t(1) << 15) * vibe::CELL_UNIT_BYTES;
	Pieces GetPieces() const;

	//! Calls hit(area, location) for every area in which p is interior or on the boundary, until it returns true. With a
	//! reach: hit(area, LOC_INTERIOR) for all that p is near
	template <class HIT>
	void Locate(const vibe::Vec2 &p, HIT &&hit) const;

	//! The same for many points, whose memory accesses overlap: hit(point, area, location), points in order; true ends the
	//! point
	template <class HIT>
	void LocateMany(const double *x, const double *y, size_t count, HIT &&hit) const;

private:
	friend class CellIndexBuilder;

	static constexpr uint32_t NOTHING = vibe::CELL_NOTHING, FULL = vibe::CELL_FULL, LIST = vibe::CELL_LIST,
	                          GRID = vibe::CELL_GRID;
	static constexpr uint32_t KIND_SHIFT = vibe::CELL_KIND_SHIFT;
	static constexpr uint32_t MAX_VALUE = vibe::CELL_MAX_VALUE;

	//! The pool consists of chunks and is addressed in units
	struct alignas(8) Unit {
		uint8_t bytes[8];
	};
	static constexpr uint32_t CHUNK_SHIFT = 15;
	static constexpr uint32_t CHUNK_UNITS = 1u << CHUNK_SHIFT;

	using Grid = PointGrid;
	using List = vibe::CellList;
	using Extent = vibe::CellExtent;
	using Frame = vibe::CellFrame;
	using Partial = vibe::CellPartial;
	static constexpr uint32_t MAX_EDGES = vibe::CELL_MAX_EDGES;
	static constexpr uint32_t PARTIALS_WITH_EXTENT = vibe::CELL_PARTIALS_WITH_EXTENT;

	CellIndex() = default;

	const Unit *At(uint32_t value) const {
		return chunks[value >> CHUNK_SHIFT] + (value & (CHUNK_UNITS - 1));
	}
	//! The location of p in the area of `partial`, which is advanced to the next area. `path`: extent of the path to p.
	vibe::Location LocateAmong(const Partial *&partial, const vibe::Vec2 &reference, const vibe::Vec2 &p,
	                           const Extent &path) const;

	//! Likewise whether p is near the area or line: LOC_INTERIOR or LOC_EXTERIOR
	vibe::Location FindAmong(const Partial *&partial, const vibe::Vec2 &reference, const vibe::Vec2 &p,
	                         const Extent &path, const Extent &around) const;
	//! Whether p is near one of the edges; `around`: extent of what can be near
	bool IsNearAmong(const Partial *partial, const Partial *end, const vibe::Vec2 &p, const Extent &around) const;

	//! Reports the areas of p's cell
	template <class HIT>
	void Answer(uint32_t word, const Grid &grid, const vibe::Vec2 &p, HIT &hit) const {
		const uint32_t value = word & MAX_VALUE;
		if (word >> KIND_SHIFT == FULL) {
			hit(value, vibe::LOC_INTERIOR);
			return;
		}
		if (word >> KIND_SHIFT != LIST) {
			return;
		}
		const List &list = *reinterpret_cast<const List *>(At(value));
		const Partial *partials = reinterpret_cast<const Partial *>(&list + 1);
		const uint32_t *full = reinterpret_cast<const uint32_t *>(partials + list.partial_count);
		for (uint32_t i = 0; i < list.full_count; i++) {
			if (hit(full[i], vibe::LOC_INTERIOR)) {
				return;
			}
		}
		if (list.partial_count == 0) {
			return;
		}
		const uint32_t column = grid.Column(p.x), row = grid.Row(p.y);
		const vibe::Vec2 reference = grid.Reference(column, row);
		Extent path {0, 0, 255, 255}, around {0, 0, 255, 255};
		if (list.partial_count >= PARTIALS_WITH_EXTENT) {
			const Frame frame(grid, column, row);
			path = frame.Between(p, reference);
			around = reach.limit >= 0 ? frame.Of(reach.Around(p)) : around;
		}
		const Partial *end = partials + list.partial_count;
		while (partials < end) {
			const uint32_t area = partials->area;
			const auto location = reach.limit < 0 ? LocateAmong(partials, reference, p, path)
			                                      : FindAmong(partials, reference, p, path, around);
			if (location != vibe::LOC_EXTERIOR && hit(area, location)) {
				return;
			}
		}
	}

	vibe::Box box = vibe::Box::Empty();
	vibe::CellReach reach = vibe::CellReach::None();
	Grid top {};
	std::unique_ptr<uint32_t[]> top_words;
	std::unique_ptr<vibe::Vec2[]> vertices;
	size_t vertex_count = 0;
	std::vector<Unit *> chunks;                  // address of each chunk of the pool
	std::vector<std::unique_ptr<Unit[]>> memory; // owns the chunks
	size_t pool_units = 0;
	Figures figures;
};

template <class HIT>
void CellIndex::Locate(const vibe::Vec2 &p, HIT &&hit) const {
	if (!box.Covers(p.x, p.y)) {
		return;
	}
	const Grid *grid = &top;
	uint32_t word = grid->words[grid->CellOf(p)];
	while (word >> KIND_SHIFT == GRID) {
		grid = reinterpret_cast<const Grid *>(At(word & MAX_VALUE));
		word = grid->words[grid->CellOf(p)];
	}
	Answer(word, *grid, p, hit);
}

template <class HIT>
void CellIndex::LocateMany(const double *x, const double *y, size_t count, HIT &&hit) const {
	constexpr size_t BLOCK = cell_tuning::POINTS_AT_ONCE;
	const uint32_t *cell[BLOCK];
	const Grid *grid[BLOCK];
	uint32_t word[BLOCK];
	uint8_t answering[BLOCK]; // points whose cells have areas
	uint8_t waiting[BLOCK];   // those of them whose cells have grids
	const Lanes low {box.min_x, box.min_y}, high {box.max_x, box.max_y};
	for (size_t begin = 0; begin < count; begin += BLOCK) {
		const size_t here = count - begin < BLOCK ? count - begin : BLOCK;
		// Points outside the box are assigned to a cell, too; its word is masked out
		for (size_t i = 0; i < here; i++) {
			const Lanes p {x[begin + i], y[begin + i]};
			cell[i] = &top.words[top.CellOf(vibe::Vec2 {p[0], p[1]})];
			__builtin_prefetch(cell[i]);
			const auto inside = (p >= low) & (p <= high);
			word[i] = static_cast<uint32_t>(inside[0] & inside[1]);
		}
		size_t answers = 0, left = 0;
		for (size_t i = 0; i < here; i++) {
			word[i] &= *cell[i];
			answering[answers] = static_cast<uint8_t>(i);
			answers += word[i] != 0;
		}
		for (size_t k = 0; k < answers; k++) {
			const size_t i = answering[k];
			grid[i] = &top;
			if (word[i] >> KIND_SHIFT >= LIST) {
				const Unit *next = At(word[i] & MAX_VALUE);
				__builtin_prefetch(next);
				__builtin_prefetch(next + 5);
				waiting[left] = static_cast<uint8_t>(i);
				left += word[i] >> KIND_SHIFT == GRID;
			}
		}
		while (left > 0) {
			for (size_t k = 0; k < left; k++) {
				const size_t i = waiting[k];
				const vibe::Vec2 p {x[begin + i], y[begin + i]};
				grid[i] = reinterpret_cast<const Grid *>(At(word[i] & MAX_VALUE));
				cell[i] = &grid[i]->words[grid[i]->CellOf(p)];
				__builtin_prefetch(cell[i]);
			}
			size_t still = 0;
			for (size_t k = 0; k < left; k++) {
				const size_t i = waiting[k];
				word[i] = *cell[i];
				if (word[i] >> KIND_SHIFT >= LIST) {
					const Unit *next = At(word[i] & MAX_VALUE);
					__builtin_prefetch(next);
					__builtin_prefetch(next + 5);
					waiting[still] = static_cast<uint8_t>(i);
					still += word[i] >> KIND_SHIFT == GRID;
				}
			}
			left = still;
		}
		for (size_t k = 0; k < answers; k++) {
			const size_t i = answering[k];
			if (word[i] >> KIND_SHIFT == LIST) {
				const List &list = *reinterpret_cast<const List *>(At(word[i] & MAX_VALUE));
				const Partial *partials = reinterpret_cast<const Partial *>(&list + 1);
				for (uint32_t n = 0; n < list.partial_count && n < 4; n++) {
					const vibe::Vec2 *edges = &vertices[partials[n].begin];
					__builtin_prefetch(edges);
					__builtin_prefetch(edges + 4);
				}
			}
		}
		for (size_t k = 0; k < answers; k++) {
			const size_t i = answering[k];
			auto hit_point = [&](uint32_t area, vibe::Location location) { return hit(begin + i, area, location); };
			Answer(word[i], *grid[i], vibe::Vec2 {x[begin + i], y[begin + i]}, hit_point);
		}
	}
}

} // namespace vibespatial
