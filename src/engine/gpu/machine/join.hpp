//===----------------------------------------------------------------------===//
// engine/gpu/machine/join.hpp
//
// A spatial join: the build side on a device, and tiles of the probe side. A tile is one chain of kernels on a machine of its own:
// candidates from the tree, refined by the condition, kept or counted; or all of it from the cells at once. The host waits once, and
// reads a few counters then.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/join.hpp"
#include "engine/gpu/machine/machine.hpp"
#include "vibe/pairs.h"
#include "vibe/rough.h"

#include <mutex>
#include <vector>

namespace vibespatial {

class MachineBuild : public GpuBuild {
public:
	explicit MachineBuild(MachineFactory machines) : machines(std::move(machines)) {
	}

	bool HasRows() const override {
		return has_rows.load(std::memory_order_acquire);
	}
	bool HasCells() const override {
		return has_cells.load(std::memory_order_acquire);
	}
	uint64_t Bytes() const override {
		return bytes;
	}
	std::unique_ptr<GpuRowUpload> BeginRows(const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times) override;
	void SetCells(const CellIndex::Pieces &pieces, size_t rows, Parallel &parallel, GpuTimes &times) override;

	// Valid once HasRows() or HasCells() says so
	vibe::TreeView tree {};
	vibe::SideView side {};
	//! Some shapes are points, or large
	bool has_points = false;
	bool has_large = false;
	const double *limits = nullptr;
	//! GpuRows::leaves
	const double *leaves = nullptr;
	vibe::CellsView cells {};
	//! Without vertices where the machine uses no filter, or the cells have a reach
	vibe::RoughEdges rough {};
	std::atomic<size_t> row_count {0};

private:
	class RowUpload;

	void PutTree(Machine &machine, const GpuRows &rows, Parallel &parallel, GpuTimes &tree_times);
	void *Allocate(Machine &machine, size_t size);
	vibe::RoughEdges PutRough(Machine &machine, const CellIndex::Pieces &pieces, Parallel &parallel);
	template <class T>
	const T *Copy(Machine &machine, const T *from, size_t count, Parallel &parallel);
	template <class T>
	const T *Keep(const MachineArray<T> &array);

	const MachineFactory machines;
	std::mutex lock;
	std::vector<std::shared_ptr<void>> held;
	std::atomic<uint64_t> bytes {0};
	std::atomic<bool> has_rows {false};
	std::atomic<bool> has_cells {false};
};

//! A tile against a MachineBuild
std::unique_ptr<GpuTile> MakeTile(std::unique_ptr<Machine> machine, const std::shared_ptr<MachineBuild> &build,
                                  const JoinCondition &condition);

} // namespace vibespatial
