#include "engine/join/join.hpp"

#include "engine/shape/part_boxes.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/gpu/interface/join.hpp"
#include "geometry/error.hpp"
#include "vibe/distance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

namespace vibespatial {

using vibe::Box;
using vibe::ShapeView;
using vibe::Vec2;

//! Rows that one step of a parallel loop takes: a share of all, but neither so few nor so many that steps are a burden
static constexpr size_t STEPS = 64;
static constexpr size_t MIN_ROWS_PER_STEP = 256;
static constexpr size_t MAX_ROWS_PER_STEP = 8192;
//! A shape is kept for the whole join from this many bytes of WKB, when it is asked for again: below, reading it again costs
//! little
static constexpr uint32_t BYTES_TO_KEEP_SHAPE = 1024;
//! No shapes are kept for more rows than this: their slots alone would take the memory
static constexpr size_t MAX_ROWS_WITH_SHAPES = 4u << 20;
//! A geometry of more parts than this is one item of the tree
static constexpr size_t MAX_PARTS = 16384;
//! What cells cost to build, in nanoseconds, and what they spare: of the tree's work, of a device's, and of that on areas as
//! they are, where looking at cells costs less but not nothing. A test reads all of an area, and larger areas have more points.
static constexpr double CELL_COST_PER_VERTEX = 60;
static constexpr double TREE_COST_PER_POINT = 40;
static constexpr double TREE_COST_PER_TEST = 400;
static constexpr double TEST_COST_PER_VERTEX = 6;
//! For each point, until some were seen
static constexpr double EXPECTED_TESTS = 0.25;
static constexpr uint64_t POINTS_TO_KNOW = 1024;
static constexpr uint64_t DEVICE_COST_PER_POINT = 900;
static constexpr double SPARED_OF_AREAS = 0.6;
//! Points against one probed area: bands pay from here
static constexpr size_t POINTS_FOR_LOCATOR = 16;
static constexpr uint32_t VERTICES_FOR_LOCATOR = 32;
//! Points that the cells are asked about at once, and rows whose bytes are fetched ahead
static constexpr size_t POINTS_PER_RUN = 512;
static constexpr size_t PREFETCH = 16;
//! Tiles and build sides from which neighbours are brought together
static constexpr size_t ROWS_TO_SORT = 64;
//! Bytes that are fetched ahead of one row, and candidates of one row
static constexpr uint32_t PREFETCH_BYTES = 1024;
static constexpr size_t PREFETCH_CANDIDATES = 8;
//! Work between two polls, in steps of about 10 ns
static constexpr uint64_t WORK_PER_POLL = 1u << 20;

//===----------------------------------------------------------------------===//
// Reading rows
//===----------------------------------------------------------------------===//
namespace {

inline bool ReadPoint(const JoinRow &row, Vec2 &point) {
	return TryReadPoint(row.data, row.size, point);
}

inline void Prefetch(const JoinRow &row) {
	for (uint32_t at = 0; at < row.size && at < PREFETCH_BYTES; at += 64) {
		__builtin_prefetch(row.data + at);
	}
}

bool IsAreaType(const JoinRow &row) {
	uint32_t code;
	std::memcpy(&code, row.data + 1, sizeof(code));
	return code % 1000 == 3 || code % 1000 == 6;
}

//! For VisitWkb: one vertex of lines and polygons that a Shape can be made of, once their coordinates are known to be finite
struct OneVertex {
	Vec2 vertex {};
	bool found = false;
	bool sound = true;
	vibe::Family family = vibe::FAMILY_POINT;

