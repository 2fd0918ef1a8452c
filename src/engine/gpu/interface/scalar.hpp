//===----------------------------------------------------------------------===//
// engine/gpu/interface/scalar.hpp
//
// Functions of one geometry or two on the GPU, row by row.
// Promise: the results of the scalar functions, to the bit, except for rows that the device leaves open to the CPU.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/interface/join.hpp"
#include "vibe/net.h"

#include <vector>

namespace vibespatial {

//! What is computed for each row
struct ScalarTask {
	enum Kind : uint8_t {
		// Functions of two geometries
		RELATE,
		WITHIN,
		DISTANCE,
		HAUSDORFF,
		//! An overlay of polygons, and its area
		OVERLAY,
		OVERLAY_AREA,
		// Functions of one
		AREA,
		LENGTH,
		PERIMETER,
		CENTROID,
		FLIP,
		HULL,
		SIMPLIFY
	};
	Kind kind = RELATE;
	vibe::Predicate predicate = vibe::PREDICATE_INTERSECTS;
	vibe::NetRule overlay {vibe::NetRule::MANY, 0};

	bool IsOfPairs() const {
		return kind == RELATE || kind == WITHIN || kind == DISTANCE || kind == HAUSDORFF || IsOverlay();
	}
	bool IsOverlay() const {
		return kind == OVERLAY || kind == OVERLAY_AREA;
	}
	//! Results are numbers or geometries; otherwise they are BOOLEAN
	bool GivesNumbers() const {
		return kind != RELATE && kind != WITHIN && !GivesGeometries();
	}
	bool GivesGeometries() const {
		return kind == OVERLAY || kind == CENTROID || kind == FLIP || kind == HULL || kind == SIMPLIFY;
	}
	//! Function of one geometry, or overlay: whether the device can compute it for this WKB, by its first bytes
	bool IsForDevice(const uint8_t *wkb, size_t size) const;
};

//! The geometries of one argument; stored as points while all of them are points
class ScalarSide {
public:
	//! Removes all geometries. The memory is for those that are added next.
	void Clear(ShapeRows::Memory memory = nullptr);
	//! Stores points as WKB from now on
	void BeginShapes();
	//! A row whose result is not used
	void AddNothing();
	void AddPoint(const vibe::Vec2 &point);
	//! WKB that is for the device (ShapeRows::IsForDevice)
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
	//! Size of the memory of our own
	size_t OwnBytes() const {
		return shapes.OwnBytes() + points.capacity() * sizeof(vibe::Vec2);
	}
	//! NaN for rows of AddNothing()
	const std::vector<vibe::Vec2> &Points() const {
		return points;
	}
	const ShapeRows &Shapes() const {
		return shapes;
	}

private:
	std::vector<vibe::Vec2> points;
	ShapeRows shapes;
	bool has_shapes = false;
};

//! The rows [first, first + count) of the sides
struct ScalarInput {
	size_t first = 0;
	size_t count = 0;
	const ScalarSide *left = nullptr;
	//! Null for functions of one geometry
	const ScalarSide *right = nullptr;
	//! One geometry for all rows
	bool left_is_constant = false;
	bool right_is_constant = false;
	//! WITHIN: the limit of each row; SIMPLIFY: its tolerance, not negative
	const double *limits = nullptr;
};

//! The results of the rows of the input. Valid until the next Begin().
struct ScalarResult {
	//! vibe::PairResult of each row. For numbers and geometries it only says whether the row was left open.
	const uint8_t *results = nullptr;
	//! Numbers; a distance from an EMPTY geometry is NaN, and so is a Hausdorff distance
	const double *numbers = nullptr;
	//! Geometries: row i is wkb[wkb_begin[i]..wkb_begin[i + 1])
	const uint8_t *wkb = nullptr;
	const int64_t *wkb_begin = nullptr;
	GpuTimes times;
};

//! Rows of one thread. If anything fails before Finish() returns, they must be done again.
class GpuScalarBatch {
public:
	virtual ~GpuScalarBatch() = default;

	//! Pinned memory for a block of the ShapeRows of one side; valid as long as this object. Null: the rows use memory of their own. Throws
	//! GpuError.
	virtual uint8_t *Block(bool left, size_t number) = 0;
	//! Pinned memory of arguments and results
	virtual uint64_t HostBytes() const = 0;
	//! Starts the work and returns. The input must not change until Finish(). Throws GpuError.
	virtual void Begin(const ScalarInput &input) = 0;
	//! Waits for the work. Throws GpuError, or GpuMemoryError if fewer rows may fit.
	virtual const ScalarResult &Finish() = 0;
};

} // namespace vibespatial
