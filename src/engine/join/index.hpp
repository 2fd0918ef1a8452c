//===----------------------------------------------------------------------===//
// engine/join/index.hpp
//
// The build side of a spatial join: its rows and the indexes over them. A tree of boxes serves all conditions; points
// against areas are answered by cells (engine/index/cell_index.hpp) or the polygon scan (engine/index/polygon_scan.hpp),
// and points at most a constant distance from areas or lines by cells, all of which are built when they pay.
// engine/join/probe.hpp finds the pairs.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/common/parallel.hpp"
#include "engine/common/shared_work.hpp"
#include "engine/index/box_tree.hpp"
#include "engine/index/cell_index.hpp"
#include "engine/index/polygon_scan.hpp"
#include "engine/input/condition.hpp"
#include "engine/input/row.hpp"
#include "engine/shape/shape.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vibespatial {

//! The build side of a join. Rows are numbered in the order they were given; their bytes must outlive the index.
class JoinIndex {
public:
	//! `limits`: the distance limit of each row, where the condition takes it from the build side. `poll` is called
	//! regularly while an index is built on demand, and throws to cancel.
	JoinIndex(JoinCondition condition, JoinRows rows, std::vector<double> limits, size_t threads = 1,
	          std::function<void()> poll = nullptr);
	~JoinIndex();

	//! Approximate bytes that Build() allocates for that many rows
	static size_t EstimateMemory(size_t rows);
	//! Builds the tree instead of the CPU engine, from the same boxes
	typedef std::function<std::unique_ptr<BoxTree>(const vibe::Box *boxes, size_t count, Parallel &parallel)>
	    TreeBuilder;
	void SetTreeBuilder(TreeBuilder builder) {
		build_tree = std::move(builder);
	}
	//! Build() calls this once the rows are read: true postpones the tree until a probe needs it
	void SetLeaveTree(std::function<bool()> leave) {
		leave_tree = std::move(leave);
	}
	//! Reads all rows and builds the tree, or the polygon scan where enough points are expected; the tree is then postponed
	//! until a probe needs it. Throws GeometryError.
	void Build(Parallel &parallel);

	//! How many points will probe, as far as known. Many points are answered by cells, fewer by the polygon scan, very few by
	//! the tree. Cells and scan are built by the probing threads as soon as the points seen and expected cost more without.
	void ExpectPoints(uint64_t count) {
		expected_points = count;
	}
	//! Called when an index is built on demand, so that idle threads can help
	void SetInvite(std::function<void(const std::shared_ptr<SharedWork> &)> function) {
		invite = std::move(function);
	}
	//! From here on, probes cache no further shapes
	void SetShapeMemory(size_t bytes) {
		shape_memory = bytes;
	}
	//! Memory for the cells while they are built
	struct CellMemory {
		//! How much is free when that begins: they take half of it at most
		std::function<size_t()> free;
		//! They have taken so much by now, on top of MemoryUsage() when that began; false: there is not so much. Any thread.
		std::function<bool(size_t bytes)> reserve;
		//! MemoryUsage() tells again what is in use
		std::function<void()> settle;
	};
	void SetCellMemory(CellMemory value) {
		cell_memory = std::move(value);
	}

	//! Call before Build() where a GPU will probe: keeps the boxes for it
	void KeepForDevice() {
		keep_boxes = true;
	}
	//! All rows for a GPU, after Build(); with the tree if it has been built
	void ExportRows(struct GpuRows &result) const;
	//! The shape of a row, for a device that does not read its WKB. Any thread.
	void PackRow(uint32_t row, struct PackedShapes &packed) const;
	//! Builds the tree if that was postponed
	const BoxTree &Tree();
	//! The cells, where they pay for the expected points and hold every row that a point can match; else null
	const CellIndex *CellsForDevice();
	//! How a GPU has to treat a row of the probe side, and its box. Throws GeometryError as a JoinProbe does.
	enum class ProbeRow : uint8_t { EMPTY, BOX, SHAPE };
	ProbeRow ReadProbe(const JoinRow &row, vibe::Box &box) const;
	//! EMPTY probe rows can be in pairs, and EMPTY build rows with probes that are not EMPTY: the GPU handles neither
	bool EmptyProbesMatter() const {
		return empty_is_near || empty_equals_empty;
	}
	bool EmptyRowsMatter() const {
		return empty_is_near && !empties.empty();
	}
	const JoinCondition &Condition() const {
		return condition;
	}
	//! The limit that the content of the cells depends on; negative where it does not
	double CellLimit() const {
		return reach.limit;
	}

