#include "gpu_plugin/device/machine.hpp"

#include "engine/gpu/interface/join.hpp"
#include "gpu_plugin/compile/faults.hpp"
#include "gpu_plugin/device/check.hpp"

#include <limits>

namespace vibespatial {

static_assert(ShapeRows::BLOCK_BYTES == PinnedBlocks::BLOCK_BYTES, "blocks are pinned before a query asks for them");
static_assert(Machine::MOST_WRITTEN == CopySlots::SLOT_BYTES, "a Write() goes through one slot");

namespace {

//! Memory that the last owner frees, whichever thread that is
struct HeldBuffer {
	HeldBuffer(const std::shared_ptr<DeviceMemory> &memory, rmm::device_buffer buffer, int device, bool is_shared)
	    : memory(memory), buffer(std::move(buffer)), device(device), is_shared(is_shared) {
	}
	~HeldBuffer() {
		int before = device;
		if (is_shared) {
			cudaGetDevice(&before);
		}
		cudaSetDevice(device);
		if (is_shared) {
			// The stream of the buffer knows nothing of what others have begun on theirs
			cudaDeviceSynchronize();
			{ rmm::device_buffer freed(std::move(buffer)); }
			// The thread is theirs, too
			cudaSetDevice(before);
		}
	}
	HeldBuffer(const HeldBuffer &) = delete;
	HeldBuffer &operator=(const HeldBuffer &) = delete;

	//! Before the buffer, which comes from it
	const std::shared_ptr<DeviceMemory> memory;
	rmm::device_buffer buffer;
	const int device;
	const bool is_shared;
};

} // namespace

static MachineLimits LimitsOf(CudaEngine &engine) {
	MachineLimits limits;
	limits.rough_edges = engine.UsesRoughEdges();
	return limits;
}

CudaMachine::CudaMachine(CudaEngine &engine)
    : Machine(LimitsOf(engine)), engine(engine), memory(engine.CurrentMemory()), lease(engine.Streams().Take()),
      stream(*lease) {
}

CudaMachine::~CudaMachine() {
	// The next owner of the stream gets its memory
	cudaStreamSynchronize(stream.Handle());
	for (auto &event : events) {
		if (event) {
			cudaEventDestroy(event);
		}
	}
}

void CudaMachine::Use() {
	engine.UseDevice();
}

namespace {

std::shared_ptr<void> Hold(const std::shared_ptr<DeviceMemory> &memory, rmm::device_buffer buffer, int device,
                           bool is_shared) {
	auto held = std::make_shared<HeldBuffer>(memory, std::move(buffer), device, is_shared);
	return std::shared_ptr<void>(held, held->buffer.data());
}

} // namespace

std::shared_ptr<void> CudaMachine::Allocate(size_t bytes) {
	return Hold(memory, memory->Allocate(bytes, stream.View()), engine.DeviceNumber(), false);
}

std::shared_ptr<void> CudaMachine::AllocateShared(size_t bytes) {
	return Hold(memory, memory->Allocate(bytes, stream.View()), engine.DeviceNumber(), true);
}

DeviceName CudaMachine::Device() const {
	return DeviceName {memory->Tier() == MemoryTier::MANAGED ? DeviceName::CUDA_MANAGED : DeviceName::CUDA,
	                   engine.DeviceNumber()};
}

uint64_t CudaMachine::MemoryLimit() const {
	return memory->Limit();
}

void *CudaMachine::Pinned(size_t number, size_t bytes) {
	return stream.pinned.Get(number, bytes);
}

uint64_t CudaMachine::PinnedBytes() const {
	return stream.pinned.Bytes();
}

uint64_t CudaMachine::PinnedSize(size_t number) const {
	return stream.pinned.Bytes(number);
}

void *CudaMachine::DoTemporary(const std::string &name, size_t bytes) {
	return stream.Temporary(name, bytes, *memory);
}

void CudaMachine::DoZero(void *at, size_t bytes) {
	CheckCuda(cudaMemsetAsync(at, 0, bytes, stream.Handle()), "memory");
}

void CudaMachine::DoPut(void *to, const void *from, size_t bytes, Parallel &parallel) {
	stream.CopyToDevice(to, from, bytes, parallel);
}

void CudaMachine::DoGet(void *to, const void *from, size_t bytes, Parallel &parallel) {
	stream.CopyFromDevice(to, from, bytes, parallel);
}

void CudaMachine::DoWrite(void *to, size_t bytes, const std::function<void(void *)> &write) {
	stream.WriteToDevice(to, bytes, write);
}

void CudaMachine::DoPutPinned(void *to, const void *from, size_t bytes) {
	CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.Handle()), "a copy to the device");
}

