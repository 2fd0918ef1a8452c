#include "engine/join/index.hpp"

#include "engine/gpu/interface/join.hpp"
#include "engine/index/tuning.hpp"
#include "engine/join/tuning.hpp"
#include "engine/relate/prepared.hpp"
#include "engine/relate/relate.hpp"
#include "engine/shape/part_boxes.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb_visit.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace vibespatial {

using namespace join_tuning;
using vibe::Box;
using vibe::ShapeView;
using vibe::Vec2;

namespace {

bool IsArea(const JoinRow &row) {
	const uint32_t type = vibe::WkbTypeOf(vibe::LoadCount(row.data + 1));
	return type == vibe::WKB_POLYGON || type == vibe::WKB_MULTIPOLYGON;
}

bool IsLine(const JoinRow &row) {
	const uint32_t type = vibe::WkbTypeOf(vibe::LoadCount(row.data + 1));
	return type == vibe::WKB_LINESTRING || type == vibe::WKB_MULTILINESTRING;
}

size_t ShapeBytes(const ShapeView &view) {
	return sizeof(Shape) + view.vertex_count * (2 * sizeof(double) + sizeof(uint32_t) + 3) +
	       view.ring_count * sizeof(vibe::ShapeRing) + view.point_count * sizeof(Vec2) + 256;
}

} // namespace