	const vibe::Box &Bounds() const {
		return bounds;
	}
	size_t RowCount() const {
		return rows.size();
	}
	//! After Build(); NULL and EMPTY may be among them
	bool HasOnlyPoints() const {
		return all_points;
	}
	size_t MemoryUsage() const;
	//! The indexes built so far, for EXPLAIN ANALYZE
	std::string Describe() const;
	double CellSeconds() const {
		return cell_seconds;
	}

private:
	friend class JoinProbe;

	//! The answer of all RELATE terms for a point and an area, by the location of the point in the area
	struct Answers {
		bool point_probes[3];
		bool area_probes[3];
		bool equal_points;
	};

	//! Whether locating a point in the one element of the shape decides every RELATE
	static bool IsSingleArea(const vibe::ShapeView &view) {
		return view.element_count == 1 && !view.mixed && view.dimension == 2;
	}
	static bool IsOnlyLines(const vibe::ShapeView &view) {
		return view.element_count == 0 && !view.mixed && view.dimension == 1;
	}
	const vibe::ShapeView *CachedShape(uint32_t row) const;
	const vibe::ShapeView &KeepShape(uint32_t row) const;
	//! Whether the shape of the row has been built before; remembers the first time
	bool IsAskedAgain(uint32_t row) const;
	//! The cells if they exist, or if it pays to build them now; else null
	const CellIndex *Cells();
	const CellIndex *CellsFrom(double cost_without);
	void BuildCells(Parallel &parallel);
	void BuildCellsWithin(size_t limit, Parallel &parallel);
	//! The polygon scan if it exists, or if it pays to build it now; else null
	const PolygonScan *Polygons();
	bool PolygonScanPays(uint64_t vertices, double point_cost) const;
	//! Approximate nanoseconds of a test of a point against a candidate of the tree, and of a point with the current index
	double TestCost() const;
	//! About how many cells the reach of a point spans, where they are as fine as can be; 0 without a reach
	double CellsWithinReach() const;
	double PointCost() const;
	//! Fill `boxes` with the boxes of all rows, followed by those of the parts of rows that have several
	void ReadRows(UninitializedVector<vibe::Box> &boxes, Parallel &parallel);
	void ReadPolygons(UninitializedVector<vibe::Box> &boxes);

	JoinCondition condition;
	JoinRows rows;
	std::vector<double> limits;
	Answers answers;
	bool only_boxes = false;
	bool only_relate = true;
	//! One distance, and the same limit for all rows
	bool only_distance = false;
	//! Where points are looked up in cells by distance
	vibe::CellReach reach = vibe::CellReach::None();
	bool uses_boxes = false;
	bool empty_equals_empty = false;
	bool empty_is_near = false;
	//! One of the terms is ST_Intersects
	bool intersects_is_enough = false;

	vibe::Box bounds = vibe::Box::Empty();
	TreeBuilder build_tree;
	std::function<bool()> leave_tree;
	std::unique_ptr<BoxTree> tree;
	std::atomic<const BoxTree *> ready_tree {nullptr};
	//! Items of the tree are the rows, followed by the parts of rows that have several. The row of each part:
	std::vector<uint32_t> part_row;
	bool keep_boxes = false;
	UninitializedVector<vibe::Box> item_boxes;
	bool all_points = false;
	std::vector<vibe::Vec2> points;
	//! Rows that are EMPTY (not NULL)
	std::vector<uint32_t> empties;
	uint64_t area_vertices = 0;
	uint64_t line_vertices = 0;

	//! For each row: null, &asked_once (built once and not kept), or the cached shape
	mutable std::vector<std::atomic<Shape *>> shapes;
	mutable Shape asked_once;
	mutable std::atomic<size_t> shape_bytes {0};

	std::unique_ptr<CellIndex> cells;
	//! Tree of the rows that are not in the cells, as they are no areas (or lines); null if there are none
	std::unique_ptr<BoxTree> others;
	std::atomic<const CellIndex *> ready_cells {nullptr};
	std::atomic<bool> cells_refused {false};
	std::unique_ptr<PolygonScan> polygon_scan;
	std::atomic<const PolygonScan *> ready_polygons {nullptr};
	std::atomic<bool> polygons_refused {false};
	//! Points probed before the cells were built, and the approximate time that cells would have saved them
	std::atomic<uint64_t> points_seen {0};
	std::atomic<uint64_t> nanoseconds_spent {0};
	//! Approximate time those points took
	std::atomic<uint64_t> point_nanoseconds {0};
	uint64_t expected_points = 0;
	size_t shape_memory = SIZE_MAX;
	CellMemory cell_memory;
	double cell_seconds = 0;
	std::function<void(const std::shared_ptr<SharedWork> &)> invite;
	//! Shared: an invited thread may arrive after the index is gone
	std::shared_ptr<SharedWork> cell_work;
	std::shared_ptr<SharedWork> polygon_work;
	std::shared_ptr<SharedWork> tree_work;
};

} // namespace vibespatial
