#include "engine/join/knn.hpp"

#include "engine/join/tuning.hpp"
#include "engine/measure/distance.hpp"
#include "engine/shape/part_boxes.hpp"
#include "engine/relate/prepared.hpp"
#include "geometry/error.hpp"
#include "geometry/wkb.hpp"
#include "geometry/wkb_visit.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

namespace vibespatial {

using vibe::Box;
using vibe::NodeBox;
using vibe::ShapeView;
using vibe::Vec2;

using join_tuning::BYTES_TO_KEEP_SHAPE;
using join_tuning::MAX_PARTS;
using join_tuning::WORK_PER_POLL;

static constexpr size_t ROWS_PER_STEP = join_tuning::KNN_ROWS_PER_STEP;
static constexpr uint32_t FANOUT = vibe::NODE_FANOUT;

//===----------------------------------------------------------------------===//
// The index
//===----------------------------------------------------------------------===//
KnnIndex::KnnIndex(JoinRows rows_p) : rows(std::move(rows_p)), row_count(rows.size()) {
}

KnnIndex::~KnnIndex() {
	for (auto &slot : shapes) {
		delete slot.load();
	}
}

size_t KnnIndex::EstimateMemory(size_t count) {
	return count * (sizeof(JoinRow) + sizeof(Box)) + BoxTree::EstimateBuildMemory(count) +
	       count * std::max(sizeof(Vec2), sizeof(void *));
}

void KnnIndex::Build(Parallel &parallel) {
	//! The result of one step
	struct Share {
		//! The parts of rows that have several; the box of such a row itself stays empty
		std::vector<Box> parts;
		std::vector<uint32_t> owners;
		std::vector<uint32_t> null_rows;
		std::vector<uint32_t> empty_rows;
		size_t row_bytes = 0;
		bool all_points = true;
	};
	const size_t count = rows.size();
	const size_t steps = (count + ROWS_PER_STEP - 1) / ROWS_PER_STEP;
	std::vector<Share> shares(steps);
	std::vector<Box> boxes(count, Box::Empty());
	parallel.For(steps, [&](size_t step) {
		auto &share = shares[step];
		std::vector<Box> part_boxes;
		for (size_t i = step * ROWS_PER_STEP; i < std::min(count, (step + 1) * ROWS_PER_STEP); i++) {
			auto &row = rows[i];
			Vec2 at;
			share.row_bytes += row.size;
			if (!row.data) {
				share.null_rows.push_back(static_cast<uint32_t>(i));
				continue;
			}
			if (TryReadPoint(row.data, row.size, at)) {
				boxes[i].Add(at.x, at.y);
				continue;
			}
			part_boxes.clear();
			PartBoxes reader;
			reader.parts = &part_boxes;
			VisitWkb(row.data, row.size, reader);
			if (!reader.finite) {
				GeometryBatch scratch;
				Shape unused;
				BuildShape(row.data, row.size, scratch, unused); // throws the error
			}
			if (reader.vertices == 0) {
				share.empty_rows.push_back(static_cast<uint32_t>(i));
				continue;
			}
			share.all_points = false;
			if (part_boxes.size() < 2 || part_boxes.size() > MAX_PARTS) {
				boxes[i] = reader.whole;
				continue;
			}
			share.parts.insert(share.parts.end(), part_boxes.begin(), part_boxes.end());
			share.owners.insert(share.owners.end(), part_boxes.size(), static_cast<uint32_t>(i));
		}
	});
	all_points = true;
	for (auto &share : shares) {
		all_points = all_points && share.all_points;
		row_bytes += share.row_bytes;
		boxes.insert(boxes.end(), share.parts.begin(), share.parts.end());
		part_row.insert(part_row.end(), share.owners.begin(), share.owners.end());
		null_rows.insert(null_rows.end(), share.null_rows.begin(), share.null_rows.end());
		empty_rows.insert(empty_rows.end(), share.empty_rows.begin(), share.empty_rows.end());
	}
	BuildTree(boxes, parallel);
	if (all_points) {
		rows = JoinRows();
		return;
	}
	shapes = std::vector<std::atomic<Shape *>>(count);
	for (auto &slot : shapes) {
		slot.store(nullptr, std::memory_order_relaxed);
	}
}

void KnnIndex::BuildTree(const std::vector<Box> &boxes, Parallel &parallel) {
	tree = std::make_unique<BoxTree>(boxes.data(), boxes.size(), parallel);
	levels = vibe::NodeLevels::Of(tree->Count());
	if (all_points) {
		FillLeaves(boxes, parallel);
	}
}

std::unique_ptr<KnnIndex> KnnIndex::Part(size_t first, size_t count, Parallel &parallel) const {
	JoinRows own(count, JoinRow {nullptr, 0});
	if (!all_points) {
		std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(first), count, own.begin());
		auto part = std::make_unique<KnnIndex>(std::move(own));
		part->Build(parallel);
		return part;
	}
	// The bytes of points are not kept
	auto part = std::make_unique<KnnIndex>(std::move(own));
	std::vector<Box> boxes(count, Box::Empty());
	auto &ids = tree->Ids();
	for (size_t item = 0; item < ids.size(); item++) {
		if (ids[item] >= first && ids[item] - first < count) {
			const auto at = PointAt(static_cast<uint32_t>(item));
			boxes[ids[item] - first].Add(at.x, at.y);
		}
	}
	part->all_points = true;
	part->rows = JoinRows();
	part->BuildTree(boxes, parallel);
	return part;
}

