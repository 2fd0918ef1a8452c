//===----------------------------------------------------------------------===//
// engine/index/cell_index_builder.hpp
//
// Builds a CellIndex. cell_edges.hpp finds the cells of each edge as items; these are sorted by cell, and each cell becomes
// a word: nothing, an area that fills it, a list of areas and edges, or a finer grid. The status of the reference points
// follows from left to right along a row of cells. With a reach, cell_reach.hpp decides which edges stay in a cell.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/cell_index.hpp"
#include "engine/index/cell_items.hpp"
#include "engine/index/cell_reach.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace vibespatial {

class CellIndexBuilder {
public:
	CellIndexBuilder(const std::vector<const vibe::ShapeView *> &areas, size_t memory_limit,
	                 const cell_tuning::Fineness &fineness, const vibe::CellReach &reach, Parallel &parallel,
	                 const std::function<bool(size_t)> &reserve)
	    : areas(areas), memory_limit(memory_limit), reserve(reserve), fineness(fineness), reach(reach),
	      parallel(parallel), index(new CellIndex()) {
	}

	//! Null when the memory limit is exceeded
	std::unique_ptr<CellIndex> Build();
	//! The vertices of its rings, or of its lines
	static uint32_t VerticesOf(const vibe::ShapeView &view) {
		return view.element_count == 0 ? view.vertex_count : view.AreaVertexEnd();
	}

private:
	using Grid = CellIndex::Grid;
	using Unit = CellIndex::Unit;
	using AreaSet = cell_build::AreaSet;
	using ItemList = cell_build::ItemList;
	using ItemSpan = cell_build::ItemSpan;
	using NearCell = cell_build::NearCell;

	//! A grid whose rows are to be built
	struct Task {
		const Grid *grid;
		vibe::Box region; // the part of the plane whose edges are all known
		uint32_t depth;
		uint32_t stuck;
		double spread;
		std::vector<cell_build::Run> runs;
		//! The areas that contain the first reference point of row 0; at depth 0, those that contain a point left of everything:
		//! none
		AreaSet start;
		std::vector<cell_build::RowFlip> flips;
		//! With a reach: the areas and lines that are near all points, which have no runs
		std::vector<uint32_t> near;
	};
	//! A cell of what is near that may get a grid of its own
	struct Crowded {
		NearCell cell;
		uint32_t column, row;
		size_t begin, end; // of its items, among Level::kept
	};
	class RowStarts;
	//! Memory of one thread for one level of grids
	struct Level {
		Task task;
		ItemList items;
		ItemList sorted;
		std::vector<uint32_t> cell_begin;
		AreaSet active;
		std::vector<CellIndex::Partial> partials;
		std::vector<uint32_t> full;
		NearCell here;
		ItemList kept;
		std::vector<Crowded> crowded;
	};
	//! Memory of one thread, and its position in the pool
	struct Worker {
		std::vector<std::unique_ptr<Level>> levels;
		Unit *at = nullptr;
		uint32_t value = 0;
		uint32_t left = 0;
		std::vector<uint32_t> last_full; // the last list without edges, and its word
		uint32_t last_full_word = 0;
		CellIndex::Figures figures;

		Level &LevelOf(uint32_t depth) {
			while (levels.size() <= depth) {
				levels.push_back(std::make_unique<Level>());
			}
			return *levels[depth];
		}
	};
	void BuildStriped(const Task &task);
	void BuildRows(Worker &worker, const Task &task, uint32_t row_begin, uint32_t row_end, const ItemSpan *spans,
	               size_t span_count);
	void BuildNearRows(Worker &worker, const Task &task, uint32_t row_begin, uint32_t row_end, bool is_whole);
	static size_t SortItems(Level &level, const Grid &grid, uint32_t row_begin, uint32_t row_end, const ItemSpan *spans,
	                        size_t span_count);
	static uint32_t CountEdges(const ItemSpan &items, AreaSet &active);
	uint32_t Refine(Worker &worker, const Task &task, uint32_t column, uint32_t row, const ItemSpan &items,
	                const AreaSet &active, const std::vector<uint32_t> &near, uint32_t stuck, double spread);
	void SetStart(Task &task, const vibe::Vec2 &from) const;
	uint32_t WriteCell(Worker &worker, Level &level, const CellIndex::Frame &frame, const ItemSpan &items,
	                   const AreaSet &inside, const std::vector<uint32_t> &near);
	uint32_t WriteFull(Worker &worker, const std::vector<uint32_t> &full);
	bool IsLine(uint32_t area) const {
		return areas[area]->element_count == 0;
	}

	std::unique_ptr<Worker> TakeWorker();
	void ReturnWorker(std::unique_ptr<Worker> worker);
	//! False once the memory limit is reached; any thread
	bool TakeMemory(size_t bytes);
	//! Null once the memory limit is reached
	Unit *Allocate(Worker &worker, size_t units, uint32_t &value);

	const std::vector<const vibe::ShapeView *> &areas;
	const size_t memory_limit;
	const std::function<bool(size_t)> &reserve;
	const cell_tuning::Fineness fineness;
	const vibe::CellReach reach;
	Parallel &parallel;
	std::unique_ptr<CellIndex> index;
	vibe::Vec2 *vertices = nullptr;

	std::mutex lock;
	std::vector<std::unique_ptr<Worker>> idle;
	std::vector<std::unique_ptr<Task>> shared; // by all threads, as they have so many edges
	//! Of the index, and of what only building needs and grows with the edges
	std::atomic<size_t> memory {0};
	std::atomic<bool> over_limit {false};
};

} // namespace vibespatial
