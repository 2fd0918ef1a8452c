//===----------------------------------------------------------------------===//
// engine/device_arrays/result.hpp
//
// The rows of a result on a device, and the structs of the Arrow C device interface that others take them by
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/device_arrays/layout.hpp"
#include "engine/gpu/interface/shared_memory.hpp"

#include <memory>
#include <vector>

namespace vibespatial {

//! The buffers of a column, or of a part of one
struct DeviceColumn {
	int64_t length = 0;
	int64_t null_count = 0;
	//! On the device, in Arrow's order; null for a validity that is not needed
	std::vector<std::shared_ptr<void>> buffers;
	std::vector<DeviceColumn> children;
};

//! A result on a device: a struct with a child for each column. Never changes, so that any thread may read it.
struct DeviceResult {
	DeviceName device;
	ArrowLayout layout;
	DeviceColumn rows;

	//! The structs share the memory, which stays until the last of them is released. The data are there: sync_event is null. Every child
	//! can be moved away and released by itself.
	void Export(ArrowDeviceArray &array) const;
	void Export(ArrowSchema &schema) const;
};

} // namespace vibespatial