void KnnIndex::FillLeaves(const std::vector<Box> &boxes, Parallel &parallel) {
	auto &ids = tree->Ids();
	const size_t count = (ids.size() + FANOUT - 1) / FANOUT;
	constexpr size_t LEAVES_PER_STEP = ROWS_PER_STEP / FANOUT;
	leaves.resize(count * vibe::LEAF_DOUBLES);
	parallel.For((count + LEAVES_PER_STEP - 1) / LEAVES_PER_STEP, [&](size_t step) {
		for (size_t leaf = step * LEAVES_PER_STEP; leaf < std::min(count, (step + 1) * LEAVES_PER_STEP); leaf++) {
			double *at = leaves.data() + leaf * vibe::LEAF_DOUBLES;
			for (size_t i = 0; i < FANOUT; i++) {
				const size_t item = leaf * FANOUT + i;
				at[i] = item < ids.size() ? boxes[ids[item]].min_x : NAN;
				at[FANOUT + i] = item < ids.size() ? boxes[ids[item]].min_y : NAN;
			}
		}
	});
}

const ShapeView &KnnIndex::KeepShape(uint32_t row) const {
	if (auto shape = shapes[row].load(std::memory_order_acquire)) {
		return shape->View();
	}
	// Counted with the index
	const WorkScope::Use uncounted(nullptr);
	auto shape = std::make_unique<Shape>();
	GeometryBatch scratch;
	BuildShape(rows[row].data, rows[row].size, scratch, *shape);
	Shape *expected = nullptr;
	if (shapes[row].compare_exchange_strong(expected, shape.get(), std::memory_order_acq_rel)) {
		// Approximate: a shape holds about as many bytes for its vertices as the WKB, and as many again for the rest
		shape_bytes += sizeof(Shape) + 2 * static_cast<size_t>(rows[row].size);
		return shape.release()->View();
	}
	return expected->View();
}

//===----------------------------------------------------------------------===//
// The index on a device
//===----------------------------------------------------------------------===//
void KnnIndex::PackRow(uint32_t row, PackedShapes &packed) const {
	if (auto shape = shapes[row].load(std::memory_order_acquire)) {
		packed.Add(shape->View());
		return;
	}
	packed.AddWkb(rows[row], Box::Empty());
}

