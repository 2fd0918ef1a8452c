//===----------------------------------------------------------------------===//
// engine/join/join.hpp
//
// Promise: exact. Which pairs of a probe and a build geometry meet a spatial condition: the same pairs as asking the
// scalar functions about all of them. An index over the build side finds candidates, each is then decided exactly.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/area_scan.hpp"
#include "engine/index/box_tree.hpp"
#include "engine/index/cell_index.hpp"
#include "engine/common/parallel.hpp"
#include "engine/input/condition.hpp"
#include "engine/index/point_locator.hpp"
#include "engine/relate/relate.hpp"
#include "engine/shape/shape.hpp"
#include "engine/common/shared_work.hpp"
#include "geometry/geometry_batch.hpp"
#include "geometry/lanes.hpp"
#include "geometry/wkb.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vibespatial {

//! What the probes of one thread, or of all, came to
struct JoinCounts {
	uint64_t candidates = 0;
	uint64_t cell_hits = 0; // pairs that the cells found
	uint64_t exact_tests = 0;

	void Add(const JoinCounts &other) {
		candidates += other.candidates;
		cell_hits += other.cell_hits;
		exact_tests += other.exact_tests;
	}
};

//! The build side. Rows are numbered in the order they came; their bytes outlive the index.
class JoinIndex {
public:
	//! `limits`: of each row, when the condition asks for that. `poll` is called every now and then while cells are built,
	//! and throws to stop.
	JoinIndex(JoinCondition condition, JoinRows rows, std::vector<double> limits, size_t threads = 1,
	          std::function<void()> poll = nullptr);
	~JoinIndex();

	//! Bytes that Build() will take for so many rows, about
	static size_t EstimateMemory(size_t rows);
	//! Packs the tree in place of the CPU engine; a tree that holds the same boxes
	typedef std::function<std::unique_ptr<BoxTree>(const vibe::Box *boxes, size_t count, Parallel &parallel)>
	    TreeBuilder;
	void SetTreeBuilder(TreeBuilder builder) {
		build_tree = std::move(builder);
	}
	//! Asked by Build(), when the rows are read: shall the tree be left to the first row that asks for it?
	void SetLeaveTree(std::function<bool()> leave) {
		leave_tree = std::move(leave);
	}
	//! Reads all rows and builds the tree. Points that are expected by then are prepared for: where the areas are read for them, the
	//! tree is left to the first row that asks for it. Throws GeometryError.
	void Build(Parallel &parallel);

	//! Cells make points in areas nearly free. They are built when the points that came, or will come, would cost more
	//! without, by the threads that ask. Fewer points look at the areas as they are, and fewer still at the tree.
	void ExpectPoints(uint64_t count) {
		expected_points = count;
	}
	//! Calls for threads that have nothing else to do: few may ask for cells, and many could build them
	void SetInvite(std::function<void(const std::shared_ptr<SharedWork> &)> function) {
		invite = std::move(function);
	}
	void SetCellMemory(size_t bytes) {
		cell_memory = bytes;
	}

	//! Before Build(): a device will be asked, and needs to know more
	void KeepForDevice() {
		keep_boxes = true;
	}
	//! All rows for a device, once they are built; with the tree if it is there
	void ExportRows(struct GpuRows &result) const;
	//! Built by the threads that ask, if it is not there
	const BoxTree &Tree();
	//! The cells, where they pay for as many points as are expected and are all that points can meet
	const CellIndex *CellsForDevice();
	//! What a row of the probe side is to a device, and its box. Throws GeometryError as a probe would.
	enum class ProbeRow : uint8_t { EMPTY, BOX, SHAPE };
	ProbeRow ReadProbe(const JoinRow &row, vibe::Box &box) const;
	//! An EMPTY probe can be in pairs, an EMPTY build row with those that are not: a device knows neither
	bool EmptyProbesMatter() const {
		return empty_is_near || empty_equals_empty;
	}
	bool EmptyRowsMatter() const {
		return empty_is_near && !empties.empty();
	}
	const JoinCondition &Condition() const {
		return condition;
	}

	const vibe::Box &Bounds() const {
		return bounds;
	}
	size_t RowCount() const {
		return rows.size();
	}
	size_t MemoryUsage() const;
	//! What there is by now: boxes, or a tree, cells, areas
	std::string Describe() const;
	double CellSeconds() const {
		return cell_seconds;
	}

private:
	friend class JoinProbe;

	//! Where a point lies in an area decides every RELATE
	struct Answers {
		bool point_probes[3];
		bool area_probes[3];
		bool equal_points;
	};