	void Part(vibe::Family of_part) {
		family = of_part;
	}
	void Ring(uint32_t count, const uint8_t *coords, size_t stride) {
		const bool is_area = family == vibe::FAMILY_POLYGON;
		sound = sound && family != vibe::FAMILY_POINT && count >= (is_area ? 4 : 2);
		if (!sound) {
			return;
		}
		const Lanes first = LoadLanes(coords), last = LoadLanes(coords + (count - 1) * stride);
		sound = !is_area || (first[0] == last[0] && first[1] == last[1]);
		vertex = Vec2 {first[0], first[1]};
		found = true;
	}
};

bool IsSingleArea(const ShapeView &view) {
	return view.element_count == 1 && !view.mixed && view.dimension == 2;
}

size_t ShapeBytes(const ShapeView &view) {
	return sizeof(Shape) + view.vertex_count * (2 * sizeof(double) + sizeof(uint32_t) + 3) +
	       view.ring_count * sizeof(vibe::ShapeRing) + view.point_count * sizeof(Vec2) + 256;
}

} // namespace

//===----------------------------------------------------------------------===//
// The index
//===----------------------------------------------------------------------===//
JoinIndex::JoinIndex(JoinCondition condition_p, JoinRows rows_p, std::vector<double> limits_p, size_t threads,
                     std::function<void()> poll)
    : condition(std::move(condition_p)), rows(std::move(rows_p)), limits(std::move(limits_p)), answers {},
      cell_work(std::make_shared<SharedWork>(threads, poll)), area_work(std::make_shared<SharedWork>(threads, poll)),
      tree_work(std::make_shared<SharedWork>(threads, std::move(poll))) {
	for (auto &term : condition.any_of) {
		if (term.kind == JoinTerm::RELATE) {
			for (auto location : {vibe::LOC_INTERIOR, vibe::LOC_BOUNDARY}) {
				answers.point_probes[location] |= PointInArea(term.predicate, true).answer[location];
				answers.area_probes[location] |= PointInArea(term.predicate, false).answer[location];
			}
			answers.equal_points |= vibe::Holds(term.predicate, vibe::Cell(0, 0, 0) | vibe::Cell(2, 2, 2), 0, 0);
			empty_equals_empty |= term.predicate == vibe::PREDICATE_EQUALS;
			intersects_is_enough |= term.predicate == vibe::PREDICATE_INTERSECTS;
		} else {
			only_relate = false;
			uses_boxes |= term.kind == JoinTerm::BOXES;
			empty_is_near |= term.kind == JoinTerm::DISTANCE && term.empty_is_near;
		}
	}
	only_boxes = condition.any_of.size() == 1 && uses_boxes;
}

JoinIndex::~JoinIndex() {
	for (auto &slot : shapes) {
		if (slot.load() != &asked_once) {
			delete slot.load();
		}
	}
}

size_t JoinIndex::EstimateMemory(size_t count) {
	return count * (sizeof(JoinRow) + sizeof(Box)) + BoxTree::EstimateBuildMemory(count) +
	       (count <= MAX_ROWS_WITH_SHAPES ? count * sizeof(void *) : 0);
}

void JoinIndex::ReadRows(UninitializedVector<Box> &boxes, Parallel &parallel) {
	const size_t count = rows.size();
	//! What one step finds
	struct Share {
		//! The parts of rows that have several: the rows themselves have no box then
		std::vector<Box> parts;
		std::vector<uint32_t> owners;
		std::vector<uint32_t> empties;
		Box bounds = Box::Empty();
		bool all_points = true;
		uint64_t area_vertices = 0;
	};
	const size_t rows_per_step = std::min(std::max(count / STEPS, MIN_ROWS_PER_STEP), MAX_ROWS_PER_STEP);
	size_t steps = (count + rows_per_step - 1) / rows_per_step;
	std::vector<Share> shares(steps);
	parallel.For(steps, [&](size_t step) {
		auto &share = shares[step];
		std::vector<Box> part_boxes;
		GeometryBatch scratch;
		for (size_t i = step * rows_per_step; i < std::min(count, (step + 1) * rows_per_step); i++) {
			auto &row = rows[i];
			auto &box = boxes[i];
			box = Box::Empty();
			part_boxes.clear();
			double grow = limits.empty() ? 0 : condition.Effective(limits[i]);
			if (!(grow >= 0) && (condition.any_of.size() > 1 || condition.limit_from == JoinLimit::SUM)) {
				grow = 0; // another term may hold, or the probe's part be larger
			}
			Vec2 point;
			if (!row.data || !(grow >= 0)) {
				continue; // never near anything
			}
			if (ReadPoint(row, point)) {
				box.Add(point.x, point.y);
			} else {
				PartBoxes reader;
				reader.parts = uses_boxes ? nullptr : &part_boxes;
				VisitWkb(row.data, row.size, reader);
				if (!reader.finite && !only_boxes) {
					Shape unused;
					BuildShape(row.data, row.size, scratch, unused); // says what is wrong
				}
				if (reader.vertices == 0) {
					share.empties.push_back(static_cast<uint32_t>(i));
					continue;
				}
				box = reader.whole;
				share.all_points = false;
				if (IsAreaType(row)) {
					share.area_vertices += reader.vertices;
				}
			}
			if (grow > 0) {
				box = Grow(box, grow);
			}
			share.bounds.Add(box);
			if (part_boxes.size() < 2 || part_boxes.size() > MAX_PARTS) {
				continue;
			}
			box = Box::Empty();
			for (auto &part : part_boxes) {
				share.parts.push_back(!part.IsEmpty() && grow > 0 ? Grow(part, grow) : part);
				share.owners.push_back(static_cast<uint32_t>(i));
			}
		}
	});

	all_points = true;
	for (auto &share : shares) {
		all_points &= share.all_points;
		area_vertices += share.area_vertices;
		bounds.Add(share.bounds);
		empties.insert(empties.end(), share.empties.begin(), share.empties.end());
		boxes.insert(boxes.end(), share.parts.begin(), share.parts.end());
		part_row.insert(part_row.end(), share.owners.begin(), share.owners.end());
	}
	if (all_points) {
		points.resize(count);
		parallel.For(steps, [&](size_t step) {
			for (size_t i = step * rows_per_step; i < std::min(count, (step + 1) * rows_per_step); i++) {
				if (!rows[i].data || !ReadPoint(rows[i], points[i])) {
					points[i] = Vec2 {NAN, NAN}; // NULL or EMPTY
				}
			}
		});
	}
}

void JoinIndex::ReadAreas(UninitializedVector<Box> &boxes) {
	const auto polygons = area_scan->TakePolygons();
	area_vertices = polygons.vertices;
	std::vector<bool> has_vertices(rows.size());
	std::fill(boxes.begin(), boxes.end(), Box::Empty());
	for (size_t i = 0, end; i < polygons.rows.size(); i = end) {
		const uint32_t row = polygons.rows[i];
		Box box = Box::Empty();
		for (end = i; end < polygons.rows.size() && polygons.rows[end] == row; end++) {
			box.Add(polygons.boxes[end]);
		}
		bounds.Add(box);
		has_vertices[row] = !box.IsEmpty();
		if (end - i < 2 || end - i > MAX_PARTS) {
			boxes[row] = box;
			continue;
		}
		boxes.insert(boxes.end(), polygons.boxes.begin() + static_cast<ptrdiff_t>(i),
		             polygons.boxes.begin() + static_cast<ptrdiff_t>(end));
		part_row.insert(part_row.end(), end - i, row);
	}
	for (size_t i = 0; i < rows.size(); i++) {
		if (rows[i].data && !has_vertices[i]) {
			empties.push_back(static_cast<uint32_t>(i));
		}
	}
}

void JoinIndex::Build(Parallel &parallel) {
	const size_t count = rows.size();
	UninitializedVector<Box> boxes(count);
	if (only_relate && !keep_boxes && count <= MAX_ROWS_WITH_SHAPES) {
		uint64_t most_vertices = 0;
		for (auto &row : rows) {
			most_vertices += row.data ? row.size / (2 * sizeof(double)) : 0;
		}
		// What the probe side is, is not known yet: where it may cost much to be wrong, the first points tell
		if (AreasPay(most_vertices, TREE_COST_PER_POINT)) {
			area_scan = AreaScan::Build(rows, parallel);
		}
	}
	if (area_scan) {
		ReadAreas(boxes);
		ready_areas = area_scan.get();
	} else {
		ReadRows(boxes, parallel);
	}
	if (leave_tree && leave_tree()) {
		tree = nullptr;
	} else if (build_tree) {
		tree = build_tree(boxes.data(), boxes.size(), parallel);
	} else if (!area_scan) {
		tree = std::make_unique<BoxTree>(boxes.data(), boxes.size(), parallel);
	}
	ready_tree = tree.get();
	if (keep_boxes || !tree) {
		item_boxes = std::move(boxes);
	}
	if (!all_points && count <= MAX_ROWS_WITH_SHAPES) {
		shapes = std::vector<std::atomic<Shape *>>(count);
		for (auto &slot : shapes) {
			slot.store(nullptr, std::memory_order_relaxed);
		}
	}
	if (!only_relate || area_vertices == 0 || shapes.empty()) {
		cells_refused = true;
		areas_refused = true;
	}
}

const BoxTree &JoinIndex::Tree() {
	if (auto ready = ready_tree.load(std::memory_order_acquire)) {
		return *ready;
	}
	tree_work->Run([this](Parallel &parallel) {
		if (invite) {
			invite(tree_work);
		}
		tree = build_tree ? build_tree(item_boxes.data(), item_boxes.size(), parallel)
		                  : std::make_unique<BoxTree>(item_boxes.data(), item_boxes.size(), parallel);
		ready_tree.store(tree.get(), std::memory_order_release);
	});
	return *tree;
}

const ShapeView *JoinIndex::CachedShape(uint32_t row) const {
	auto shape = row < shapes.size() ? shapes[row].load(std::memory_order_acquire) : nullptr;
	return shape && shape != &asked_once ? &shape->View() : nullptr;
}

bool JoinIndex::IsAskedAgain(uint32_t row) const {
	Shape *expected = nullptr;
	return !shapes[row].compare_exchange_strong(expected, &asked_once, std::memory_order_relaxed);
}

const ShapeView &JoinIndex::KeepShape(uint32_t row) const {
	if (auto view = CachedShape(row)) {
		return *view;
	}
	auto shape = std::make_unique<Shape>();
	GeometryBatch scratch;
	BuildShape(rows[row].data, rows[row].size, scratch, *shape);
	Shape *expected = shapes[row].load(std::memory_order_acquire);
	while (expected == nullptr || expected == &asked_once) {
		if (shapes[row].compare_exchange_weak(expected, shape.get(), std::memory_order_acq_rel)) {
			shape_bytes += ShapeBytes(shape->View());
			return shape.release()->View();
		}
	}
	return expected->View();
}

//! Pay for cells once doing without has cost as much, or is known to
const CellIndex *JoinIndex::Cells() {
	if (auto ready = ready_cells.load(std::memory_order_acquire)) {
		return ready;
	}
	double points = static_cast<double>(points_seen), spent = static_cast<double>(nanoseconds_spent);
	double ahead = std::max(0.0, static_cast<double>(expected_points) - points);
	return CellsFrom(points > 0 ? spent * (1 + ahead / points) : 0);
}

const CellIndex *JoinIndex::CellsForDevice() {
	if (!ready_cells.load(std::memory_order_acquire)) {
		CellsFrom(static_cast<double>(DEVICE_COST_PER_POINT * expected_points));
	}
	return others ? nullptr : ready_cells.load(std::memory_order_acquire);
}

const CellIndex *JoinIndex::CellsFrom(double cost_without) {
	if (cells_refused.load(std::memory_order_relaxed)) {
		return nullptr;
	}
	if (cost_without < CELL_COST_PER_VERTEX * static_cast<double>(area_vertices)) {
		return nullptr;
	}
	cell_work->Run([this](Parallel &parallel) {
		if (invite) {
			invite(cell_work);
		}
		BuildCells(parallel);
	});
	return ready_cells.load(std::memory_order_acquire);
}

double JoinIndex::TestCost() const {
	return TREE_COST_PER_TEST + TEST_COST_PER_VERTEX * static_cast<double>(area_vertices) /
	                                static_cast<double>(std::max<size_t>(1, rows.size()));
}

double JoinIndex::PointCost() const {
	const uint64_t seen = points_seen;
	if (seen < POINTS_TO_KNOW) {
		return TREE_COST_PER_POINT + EXPECTED_TESTS * TestCost();
	}
	return static_cast<double>(point_nanoseconds) / static_cast<double>(seen);
}

bool JoinIndex::AreasPay(uint64_t vertices, double point_cost) const {
	const auto points = static_cast<double>(std::max<uint64_t>(expected_points, points_seen));
	return points * point_cost >= AreaScan::NANOSECONDS_PER_VERTEX * static_cast<double>(vertices) +
	                                  AreaScan::NANOSECONDS_PER_ROW * static_cast<double>(rows.size());
}

const AreaScan *JoinIndex::Areas() {
	if (auto ready = ready_areas.load(std::memory_order_acquire)) {
		return ready;
	}
	if (areas_refused.load(std::memory_order_relaxed)) {
		return nullptr;
	}
	if (!AreasPay(area_vertices, PointCost())) {
		return nullptr;
	}
	area_work->Run([this](Parallel &parallel) {
		if (invite) {
			invite(area_work);
		}
		area_scan = AreaScan::Build(rows, parallel);
		ready_areas.store(area_scan.get(), std::memory_order_release);
		areas_refused = !area_scan;
	});
	return ready_areas.load(std::memory_order_acquire);
}

void JoinIndex::BuildCells(Parallel &parallel) {
	auto begin = std::chrono::steady_clock::now();
	std::vector<const ShapeView *> areas(rows.size());
	std::vector<Box> other_boxes(rows.size(), Box::Empty());
	std::vector<std::unique_ptr<Shape>> small(rows.size());
	std::atomic<size_t> small_bytes {0};
	std::atomic<bool> has_others {false};
	parallel.For((rows.size() + 255) / 256, [&](size_t step) {
		if (shape_bytes + small_bytes > cell_memory) {
			return;
		}
		GeometryBatch scratch;
		for (size_t i = step * 256; i < std::min(rows.size(), (step + 1) * 256); i++) {
			if (!rows[i].data) {
				continue;
			}
			Vec2 point;
			if (ReadPoint(rows[i], point)) {
				other_boxes[i].Add(point.x, point.y);
				has_others = true;
				continue;
			}
			if (rows[i].size < BYTES_TO_KEEP_SHAPE) {
				small[i] = std::make_unique<Shape>();
				BuildShape(rows[i].data, rows[i].size, scratch, *small[i]);
				small_bytes += ShapeBytes(small[i]->View());
			}
			auto &view = small[i] ? small[i]->View() : KeepShape(static_cast<uint32_t>(i));
			if (IsSingleArea(view)) {
				areas[i] = &view;
			} else if (view.dimension >= 0) {
				other_boxes[i] = view.box;
				has_others = true;
			}
		}
	});
	if (shape_bytes + small_bytes <= cell_memory) {
		// What was expected has been wrong when many have come without it
		const uint64_t points = expected_points > 0 ? std::max<uint64_t>(expected_points, 4 * points_seen) : 0;
		cells = CellIndex::Build(areas, cell_memory - shape_bytes - small_bytes, parallel, points);
	}
	if (cells && has_others) {
		others = std::make_unique<BoxTree>(other_boxes.data(), other_boxes.size(), parallel);
	}
	cell_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	if (cells) {
		ready_cells.store(cells.get(), std::memory_order_release);
	} else {
		cells_refused = true;
	}
}

void JoinIndex::ExportRows(GpuRows &result) const {
	result.tree = ready_tree.load(std::memory_order_acquire);
	result.boxes = &item_boxes;
	result.part_row = &part_row;
	result.count = rows.size();
	result.limits = limits.empty() ? nullptr : limits.data();
	if (all_points) {
		result.points = points.data();
		return;
	}
	result.wkb = rows.data();
	result.pack = [this](size_t row, PackedShapes &packed) {
		auto &wkb = rows[row];
		Box box = Box::Empty();
		WkbBounds(wkb.data, wkb.size, box);
		if (only_boxes) {
			packed.AddBox(box);
		} else if (auto view = CachedShape(static_cast<uint32_t>(row))) {
			packed.Add(*view);
		} else {
			try {
				GeometryBatch scratch;
				Shape shape;
				BuildShape(wkb.data, wkb.size, scratch, shape);
				packed.Add(shape.View());
			} catch (const GeometryError &) {
				packed.AddUnknown(box); // wrong, but perhaps never looked at
			}
		}
	};
}

JoinIndex::ProbeRow JoinIndex::ReadProbe(const JoinRow &row, Box &box) const {
	PartBoxes reader;
	reader.parts = nullptr;
	VisitWkb(row.data, row.size, reader);
	box = reader.whole;
	if (!reader.finite && !only_boxes) {
		GeometryBatch scratch;
		Shape unused;
		BuildShape(row.data, row.size, scratch, unused); // says what is wrong
	}
	return reader.vertices == 0 ? ProbeRow::EMPTY : only_boxes ? ProbeRow::BOX : ProbeRow::SHAPE;
}

size_t JoinIndex::MemoryUsage() const {
	size_t bytes = rows.capacity() * sizeof(JoinRow) + limits.capacity() * sizeof(double) +
	               part_row.capacity() * sizeof(uint32_t) + points.capacity() * sizeof(Vec2) +
	               empties.capacity() * sizeof(uint32_t) + shapes.capacity() * sizeof(void *) + shape_bytes +
	               item_boxes.capacity() * sizeof(Box);
	if (auto ready = ready_tree.load(std::memory_order_acquire)) {
		bytes += ready->MemoryUsage();
	}
	if (auto ready = ready_cells.load(std::memory_order_acquire)) {
		bytes += ready->MemoryUsage() + (others ? others->MemoryUsage() : 0);
	}
	if (auto ready = ready_areas.load(std::memory_order_acquire)) {
		bytes += ready->MemoryUsage();
	}
	return bytes;
}

std::string JoinIndex::Describe() const {
	std::string text;
	if (ready_tree.load(std::memory_order_acquire)) {
		text = part_row.empty() ? "tree" : "tree of parts";
	}
	if (auto ready = ready_areas.load(std::memory_order_acquire)) {
		text += (text.empty() ? "" : ", ") + ("areas as they are in " + std::to_string(ready->CellCount())) + " cells";
	}
	if (auto ready = ready_cells.load(std::memory_order_acquire)) {
		auto &figures = ready->GetFigures();
		text += (text.empty() ? "" : ", ") + std::to_string(figures.cells) + " cells (" +
		        std::to_string(figures.full_cells) + " full, " + std::to_string(figures.partial_cells) + " with edges)";
	}
	return text.empty() ? "boxes" : text;
}

//===----------------------------------------------------------------------===//
// Probing
//===----------------------------------------------------------------------===//
JoinProbe::JoinProbe(JoinIndex &index_p, std::function<void()> poll_p) : index(index_p), poll(std::move(poll_p)) {
}

size_t JoinProbe::ReadRows() {
	row = 0;
	taken = 0;
	order.clear();
	candidate = 0;
	candidates.clear();
	kinds.resize(count);
	hits.clear();
	next_hit = 0;
	size_t point_count = 0;
	Kind *const kind = kinds.data();
	if (xs) {
		std::fill(kind, kind + count, POINT);
		return count;
	}
	own_x.resize(count);
	own_y.resize(count);
	double *const x = own_x.data(), *const y = own_y.data();
	xs = x;
	ys = y;
	for (size_t i = 0; i < count; i++) {
		__builtin_prefetch(tile[std::min(i + PREFETCH, count - 1)].data);
		Vec2 point;
		if (!tile[i].data) {
			kind[i] = ABSENT;
			continue;
		}
		PlainPoints plain;
		if (plain.Read(tile[i], x[i], y[i]) && plain.All()) {
			kind[i] = POINT;
			point_count++;
		} else if (ReadPoint(tile[i], point)) {
			kind[i] = POINT;
			x[i] = point.x;
			y[i] = point.y;
			point_count++;
		} else {
			kind[i] = OTHER;
		}
	}
	return point_count;
}

void JoinProbe::Begin(const JoinRow *tile_p, size_t count_p, const double *row_limits_p, const bool *done_p,
                      const double *x, const double *y) {
	tile = tile_p;
	count = count_p;
	xs = x;
	ys = y;
	row_limits = row_limits_p;
	done = done_p;
	tile_points = ReadRows();
	tests_before = counts.exact_tests;
	nanoseconds_before = lookup.nanoseconds;
	cells = tile_points > 0 ? index.Cells() : nullptr;
	areas = tile_points > 0 && !cells ? index.Areas() : nullptr;
	if (!ordered && !cells && !areas && count >= ROWS_TO_SORT && index.rows.size() >= ROWS_TO_SORT) {
		SortRows();
	}
}

void JoinProbe::BeginTests(const JoinRow *tile_p, size_t count_p, const double *row_limits_p) {
	tile = tile_p;
	count = count_p;
	row_limits = row_limits_p;
	done = nullptr;
	xs = nullptr;
	cells = nullptr;
	areas = nullptr;
	tile_points = 0;
	has_shape = false;
	locator.reset();
	ReadRows();
}

bool JoinProbe::Test(size_t tile_row, uint32_t build_row) {
	if (row != tile_row) {
		row = tile_row;
		has_shape = false;
		locator.reset();
	}
	return Matches(build_row);
}

//! The first vertex of a point, line or polygon: near enough to where it is
static Vec2 FirstVertex(const JoinRow &row) {
	uint32_t code;
	std::memcpy(&code, row.data + 1, sizeof(code));
	size_t offset = code % 1000 == 1 ? 5 : code % 1000 == 2 ? 9 : 13;
	if (code % 1000 > 3 || row.size < offset + 2 * sizeof(double)) {
		return Vec2 {0, 0};
	}
	return Vec2 {LoadDouble(row.data + offset), LoadDouble(row.data + offset + sizeof(double))};
}

//! Neighbours ask for the same nodes of the tree and the same rows: along a Z curve over the build side they come one after
//! the other
void JoinProbe::SortRows() {
	constexpr uint32_t BITS = 8, PLACES = 1u << BITS;
	auto &bounds = index.bounds;
	double per_x = PLACES / (bounds.max_x - bounds.min_x), per_y = PLACES / (bounds.max_y - bounds.min_y);
	auto place = [](double at) { return at >= PLACES ? PLACES - 1 : at > 0 ? static_cast<uint32_t>(at) : 0; };
	auto spread = [](uint32_t v) {
		v = (v | v << 4) & 0x0f0f;
		v = (v | v << 2) & 0x3333;
		return (v | v << 1) & 0x5555;
	};
	keys.resize(count);
	uint32_t low[PLACES + 1] = {}, high[PLACES + 1] = {};
	for (size_t i = 0; i < count; i++) {
		uint32_t key = 0;
		if (kinds[i] != ABSENT) {
			Vec2 at = kinds[i] == POINT ? Vec2 {xs[i], ys[i]} : FirstVertex(tile[i]);
			key = spread(place((at.x - bounds.min_x) * per_x)) | spread(place((at.y - bounds.min_y) * per_y)) << 1;
		}
		keys[i] = key;
		low[key % PLACES + 1]++;
		high[key / PLACES + 1]++;
	}
	for (uint32_t i = 0; i < PLACES; i++) {
		low[i + 1] += low[i];
		high[i + 1] += high[i];
	}
	sorted.resize(count);
	order.resize(count);
	for (uint32_t i = 0; i < count; i++) {
		sorted[low[keys[i] % PLACES]++] = i;
	}
	for (auto i : sorted) {
		order[high[keys[i] / PLACES]++] = i;
	}
}

//! Asks the cells, or the areas, about a run of points at once: their memory accesses overlap
void JoinProbe::LocateRun() {
	size_t end = std::min(count, row + POINTS_PER_RUN);
	if (tile_points < count) {
		end = static_cast<size_t>(std::find_if(kinds.begin() + static_cast<ptrdiff_t>(row),
		                                       kinds.begin() + static_cast<ptrdiff_t>(end),
		                                       [](Kind kind) { return kind != POINT; }) -
		                          kinds.begin());
	}
	hits.clear();
	next_hit = 0;
	auto first = static_cast<uint32_t>(row);
	if (cells) {
		cells->LocateMany(xs + row, ys + row, end - row, [&](size_t point, uint32_t area, vibe::Location location) {
			if (!index.answers.point_probes[location]) {
				return false;
			}
			hits.push_back(Hit {first + static_cast<uint32_t>(point), area});
			return first_only;
		});
	} else {
		const auto tests = lookup.tests, nanoseconds = lookup.nanoseconds;
		areas->Locate(xs + row, ys + row, end - row, located, lookup);
		hits.resize(located.size());
		Hit *const begin = hits.data(), *next = begin;
		for (auto &found : located) {
			const uint32_t probe = first + found.point;
			const bool again = first_only && next > begin && next[-1].probe == probe;
			*next = Hit {probe, found.row};
			next += index.answers.point_probes[found.location] & !again;
		}
		hits.resize(static_cast<size_t>(next - begin));
		counts.candidates += lookup.tests - tests;
		counts.exact_tests += lookup.tests - tests;
		work += (lookup.nanoseconds - nanoseconds) / 8;
		if (work >= WORK_PER_POLL) {
			work = 0;
			poll();
		}
	}
	if (ordered) {
		for (size_t i = 0, k; i < hits.size(); i = k) {
			for (k = i + 1; k < hits.size() && hits[k].probe == hits[i].probe;) {
				k++;
			}
			std::sort(hits.begin() + static_cast<ptrdiff_t>(i), hits.begin() + static_cast<ptrdiff_t>(k),
			          [](const Hit &a, const Hit &b) { return a.build < b.build; });
		}
	}
	work += 2 * (end - row) + hits.size();
	taken = end;
}

bool JoinProbe::NextRow() {
	candidates.clear();
	candidate = 0;
	do {
		row = taken < count && !order.empty() ? order[taken] : taken;
		if (taken++ >= count) {
			if (tile_points > 0 && !cells) {
				const double spent =
				    areas ? static_cast<double>(lookup.nanoseconds - nanoseconds_before)
				          : TREE_COST_PER_POINT * static_cast<double>(tile_points) +
				                index.TestCost() * static_cast<double>(counts.exact_tests - tests_before);
				index.point_nanoseconds += static_cast<uint64_t>(spent);
				index.nanoseconds_spent += static_cast<uint64_t>(areas ? SPARED_OF_AREAS * spent : spent);
				index.points_seen += tile_points;
			}
			tile_points = 0;
			return false;
		}
	} while (kinds[row] == ABSENT || (done && done[row]));
	if (kinds[row] == POINT && (areas || (cells && !index.others))) {
		LocateRun();
		return true;
	}
	if (work >= WORK_PER_POLL) {
		work = 0;
		poll();
	}
	has_shape = false;
	certain = false;
	locator.reset();
	if (taken < count) {
		size_t next = order.empty() ? taken : order[taken];
		if (kinds[next] == OTHER) {
			Prefetch(tile[next]);
		}
	}
	FindCandidates(row);
	return true;
}

void JoinProbe::FindCandidates(size_t current) {
	if (cells && kinds[current] == POINT) {
		certain = true;
		cells->Locate(Vec2 {xs[current], ys[current]}, [&](uint32_t area, vibe::Location location) {
			if (index.answers.point_probes[location]) {
				candidates.push_back(area);
			}
			return false;
		});
		work++;
		if (index.others) {
			size_t from = candidates.size();
			index.others->Visit(Box {xs[current], ys[current], xs[current], ys[current]}, [&](uint32_t item) {
				candidates.push_back(item);
				return false;
			});
			auto keep = std::remove_if(candidates.begin() + static_cast<ptrdiff_t>(from), candidates.end(),
			                           [&](uint32_t build_row) { return !Matches(build_row); });
			candidates.erase(keep, candidates.end());
		}
		if (candidates.size() > 1) {
			std::sort(candidates.begin(), candidates.end());
		}
		counts.cell_hits += candidates.size();
		return;
	}

	Box box = Box::Empty();
	bool empty = false;
	if (kinds[current] == POINT) {
		box.Add(xs[current], ys[current]);
	} else {
		PartBoxes reader;
		reader.parts = nullptr;
		VisitWkb(tile[current].data, tile[current].size, reader);
		if (!reader.finite && !index.only_boxes) {
			ProbeShape(); // says what is wrong
		}
		empty = reader.vertices == 0;
		box = reader.whole;
		work += reader.vertices / 4;
	}
	auto limit_from = index.condition.limit_from;
	double limit = limit_from == JoinLimit::CONSTANT ? index.condition.Effective(index.condition.limit)
	               : row_limits                      ? index.condition.Effective(row_limits[current])
	                                                 : 0;
	if (empty) {
		kinds[current] = EMPTY;
		if (index.empty_is_near) {
			for (uint32_t i = 0; i < index.rows.size(); i++) {
				if (index.rows[i].data) {
					candidates.push_back(i);
				}
			}
		} else if (index.empty_equals_empty) {
			candidates = index.empties;
		}
		return;
	}
	if (!(limit >= 0) && index.condition.any_of.size() == 1 && limit_from != JoinLimit::SUM) {
		return;
	}
	if (limit > 0) {
		box = Grow(box, limit);
	}
	auto row_count = static_cast<uint32_t>(index.rows.size());
	index.Tree().Visit(box, [&](uint32_t item) {
		uint32_t build_row = item < row_count ? item : index.part_row[item - row_count];
		candidates.push_back(build_row);
		__builtin_prefetch(&index.rows[build_row]);
		if (build_row < index.shapes.size()) {
			__builtin_prefetch(&index.shapes[build_row]);
		}
		return false;
	});
	if (index.empty_is_near) {
		candidates.insert(candidates.end(), index.empties.begin(), index.empties.end());
	}
	if (candidates.size() > 1) {
		std::sort(candidates.begin(), candidates.end());
		if (!index.part_row.empty()) {
			candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
		}
	}
	counts.candidates += candidates.size();
	work += 8 + candidates.size();
	// Their bytes are anywhere in memory: they come while the probe's own shape is built
	for (size_t i = 0; i < candidates.size() && i < PREFETCH_CANDIDATES; i++) {
		Prefetch(index.rows[candidates[i]]);
	}
}

size_t JoinProbe::Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity) {
	size_t found = 0;
	while (found < capacity) {
		if (next_hit < hits.size()) {
			size_t some = std::min(capacity - found, hits.size() - next_hit);
			for (size_t i = 0; i < some; i++) {
				probe_rows[found + i] = hits[next_hit + i].probe;
				build_rows[found + i] = hits[next_hit + i].build;
			}
			found += some;
			next_hit += some;
			counts.cell_hits += cells ? some : 0;
			continue;
		}
		if (candidate == candidates.size()) {
			if (taken > count || !NextRow()) {
				break;
			}
			continue;
		}
		auto build_row = candidates[candidate++];
		if (certain || Matches(build_row)) {
			probe_rows[found] = static_cast<uint32_t>(row);
			build_rows[found] = build_row;
			found++;
			if (first_only) {
				candidate = candidates.size();
			}
		}
	}
	return found;
}