JoinIndex::JoinIndex(JoinCondition condition_p, JoinRows rows_p, std::vector<double> limits_p, size_t threads,
                     std::function<void()> poll)
    : condition(std::move(condition_p)), rows(std::move(rows_p)), limits(std::move(limits_p)), answers {},
      cell_work(std::make_shared<SharedWork>(threads, poll)), polygon_work(std::make_shared<SharedWork>(threads, poll)),
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
	if (condition.any_of.size() == 1 && condition.any_of[0].kind == JoinTerm::DISTANCE &&
	    condition.limit_from == JoinLimit::CONSTANT) {
		only_distance = true;
		// What the cells find near
		answers.point_probes[vibe::LOC_INTERIOR] = true;
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
	//! The result of one step
	struct Share {
		//! The parts of rows that have several; the box of such a row itself stays empty
		std::vector<Box> parts;
		std::vector<uint32_t> owners;
		std::vector<uint32_t> empties;
		Box bounds = Box::Empty();
		bool all_points = true;
		uint64_t area_vertices = 0;
		uint64_t line_vertices = 0;
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
				grow = 0; // another term may hold, or the probe's part of the limit may be larger
			}
			Vec2 point;
			if (!row.data || !(grow >= 0)) {
				continue; // in no pair
			}
			if (TryReadPoint(row.data, row.size, point)) {
				box.Add(point.x, point.y);
			} else {
				PartBoxes reader;
				reader.parts = uses_boxes ? nullptr : &part_boxes;
				VisitWkb(row.data, row.size, reader);
				if (!reader.finite && !only_boxes) {
					Shape unused;
					BuildShape(row.data, row.size, scratch, unused); // throws the error
				}
				if (reader.vertices == 0) {
					share.empties.push_back(static_cast<uint32_t>(i));
					continue;
				}
				box = reader.whole;
				share.all_points = false;
				if (IsArea(row)) {
					share.area_vertices += reader.vertices;
				} else if (IsLine(row)) {
					share.line_vertices += reader.vertices;
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
		line_vertices += share.line_vertices;
		bounds.Add(share.bounds);
		empties.insert(empties.end(), share.empties.begin(), share.empties.end());
		boxes.insert(boxes.end(), share.parts.begin(), share.parts.end());
		part_row.insert(part_row.end(), share.owners.begin(), share.owners.end());
	}
	if (all_points) {
		points.resize(count);
		parallel.For(steps, [&](size_t step) {
			for (size_t i = step * rows_per_step; i < std::min(count, (step + 1) * rows_per_step); i++) {
				if (!rows[i].data || !TryReadPoint(rows[i].data, rows[i].size, points[i])) {
					points[i] = Vec2 {NAN, NAN}; // NULL or EMPTY
				}
			}
		});
	}
}

void JoinIndex::ReadPolygons(UninitializedVector<Box> &boxes) {
	const auto polygons = polygon_scan->TakePolygons();
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
		// Whether the probe rows are points is not known yet, so the lower cost of a point is assumed; Polygons() decides again
		// once points have been probed
		if (PolygonScanPays(most_vertices, TREE_COST_PER_POINT)) {
			polygon_scan = PolygonScan::Build(rows, parallel);
		}
	}
	if (polygon_scan) {
		ReadPolygons(boxes);
		ready_polygons = polygon_scan.get();
	} else {
		ReadRows(boxes, parallel);
	}
	if (leave_tree && leave_tree()) {
		tree = nullptr;
	} else if (build_tree) {
		tree = build_tree(boxes.data(), boxes.size(), parallel);
	} else if (!polygon_scan) {
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
	if (only_distance && area_vertices + line_vertices > 0 && !shapes.empty() && !EmptyRowsMatter()) {
		reach = CellIndex::ReachOf(condition.Effective(condition.limit), bounds);
	}
	const bool for_areas = only_relate && area_vertices > 0 && !shapes.empty();
	polygons_refused = !for_areas;
	cells_refused = !for_areas && reach.limit < 0;
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
	// Counted with the index
	const WorkScope::Use uncounted(nullptr);
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

//! Cells are built once probing without them has cost as much as building them, or is projected to
const CellIndex *JoinIndex::Cells() {
	if (auto ready = ready_cells.load(std::memory_order_acquire)) {
		return ready;
	}
	double points = static_cast<double>(points_seen), spent = static_cast<double>(nanoseconds_spent);
	double ahead = std::max(0.0, static_cast<double>(expected_points) - points);
	spent -= points * NEAR_COST_PER_SPAN * CellsWithinReach();
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
	const bool near = reach.limit >= 0;
	const double cost_per_vertex =
	    near ? NEAR_CELL_COST_PER_VERTEX + NEAR_COST_PER_SPAN * CellsWithinReach() : CELL_COST_PER_VERTEX;
	if (cost_without < cost_per_vertex * static_cast<double>(area_vertices + (near ? line_vertices : 0))) {
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

double JoinIndex::CellsWithinReach() const {
	if (reach.limit < 0) {
		return 0;
	}
	const double width = 2 * reach.outer;
	const double area = std::max(bounds.max_x - bounds.min_x, width) * std::max(bounds.max_y - bounds.min_y, width);
	const auto cells_there =
	    cell_tuning::FINEST.cells_per_edge * static_cast<double>(std::max<uint64_t>(1, area_vertices + line_vertices));
	return area > 0 ? width / std::sqrt(area / cells_there) : 0;
}

double JoinIndex::TestCost() const {
	const auto count = static_cast<double>(std::max<size_t>(1, rows.size()));
	const double of_areas = TEST_COST_PER_VERTEX * static_cast<double>(area_vertices) / count;
	if (reach.limit >= 0) {
		return NEAR_COST_PER_TEST + of_areas + NEAR_COST_PER_LINE_VERTEX * static_cast<double>(line_vertices) / count;
	}
	return TREE_COST_PER_TEST + of_areas;
}

double JoinIndex::PointCost() const {
	const uint64_t seen = points_seen;
	if (seen < POINTS_TO_KNOW) {
		return TREE_COST_PER_POINT + EXPECTED_TESTS * TestCost();
	}
	return static_cast<double>(point_nanoseconds) / static_cast<double>(seen);
}

bool JoinIndex::PolygonScanPays(uint64_t vertices, double point_cost) const {
	const auto points = static_cast<double>(std::max<uint64_t>(expected_points, points_seen));
	return points * point_cost >= polygon_scan_tuning::NANOSECONDS_PER_VERTEX * static_cast<double>(vertices) +
	                                  polygon_scan_tuning::NANOSECONDS_PER_ROW * static_cast<double>(rows.size());
}

const PolygonScan *JoinIndex::Polygons() {
	if (auto ready = ready_polygons.load(std::memory_order_acquire)) {
		return ready;
	}
	if (polygons_refused.load(std::memory_order_relaxed)) {
		return nullptr;
	}
	if (!PolygonScanPays(area_vertices, PointCost())) {
		return nullptr;
	}
	polygon_work->Run([this](Parallel &parallel) {
		if (invite) {
			invite(polygon_work);
		}
		polygon_scan = PolygonScan::Build(rows, parallel);
		ready_polygons.store(polygon_scan.get(), std::memory_order_release);
		polygons_refused = !polygon_scan;
	});
	return ready_polygons.load(std::memory_order_acquire);
}

void JoinIndex::BuildCells(Parallel &parallel) {
	struct Settle {
		const std::function<void()> &settle;
		~Settle() {
			if (settle) {
				settle();
			}
		}
	};
	const auto begin = std::chrono::steady_clock::now();
	{
		const Settle at_end {cell_memory.settle};
		// Other joins of the query may have built theirs since this one began
		BuildCellsWithin(cell_memory.free ? cell_memory.free() / 2 : SIZE_MAX, parallel);
		if (cells) {
			ready_cells.store(cells.get(), std::memory_order_release);
		} else {
			cells_refused = true;
		}
	}
	cell_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void JoinIndex::BuildCellsWithin(size_t limit, Parallel &parallel) {
	const size_t had_shapes = shape_bytes;
	std::atomic<size_t> own_bytes {rows.size() * (sizeof(ShapeView *) + sizeof(Box) + sizeof(std::unique_ptr<Shape>))};
	auto taken = [&] { return shape_bytes - had_shapes + own_bytes; };
	auto reserve = [&](size_t bytes) { return bytes <= limit && (!cell_memory.reserve || cell_memory.reserve(bytes)); };
	std::vector<const ShapeView *> areas(rows.size());
	std::vector<Box> other_boxes(rows.size(), Box::Empty());
	std::vector<std::unique_ptr<Shape>> small(rows.size());
	std::atomic<bool> has_others {false}, refused {false};
	parallel.For((rows.size() + SHAPE_ROWS_PER_STEP - 1) / SHAPE_ROWS_PER_STEP, [&](size_t step) {
		GeometryBatch scratch;
		const size_t end = std::min(rows.size(), (step + 1) * SHAPE_ROWS_PER_STEP);
		for (size_t i = step * SHAPE_ROWS_PER_STEP; i < end && !refused; i++) {
			if (!rows[i].data) {
				continue;
			}
			Vec2 point;
			if (TryReadPoint(rows[i].data, rows[i].size, point)) {
				other_boxes[i].Add(point.x, point.y);
				has_others = true;
				continue;
			}
			if (!reserve(taken() + rows[i].size * SHAPE_BYTES_PER_WKB_BYTE)) {
				refused = true;
				return;
			}
			if (rows[i].size < BYTES_TO_KEEP_SHAPE) {
				small[i] = std::make_unique<Shape>();
				BuildShape(rows[i].data, rows[i].size, scratch, *small[i]);
				own_bytes += ShapeBytes(small[i]->View());
			}
			auto &view = small[i] ? small[i]->View() : KeepShape(static_cast<uint32_t>(i));
			if (IsSingleArea(view) || (reach.limit >= 0 && IsOnlyLines(view))) {
				areas[i] = &view;
			} else if (view.dimension >= 0) {
				other_boxes[i] = view.box;
				has_others = true;
			}
		}
	});
	if (!refused) {
		const size_t before = taken();
		// Many points without cells mean that the estimate was too low
		const uint64_t points =
		    expected_points > 0 ? std::max<uint64_t>(expected_points, EXPECTED_PER_SEEN * points_seen) : 0;
		cells = CellIndex::Build(areas, limit - std::min(limit, before), parallel, points, reach,
		                         [&](size_t bytes) { return reserve(before + bytes); });
	}
	if (cells && has_others) {
		others = std::make_unique<BoxTree>(other_boxes.data(), other_boxes.size(), parallel);
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
}

void JoinIndex::PackRow(uint32_t row, PackedShapes &packed) const {
	auto &wkb = rows[row];
	Box box = Box::Empty();
	WkbBounds(wkb.data, wkb.size, box);
	if (only_boxes) {
		packed.AddBox(box);
	} else if (auto view = CachedShape(row)) {
		packed.Add(*view);
	} else {
		packed.AddWkb(wkb, box);
	}
}

JoinIndex::ProbeRow JoinIndex::ReadProbe(const JoinRow &row, Box &box) const {
	PartBoxes reader;
	reader.parts = nullptr;
	VisitWkb(row.data, row.size, reader);
	box = reader.whole;
	if (!reader.finite && !only_boxes) {
		GeometryBatch scratch;
		Shape unused;
		BuildShape(row.data, row.size, scratch, unused); // throws the error
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
	if (auto ready = ready_polygons.load(std::memory_order_acquire)) {
		bytes += ready->MemoryUsage();
	}
	return bytes;
}

std::string JoinIndex::Describe() const {
	std::string text;
	if (ready_tree.load(std::memory_order_acquire)) {
		text = part_row.empty() ? "tree" : "tree of parts";
	}
	if (auto ready = ready_polygons.load(std::memory_order_acquire)) {
		text += (text.empty() ? "" : ", ") + ("polygon scan (" + std::to_string(ready->CellCount())) + " cells)";
	}
	if (auto ready = ready_cells.load(std::memory_order_acquire)) {
		auto &figures = ready->GetFigures();
		text += (text.empty() ? "" : ", ") + std::to_string(figures.cells) + " cells (" +
		        std::to_string(figures.full_cells) + " full, " + std::to_string(figures.partial_cells) + " with edges)";
	}
	return text.empty() ? "boxes" : text;
}

} // namespace vibespatial
