//===----------------------------------------------------------------------===//
// engine/join/session/tile_rows.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/join/session/session.hpp"

namespace vibespatial {

//! The probe rows of a tile, in the form in which the device reads them: points, or WKB with shapes for what the device does not
//! read. The CPU can read every row, too.
class TileRows {
public:
	enum class Kind : uint8_t { NONE, POINTS, SHAPES };

	//! Points go to `memory`; null: to memory of our own
	void BeginPoints(vibe::Vec2 *memory, size_t capacity);
	void BeginShapes(ShapeRows::Memory memory);
	//! So many rows that are on the device. The CPU can read points once they were copied to PinnedPoints(), and those shapes that were
	//! added since the last call of ClearPinnedShapes(), in ascending order.
	void BeginPinned(size_t rows, Kind rows_kind);
	vibe::Vec2 *PinnedPoints();
	void ClearPinnedShapes();
	void AddPinnedShape(size_t row, const JoinRow &wkb);
	void Clear();

	//! Adds rows [begin, end) of an input whose coordinates are known
	void AddPoints(const JoinInput &input, size_t begin, size_t end);
	//! Adds a row of any kind; its limit comes with AddLimits()
	void AddShape(const JoinRow &row);
	void AddLimits(const double *row_limits, size_t row_count);
	//! Moves the points to where the device reads them
	void MovePoints(vibe::Vec2 *memory);
	//! Builds the shapes of the rows that the device does not read. Throws GeometryError as a probe would.
	void PackShapes(const JoinSession &session, const JoinIndex &index);

	Kind GetKind() const {
		return kind;
	}
	size_t Count() const {
		return count;
	}
	//! Total size of the shapes
	size_t Bytes() const {
		return bytes;
	}
	//! In memory of our own
	size_t OwnBytes() const;
	const ShapeRows *Shapes() const {
		return kind == Kind::SHAPES && !is_pinned ? &shapes : nullptr;
	}
	const double *Limits() const {
		return limits.empty() ? nullptr : limits.data();
	}
	//! Rows that only the CPU can answer, ascending; known after PackShapes()
	const std::vector<uint32_t> &CpuRows() const {
		return cpu_rows;
	}
	//! A row as the CPU reads it; `buffer` holds the bytes of a point
	JoinRow Read(size_t row, PointBytes &buffer) const;

private:
	void PackShape(const JoinSession &session, const JoinIndex &index, size_t row, PackedShapes &packed,
	               GeometryBatch &batch, Shape &shape, std::vector<uint32_t> &for_cpu) const;

	//! Where the WKB of a pinned shape is; no size: NULL
	struct PinnedShape {
		size_t row;
		size_t begin;
		uint32_t size;
	};

	Kind kind = Kind::NONE;
	bool is_pinned = false;
	size_t count = 0;
	vibe::Vec2 *points = nullptr;
	std::vector<vibe::Vec2> own_points;
	ShapeRows shapes;
	//! The WKB of the rows that the device does not read
	std::vector<std::string> packed_wkb;
	std::vector<PinnedShape> pinned_shapes;
	std::string pinned_wkb;
	size_t bytes = 0;
	std::vector<double> limits;
	std::vector<uint32_t> cpu_rows;
};

} // namespace vibespatial