	const vibe::ShapeView *CachedShape(uint32_t row) const;
	const vibe::ShapeView &KeepShape(uint32_t row) const;
	//! Notes the first time
	bool IsAskedAgain(uint32_t row) const;
	//! The cells, when they are there or it is time to build them
	const CellIndex *Cells();
	const CellIndex *CellsFrom(double cost_without);
	void BuildCells(Parallel &parallel);
	//! The areas as they are, where they serve points better than the tree
	const AreaScan *Areas();
	bool AreasPay(uint64_t vertices, double point_cost) const;
	//! Nanoseconds, about: of a point and an area of the tree, and of a point as they are looked up now
	double TestCost() const;
	double PointCost() const;
	//! What Build() reads of the rows: the boxes of rows, and behind them those of their parts
	void ReadRows(UninitializedVector<vibe::Box> &boxes, Parallel &parallel);
	void ReadAreas(UninitializedVector<vibe::Box> &boxes);

	JoinCondition condition;
	JoinRows rows;
	std::vector<double> limits;
	Answers answers;
	bool only_boxes = false;
	bool only_relate = true;
	bool uses_boxes = false;
	bool empty_equals_empty = false;
	bool empty_is_near = false;
	//! A pair that meets in any way meets the condition
	bool intersects_is_enough = false;

	vibe::Box bounds = vibe::Box::Empty();
	TreeBuilder build_tree;
	std::function<bool()> leave_tree;
	std::unique_ptr<BoxTree> tree;
	std::atomic<const BoxTree *> ready_tree {nullptr};
	//! Items of the tree are rows, and after those the parts of rows that have several: these are their rows
	std::vector<uint32_t> part_row;
	bool keep_boxes = false;
	UninitializedVector<vibe::Box> item_boxes;
	bool all_points = false;
	std::vector<vibe::Vec2> points;
	//! EMPTY, not NULL
	std::vector<uint32_t> empties;
	uint64_t area_vertices = 0;

	//! Null, the mark of those that were made once and not kept, or a shape
	mutable std::vector<std::atomic<Shape *>> shapes;
	mutable Shape asked_once;
	mutable std::atomic<size_t> shape_bytes {0};

	std::unique_ptr<CellIndex> cells;
	//! Beside the cells: what is no area
	std::unique_ptr<BoxTree> others;
	std::atomic<const CellIndex *> ready_cells {nullptr};
	std::atomic<bool> cells_refused {false};
	std::unique_ptr<AreaScan> area_scan;
	std::atomic<const AreaScan *> ready_areas {nullptr};
	std::atomic<bool> areas_refused {false};
	//! Points that came before the cells were there, and about what cells would have spared them
	std::atomic<uint64_t> points_seen {0};
	std::atomic<uint64_t> nanoseconds_spent {0};
	//! About what they cost
	std::atomic<uint64_t> point_nanoseconds {0};
	uint64_t expected_points = 0;
	size_t cell_memory = SIZE_MAX;
	double cell_seconds = 0;
	std::function<void(const std::shared_ptr<SharedWork> &)> invite;
	//! Who was invited may come when the index is gone
	std::shared_ptr<SharedWork> cell_work;
	std::shared_ptr<SharedWork> area_work;
	std::shared_ptr<SharedWork> tree_work;
};

//! One thread's probes: a tile of rows at a time
class JoinProbe {
public:
	//! `poll` is called every now and then, and throws to stop the work
	JoinProbe(JoinIndex &index, std::function<void()> poll);

	//! The rows stay where they are until the tile is done. `row_limits` when the probe has a part in the limit. Rows marked in
	//! `done` are passed over: it may grow while the tile is worked on. `x` and `y` where all rows are points that were read.
	void Begin(const JoinRow *tile, size_t count, const double *row_limits, const bool *done, const double *x = nullptr,
	           const double *y = nullptr);
	//! As Begin(), for those who bring the candidates themselves: Test(row of the tile, build row)
	void BeginTests(const JoinRow *tile, size_t count, const double *row_limits);
	bool Test(size_t tile_row, uint32_t build_row);
	//! With `first_only` a row is left after its first hit
	void SetFirstOnly(bool value) {
		first_only = value;
	}
	//! Rows come in the order of the tile. Without, neighbours come together where that saves time.
	void SetOrdered(bool value) {
		ordered = value;
	}
	//! The next pairs, those of a row one after the other; in order of the build rows where ordered. 0 at the end of the tile
	size_t Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity);

	JoinCounts counts;

