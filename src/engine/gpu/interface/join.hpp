//===----------------------------------------------------------------------===//
// engine/gpu/interface/join.hpp
//
// A spatial join on the GPU engine: its build side on the device, and tiles of the probe side that are held against it.
// Promise: the pairs of engine/join/probe.hpp; those that the device leaves open are for the CPU engine to decide.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/box_tree.hpp"
#include "engine/index/cell_index.hpp"
#include "engine/input/condition.hpp"
#include "engine/gpu/interface/engine.hpp"
#include "engine/common/uninitialized.hpp"
#include "vibe/pairs.h"
#include "vibe/shape_build.h"

#include <algorithm>
#include <functional>
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

//! Geometries on their way to a device, in their order: WKB as it is, in blocks of memory that the device reads; or shapes, for
//! those that are not for a thread of the device to make.
class ShapeRows {
public:
	static constexpr size_t BLOCK_BYTES = 1 << 20;
	//! Of WKB that the device makes a shape of: about 1,024 vertices
	static constexpr size_t MAX_WKB_BYTES = 16 << 10;
	//! No collections, and none that is long
	static bool IsForDevice(const uint8_t *wkb, size_t size);
	//! Of one that is for the device: is it a POINT or a MULTIPOINT?
	static bool ArePoints(const uint8_t *wkb);
	//! Two that are smaller have no more vertices than one thread may walk
	static constexpr size_t LARGE_WKB_BYTES = MAX_WKB_BYTES / 2;

	//! Where block number n is; null for memory of our own
	typedef std::function<uint8_t *(size_t block)> Memory;
	//! Without rows. The memory is for those that come now.
	void Clear(Memory memory = nullptr);
	void AddNothing() {
		rows.push_back(vibe::WkbRow {0, 0});
	}
	//! One that is for the device
	void AddWkb(const uint8_t *wkb, size_t size);
	//! One whose shape is the next in `packed`
	void AddPacked();

	size_t Count() const {
		return rows.size();
	}
	//! Of WKB and of shapes
	size_t Bytes() const;
	//! In memory of our own, not in blocks that came from elsewhere
	size_t OwnBytes() const;
	//! Some of the WKB are points; some rows may have more vertices than a thread should walk alone
	bool HasPoints() const {
		return has_points;
	}
	bool HasLarge() const {
		return has_large || !packed_rows.empty();
	}
	const std::vector<vibe::WkbRow> &Rows() const {
		return rows;
	}
	//! WKB that was added, null for nothing
	const uint8_t *Wkb(size_t row) const;
	const uint8_t *Block(size_t number) const {
		return blocks[number];
	}
	//! In memory of our own, which a device cannot read
	bool IsOwn(size_t number) const {
		return number < own_blocks.size() && blocks[number] == own_blocks[number].get();
	}
	//! Rows whose shapes are in `packed`, in ascending order
	const std::vector<uint32_t> &PackedRows() const {
		return packed_rows;
	}
	//! In any number of pieces
	std::vector<PackedShapes> packed;

private:
	Memory memory;
	std::vector<uint8_t *> blocks;
	std::vector<std::unique_ptr<uint8_t[]>> own_blocks;
	std::vector<vibe::WkbRow> rows;
	std::vector<uint32_t> packed_rows;
	//! All blocks are full but the last
	size_t used = 0;
	size_t wkb_bytes = 0;
	bool has_points = false;
	bool has_large = false;
};

//! How the rows of a build side go to a device: in groups, whose WKB is there at the same time. All of it is known before there is a
//! device.
class WkbLayout {
public:
	static constexpr size_t ROWS_PER_PART = 1024;
	static constexpr size_t GROUP_BYTES = 256 << 20;
	//! What is copied at once
	static constexpr size_t STEP_BYTES = 2 << 20;

	//! Consecutive rows
	struct Part {
		//! Of WKB that the device reads; in the last step
		size_t bytes = 0;
		size_t last_bytes = 0;
		//! Rows that another step begins with, where the part is more than one
		std::vector<size_t> cuts;
		//! Rows that the CPU packs
		std::vector<uint32_t> packed;
		bool has_points = false;
		bool has_large = false;
	};

