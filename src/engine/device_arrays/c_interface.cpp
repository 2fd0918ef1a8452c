#include "engine/device_arrays/c_interface.hpp"

#include "engine/device_arrays/rows.hpp"
#include "engine/gpu/runtime/runtime.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <thread>

namespace vibespatial {

namespace {

using Result = std::shared_ptr<const DeviceResult>;

void Describe(VibespatialFailure &failure, VibespatialFailure::Kind kind, const char *text) {
	failure.kind = kind;
	std::strncpy(failure.text, text, sizeof(failure.text) - 1);
	failure.text[sizeof(failure.text) - 1] = 0;
}

//! What the work returns, or nothing and the reason: no exception leaves through C
template <class WORK>
auto Try(VibespatialFailure *failure, const WORK &work) noexcept -> decltype(work()) {
	try {
		*failure = VibespatialFailure {};
		return work();
	} catch (const DeviceArrayError &error) {
		Describe(*failure, VibespatialFailure::ROWS, error.what());
	} catch (const GpuMemoryError &error) {
		Describe(*failure, VibespatialFailure::MEMORY, error.what());
	} catch (const std::bad_alloc &) {
		Describe(*failure, VibespatialFailure::MEMORY, "the host has too little memory");
	} catch (const std::exception &error) {
		Describe(*failure, VibespatialFailure::DEVICE, error.what());
	}
	return decltype(work())();
}

void *Begin(const ArrowSchema *schema, bool is_native, VibespatialFailure *failure) {
	return Try(failure, [&] { return static_cast<void *>(new DeviceRows(*schema, is_native)); });
}

bool Add(void *rows, ArrowArray *batch, VibespatialFailure *failure) {
	return Try(failure, [&] {
		static_cast<DeviceRows *>(rows)->Add(*batch);
		return true;
	});
}

void *Send(const void *rows, VibespatialFailure *failure) {
	return Try(failure, [&] {
		auto *engine = GpuRuntime::Get().IfOpen();
		if (!engine) {
			throw GpuError("there is no GPU engine: " + GpuRuntime::Get().State());
		}
		std::string why_not;
		if (!engine->WaitForDevice(0, why_not)) {
			throw GpuError(why_not);
		}
		// On a thread of its own: the device that the caller's thread uses stays the one that it was
		Result result;
		std::exception_ptr thrown;
		std::thread([&] {
			try {
				result = static_cast<const DeviceRows *>(rows)->Send(*engine->NewSharedMemory());
			} catch (...) {
				thrown = std::current_exception();
			}
		}).join();
		if (thrown) {
			std::rethrow_exception(thrown);
		}
		return static_cast<void *>(new Result(std::move(result)));
	});
}

void DropRows(void *rows) {
	delete static_cast<DeviceRows *>(rows);
}

template <class ARROW>
ARROW *Export(const void *result, VibespatialFailure *failure) {
	return Try(failure, [&] {
		auto exported = std::make_unique<ARROW>();
		(*static_cast<const Result *>(result))->Export(*exported);
		return exported.release();
	});
}

void DropResult(void *result) {
	delete static_cast<Result *>(result);
}

void DropArray(ArrowDeviceArray *array) {
	if (array->array.release) {
		array->array.release(&array->array);
	}
	delete array;
}

void DropSchema(ArrowSchema *schema) {
	if (schema->release) {
		schema->release(schema);
	}
	delete schema;
}

} // namespace

const VibespatialDeviceArrays &DeviceArraysInterface() {
	static const VibespatialDeviceArrays functions {
	    1,        "arrow_device_array",     "arrow_schema",      Begin,      Add,       Send,
	    DropRows, Export<ArrowDeviceArray>, Export<ArrowSchema>, DropResult, DropArray, DropSchema};
	return functions;
}

} // namespace vibespatial