void KnnIndex::Upload(GpuBuild &build, Parallel &parallel, GpuTimes &times) const {
	const auto begin = std::chrono::steady_clock::now();
	GpuRows device_rows;
	device_rows.tree = tree.get();
	device_rows.part_row = &part_row;
	device_rows.count = row_count;
	std::unique_ptr<WkbLayout> layout;
	if (all_points) {
		device_rows.leaves = &leaves;
	} else {
		layout = std::make_unique<WkbLayout>(row_count);
		parallel.For(layout->parts.size(), [&](size_t part) { layout->Read(part, rows.data()); });
		layout->MakeGroups(parallel);
		device_rows.wkb = rows.data();
		device_rows.layout = layout.get();
	}
	const auto upload = build.BeginRows(device_rows, parallel, times);
	if (!upload) {
		return;
	}
	AddLeftShapes(
	    *upload, rows.data(), [&](uint32_t row, PackedShapes &packed) { PackRow(row, packed); }, parallel);
	upload->Finish();
	upload->AddBytes(times);
	times.to_device_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

size_t KnnIndex::MemoryUsage() const {
	return rows.capacity() * sizeof(JoinRow) + (tree ? tree->MemoryUsage() : 0) + leaves.capacity() * sizeof(double) +
	       (part_row.capacity() + null_rows.capacity() + empty_rows.capacity()) * sizeof(uint32_t) +
	       shapes.capacity() * sizeof(void *) + shape_bytes;
}

//===----------------------------------------------------------------------===//
// A search
//===----------------------------------------------------------------------===//
namespace {

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Masks __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(16)));
typedef int64_t WideMasks __attribute__((vector_size(16)));

//! NodeBox::SquareTo() of the children of a node, for a search that takes the nearest first
struct ChildSquares {
	float squares[FANOUT];

	//! Marks children that are absent or have been taken; greater than any square
	static constexpr float NONE = std::numeric_limits<float>::infinity();

	void Set(const NodeBox &query, const float *node) {
		const Floats min_x = Floats {} + query.min_x, min_y = Floats {} + query.min_y;
		const Floats max_x = Floats {} + query.max_x, max_y = Floats {} + query.max_y;
		const Floats most = Floats {} + std::numeric_limits<float>::max(), none = Floats {} + NONE, zero {};
		for (uint32_t four = 0; four < FANOUT; four += 4) {
			const Floats low_x = Load(node + four), low_y = Load(node + FANOUT + four);
			const Floats high_x = Load(node + 2 * FANOUT + four), high_y = Load(node + 3 * FANOUT + four);
			const Floats dx = Larger(Larger(low_x - max_x, min_x - high_x), zero);
			const Floats dy = Larger(Larger(low_y - max_y, min_y - high_y), zero);
			const Floats square = Smaller(dx * dx + dy * dy, most);
			const Floats result = low_x == low_x ? square : none;
			std::memcpy(squares + four, &result, sizeof(result));
		}
	}
	//! Bounds for the squared distance to whatever lies in the box of a child and touches its sides, with room for what rounding
	//! takes away here and in SquareTo()
	static void SetFarthest(const NodeBox &query, const float *node, float *farthest) {
		const Floats min_x = Floats {} + query.min_x, min_y = Floats {} + query.min_y;
		const Floats max_x = Floats {} + query.max_x, max_y = Floats {} + query.max_y;
		const Floats room = Floats {} + 1.00001f, least = Floats {} + 1e-36f;
		for (uint32_t four = 0; four < FANOUT; four += 4) {
			const Floats low_x = Load(node + four), low_y = Load(node + FANOUT + four);
			const Floats high_x = Load(node + 2 * FANOUT + four), high_y = Load(node + 3 * FANOUT + four);
			const Floats dx = Larger(high_x - min_x, max_x - low_x), dy = Larger(high_y - min_y, max_y - low_y);
			const Floats square = (dx * dx + dy * dy) * room + least;
			std::memcpy(farthest + four, &square, sizeof(square));
		}
	}
	//! Takes the nearest child; FANOUT when all are out of reach
	uint32_t Take(float reach) {
		const Floats fours[4] = {Load(squares), Load(squares + 4), Load(squares + 8), Load(squares + 12)};
		const Floats four = Smaller(Smaller(fours[0], fours[1]), Smaller(fours[2], fours[3]));
		const float least = std::min(std::min(four[0], four[1]), std::min(four[2], four[3]));
		if (least > reach || least == NONE) {
			return FANOUT;
		}
		const Floats leasts = Floats {} + least;
		Masks bits {0, 0, 0, 0};
		Masks place {1, 2, 4, 8};
		for (auto &these : fours) {
			bits |= (these == leasts) & place;
			place <<= 4;
		}
		const auto child = static_cast<uint32_t>(__builtin_ctz(bits[0] | bits[1] | bits[2] | bits[3]));
		squares[child] = NONE;
		return child;
	}

private:
	static Floats Load(const float *from) {
		Floats floats;
		std::memcpy(&floats, from, sizeof(floats));
		return floats;
	}
	static Floats Smaller(const Floats &a, const Floats &b) {
		return a < b ? a : b;
	}
	static Floats Larger(const Floats &a, const Floats &b) {
		return a > b ? a : b;
	}
};

