//===----------------------------------------------------------------------===//
// gpu_plugin/device/machine.hpp
//
// The machine of the chains (engine/gpu/machine/machine.hpp) on CUDA: a leased stream, RMM's memory, kernels of the units, and
// CCCL's algorithms
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/machine/machine.hpp"
#include "gpu_plugin/device/device.hpp"

#include <map>
#include <string>
#include <vector>

namespace vibespatial {

class CudaMachine : public Machine {
public:
	explicit CudaMachine(CudaEngine &engine);
	~CudaMachine() override;

	void Use() override;
	std::shared_ptr<void> Allocate(size_t bytes) override;
	std::shared_ptr<void> AllocateShared(size_t bytes) override;
	DeviceName Device() const override;
	uint64_t MemoryLimit() const override;
	void *Pinned(size_t number, size_t bytes) override;
	uint64_t PinnedBytes() const override;
	uint64_t PinnedSize(size_t number) const override;
	uint64_t ThreadsAtOnce(const char *unit, const char *entry_point) override;
	void Scan(const vibe::i32 *in, vibe::i32 *out, uint64_t count) override;
	void Scan(const vibe::i64 *in, vibe::i64 *out, uint64_t count) override;
	void SegmentedReduce(Reduction reduction, const double *in, double *out, uint64_t segments, const vibe::i32 *begin,
	                     const vibe::i32 *end) override;
	void Sort(const vibe::u64 *keys, vibe::u64 *keys_out, const vibe::i32 *values, vibe::i32 *values_out,
	          uint64_t count, int bits) override;
	void Record(size_t event) override;
	void Await(size_t event) override;
	double Between(size_t begin, size_t end) override;
	void Synchronize() override;

protected:
	void *DoTemporary(const std::string &name, size_t bytes) override;
	void DoZero(void *at, size_t bytes) override;
	void DoPut(void *to, const void *from, size_t bytes, Parallel &parallel) override;
	void DoGet(void *to, const void *from, size_t bytes, Parallel &parallel) override;
	void DoWrite(void *to, size_t bytes, const std::function<void(void *)> &write) override;
	void DoPutPinned(void *to, const void *from, size_t bytes) override;
	void DoGetPinned(void *to, const void *from, size_t bytes) override;
	void DoLaunch(const char *unit, const char *entry_point, uint64_t threads,
	              const LaunchArguments &arguments) override;

private:
	struct Entry {
		cudaKernel_t kernel = nullptr;
		//! 0: not asked yet
		uint64_t threads_at_once = 0;
	};
	Entry &EntryOf(const char *unit, const char *entry_point);

	CudaEngine &engine;
	//! Before the stream, whose temporary memory comes from it
	const std::shared_ptr<DeviceMemory> memory;
	StreamPool::Lease lease;
	DeviceStream &stream;
	std::vector<cudaEvent_t> events;
	//! Looked up once for each machine
	std::map<std::string, Entry> kernels;
};

} // namespace vibespatial
