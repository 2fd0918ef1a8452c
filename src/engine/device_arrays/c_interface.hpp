//===----------------------------------------------------------------------===//
// engine/device_arrays/c_interface.hpp
//
// Results as Arrow arrays on a device, for callers that know C alone: the Python package calls it through ctypes (python/vibespatial/_device.py).
// vibe_device_interface() has the address. No function here takes an address that came from SQL.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/device_arrays/arrow_c.hpp"

extern "C" {

//! Where a function failed
struct VibespatialFailure {
	enum Kind : int32_t { NOTHING = 0, ROWS = 1, DEVICE = 2, MEMORY = 3 };

	int32_t kind;
	//! Ends with a zero
	char text[1020];
};

//! Functions that can fail return null, or false, and say why. Any thread may call them.
struct VibespatialDeviceArrays {
	//! Changes with every change of this struct
	int64_t version;
	//! The names of the capsules that Python hands over
	const char *array_capsule;
	const char *schema_capsule;
	//! Rows of a stream of this schema, without a batch yet. WKB becomes native GeoArrow where `is_native`.
	void *(*begin)(const struct ArrowSchema *schema, bool is_native, struct VibespatialFailure *failure);
	//! Moves a batch to the rows
	bool (*add)(void *rows, struct ArrowArray *batch, struct VibespatialFailure *failure);
	//! All rows as one result on the device of the engine that is open. The rows stay.
	void *(*send)(const void *rows, struct VibespatialFailure *failure);
	void (*drop_rows)(void *rows);
	//! As often as somebody asks. The result may be dropped before the array.
	struct ArrowDeviceArray *(*export_array)(const void *result, struct VibespatialFailure *failure);
	struct ArrowSchema *(*export_schema)(const void *result, struct VibespatialFailure *failure);
	void (*drop_result)(void *result);
	//! Also release them where nobody has moved them away
	void (*drop_array)(struct ArrowDeviceArray *array);
	void (*drop_schema)(struct ArrowSchema *schema);
};
}

namespace vibespatial {

//! Lives as long as the process
const VibespatialDeviceArrays &DeviceArraysInterface();

} // namespace vibespatial
