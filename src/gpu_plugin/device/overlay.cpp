// Unions of many parts on the device: the work of engine/gpu/machine/overlay.cpp with the kernels of the plug-in and CCCL's scan and sort.
#include "gpu_plugin/device/check.hpp"
#include "gpu_plugin/device/device.hpp"
#include "engine/gpu/machine/overlay.hpp"
#include "engine/dispatch/operation.hpp"

#include <atomic>

namespace vibespatial {

class DeviceOverlayMachine : public OverlayMachine {
public:
	DeviceOverlayMachine(CudaEngine &engine, Parallel &parallel)
	    : engine(engine), parallel(parallel), memory(engine.CurrentMemory()), lease(engine.Streams().Take()),
	      stream(*lease) {
		CheckCuda(cudaGetDevice(&device), "the device");
	}

	std::shared_ptr<void> Allocate(size_t bytes) override {
		auto buffer = std::make_shared<rmm::device_buffer>(memory->Allocate(bytes, stream.View()));
		return std::shared_ptr<void>(buffer, buffer->data());
	}
	void Zero(void *at, size_t bytes) override {
		CheckCuda(cudaMemsetAsync(at, 0, bytes, stream.Handle()), "memory");
	}
	void Put(void *to, const void *from, size_t bytes) override {
		stream.CopyToDevice(to, from, bytes, parallel);
		bytes_to_device += bytes;
	}
	void Write(void *to, size_t bytes, const std::function<void(void *)> &write) override {
		// Which device it is, each thread has to be told
		CheckCuda(cudaSetDevice(device), "the device");
		stream.WriteToDevice(to, bytes, write);
		bytes_to_device += bytes;
	}
	void Get(void *to, const void *from, size_t bytes) override {
		stream.CopyFromDevice(to, from, bytes, parallel);
		bytes_from_device += bytes;
	}
	void Launch(const char *unit, const char *entry_point, uint64_t threads, void **arguments) override {
		engine.Launch(unit, entry_point, threads, stream, arguments);
	}
	void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) override {
		const vibe::i32 zero = 0;
		engine.primitives.ExclusiveScan("exclusive_scan_i32", in, out, count, &zero, stream, *memory);
	}
	void Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
	          uint64_t count, int bits) override {
		engine.primitives.RadixSort("radix_sort_u64_i32", keys, keys_out, values, values_out, count, bits, stream,
		                            *memory);
	}
	double EndStep(const char *name, std::chrono::steady_clock::time_point begin) override {
		stream.Synchronize();
		return engine.EndStep("query", name, begin);
	}

	std::atomic<uint64_t> bytes_to_device {0};
	uint64_t bytes_from_device = 0;

private:
	CudaEngine &engine;
	Parallel &parallel;
	int device = 0;
	//! Before the stream, which has temporary memory of it
	const std::shared_ptr<DeviceMemory> memory;
	StreamPool::Lease lease;
	DeviceStream &stream;
};

void CudaEngine::UniteNet(const OverlayNet &net, Parallel &parallel, UnitedNet &united, GpuTimes &times) {
	Need(KernelNeeds(KernelSet::UNION_AGG), "union_agg", times);
	DeviceOverlayMachine machine(*this, parallel);
	GpuOverlay(machine).Run(net, parallel, united, times);
	times.bytes_to_device = machine.bytes_to_device;
	times.bytes_from_device = machine.bytes_from_device;
}

} // namespace vibespatial