//! Writes the squared distances to the points of a leaf, and returns a bit for each that is at most `reach`. Absent points are
//! NaN.
inline uint32_t PointSquares(const double *leaf, const Vec2 &point, double reach, double *squares) {
	const Doubles x = Doubles {} + point.x, y = Doubles {} + point.y, limit = Doubles {} + reach;
	WideMasks bits {0, 0};
	WideMasks place {1, 2};
	for (uint32_t two = 0; two < FANOUT; two += 2) {
		Doubles dx, dy;
		std::memcpy(&dx, leaf + two, sizeof(dx));
		std::memcpy(&dy, leaf + FANOUT + two, sizeof(dy));
		dx = x - dx;
		dy = y - dy;
		const Doubles square = dx * dx + dy * dy;
		std::memcpy(squares + two, &square, sizeof(square));
		bits |= (square <= limit) & place;
		place <<= 2;
	}
	return static_cast<uint32_t>(bits[0] | bits[1]);
}

inline bool IsNearer(const Neighbour &a, const Neighbour &b) {
	return vibe::IsNearer(a.distance, a.row, b.distance, b.row);
}

} // namespace

KnnSearch::KnnSearch(const KnnIndex &index_p, uint64_t k_p, double most_p, std::function<void()> poll_p)
    : index(index_p), k(static_cast<size_t>(std::min<uint64_t>(k_p, index_p.RowCount()))), most(most_p),
      poll(std::move(poll_p)) {
	if (!index.part_row.empty()) {
		seen.resize(index.RowCount(), 0);
	}
}

size_t KnnSearch::EstimateMemory(const KnnIndex &index, uint64_t k) {
	const auto rows = index.RowCount();
	const auto each = sizeof(Neighbour) + sizeof(float) + 5 * sizeof(Candidate);
	return static_cast<size_t>(std::min<uint64_t>(k, rows)) * each +
	       (index.part_row.empty() ? 0 : rows * sizeof(uint32_t));
}

const std::vector<Neighbour> &KnnSearch::Find(const JoinRow &row) {
	nearest.clear();
	was_empty = false;
	if (!row.data || k == 0 || index.ItemCount() == 0) {
		return nearest;
	}
	node_reach = vibe::ReachOf(most);
	is_point = TryReadPoint(row.data, row.size, point);
	if (is_point && index.AllPoints()) {
		FindPoints(point);
	} else if (is_point) {
		FindItems(Box {point.x, point.y, point.x, point.y});
	} else {
		BuildShape(row.data, row.size, batch, shape);
		was_empty = shape.View().dimension < 0;
		if (!was_empty) {
			FindItems(shape.View().box);
		}
	}
	if (k > MAX_LIST) {
		std::sort(nearest.begin(), nearest.end(), IsNearer);
	}
	return nearest;
}

double KnnSearch::Reach() const {
	return nearest.size() < k ? most : k > MAX_LIST ? nearest.front().distance : nearest.back().distance;
}

void KnnSearch::Poll(uint64_t steps) {
	work += steps;
	if (work >= WORK_PER_POLL) {
		work = 0;
		poll();
	}
}

bool KnnSearch::Offer(double distance, uint32_t row) {
	const Neighbour next {distance, row};
	const bool full = nearest.size() == k;
	if (distance > most || (full && !IsNearer(next, k > MAX_LIST ? nearest.front() : nearest.back()))) {
		return false;
	}
	if (k > MAX_LIST) {
		if (full) {
			std::pop_heap(nearest.begin(), nearest.end(), IsNearer);
			nearest.back() = next;
		} else {
			nearest.push_back(next);
		}
		std::push_heap(nearest.begin(), nearest.end(), IsNearer);
		return true;
	}
	if (!full) {
		nearest.push_back(next);
	}
	Neighbour *list = nearest.data();
	size_t at = nearest.size() - 1;
	for (; at > 0 && IsNearer(next, list[at - 1]); at--) {
		list[at] = list[at - 1];
	}
	list[at] = next;
	return true;
}

