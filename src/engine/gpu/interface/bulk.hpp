//===----------------------------------------------------------------------===//
// engine/gpu/interface/bulk.hpp
//
// Functions of one geometry or two on the GPU engine, row by row. Promise: what the scalar functions give for rows without NULL, bit
// by bit; rows that the device leaves open are for the CPU engine.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/interface/join.hpp"

#include <vector>

namespace vibespatial {

//! What is asked of the geometries of a row
struct BulkTask {
	//! Of two geometries, then of one
	enum Kind : uint8_t { RELATE, WITHIN, DISTANCE, AREA, LENGTH, PERIMETER, CENTROID, FLIP };
	Kind kind = RELATE;
	vibe::Predicate predicate = vibe::PREDICATE_INTERSECTS;

	bool IsOfPairs() const {
		return kind <= DISTANCE;
	}
	//! Answers are numbers, or geometries; else they are yes or no
	bool GivesNumbers() const {
		return kind >= DISTANCE && kind <= PERIMETER;
	}
	bool GivesGeometries() const {
		return kind >= CENTROID;
	}
	//! Its name among the pieces of work (engine/dispatch/dispatch.hpp) and those who need units (kernels/units.json)
	const char *Kernel() const {
		return IsOfPairs() ? "scalar_pairs" : "scalar_rows";
	}
	//! Of a function of one geometry: can the device give what the function does? That depends on the first bytes.
	bool IsForDevice(const uint8_t *wkb, size_t size) const;
};

//! The geometries of one side: points as long as all of them are
class BulkSide {
public:
	//! Without geometries. The memory is for those that come now.
	void Clear(ShapeRows::Memory memory = nullptr);
	//! Points are WKB, too
	void BeginShapes();
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
	//! In memory of our own, not in blocks that came from elsewhere
	size_t OwnBytes() const {
		return shapes.OwnBytes() + points.capacity() * sizeof(vibe::Vec2);
	}
	//! NaN for nothing
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
struct BulkInput {
	size_t first = 0;
	size_t count = 0;
	const BulkSide *left = nullptr;
	//! Null for functions of one geometry
	const BulkSide *right = nullptr;
	//! One geometry for all rows
	bool left_is_constant = false;
	bool right_is_constant = false;
	//! WITHIN: of each row
	const double *limits = nullptr;
};

//! Of the rows that were asked for. Valid until the next Begin()
struct BulkResult {
	//! vibe::PairResult of each row; for numbers and geometries, whether they were left open
	const uint8_t *results = nullptr;
	//! Numbers; NaN where a distance has an EMPTY one
	const double *numbers = nullptr;
	//! Geometries: row i is wkb[wkb_begin[i]..wkb_begin[i + 1])
	const uint8_t *wkb = nullptr;
	const int64_t *wkb_begin = nullptr;
	GpuTimes times;
};

//! One thread's rows. Whatever fails before Finish() has returned leaves them to be done again.
class GpuBulk {
public:
	virtual ~GpuBulk() = default;

	//! Memory that the device can read, for a block of the ShapeRows of one side; stays as long as this. Throws GpuError.
	virtual uint8_t *Block(bool left, size_t number) = 0;
	//! Of such memory, and of what results come back to
	virtual uint64_t HostBytes() const = 0;
	//! Returns before the work is done; what the input names stays as it is until Finish(). Throws GpuError.
	virtual void Begin(const BulkInput &input) = 0;
	//! Waits. Throws GpuError, GpuMemoryError where fewer rows might do.
	virtual const BulkResult &Finish() = 0;
};

} // namespace vibespatial
