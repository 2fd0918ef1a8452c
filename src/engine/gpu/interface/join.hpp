//===----------------------------------------------------------------------===//
// engine/gpu/interface/join.hpp
//
// A spatial join on the GPU: its build side on the device, and tiles of the probe side.
// Promise: the pairs of engine/join/probe.hpp, except for those that the device leaves open to the CPU.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/index/box_tree.hpp"
#include "engine/index/cell_index.hpp"
#include "engine/input/condition.hpp"
#include "engine/gpu/interface/engine.hpp"
#include "engine/gpu/interface/pinned.hpp"
#include "engine/common/uninitialized.hpp"
#include "vibe/pairs.h"
#include "vibe/shape_build.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace vibespatial {

//! Shapes in one block of memory. The pointers of their views are offsets into its bytes.
struct PackedShapes {
	UninitializedVector<uint8_t> bytes;
	std::vector<vibe::ShapeView> views;

	void Add(const vibe::ShapeView &view);
	//! A row that matches nothing
	void AddNothing();
	//! A row of which only the box is used
	void AddBox(const vibe::Box &box);
	//! A row that the device leaves open wherever its box meets another
	void AddUnknown(const vibe::Box &box);
	//! The shape of WKB with this box, or an unknown one where it is invalid: that is an error only if a pair needs the row
	void AddWkb(const JoinRow &row, const vibe::Box &box);
	void Clear() {
		bytes.clear();
		views.clear();
	}
	//! Divides rows [begin, end) into pieces for threads that pack them: where each begins, and the end. Tables are often sorted by size, so a
	//! piece has a limit of rows and one of bytes.
	static std::vector<size_t> CutPieces(size_t begin, size_t end, const std::function<size_t(size_t row)> &bytes_of);
	//! The view if the bytes begin at `base`
	static vibe::ShapeView At(vibe::ShapeView view, const uint8_t *base);

private:
	void AddBare(const vibe::Box &box, int dimension);
	template <class T>
	const T *Append(const T *items, size_t count);
};

//! Geometries for the device, in order: WKB, in blocks of memory that the device reads, or shapes, for geometries that are too much
//! for one thread of the device.
class ShapeRows {
public:
	static constexpr size_t BLOCK_BYTES = 1 << 20;
	//! The largest WKB that the device makes a shape of: about 1,024 vertices
	static constexpr size_t MAX_WKB_BYTES = 16 << 10;
	//! False for collections and for large geometries
	static bool IsForDevice(const uint8_t *wkb, size_t size);
	//! Whether WKB that is for the device is a POINT or a MULTIPOINT
	static bool ArePoints(const uint8_t *wkb);
	//! Two geometries below this size have no more vertices than one thread may visit
	static constexpr size_t LARGE_WKB_BYTES = MAX_WKB_BYTES / 2;

	//! Returns the address of block n; null means memory of our own
	typedef std::function<uint8_t *(size_t block)> Memory;
	//! Removes all rows. The memory is for those that are added next.
	void Clear(Memory memory = nullptr);
	void AddNothing() {
		rows.push_back(vibe::WkbRow {0, 0});
	}
	//! WKB that is for the device
	void AddWkb(const uint8_t *wkb, size_t size);
	//! A row whose shape is the next in `packed`
	void AddPacked();

	size_t Count() const {
		return rows.size();
	}
	//! Size of WKB and shapes
	size_t Bytes() const;
	//! Size of the memory of our own
	size_t OwnBytes() const;
	//! Some of the WKB are points; some rows may have more vertices than one thread should visit
	bool HasPoints() const {
		return has_points;
	}
	bool HasLarge() const {
		return has_large || !packed_rows.empty();
	}
	const std::vector<vibe::WkbRow> &Rows() const {
		return rows;
	}
	//! The WKB of a row, or null
	const uint8_t *Wkb(size_t row) const;
	const uint8_t *Block(size_t number) const {
		return blocks[number];
	}
	//! Whether a block is in memory of our own, which the device cannot read
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
	//! Bytes in the last block; all others are full
	size_t used = 0;
	size_t wkb_bytes = 0;
	bool has_points = false;
	bool has_large = false;
};