void CudaMachine::DoGetPinned(void *to, const void *from, size_t bytes) {
	CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.Handle()), "a copy from the device");
}

CudaMachine::Entry &CudaMachine::EntryOf(const char *unit, const char *entry_point) {
	auto &entry = kernels[entry_point];
	if (!entry.kernel) {
		entry.kernel = engine.Kernel(unit, entry_point);
	}
	return entry;
}

uint64_t CudaMachine::ThreadsAtOnce(const char *unit, const char *entry_point) {
	auto &entry = EntryOf(unit, entry_point);
	if (entry.threads_at_once == 0) {
		entry.threads_at_once = engine.ThreadsAtOnce(entry.kernel, limits.block);
	}
	return entry.threads_at_once;
}

void CudaMachine::DoLaunch(const char *unit, const char *entry_point, uint64_t threads,
                           const LaunchArguments &arguments) {
	const uint64_t blocks = (threads + limits.block - 1) / limits.block;
	if (blocks > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
		throw GpuError(std::string(entry_point) + ": more items than one launch can take");
	}
	auto kernel = EntryOf(unit, entry_point).kernel;
	Faults::Get().Check(Fault::LAUNCH);
	Faults::Get().Spoil(arguments.addresses, arguments.count);
	CheckCuda(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), dim3(static_cast<unsigned>(blocks)),
	                           dim3(static_cast<unsigned>(limits.block)), arguments.addresses, 0, stream.Handle()),
	          entry_point);
}

void CudaMachine::Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) {
	const vibe::i32 zero = 0;
	engine.Algorithms().ExclusiveScan("exclusive_scan_i32", in, out, count, &zero, stream, *memory);
}

void CudaMachine::Scan(const vibe::i64 *in, vibe::i64 *out, uint64_t count) {
	const vibe::i64 zero = 0;
	engine.Algorithms().ExclusiveScan("exclusive_scan_i64", in, out, count, &zero, stream, *memory);
}

void CudaMachine::SegmentedReduce(Reduction reduction, const double *in, double *out, uint64_t segments,
                                  const vibe::i32 *begin, const vibe::i32 *end) {
	const double infinity = std::numeric_limits<double>::infinity();
	const bool is_min = reduction == Reduction::MIN;
	engine.Algorithms().SegmentedReduce(is_min ? "segmented_reduce_min_f64" : "segmented_reduce_max_f64", in, out,
	                                    segments, begin, end, is_min ? infinity : -infinity, stream, *memory);
}

void CudaMachine::Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
                       uint64_t count, int bits) {
	engine.Algorithms().RadixSort("radix_sort_u64_i32", keys, keys_out, values, values_out, count, bits, stream,
	                              *memory);
}

void CudaMachine::Record(size_t event) {
	if (events.size() <= event) {
		events.resize(event + 1, nullptr);
	}
	if (!events[event]) {
		CheckCuda(cudaEventCreate(&events[event]), "an event");
	}
	CheckCuda(cudaEventRecord(events[event], stream.Handle()), "an event");
}

void CudaMachine::Await(size_t event) {
	Faults::Get().Check(Fault::WAIT);
	CheckCuda(cudaEventSynchronize(events[event]), "the device");
}

double CudaMachine::Between(size_t begin, size_t end) {
	float milliseconds = 0;
	CheckCuda(cudaEventElapsedTime(&milliseconds, events[begin], events[end]), "an event");
	return static_cast<double>(milliseconds);
}

void CudaMachine::Synchronize() {
	stream.Synchronize();
}

} // namespace vibespatial
