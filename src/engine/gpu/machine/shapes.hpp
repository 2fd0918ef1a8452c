//===----------------------------------------------------------------------===//
// engine/gpu/machine/shapes.hpp
//
// WKB that the device makes shapes of (kernels/wkb_codec.cu)
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/join.hpp"
#include "engine/gpu/machine/machine.hpp"

namespace vibespatial {

//! The shapes of one batch of rows after another, in temporary memory of a machine
class MachineShapes {
public:
	//! Uses pinned memory of the machine: the numbers `pinned`, `pinned + stride`, and so on
	MachineShapes(Machine &machine, const std::string &name, size_t pinned, size_t stride = 1)
	    : machine(machine), name(name), pinned(pinned), stride(stride) {
	}

	//! A block of ShapeRows in pinned memory
	uint8_t *Block(size_t number) {
		return static_cast<uint8_t *>(machine.Pinned(pinned + stride * (number + 1), ShapeRows::BLOCK_BYTES));
	}
	//! Sends the rows [first, first + count). Returns before the copies are done.
	void Upload(const ShapeRows &rows, size_t first, size_t count);
	//! Starts to make the shapes. The rows that are left to the CPU are unknown; they are listed in `left`, if it is not null.
	const vibe::ShapeView *Decode(bool leave_empty, vibe::u32 *left, vibe::u64 *left_count);
	//! What was uploaded
	const vibe::u8 *Wkb() const {
		return wkb;
	}
	const vibe::WkbRow *Rows() const {
		return wkb_rows;
	}
	size_t Bytes() const {
		return wkb_bytes;
	}

private:
	template <class T>
	T *Temporary(const char *what, size_t items) {
		return machine.Temporary<T>(name + what, items);
	}
	void UploadPacked(const ShapeRows &rows, size_t begin, size_t end);

	Machine &machine;
	const std::string name;
	const size_t pinned;
	const size_t stride;
	uint32_t count = 0;
	size_t wkb_bytes = 0;
	const vibe::u8 *wkb = nullptr;
	const vibe::WkbRow *wkb_rows = nullptr;
	const vibe::ShapeView *packed = nullptr;
};

//! Memory of the device that is kept
typedef std::function<void *(size_t bytes)> MachineMemory;

//! The shapes of a build side, in memory from `allocate`
class BuildShapes {
public:
	//! Has the device make those that it can
	BuildShapes(Machine &machine, MachineMemory allocate, const GpuRows &rows, Parallel &parallel);

	//! The others, in ascending order, and the shapes of the next of them
	const std::vector<uint32_t> &LeftRows() const {
		return left_rows;
	}
	void Add(const std::vector<PackedShapes> &pieces, Parallel &parallel);

	const vibe::ShapeView *Views() const {
		return views;
	}
	//! Some of them are points, or large
	bool has_points = false;
	bool has_large = false;

private:
	Machine &machine;
	const MachineMemory allocate;
	vibe::ShapeView *views = nullptr;
	std::vector<uint32_t> left_rows;
	//! The first of them whose shape has not been added
	size_t next = 0;
};

} // namespace vibespatial
