//===----------------------------------------------------------------------===//
// engine/join/knn.hpp
//
// Promise: exact. The k rows of the right side that come first by (distance, row number): the same rows and the same distances
// as ordering all of them by the scalar function. NULL and EMPTY geometries are near nothing.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/box_tree.hpp"
#include "engine/join/join.hpp"
#include "engine/common/parallel.hpp"
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

//! The right side. Rows are numbered in the order they came; their bytes outlive the index, unless all are points.
class KnnIndex {
public:
	explicit KnnIndex(JoinRows rows);
	~KnnIndex();

	//! Bytes that Build() will take for so many rows, about
	static size_t EstimateMemory(size_t rows);
	//! Throws GeometryError
	void Build(Parallel &parallel);

	//! The rows that are no points are NULL or EMPTY
	bool AllPoints() const {
		return all_points;
	}
	//! That can be near something, or parts of such rows
	size_t ItemCount() const {
		return tree->Count();
	}
	size_t RowCount() const {
		return row_count;
	}
	size_t MemoryUsage() const;

	// What a device needs of an index of points
	const BoxTree &Tree() const {
		return *tree;
	}
	//! As vibe::FindNearestPoints() takes them
	const UninitializedVector<double> &Leaves() const {
		return leaves;
	}

private:
	friend class KnnSearch;

	const vibe::ShapeView &KeepShape(uint32_t row) const;
	//! Where all are points: an item of the tree
	vibe::Vec2 PointAt(uint32_t item) const {
		auto leaf = leaves.data() + static_cast<size_t>(item / vibe::NODE_FANOUT) * vibe::LEAF_DOUBLES;
		return vibe::Vec2 {leaf[item % vibe::NODE_FANOUT], leaf[vibe::NODE_FANOUT + item % vibe::NODE_FANOUT]};
	}
	void FillLeaves(const std::vector<vibe::Box> &boxes, Parallel &parallel);

	//! None when all are points
	JoinRows rows;
	const size_t row_count;
	bool all_points = false;
	std::unique_ptr<BoxTree> tree;
	vibe::NodeLevels levels {};
	//! Where all are points: their coordinates in the order of the tree
	UninitializedVector<double> leaves;
	//! Items of the tree are rows, and after those the parts of rows that have several: these are their rows
	std::vector<uint32_t> part_row;
	//! Of large geometries, once they were looked at
	mutable std::vector<std::atomic<Shape *>> shapes;
	mutable std::atomic<size_t> shape_bytes {0};
};

//! One thread's searches
class KnnSearch {
public:
	//! `most`: farther ones are no neighbours. `poll` is called every now and then, and throws to stop the work.
	KnnSearch(const KnnIndex &index, uint64_t k, double most, std::function<void()> poll);

	//! Bytes that one search takes, at most
	static size_t EstimateMemory(const KnnIndex &index, uint64_t k);
	//! The neighbours, nearest first; valid until the next call. Throws GeometryError.
	const std::vector<Neighbour> &Find(const JoinRow &row);

private:
	//! Up to here a list is kept in order, beyond it is a heap
	static constexpr size_t MAX_LIST = 32;

	//! A child of a node: an item at level 0, else a node of the level below
	struct Place {
		float square;
		uint32_t level;
		uint32_t child;
	};
	static bool IsFarther(const Place &a, const Place &b) {
		return a.square > b.square;
	}

	void FindPoints(const vibe::Vec2 &point);
	void SearchLeaf(uint32_t leaf, const vibe::Vec2 &point);
	void FindItems(const vibe::Box &box);
	void Expand(uint32_t level, uint32_t node, const vibe::NodeBox &query);
	//! The distance of the scalar function, or something out of reach
	double DistanceTo(uint32_t row);
	double DistanceTo(const vibe::Vec2 &at);
	//! Returns whether it was taken
	bool Offer(double distance, uint32_t row);
	//! What is farther is not taken any more
	double Reach() const;
	void Poll(uint64_t steps);

	const KnnIndex &index;
	const size_t k;
	const double most;
	std::function<void()> poll;
	uint64_t work = 0;

	std::vector<Neighbour> nearest;
	//! Reach(), for the squares of boxes and of points
	float node_reach = 0;
	double point_reach = 0;

	// The current row
	bool is_point = false;
	vibe::Vec2 point {};
	GeometryBatch batch;
	Shape shape;

	std::vector<Place> places;
	//! With parts: the search in which a row was looked at last
	std::vector<uint32_t> seen;
	uint32_t search = 0;
	GeometryBatch other_batch;
	Shape other_shape;
};

} // namespace vibespatial