private:
	enum Kind : uint8_t { ABSENT, EMPTY, POINT, OTHER };

	size_t ReadRows();
	void SortRows();
	void LocateRun();
	bool NextRow();
	void FindCandidates(size_t row);
	bool Matches(uint32_t build_row);
	vibe::Location LocateInProbe(const vibe::ShapeView &probe, const vibe::Vec2 &point);
	bool HasVertexIn(const vibe::ShapeView &probe, uint32_t build_row);
	bool MatchesRelate(uint32_t build_row);
	bool MatchesDistance(const JoinTerm &term, uint32_t build_row);
	bool MatchesBoxes(uint32_t build_row);
	const vibe::ShapeView &ProbeShape();
	const vibe::ShapeView &BuildShapeOf(uint32_t build_row);
	bool BuildPoint(uint32_t build_row, vibe::Vec2 &point) const;
	double LimitOf(uint32_t build_row) const;

	JoinIndex &index;
	std::function<void()> poll;
	bool first_only = false;
	bool ordered = true;

	const JoinRow *tile = nullptr;
	size_t count = 0;
	const double *row_limits = nullptr;
	const bool *done = nullptr;
	std::vector<Kind> kinds;
	//! Of the rows that are points
	const double *xs = nullptr;
	const double *ys = nullptr;
	std::vector<double> own_x;
	std::vector<double> own_y;
	const CellIndex *cells = nullptr;
	const AreaScan *areas = nullptr;
	AreaScan::FoundRows located;
	struct Hit {
		uint32_t probe;
		uint32_t build;
	};
	//! Of a run of points, known to match
	UninitializedVector<Hit> hits;
	size_t next_hit = 0;
	size_t tile_points = 0;
	uint64_t tests_before = 0;
	AreaScan::Lookup lookup;
	uint64_t nanoseconds_before = 0;

	//! The rows in the order they are taken; none: as they are
	std::vector<uint32_t> order;
	std::vector<uint32_t> keys;
	std::vector<uint32_t> sorted;
	//! How many were taken
	size_t taken = 0;

	// The current row
	size_t row = 0;
	size_t candidate = 0;
	std::vector<uint32_t> candidates;
	//! The candidates are known to match
	bool certain = false;
	bool has_shape = false;
	GeometryBatch batch;
	Shape shape;
	vibe::u32 zero = 0;
	vibe::Vec2 probe_point {};
	vibe::ShapeView point_view {};
	std::unique_ptr<PointLocator> locator;

	GeometryBatch build_batch;
	Shape build_shape;
	uint32_t built_row = UINT32_MAX;
	RelateScratch scratch;
	uint64_t work = 0;
};

//! One tile at a time, probed by all threads that are free. It is cut into shares that find their pairs on their own.
class JoinShares {
public:
	//! Runs work on the threads that there are
	typedef std::function<void(const std::function<void(Parallel &)> &)> Threads;

	//! Rows that a thread takes at a time
	static constexpr size_t ROWS_PER_SHARE = 256;
	JoinShares(JoinIndex &index, const std::function<void()> &poll, Threads threads);

	//! As those of a JoinProbe. Rows come in no order; those that are marked in `done` while the tile is worked on may come.
	void Begin(const JoinRow *tile, size_t count, const double *row_limits, const bool *done);
	void SetFirstOnly(bool value);
	size_t Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity);

	JoinCounts Counts() const;

	//! Is it work enough to share? A chunk of points is probed sooner than another thread comes. `bytes`: of all rows
	static bool Pays(size_t count, size_t bytes) {
		return count > ROWS_PER_SHARE && bytes >= BYTES_TO_SHARE;
	}
	//! More than a tile of points has
	static constexpr size_t BYTES_TO_SHARE = 64 * 1024;

private:
	//! That a share finds before it waits until they are taken
	static constexpr size_t PAIRS_AT_ONCE = 2048;

	struct Share {
		Share(JoinIndex &index, const std::function<void()> &poll) : probe(index, poll) {
			probe.SetOrdered(false);
		}
		JoinProbe probe;
		uint32_t first_row = 0;
		bool begun = false;
		size_t found = 0;
		size_t given = 0;
		bool more = false;
		uint32_t probe_rows[PAIRS_AT_ONCE];
		uint32_t build_rows[PAIRS_AT_ONCE];
	};

	JoinIndex &index;
	const std::function<void()> poll;
	const Threads threads;
	bool first_only = false;
	std::vector<std::unique_ptr<Share>> shares;
	//! Of this tile
	size_t share_count = 0;
	const JoinRow *tile = nullptr;
	size_t count = 0;
	const double *row_limits = nullptr;
	const bool *done = nullptr;
};

} // namespace vibespatial