//! How the rows of a build side are uploaded: in groups, whose WKB is on the device at the same time. Computed without a device.
class WkbLayout {
public:
	static constexpr size_t ROWS_PER_PART = 1024;
	static constexpr size_t GROUP_BYTES = 256 << 20;
	//! Bytes of one copy
	static constexpr size_t STEP_BYTES = 2 << 20;

	//! Consecutive rows
	struct Part {
		//! Bytes of WKB that the device reads: in all, and in the last step
		size_t bytes = 0;
		size_t last_bytes = 0;
		//! If the part takes several steps: the first row of each step but the first
		std::vector<size_t> cuts;
		//! Rows whose shapes the CPU makes
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
	//! Any thread may read any part. `rows` are those of the whole build side.
	void Read(size_t part, const JoinRow *rows);
	//! Once all parts are read
	void MakeGroups(Parallel &parallel);
	size_t Begin(size_t part) const {
		return part * ROWS_PER_PART;
	}
	size_t End(size_t part) const {
		return std::min(numbers.size(), (part + 1) * ROWS_PER_PART);
	}

	//! Where the WKB of each row is in its group, or PRESENT for rows whose shapes the CPU makes
	UninitializedVector<vibe::WkbRow> numbers;
	std::vector<Part> parts;
	std::vector<Group> groups;
};

//! The rows of a build side and the tree over them. The caller owns all of it.
struct GpuRows {
	//! Null if the device builds it over the boxes
	const BoxTree *tree = nullptr;
	//! The items of the tree: rows, then the geometry parts of rows that have several. Null if nobody asks for the boxes of a tree.
	const UninitializedVector<vibe::Box> *boxes = nullptr;
	const std::vector<uint32_t> *part_row = nullptr;
	size_t count = 0;
	//! The WKB of all rows; or their points, NaN for rows that match nothing
	const JoinRow *wkb = nullptr;
	const vibe::Vec2 *points = nullptr;
	//! Of the WKB
	const WkbLayout *layout = nullptr;
	//! What each row adds to the limit of a distance, or null
	const double *limits = nullptr;
	//! For a search for neighbours, where all rows are points: those in the order of the tree, as vibe::FindNearestPoints() takes
	//! them, instead of `points`
	const UninitializedVector<double> *leaves = nullptr;
};

//! The rows of a build side on their way to the device. Others who bring rows wait until this one is finished or gone.
class GpuRowUpload {
public:
	virtual ~GpuRowUpload() = default;

	//! Rows whose shapes the host has to make, in ascending order: the device does not read them, or could not
	virtual const std::vector<uint32_t> &LeftRows() const = 0;
	//! The shapes of the next rows among them. Throws GpuError.
	virtual void AddShapes(const std::vector<PackedShapes> &pieces, Parallel &parallel) = 0;
	//! Adds the bytes that were copied so far, once; those of a tree that the device packs are in its times
	virtual void AddBytes(GpuTimes &times) = 0;
	//! Once all shapes have been added: tiles can use the rows. Throws GpuError.
	virtual void Finish() = 0;
};

//! Makes the shape of a row
typedef std::function<void(uint32_t row, PackedShapes &packed)> ShapePacker;

//! Makes the shapes of the rows in `left`, which are among `rows`, and has them added in order
void AddLeftShapes(const std::vector<uint32_t> &left, const JoinRow *rows, const ShapePacker &pack, Parallel &parallel,
                   const std::function<void(const std::vector<PackedShapes> &pieces)> &add);
//! For all rows that are left of an upload
void AddLeftShapes(GpuRowUpload &upload, const JoinRow *rows, const ShapePacker &pack, Parallel &parallel);

//! A build side on the device. Its parts are set once, by whoever needs them first.
class GpuBuild {
public:
	virtual ~GpuBuild() = default;

