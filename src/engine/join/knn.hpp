//===----------------------------------------------------------------------===//
// engine/join/knn.hpp
//
// Promise: exact. Finds the first k rows of the right side by (distance, row number): the same rows and distances as
// sorting all of them by ST_Distance. NULL and EMPTY geometries have no neighbours.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/box_tree.hpp"
#include "engine/common/parallel.hpp"
#include "engine/gpu/interface/join.hpp"
#include "engine/input/row.hpp"
#include "engine/shape/shape.hpp"
#include "geometry/geometry_batch.hpp"
#include "vibe/nearest.h"

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

struct Neighbour {
	double distance;
	uint32_t row;
};

//! The right side. Rows are numbered in the order they were given; their bytes must outlive the index, unless all are points.
class KnnIndex {
public:
	explicit KnnIndex(JoinRows rows);
	~KnnIndex();

	//! Approximate bytes that Build() allocates for that many rows
	static size_t EstimateMemory(size_t rows);
	//! Throws GeometryError
	void Build(Parallel &parallel);
	//! An index of the rows [first, first + count) alone, which are numbered from 0
	std::unique_ptr<KnnIndex> Part(size_t first, size_t count, Parallel &parallel) const;

	//! All rows are points, NULL or EMPTY
	bool AllPoints() const {
		return all_points;
	}
	//! Items of the tree: rows that are neither NULL nor EMPTY, or their parts
	size_t ItemCount() const {
		return tree->Count();
	}
	size_t RowCount() const {
		return row_count;
	}
	//! The rows that are nobody's neighbours, in their order
	const std::vector<uint32_t> &NullRows() const {
		return null_rows;
	}
	const std::vector<uint32_t> &EmptyRows() const {
		return empty_rows;
	}
	size_t MemoryUsage() const;

	const BoxTree &Tree() const {
		return *tree;
	}
	//! Where all rows are points, in the layout of vibe::FindNearestPoints()
	const UninitializedVector<double> &Leaves() const {
		return leaves;
	}
	//! About as many bytes as Upload() sends
	size_t DeviceBytes() const {
		return row_bytes + ItemCount() * sizeof(vibe::Box);
	}
	//! Brings it to the device, where GpuEngine::NewSearch() finds it. Throws GpuError.
	void Upload(GpuBuild &build, Parallel &parallel, GpuTimes &times) const;

private:
	friend class KnnSearch;

	void BuildTree(const std::vector<vibe::Box> &boxes, Parallel &parallel);
	const vibe::ShapeView &KeepShape(uint32_t row) const;
	void PackRow(uint32_t row, PackedShapes &packed) const;
	//! The point of an item of the tree, where all rows are points
	vibe::Vec2 PointAt(uint32_t item) const {
		auto leaf = leaves.data() + static_cast<size_t>(item / vibe::NODE_FANOUT) * vibe::LEAF_DOUBLES;
		return vibe::Vec2 {leaf[item % vibe::NODE_FANOUT], leaf[vibe::NODE_FANOUT + item % vibe::NODE_FANOUT]};
	}
	void FillLeaves(const std::vector<vibe::Box> &boxes, Parallel &parallel);

	//! Empty where all are points
	JoinRows rows;
	const size_t row_count;
	//! Of the geometries
	size_t row_bytes = 0;
	bool all_points = false;
	std::unique_ptr<BoxTree> tree;
	vibe::NodeLevels levels {};
	//! Where all are points: the coordinates in the order of the tree
	UninitializedVector<double> leaves;
	//! Items of the tree are the rows, followed by the parts of rows that have several. The row of each part:
	std::vector<uint32_t> part_row;
	std::vector<uint32_t> null_rows;
	std::vector<uint32_t> empty_rows;
	//! Cached shapes of large geometries
	mutable std::vector<std::atomic<Shape *>> shapes;
	mutable std::atomic<size_t> shape_bytes {0};
};

//! Searches a KnnIndex; used by one thread
class KnnSearch {
public:
	//! `most`: the maximum distance of a neighbour. `poll` is called regularly, and throws to cancel.
	KnnSearch(const KnnIndex &index, uint64_t k, double most, std::function<void()> poll);

	//! Upper bound of the bytes that a search allocates
	static size_t EstimateMemory(const KnnIndex &index, uint64_t k);
	//! The neighbours, nearest first; valid until the next call. Throws GeometryError.
	const std::vector<Neighbour> &Find(const JoinRow &row);
	//! Whether the last row was EMPTY; unknown where the index has no items
	bool WasEmpty() const {
		return was_empty;
	}

private:
	//! Up to this k the neighbours are a sorted list, above it a heap
	static constexpr size_t MAX_LIST = 32;

	//! A child of a node: an item at level 0, else a node of the level below
	struct Place {
		float square;
		uint32_t level;
		uint32_t child;
	};
	//! An item whose box is within reach
	struct Candidate {
		float square;
		uint32_t item;
		uint32_t row;
	};
	static bool IsFarther(const Place &a, const Place &b) {
		return a.square > b.square;
	}

	void FindPoints(const vibe::Vec2 &point);
	void SearchLeaf(uint32_t leaf, const vibe::Vec2 &point);
	//! Depth first, the nearest child first; calls `visit(node)` for the nodes of level 0 that are within reach
	template <class VISIT>
	void Descend(const vibe::NodeBox &query, const VISIT &visit);
	void FindItems(const vibe::Box &box);
	void FindWholeItems(const vibe::NodeBox &query);
	void MeasureCandidates();
	void FindParts(const vibe::NodeBox &query);
	void Measure(uint32_t item, uint32_t row);
	//! A row is not farther than this
	void Bound(float farthest);
	void Expand(uint32_t level, uint32_t node, const vibe::NodeBox &query);
	//! The distance that ST_Distance gives, or any value beyond Reach()
	double DistanceTo(uint32_t row);
	double DistanceTo(const vibe::Vec2 &at);
	//! Returns whether the neighbour was accepted
	bool Offer(double distance, uint32_t row);
	//! Neighbours beyond this distance are rejected
	double Reach() const;
	void Poll(uint64_t steps);

	const KnnIndex &index;
	const size_t k;
	const double most;
	std::function<void()> poll;
	uint64_t work = 0;

	std::vector<Neighbour> nearest;
	//! Reach() as bounds for squared distances to boxes and points
	float node_reach = 0;
	double point_reach = 0;

	// The current row
	bool is_point = false;
	bool was_empty = false;
	vibe::Vec2 point {};
	GeometryBatch batch;
	Shape shape;

	//! What is left to look at
	std::vector<Place> places;
	std::vector<Candidate> candidates;
	//! Squared distances that so many rows do not exceed; the greatest is first where it is a heap
	std::vector<float> bounds;
	//! Where rows have several parts: the last search that visited each row
	std::vector<uint32_t> seen;
	uint32_t search = 0;
	GeometryBatch other_batch;
	Shape other_shape;
};

} // namespace vibespatial
