//===----------------------------------------------------------------------===//
// engine/gpu_join.hpp
//
// A spatial join on the GPU engine: its build side on the device, and tiles of the probe side that are held against it.
// Promise: the pairs of engine/cpu/join.hpp; those that the device leaves open are for the CPU engine to decide.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/cpu/cell_index.hpp"
#include "engine/cpu/join.hpp"
#include "engine/engine.hpp"
#include "engine/uninitialized.hpp"

#include <memory>
#include <vector>

namespace vibespatial {

//! Shapes in one piece of memory: the pointers of their views are offsets into its bytes
struct PackedShapes {
	UninitializedVector<uint8_t> bytes;
	std::vector<vibe::ShapeView> views;

	void Add(const vibe::ShapeView &view);
	//! A row that meets nothing
	void AddNothing();
	//! One of which only the box is asked
	void AddBox(const vibe::Box &box);
	//! One that the device must leave open wherever its box meets another
	void AddUnknown(const vibe::Box &box);
	void Clear() {
		bytes.clear();
		views.clear();
	}
	//! The view as it is where the bytes begin at `base`
	static vibe::ShapeView At(vibe::ShapeView view, const uint8_t *base);

private:
	void AddBare(const vibe::Box &box, int dimension);
	template <class T>
	const T *Append(const T *items, size_t count);
};

//! The rows of a build side: the tree over them, and what they are. All belongs to someone else.
struct GpuRows {
	const BoxTree *tree = nullptr;
	//! By item of the tree: rows, then the parts of those that have several
	const std::vector<vibe::Box> *boxes = nullptr;
	const std::vector<uint32_t> *part_row = nullptr;
	size_t count = 0;
	//! All rows in their order, in any number of pieces; or points, NaN for those that meet nothing
	std::vector<PackedShapes> shapes;
	const vibe::Vec2 *points = nullptr;
	//! What each brings to the limit of a distance, or null
	const double *limits = nullptr;
};

//! A build side on the device. Its parts are set once, by whoever needs them first.
class GpuBuild {
public:
	virtual ~GpuBuild() = default;

	virtual bool HasRows() const = 0;
	virtual bool HasCells() const = 0;
	//! Throws GpuError
	virtual void SetRows(const GpuRows &rows, Parallel &parallel) = 0;
	virtual void SetCells(const CellIndex::Pieces &cells, size_t rows, Parallel &parallel) = 0;
	//! On the device
	virtual uint64_t Bytes() const = 0;
};

//! What is asked of the pairs: themselves, how many each build row has, or whether a probe row has one
enum class GpuOutput : uint8_t { PAIRS, COUNTS, FOUND };

struct GpuTileInput {
	//! Rows [first, first + count) of the tile
	size_t first = 0;
	size_t count = 0;
	//! All rows of the tile in their order, in any number of pieces; null: the points that were written to Points()
	const std::vector<PackedShapes> *shapes = nullptr;
	//! What the rows bring to the limit of a distance, or null
	const double *limits = nullptr;
	GpuOutput output = GpuOutput::PAIRS;
	//! Points are asked of the cells, not of the rows
	bool use_cells = false;
};

//! Valid until the next Begin()
struct GpuTileResult {
	//! PAIRS: rows of the tile and of the build side, in no order
	const uint32_t *probe = nullptr;
	const uint32_t *build = nullptr;
	size_t pairs = 0;
	//! COUNTS: of all rows of the build side
	const uint32_t *counts = nullptr;
	//! FOUND: of the rows [first, first + count)
	const uint8_t *found = nullptr;
	//! Pairs that were left open, whatever the output
	const uint32_t *open_probe = nullptr;
	const uint32_t *open_build = nullptr;
	size_t open = 0;
	uint64_t candidates = 0;
	GpuTimes times;
};

//! One thread's tile. Whatever fails before Finish() has returned leaves the rows of the tile to be done again.
class GpuTile {
public:
	virtual ~GpuTile() = default;

	//! Memory that the device can read while it is written elsewhere, for so many points; stays as long as the tile
	virtual vibe::Vec2 *Points(size_t capacity) = 0;
	//! Returns before the work is done; what the input names stays as it is until Finish(). Throws GpuError.
	virtual void Begin(const GpuTileInput &input) = 0;
	//! Waits. Throws GpuError, GpuMemoryError where a smaller tile might do.
	virtual const GpuTileResult &Finish() = 0;
};

//! Names a build side by what is in it: all bytes of all rows in their order, and their limits
struct BuildKey {
	uint64_t low = 0;
	uint64_t high = 0;

	bool operator<(const BuildKey &other) const {
		return low != other.low ? low < other.low : high < other.high;
	}
	bool operator==(const BuildKey &other) const {
		return low == other.low && high == other.high;
	}
};

} // namespace vibespatial