//===----------------------------------------------------------------------===//
// Points among points: depth first, the nearest child first
//===----------------------------------------------------------------------===//
void KnnSearch::SearchLeaf(uint32_t leaf, const Vec2 &p) {
	const double *at = index.leaves.data() + static_cast<size_t>(leaf) * vibe::LEAF_DOUBLES;
	const uint32_t *ids = index.tree->Ids().data() + static_cast<size_t>(leaf) * FANOUT;
	double squares[FANOUT];
	for (uint32_t within = PointSquares(at, p, point_reach, squares); within != 0; within &= within - 1) {
		const auto i = static_cast<uint32_t>(__builtin_ctz(within));
		if (squares[i] <= point_reach && Offer(vibe::NearDistance(p, Vec2 {at[i], at[FANOUT + i]}), ids[i])) {
			point_reach = vibe::PointReachOf(Reach());
		}
	}
	node_reach = vibe::ReachOf(Reach());
	Poll(8);
}

template <class VISIT>
void KnnSearch::Descend(const NodeBox &query, const VISIT &visit) {
	const auto &levels = index.levels;
	const float *nodes = index.tree->Nodes();
	// The current node of each level
	uint32_t at[vibe::NodeLevels::MAX_LEVELS];
	ChildSquares children[vibe::NodeLevels::MAX_LEVELS];
	uint32_t level = levels.count - 1;
	auto enter = [&](uint32_t node) {
		at[level] = node;
		children[level].Set(query, nodes + (levels.begin[level] + static_cast<size_t>(node)) * vibe::NODE_FLOATS);
	};
	if (level == 0) {
		visit(0);
		return;
	}
	enter(0);
	while (true) {
		const uint32_t next = children[level].Take(node_reach);
		if (next == FANOUT) {
			if (++level == levels.count) {
				return;
			}
			continue;
		}
		const uint32_t child = at[level] * FANOUT + next;
		if (level == 1) {
			visit(child);
		} else {
			level--;
			enter(child);
		}
	}
}

void KnnSearch::FindPoints(const Vec2 &p) {
	point_reach = vibe::PointReachOf(most);
	Descend(NodeBox::Of(Box {p.x, p.y, p.x, p.y}), [&](uint32_t leaf) { SearchLeaf(leaf, p); });
}

//===----------------------------------------------------------------------===//
// All other geometries: as few as possible are measured
//===----------------------------------------------------------------------===//
void KnnSearch::FindItems(const Box &box) {
	const auto query = NodeBox::Of(box);
	if (seen.empty()) {
		FindWholeItems(query);
	} else {
		FindParts(query);
	}
}

void KnnSearch::Measure(uint32_t item, uint32_t row) {
	const double distance = index.AllPoints() ? DistanceTo(index.PointAt(item)) : DistanceTo(row);
	// NaN: the distance overflows
	if (Offer(distance == distance ? distance : vibe::Infinity(), row)) {
		node_reach = std::min(node_reach, vibe::ReachOf(Reach()));
	}
}

//! First the boxes alone: the k nearest rows are not beyond the farthest corners of the k boxes whose farthest corners are nearest. What is
//! left is measured, the nearest box first. Boxes that are large or overlap leave much: then some are measured on the way.
void KnnSearch::FindWholeItems(const NodeBox &query) {
	const size_t most_candidates = 4 * std::min<size_t>(k, 1u << 20) + 64;
	candidates.clear();
	bounds.clear();
	Descend(query, [&](uint32_t leaf) {
		const float *node =
		    index.tree->Nodes() + (index.levels.begin[0] + static_cast<size_t>(leaf)) * vibe::NODE_FLOATS;
		ChildSquares nearest_corners;
		float farthest[FANOUT];
		nearest_corners.Set(query, node);
		ChildSquares::SetFarthest(query, node, farthest);
		for (uint32_t i = 0; i < FANOUT; i++) {
			const float square = nearest_corners.squares[i];
			if (square <= node_reach && square != ChildSquares::NONE) {
				candidates.push_back(Candidate {square, leaf * FANOUT + i, 0});
				Bound(farthest[i]);
			}
		}
		Poll(8);
		if (candidates.size() > most_candidates) {
			MeasureCandidates();
		}
	});
	MeasureCandidates();
}

