//===----------------------------------------------------------------------===//
// engine/gpu/interface/pinned.hpp
//
// A table that stays on the device: one geometry column, and columns of numbers beside it. Tiles of a join read them
// there (engine/gpu/interface/join.hpp), so that a query sends nothing. Rows lie in segments, of points or of shapes.
// Promise: the rows that were added. Points are in an order of their own, shapes in that in which they came: the caller keeps what the
// device cannot give back. When they stop being those of the table is the caller's to know.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
#include "engine/input/row.hpp"
#include "vibe/pinned.h"

#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

class GpuRings;
class GpuSearch;
struct OverlayNet;
struct PackedShapes;

struct PinnedLayout {
	//! Bytes of the values of each column beside the points: 1, 2, 4 or 8
	std::vector<uint32_t> widths;
	//! An estimate
	uint64_t rows = 0;
};

//! Some rows on their way to the device
struct PinnedInput {
	struct Column {
		//! Signed integers of the column's width, in the order of the values that they stand for
		const uint8_t *values = nullptr;
		//! 1 where a row is NULL; null where none is
		const uint8_t *nulls = nullptr;
	};

	size_t count = 0;
	//! NaN for rows that meet nothing
	const vibe::Vec2 *points = nullptr;
	//! Without points: the geometries, of which the device makes shapes. These rows become a segment.
	const JoinRow *wkb = nullptr;
	//! Makes the shape of a row that the device does not read
	std::function<void(uint32_t row, PackedShapes &packed)> pack;
	std::vector<Column> columns;
};

//! Rows [begin, begin + count) of a segment on their way back to the host
struct PinnedOutput {
	struct Column {
		uint32_t number = 0;
		//! As they were added
		uint8_t *values = nullptr;
		//! All zeros where no row is NULL
		uint8_t *nulls = nullptr;
	};

	size_t segment = 0;
	size_t begin = 0;
	size_t count = 0;
	//! Null where they are not asked for, or there are shapes
	vibe::Vec2 *points = nullptr;
	std::vector<Column> columns;
};

//! A range of a column that a filter asks for; vibe::PinnedRange
struct PinnedTerm {
	uint32_t column = 0;
	int64_t low = 0;
	int64_t high = 0;
	bool null_passes = false;
	bool ends_clause = true;
};

//! At most vibe::PinnedFilter::MAX_RANGES; none: all rows pass
typedef std::vector<PinnedTerm> PinnedTerms;

//! What the rows of a segment are
struct PinnedKind {
	bool are_shapes = false;
	//! Some of the shapes are points; some are large
	bool has_points = false;
	bool has_large = false;
};

//! The rows while somebody reads them: they are not evicted meanwhile. Rows of a segment are numbered from 0.
class PinnedRows {
public:
	virtual ~PinnedRows() = default;

	virtual size_t Segments() const = 0;
	virtual size_t Count(size_t segment) const = 0;
	virtual PinnedKind Kind(size_t segment) const = 0;
};

//! Numbers for the rows of all segments, as a search for neighbours gives them: the segment above the row
struct PinnedNumbers {
	uint32_t row_bits = 0;

	//! False where the rows of a table are too many for numbers of 32 bits
	static bool Fit(const PinnedRows &rows, PinnedNumbers &numbers);
	uint32_t First(size_t segment) const {
		return static_cast<uint32_t>(segment << row_bits);
	}
	size_t Segment(uint32_t number) const {
		return number >> row_bits;
	}
	size_t Row(uint32_t number) const {
		return number & ((1U << row_bits) - 1);
	}
};

//! A search for neighbours among the points of rows that pass a filter
struct PinnedSearchInput {
	//! In the place of the number of a column: the point, two doubles
	static constexpr uint32_t POINTS = UINT32_MAX;

	std::shared_ptr<const PinnedRows> rows;
	PinnedTerms filter;
	//! The column of 4 bytes that says which of two rows at the same distance comes first
	uint32_t order = 0;
	//! Those whose values come with each neighbour
	std::vector<uint32_t> columns;
	uint32_t k = 1;
	//! None is farther away
	double most = 0;
};

//! Copies rows to the host; one thread at a time uses it
class PinnedReader {
public:
	virtual ~PinnedReader() = default;

	//! Returns when the rows are there. Throws GpuError.
	virtual void Read(const PinnedOutput &to) = 0;
	//! For each row of a segment: 1 where it passes. Throws GpuError.
	virtual void ReadPassing(size_t segment, const PinnedTerms &filter, uint8_t *to) = 0;
	//! Adds the bytes that were copied since the last call
	virtual void AddBytes(GpuTimes &times) = 0;
};

//! Any thread may call any of it
class GpuPinned {
public:
	virtual ~GpuPinned() = default;

	//! Adds rows; before Finish(). Returns the number of the segment of shapes. Throws GpuError.
	virtual size_t Add(const PinnedInput &input) = 0;
	//! All rows were added: puts points in an order that suits the device. `poll` throws to end it. Throws GpuError.
	virtual void Finish(const std::function<void()> &poll, GpuTimes &times) = 0;
	//! Null where the rows were evicted, since others needed the memory
	virtual std::shared_ptr<const PinnedRows> Use() = 0;
	//! For rows of Use(). Throws GpuError.
	virtual std::unique_ptr<PinnedReader> NewReader(std::shared_ptr<const PinnedRows> rows) = 0;
	//! Among rows of Use(), none of which are shapes. Throws GpuError.
	virtual std::unique_ptr<GpuSearch> NewSearch(const PinnedSearchInput &input) = 0;
	//! Rings of the geometries of rows of Use(), for overlays of them; null where nobody has sent them
	virtual std::shared_ptr<const GpuRings> Rings(const std::shared_ptr<const PinnedRows> &rows) = 0;
	//! Sends them, where nobody has; always the same. Throws GpuError.
	virtual std::shared_ptr<const GpuRings> SendRings(const std::shared_ptr<const PinnedRows> &rows,
	                                                  const OverlayNet &net, Parallel &parallel, GpuTimes &times) = 0;
	virtual bool IsResident() const = 0;
	//! Also of rows that were evicted
	virtual uint64_t Rows() const = 0;
	//! On the device now
	virtual uint64_t Bytes() const = 0;
};

} // namespace vibespatial