const ShapeView &JoinProbe::ProbeShape() {
	if (kinds[row] == POINT) {
		probe_point = Vec2 {xs[row], ys[row]};
		point_view = vibe::ShapeOfPoint(&probe_point, &zero);
		return point_view;
	}
	if (!has_shape) {
		BuildShape(tile[row].data, tile[row].size, batch, shape);
		has_shape = true;
	}
	return shape.View();
}

const ShapeView &JoinProbe::BuildShapeOf(uint32_t build_row) {
	if (auto view = index.CachedShape(build_row)) {
		return *view;
	}
	auto &bytes = index.rows[build_row];
	if (built_row != build_row && bytes.size >= BYTES_TO_KEEP_SHAPE && build_row < index.shapes.size() &&
	    index.shape_bytes < index.cell_memory && index.IsAskedAgain(build_row)) {
		return index.KeepShape(build_row);
	}
	if (built_row != build_row) {
		built_row = UINT32_MAX;
		BuildShape(bytes.data, bytes.size, build_batch, build_shape);
		built_row = build_row;
	}
	return build_shape.View();
}

bool JoinProbe::BuildPoint(uint32_t build_row, Vec2 &point) const {
	if (index.all_points) {
		point = index.points[build_row];
		return point.x == point.x;
	}
	return ReadPoint(index.rows[build_row], point);
}

