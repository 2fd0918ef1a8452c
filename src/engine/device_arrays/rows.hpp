//===----------------------------------------------------------------------===//
// engine/device_arrays/rows.hpp
//
// Batches of rows in the memory of the host, on their way to a device as one array
// Promise: every value as it came. Geometries in WKB become native GeoArrow where all of a column are of one kind and dimensions.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/device_arrays/result.hpp"

#include <memory>
#include <vector>

namespace vibespatial {

class DeviceRows {
public:
	//! `schema` is that of a stream: a struct of columns. `is_native`: WKB becomes native. Throws DeviceArrayError.
	DeviceRows(const ArrowSchema &schema, bool is_native);
	~DeviceRows();
	DeviceRows(const DeviceRows &) = delete;
	DeviceRows &operator=(const DeviceRows &) = delete;

	//! Takes the batch, which is released with this object
	void Add(ArrowArray &batch);
	//! Sends all rows. Throws DeviceArrayError for geometries of several kinds and for more than Arrow's offsets can count, GpuError,
	//! and GpuMemoryError where they do not fit.
	std::shared_ptr<const DeviceResult> Send(GpuSharedMemory &memory) const;

private:
	ArrowLayout layout;
	const bool is_native;
	std::vector<ArrowArray> batches;
};

} // namespace vibespatial
