//===----------------------------------------------------------------------===//
// engine/gpu/machine/pinned.hpp
//
// Pinned tables on a machine. Points lie in segments of as many rows as a tile takes at once, each in the order of a Hilbert curve; shapes
// in the segments in which they came.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/pinned.hpp"
#include "engine/gpu/machine/machine.hpp"
#include "vibe/box_node.h"
#include "vibe/shape.h"

#include <atomic>
#include <list>
#include <mutex>
#include <vector>

namespace vibespatial {

//! Some rows of a pinned table
struct PinnedSegment {
	MachineArray<vibe::Vec2> points;
	//! Instead of points, with the memory that they are in
	const vibe::ShapeView *shapes = nullptr;
	std::vector<std::shared_ptr<void>> held;
	PinnedKind kind;
	std::vector<MachineArray<vibe::u8>> values;
	//! Nothing where no row is NULL
	std::vector<MachineArray<vibe::u8>> nulls;
	size_t count = 0;
	size_t capacity = 0;
	//! Rows with a point. They come first.
	size_t present = 0;
};

//! Over the points of a segment, sixteen to an item
struct PinnedTree {
	MachineArray<vibe::PackedNode> nodes;
	vibe::NodeLevels levels {};
};

class MachinePinnedRows : public PinnedRows {
public:
	size_t Segments() const override {
		return segments.size();
	}
	size_t Count(size_t segment) const override {
		return segments[segment].count;
	}
	PinnedKind Kind(size_t segment) const override {
		return segments[segment].kind;
	}
	//! The filter as a kernel takes it
	vibe::PinnedFilter Filter(size_t segment, const PinnedTerms &terms) const;

	std::vector<uint32_t> widths;
	std::vector<PinnedSegment> segments;
	//! By segment, once somebody has searched for neighbours
	mutable std::vector<PinnedTree> trees;
	//! Once somebody has asked for an overlay
	mutable std::shared_ptr<const GpuRings> rings;
	//! Of both
	mutable std::mutex made_lock;
};

class MachinePins;

class MachinePinned : public GpuPinned {
public:
	MachinePinned(MachinePins &pins, MachineFactory machines, const PinnedLayout &layout);

	size_t Add(const PinnedInput &input) override;
	void Finish(const std::function<void()> &poll, GpuTimes &times) override;
	std::shared_ptr<const PinnedRows> Use() override;
	std::unique_ptr<PinnedReader> NewReader(std::shared_ptr<const PinnedRows> rows) override;
	std::unique_ptr<GpuSearch> NewSearch(const PinnedSearchInput &input) override;
	std::shared_ptr<const GpuRings> Rings(const std::shared_ptr<const PinnedRows> &rows) override;
	std::shared_ptr<const GpuRings> SendRings(const std::shared_ptr<const PinnedRows> &rows, const OverlayNet &net,
	                                          Parallel &parallel, GpuTimes &times) override;
	bool IsResident() const override;
	uint64_t Rows() const override {
		return row_count;
	}
	uint64_t Bytes() const override {
		return bytes;
	}

	//! When it was last used
	uint64_t LastUse() const {
		return last_use;
	}
	//! Frees the rows where nobody reads them; the bytes
	uint64_t Evict();

private:
	//! On the machine that adds rows
	template <class T>
	MachineArray<T> New(uint64_t count) {
		return New<T>(*machine, count);
	}
	template <class T>
	MachineArray<T> New(Machine &on, uint64_t count);
	//! Has room for columns of so many rows
	PinnedSegment NewSegment(size_t capacity);
	//! The number of a segment of points
	size_t SegmentWithRoom();
	void AddColumns(PinnedSegment &segment, const PinnedInput &input, size_t begin, size_t size);
	void AddPoints(const PinnedInput &input);
	void AddShapes(const PinnedInput &input);
	void Sort(PinnedSegment &segment);
	//! Adds its bytes, which count as those of the table
	PinnedTree MakeTree(Machine &on, const PinnedSegment &segment, uint64_t &tree_bytes);

	MachinePins &pins;
	const MachineFactory machines;
	const uint64_t expected_rows;
	mutable std::mutex lock;
	//! While rows are added
	std::unique_ptr<Machine> machine;
	std::shared_ptr<MachinePinnedRows> rows;
	std::atomic<bool> is_finished {false};
	//! The last segment of points; NONE: there is none
	static constexpr size_t NONE = SIZE_MAX;
	size_t last_points = NONE;
	vibe::Box extent = vibe::Box::Empty();
	std::atomic<uint64_t> row_count {0};
	std::atomic<uint64_t> bytes {0};
	std::atomic<uint64_t> last_use {0};
};

//! All pinned tables of a device. Those that were not used for longest make room for others.
class MachinePins {
public:
	//! `limit`: bytes of device memory that may be used for all; 0 while that is not known
	explicit MachinePins(std::function<uint64_t()> limit) : limit(std::move(limit)) {
	}

	std::shared_ptr<GpuPinned> New(MachineFactory machines, const PinnedLayout &layout);
	//! Before a pinned table takes so many bytes. Throws GpuMemoryError.
	void MakeRoom(uint64_t bytes);
	//! Evicts one that nobody reads, for work that needs memory; the bytes
	uint64_t Free();
	uint64_t NextUse() {
		return ++uses;
	}
	void Report(std::vector<GpuMemoryRow> &rows);

private:
	std::vector<std::shared_ptr<MachinePinned>> All();
	uint64_t FreeOne(const std::vector<std::shared_ptr<MachinePinned>> &all);

	const std::function<uint64_t()> limit;
	std::mutex lock;
	std::list<std::weak_ptr<MachinePinned>> tables;
	std::atomic<uint64_t> uses {0};
	std::atomic<uint64_t> peak {0};
};

} // namespace vibespatial