double JoinProbe::LimitOf(uint32_t build_row) const {
	auto &condition = index.condition;
	switch (condition.limit_from) {
	case JoinLimit::PROBE:
		return condition.Effective(row_limits[row]);
	case JoinLimit::BUILD:
		return condition.Effective(index.limits[build_row]);
	case JoinLimit::SUM: {
		double mine = row_limits[row], theirs = index.limits[build_row];
		return mine == JoinCondition::NO_LIMIT || theirs == JoinCondition::NO_LIMIT
		           ? -1
		           : condition.Effective(mine + theirs);
	}
	default:
		return condition.Effective(condition.limit);
	}
}

bool JoinProbe::MatchesDistance(const JoinTerm &term, uint32_t build_row) {
	double limit = LimitOf(build_row);
	if (!(limit >= 0)) {
		return false;
	}
	Vec2 point;
	bool build_point = BuildPoint(build_row, point);
	if (kinds[row] == POINT && build_point) {
		return vibe::PointDistance(Vec2 {xs[row], ys[row]}, point) <= limit;
	}
	counts.exact_tests++;
	auto &probe = ProbeShape();
	auto &build = BuildShapeOf(build_row);
	work += 16;
	if (probe.dimension < 0 || build.dimension < 0) {
		return term.empty_is_near;
	}
	return vibe::ShapeDistance(probe, build, limit) <= limit;
}