	virtual bool HasRows() const = 0;
	virtual bool HasCells() const = 0;
	//! Starts to bring the rows, which stay as they are until the upload is finished; null if the device has them. `tree_times`: of
	//! the tree, where the device packs it. Throws GpuError.
	virtual std::unique_ptr<GpuRowUpload> BeginRows(const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) = 0;
	//! Adds what it takes to `times`, nothing where the device has them. Throws GpuError.
	virtual void SetCells(const CellIndex::Pieces &cells, size_t rows, Parallel &parallel, GpuTimes &times) = 0;
	//! On the device
	virtual uint64_t Bytes() const = 0;
};

//! vibe::PairOutput; the probe side is on the left
enum class GpuOutput : uint8_t { PAIRS = vibe::OUTPUT_PAIRS, COUNTS = vibe::OUTPUT_COUNTS, FOUND = vibe::OUTPUT_FOUND };

struct GpuTileInput {
	//! Rows [first, first + count) of the tile
	size_t first = 0;
	size_t count = 0;
	//! All rows of the tile; null: the points that were written to Points(), or pinned rows
	const ShapeRows *shapes = nullptr;
	//! The rows of the tile are those of a segment of a pinned table that pass the filter; the others meet nothing
	const PinnedRows *pinned = nullptr;
	size_t segment = 0;
	//! Of the first row of the tile in its segment
	size_t offset = 0;
	const PinnedTerms *filter = nullptr;
	//! Leave EMPTY shapes to the CPU
	bool leave_empty = false;
	//! What the rows add to the limit of a distance, or null
	const double *limits = nullptr;
	GpuOutput output = GpuOutput::PAIRS;
	//! Look points up in the cells, not in the tree
	bool use_cells = false;
	//! Called from time to time during a long tile; throws to end it. May be null.
	std::function<void()> poll;
	//! Called before pinned memory of pairs grows by so many bytes; throws where the host has not so much. May be null.
	std::function<void(uint64_t bytes)> reserve;
};

//! Valid until the next Begin()
struct GpuTileResult {
	//! PAIRS: rows of the tile and of the build side, unordered
	const uint32_t *probe = nullptr;
	const uint32_t *build = nullptr;
	size_t pairs = 0;
	//! COUNTS: of all rows of the build side
	const uint32_t *counts = nullptr;
	//! FOUND: of the rows [first, first + count)
	const uint8_t *found = nullptr;
	//! Open pairs, for every kind of output
	const uint32_t *open_probe = nullptr;
	const uint32_t *open_build = nullptr;
	size_t open = 0;
	//! Rows of the tile that the device could not make shapes of
	const uint32_t *left = nullptr;
	size_t left_count = 0;
	uint64_t candidates = 0;
	GpuTimes times;
};

//! The host has too little memory for the pairs of a tile. Those of some of its rows may fit.
class HostMemoryError : public GpuMemoryError {
public:
	using GpuMemoryError::GpuMemoryError;
};

//! A tile of one thread. If anything fails before Finish() returns, the rows of the tile must be done again.
class GpuTile {
public:
	virtual ~GpuTile() = default;

	//! Pinned memory for so many points; valid as long as the tile
	virtual vibe::Vec2 *Points(size_t capacity) = 0;
	//! Pinned memory for a block of ShapeRows. Throws GpuError.
	virtual uint8_t *Block(size_t number) = 0;
	//! Pinned memory of arguments and results
	virtual uint64_t HostBytes() const = 0;
	//! Starts the work and returns. The input must not change until Finish(). Throws GpuError.
	virtual void Begin(const GpuTileInput &input) = 0;
	//! Waits for the work. Throws GpuError, or GpuMemoryError if a smaller tile may fit.
	virtual const GpuTileResult &Finish() = 0;
	//! The points of an input of pinned points, as the device sees them, where no work is under way. Throws GpuError.
	virtual void ReadPinned(const GpuTileInput &input, vibe::Vec2 *to) = 0;
};

//! Identifies a build side by its content: all bytes of all rows in order, and their limits
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
