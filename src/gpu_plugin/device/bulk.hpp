//===----------------------------------------------------------------------===//
// gpu_plugin/device/bulk.hpp
//
// What functions of one geometry and of two have in common on the device: a chain on a stream of its own, which the host waits for once
//===----------------------------------------------------------------------===//
#pragma once

#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"
#include "gpu_plugin/compile/faults.hpp"
#include "gpu_plugin/device/launch.hpp"
#include "engine/gpu/interface/bulk.hpp"

#include <algorithm>

namespace vibespatial {

class DeviceBulk : public GpuBulk {
public:
	DeviceBulk(CudaEngine &engine, const BulkTask &task)
	    : engine(engine), task(task), memory(engine.CurrentMemory()), lease(engine.Streams().Take()), stream(*lease) {
		for (auto &event : events) {
			CheckCuda(cudaEventCreate(&event), "an event");
		}
	}
	~DeviceBulk() override {
		// What was begun uses memory that the next one gets
		cudaStreamSynchronize(stream.Handle());
		for (auto &event : events) {
			cudaEventDestroy(event);
		}
	}
	DeviceBulk(const DeviceBulk &) = delete;
	DeviceBulk &operator=(const DeviceBulk &) = delete;

	uint64_t HostBytes() const override {
		return stream.PinnedBytes();
	}

	const BulkResult &Finish() override {
		engine.UseDevice();
		Faults::Get().Check(Fault::WAIT);
		CheckCuda(cudaEventSynchronize(events[READ]), "the device");
		result.times.to_device_ms = Between(BEGUN, COPIED);
		result.times.kernel_ms = Between(COPIED, COMPUTED);
		result.times.from_device_ms = Between(COMPUTED, READ);
		return result;
	}

protected:
	enum Step : size_t { BEGUN, COPIED, COMPUTED, READ, STEPS };

	void Start(const BulkInput &input) {
		engine.UseDevice();
		result = BulkResult {};
		count = input.count;
		Record(BEGUN);
	}
	void Record(Step step) {
		CheckCuda(cudaEventRecord(events[step], stream.Handle()), "an event");
	}
	template <class T>
	T *Memory(const std::string &name, size_t items) {
		return static_cast<T *>(stream.Temporary(name, std::max<size_t>(items * sizeof(T), 8), *memory));
	}
	template <class T>
	T *Zeros(const std::string &name, size_t items) {
		auto *at = Memory<T>(name, items);
		CheckCuda(cudaMemsetAsync(at, 0, items * sizeof(T), stream.Handle()), "memory");
		return at;
	}
	template <class T>
	void Copy(T *to, const T *from, size_t items) {
		if (items > 0) {
			stream.CopyToDevice(to, from, items * sizeof(T));
			result.times.bytes_to_device += items * sizeof(T);
		}
	}
	//! Into pinned memory of that number
	template <class T>
	const T *Read(size_t pinned, const T *from, size_t items) {
		const size_t bytes = items * sizeof(T);
		auto *to = stream.Pinned(pinned, std::max<size_t>(bytes, 1));
		CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.Handle()), "a copy from the device");
		result.times.bytes_from_device += bytes;
		return static_cast<const T *>(to);
	}
	template <class... ARGUMENTS>
	void Launch(const char *unit, const char *entry_point, uint64_t threads, ARGUMENTS... arguments) {
		void *pointers[] = {static_cast<void *>(&arguments)...};
		Faults::Get().Spoil(pointers, sizeof...(arguments));
		engine.Launch(unit, entry_point, std::max<uint64_t>(threads, 1), stream, pointers);
	}

	CudaEngine &engine;
	const BulkTask task;
	//! Before the stream, which has temporary memory of it
	std::shared_ptr<DeviceMemory> memory;
	StreamPool::Lease lease;
	DeviceStream &stream;
	BulkResult result;
	size_t count = 0;

private:
	double Between(Step begin, Step end) {
		float milliseconds = 0;
		CheckCuda(cudaEventElapsedTime(&milliseconds, events[begin], events[end]), "an event");
		return static_cast<double>(milliseconds);
	}

	cudaEvent_t events[STEPS] = {};
};

//! Functions of two geometries, and of one
std::unique_ptr<GpuBulk> MakePairwise(CudaEngine &engine, const BulkTask &task);
std::unique_ptr<GpuBulk> MakeRowwise(CudaEngine &engine, const BulkTask &task);

} // namespace vibespatial