bool JoinProbe::MatchesBoxes(uint32_t build_row) {
	Box a = Box::Empty(), b = Box::Empty();
	WkbBounds(tile[row].data, tile[row].size, a);
	WkbBounds(index.rows[build_row].data, index.rows[build_row].size, b);
	return a.Intersects(b);
}

vibe::Location JoinProbe::LocateInProbe(const ShapeView &probe, const Vec2 &point) {
	work += 4;
	if (!locator && candidates.size() >= POINTS_FOR_LOCATOR && probe.vertex_count >= VERTICES_FOR_LOCATOR) {
		locator = std::make_unique<PointLocator>(probe);
		work += probe.vertex_count;
	}
	return locator ? locator->Locate(point) : vibe::LocateInElement(probe, 0, point);
}

//! A large area that has many candidates holds most of those that it meets, and no shape need be made of them
bool JoinProbe::HasVertexIn(const ShapeView &probe, uint32_t build_row) {
	if (candidates.size() < POINTS_FOR_LOCATOR || index.CachedShape(build_row)) {
		return false;
	}
	OneVertex one;
	VisitWkb(index.rows[build_row].data, index.rows[build_row].size, one);
	return one.found && one.sound && LocateInProbe(probe, one.vertex) != vibe::LOC_EXTERIOR;
}