void KnnSearch::MeasureCandidates() {
	size_t count = 0;
	for (auto &candidate : candidates) {
		if (candidate.square <= node_reach) {
			candidates[count++] = Candidate {candidate.square, candidate.item, index.tree->Ids()[candidate.item]};
		}
	}
	std::sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(count),
	          [](const Candidate &a, const Candidate &b) { return a.square < b.square; });
	// They lie anywhere in memory
	constexpr size_t AHEAD = 8;
	auto prefetch = [&](size_t i) {
		if (i < count && !index.AllPoints()) {
			__builtin_prefetch(index.rows[candidates[i].row].data);
		}
	};
	for (size_t i = 0; i < AHEAD; i++) {
		prefetch(i);
	}
	for (size_t i = 0; i < count && candidates[i].square <= node_reach; i++) {
		prefetch(i + AHEAD);
		Measure(candidates[i].item, candidates[i].row);
	}
	candidates.clear();
}

void KnnSearch::Bound(float farthest) {
	if (!(farthest <= std::numeric_limits<float>::max())) {
		farthest = std::numeric_limits<float>::infinity(); // or NaN
	}
	if (bounds.size() == k) {
		if (!(farthest < (k > MAX_LIST ? bounds.front() : bounds.back()))) {
			return;
		}
		if (k > MAX_LIST) {
			std::pop_heap(bounds.begin(), bounds.end());
		}
		bounds.pop_back();
	}
	if (k > MAX_LIST) {
		bounds.push_back(farthest);
		std::push_heap(bounds.begin(), bounds.end());
	} else {
		bounds.insert(std::upper_bound(bounds.begin(), bounds.end(), farthest), farthest);
	}
	if (bounds.size() == k) {
		node_reach = std::min(node_reach, k > MAX_LIST ? bounds.front() : bounds.back());
	}
}

void KnnSearch::Expand(uint32_t level, uint32_t node, const NodeBox &query) {
	ChildSquares children;
	children.Set(query,
	             index.tree->Nodes() + (index.levels.begin[level] + static_cast<size_t>(node)) * vibe::NODE_FLOATS);
	for (uint32_t i = 0; i < FANOUT; i++) {
		const float square = children.squares[i];
		if (square <= node_reach && square != ChildSquares::NONE) {
			places.push_back(Place {square, level, node * FANOUT + i});
			std::push_heap(places.begin(), places.end(), IsFarther);
		}
	}
	Poll(8);
}

//! Items are parts of rows, which says nothing about how many rows are near: best first
void KnnSearch::FindParts(const NodeBox &query) {
	if (++search == 0) {
		std::fill(seen.begin(), seen.end(), 0);
		search = 1;
	}
	places.clear();
	Expand(index.levels.count - 1, 0, query);
	while (!places.empty() && places.front().square <= node_reach) {
		std::pop_heap(places.begin(), places.end(), IsFarther);
		const Place place = places.back();
		places.pop_back();
		if (place.level > 0) {
			Expand(place.level - 1, place.child, query);
			continue;
		}
		auto row = index.tree->Ids()[place.child];
		if (row >= index.RowCount()) {
			row = index.part_row[row - index.RowCount()];
		}
		if (seen[row] != search) {
			seen[row] = search;
			Measure(place.child, row);
		}
	}
}

double KnnSearch::DistanceTo(const Vec2 &at) {
	if (is_point) {
		return vibe::NearDistance(point, at);
	}
	Poll(shape.View().vertex_count);
	return vibe::PointShapeDistanceWithin(at, shape.View(), Reach());
}

double KnnSearch::DistanceTo(uint32_t row) {
	auto &other = index.rows[row];
	Vec2 at;
	if (TryReadPoint(other.data, other.size, at)) {
		return DistanceTo(at);
	}
	Poll(other.size / 16);
	double distance;
	if (is_point && other.size < BYTES_TO_KEEP_SHAPE && PointWkbDistance(point, other.data, other.size, distance)) {
		return distance;
	}
	const ShapeView *view;
	if (other.size < BYTES_TO_KEEP_SHAPE) {
		BuildShape(other.data, other.size, other_batch, other_shape);
		view = &other_shape.View();
	} else {
		view = &index.KeepShape(row);
	}
	return is_point ? vibe::PointShapeDistanceWithin(point, *view, Reach())
	                : vibespatial::ShapeDistanceWithin(shape.View(), *view, Reach());
}

} // namespace vibespatial
