//===----------------------------------------------------------------------===//
// engine/gpu_pairwise.hpp
//
// A function of two geometries on the GPU engine, row by row. Promise: what the scalar functions give for rows without NULL; rows
// that the device leaves open are for the CPU engine to decide.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/engine.hpp"
#include "engine/gpu_join.hpp"

#include <vector>

namespace vibespatial {

//! What is asked of the two geometries of a row
struct PairwiseTask {
	enum Kind : uint8_t { RELATE, WITHIN, DISTANCE };
	Kind kind = RELATE;
	vibe::Predicate predicate = vibe::PREDICATE_INTERSECTS;
};

//! The geometries of one side: points as long as all of them are
class PairwiseSide {
public:
	//! Without geometries. The memory is for those that come now.
	void Clear(ShapeRows::Memory memory = nullptr);
	//! A row that nobody asks about
	void AddNothing();
	void AddPoint(const vibe::Vec2 &point);
	//! One that is for the device (ShapeRows::IsForDevice)
	void AddWkb(const uint8_t *wkb, size_t size);
	void AddShape(const vibe::ShapeView &shape);

	bool IsPoints() const {
		return !has_shapes;
	}
	size_t Count() const {
		return has_shapes ? shapes.Count() : points.size();
	}
	size_t Bytes() const {
		return shapes.Bytes() + points.size() * sizeof(vibe::Vec2);
	}
	//! NaN for nothing
	const std::vector<vibe::Vec2> &Points() const {
		return points;
	}
	const ShapeRows &Shapes() const {
		return shapes;
	}

private:
	//! No longer points alone
	void BeginShapes();

	std::vector<vibe::Vec2> points;
	ShapeRows shapes;
	bool has_shapes = false;
};

struct PairwiseInput {
	size_t count = 0;
	//! As many geometries as there are rows, or one for all of them
	const PairwiseSide *left = nullptr;
	const PairwiseSide *right = nullptr;
	//! WITHIN: of each row
	const double *limits = nullptr;
};

//! Valid until the next Begin()
struct PairwiseResult {
	//! vibe::PairResult of each row; for distances, whether they were left open
	const uint8_t *results = nullptr;
	//! DISTANCE: NaN where one is EMPTY
	const double *distances = nullptr;
	GpuTimes times;
};

//! One thread's rows. Whatever fails before Finish() has returned leaves them to be done again.
class GpuPairwise {
public:
	virtual ~GpuPairwise() = default;

	//! Memory that the device can read, for a block of the ShapeRows of one side; stays as long as this. Throws GpuError.
	virtual uint8_t *Block(bool left, size_t number) = 0;
	//! Returns before the work is done; what the input names stays as it is until Finish(). Throws GpuError.
	virtual void Begin(const PairwiseInput &input) = 0;
	//! Waits. Throws GpuError, GpuMemoryError where fewer rows might do.
	virtual const PairwiseResult &Finish() = 0;
};

} // namespace vibespatial