bool JoinProbe::MatchesRelate(uint32_t build_row) {
	Vec2 point;
	bool build_point = kinds[row] != EMPTY && BuildPoint(build_row, point);
	if (kinds[row] == POINT && build_point) {
		return index.answers.equal_points && Vec2 {xs[row], ys[row]} == point;
	}
	counts.exact_tests++;
	auto &probe = ProbeShape();
	if (build_point && IsSingleArea(probe)) {
		const auto location = LocateInProbe(probe, point);
		return location != vibe::LOC_EXTERIOR && index.answers.area_probes[location];
	}
	if (index.intersects_is_enough && IsSingleArea(probe) && HasVertexIn(probe, build_row)) {
		return true;
	}
	auto &build = BuildShapeOf(build_row);
	if (kinds[row] == POINT && IsSingleArea(build)) {
		work += 4;
		auto location = vibe::LocateInElement(build, 0, Vec2 {xs[row], ys[row]});
		return location != vibe::LOC_EXTERIOR && index.answers.point_probes[location];
	}
	work += 16 + (probe.vertex_count + build.vertex_count) / 8;
	for (auto &term : index.condition.any_of) {
		if (term.kind == JoinTerm::RELATE && Evaluate(term.predicate, probe, build, scratch)) {
			return true;
		}
	}
	return false;
}

