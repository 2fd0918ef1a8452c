//===----------------------------------------------------------------------===//
// gpu_plugin/device/shapes.hpp
//
// Geometries that come as WKB and are made into shapes on the device (kernels/wkb_encode.cu)
//===----------------------------------------------------------------------===//
#pragma once

#include "gpu_plugin/device/device.hpp"
#include "engine/gpu/interface/join.hpp"

namespace vibespatial {

//! Rows that come again and again, in temporary storage of a stream
class DeviceShapes {
public:
	//! Pinned memory of the stream from number `pinned` on, each `stride`-th
	DeviceShapes(CudaEngine &engine, DeviceStream &stream, DeviceMemory &memory, const std::string &name, size_t pinned,
	             size_t stride = 1)
	    : engine(engine), stream(stream), memory(memory), name(name), pinned(pinned), stride(stride) {
	}

	//! A block of ShapeRows in pinned memory
	uint8_t *Block(size_t number) {
		return static_cast<uint8_t *>(stream.Pinned(pinned + stride * (number + 1), ShapeRows::BLOCK_BYTES));
	}
	//! Both return before the work is done. Of the rows [first, first + count); adds to the bytes.
	void Upload(const ShapeRows &rows, size_t first, size_t count, GpuTimes &times);
	//! The shapes. Rows that are left to the CPU go into `left`, as many as *left_count says, or are only unknown (null).
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
	//! What Decode() has made, when it is done; those that were packed are not there
	void Read(PackedShapes &result);

private:
	template <class T>
	T *Temporary(const char *what, size_t items) {
		return static_cast<T *>(stream.Temporary(name + what, std::max<size_t>(items * sizeof(T), 8), memory));
	}
	void UploadPacked(const ShapeRows &rows, size_t begin, size_t end, GpuTimes &times);

	CudaEngine &engine;
	DeviceStream &stream;
	DeviceMemory &memory;
	const std::string name;
	const size_t pinned;
	const size_t stride;
	uint32_t count = 0;
	size_t wkb_bytes = 0;
	const vibe::u8 *wkb = nullptr;
	const vibe::WkbRow *wkb_rows = nullptr;
	const vibe::ShapeView *packed = nullptr;
	vibe::ShapeMemory shapes {};
	const vibe::ShapeView *views = nullptr;
};

//! The shapes of a build side, in memory that `allocate` gives and nothing more; whether some are points, or large
const vibe::ShapeView *MakeShapes(CudaEngine &engine, DeviceStream &stream, DeviceMemory &memory, const GpuRows &rows,
                                  Parallel &parallel, const std::function<void *(size_t bytes)> &allocate,
                                  bool &has_points, bool &has_large);

} // namespace vibespatial