	//! Parts that go together, and their WKB
	struct Group {
		size_t begin;
		size_t end;
		size_t bytes;
	};

	explicit WkbLayout(size_t rows) : numbers(rows), parts((rows + ROWS_PER_PART - 1) / ROWS_PER_PART) {
	}
	//! Any part by any thread; `rows`: those of the whole build side
	void Read(size_t part, const JoinRow *rows);
	//! When all are read
	void MakeGroups(Parallel &parallel);
	size_t Begin(size_t part) const {
		return part * ROWS_PER_PART;
	}
	size_t End(size_t part) const {
		return std::min(numbers.size(), (part + 1) * ROWS_PER_PART);
	}

	//! Of each row, from the beginning of its group on: WKB, or PRESENT for those that the CPU packs
	UninitializedVector<vibe::WkbRow> numbers;
	std::vector<Part> parts;
	std::vector<Group> groups;
};

//! The rows of a build side: the tree over them, and what they are. All belongs to someone else.
struct GpuRows {
	//! Null where the device is to pack it, over the boxes
	const BoxTree *tree = nullptr;
	//! By item of the tree: rows, then the parts of those that have several
	const UninitializedVector<vibe::Box> *boxes = nullptr;
	const std::vector<uint32_t> *part_row = nullptr;
	size_t count = 0;
	//! The bytes of all rows; or points, NaN for those that meet nothing
	const JoinRow *wkb = nullptr;
	const vibe::Vec2 *points = nullptr;
	//! Of the bytes
	const WkbLayout *layout = nullptr;
	//! Packs a row that the device does not read, or could not
	std::function<void(size_t row, PackedShapes &shapes)> pack;
	//! What each brings to the limit of a distance, or null
	const double *limits = nullptr;
};

//! A build side on the device. Its parts are set once, by whoever needs them first.
class GpuBuild {
public:
	virtual ~GpuBuild() = default;

	virtual bool HasRows() const = 0;
	virtual bool HasCells() const = 0;
	//! Both throw GpuError. `tree_times`: of the tree, where the device packs it.
	virtual void SetRows(const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) = 0;
	virtual void SetCells(const CellIndex::Pieces &cells, size_t rows, Parallel &parallel) = 0;
	//! On the device
	virtual uint64_t Bytes() const = 0;
};

//! vibe::PairOutput, with the probe side on the left
enum class GpuOutput : uint8_t { PAIRS = vibe::OUTPUT_PAIRS, COUNTS = vibe::OUTPUT_COUNTS, FOUND = vibe::OUTPUT_FOUND };

struct GpuTileInput {
	//! Rows [first, first + count) of the tile
	size_t first = 0;
	size_t count = 0;
	//! All rows of the tile; null: the points that were written to Points()
	const ShapeRows *shapes = nullptr;
	//! Shapes: EMPTY ones are not for the device
	bool leave_empty = false;
	//! What the rows bring to the limit of a distance, or null
	const double *limits = nullptr;
	GpuOutput output = GpuOutput::PAIRS;
	//! Points are asked of the cells, not of the rows
	bool use_cells = false;
	//! Called now and then where a tile takes long; throws to end it. Or null
	std::function<void()> poll;
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
	//! Rows of the tile that were left as a whole: the device could not make shapes of them
	const uint32_t *left = nullptr;
	size_t left_count = 0;
	uint64_t candidates = 0;
	GpuTimes times;
};

//! One thread's tile. Whatever fails before Finish() has returned leaves the rows of the tile to be done again.
class GpuTile {
public:
	virtual ~GpuTile() = default;

	//! Memory that the device can read while it is written elsewhere, for so many points; stays as long as the tile
	virtual vibe::Vec2 *Points(size_t capacity) = 0;
	//! The same for a block of ShapeRows. Throws GpuError.
	virtual uint8_t *Block(size_t number) = 0;
	//! Of such memory, and of what results come back to
	virtual uint64_t HostBytes() const = 0;
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