bool JoinProbe::Matches(uint32_t build_row) {
	if (work >= WORK_PER_POLL) {
		work = 0;
		poll();
	}
	if (index.only_relate) {
		return MatchesRelate(build_row);
	}
	bool relate = false;
	for (auto &term : index.condition.any_of) {
		if (term.kind == JoinTerm::DISTANCE ? MatchesDistance(term, build_row)
		    : term.kind == JoinTerm::BOXES  ? MatchesBoxes(build_row)
		                                    : false) {
			return true;
		}
		relate |= term.kind == JoinTerm::RELATE;
	}
	return relate && MatchesRelate(build_row);
}

//===----------------------------------------------------------------------===//
// Probing together
//===----------------------------------------------------------------------===//
JoinShares::JoinShares(JoinIndex &index, const std::function<void()> &poll, Threads threads)
    : index(index), poll(poll), threads(std::move(threads)) {
}

void JoinShares::SetFirstOnly(bool value) {
	first_only = value;
}

void JoinShares::Begin(const JoinRow *tile_p, size_t count_p, const double *row_limits_p, const bool *done_p) {
	tile = tile_p;
	count = count_p;
	row_limits = row_limits_p;
	done = done_p;
	share_count = (count + ROWS_PER_SHARE - 1) / ROWS_PER_SHARE;
	while (shares.size() < share_count) {
		shares.push_back(std::make_unique<Share>(index, poll));
	}
	for (size_t i = 0; i < share_count; i++) {
		auto &share = *shares[i];
		share.first_row = static_cast<uint32_t>(i * ROWS_PER_SHARE);
		share.probe.SetFirstOnly(first_only);
		share.begun = false;
		share.found = share.given = 0;
		share.more = true;
	}
}

size_t JoinShares::Next(uint32_t *probe_rows, uint32_t *build_rows, size_t capacity) {
	while (true) {
		size_t given = 0;
		bool more = false;
		for (size_t i = 0; i < share_count; i++) {
			auto &share = *shares[i];
			const size_t some = std::min(capacity - given, share.found - share.given);
			for (size_t k = 0; k < some; k++) {
				probe_rows[given + k] = share.first_row + share.probe_rows[share.given + k];
				build_rows[given + k] = share.build_rows[share.given + k];
			}
			share.given += some;
			given += some;
			more |= share.more;
		}
		if (given > 0 || !more) {
			return given;
		}
		threads([&](Parallel &parallel) {
			parallel.For(share_count, [&](size_t i) {
				auto &share = *shares[i];
				if (!share.begun) {
					const size_t begin = share.first_row;
					share.probe.Begin(tile + begin, std::min(ROWS_PER_SHARE, count - begin),
					                  row_limits ? row_limits + begin : nullptr, done ? done + begin : nullptr);
					share.begun = true;
				}
				if (share.more) {
					share.found = share.probe.Next(share.probe_rows, share.build_rows, PAIRS_AT_ONCE);
					share.given = 0;
					share.more = share.found == PAIRS_AT_ONCE;
				}
			});
		});
	}
}

JoinCounts JoinShares::Counts() const {
	JoinCounts total;
	for (auto &share : shares) {
		total.Add(share->probe.counts);
	}
	return total;
}

} // namespace vibespatial
