//===----------------------------------------------------------------------===//
// gpu_plugin/compile/precompiler.hpp
//
// Brings kernels to where a query can launch them, before it asks: from memory, the disk cache, the release pack, or by
// compiling, in the background. Asking never blocks and never asks twice; whoever needs a kernel waits for that one alone.
// It needs no device: what a kernel is loaded with is handed in.
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/gpu/interface/engine.hpp"
#include "gpu_plugin/compile/background_thread.hpp"
#include "gpu_plugin/compile/kernel_cache.hpp"
#include "gpu_plugin/compile/kernel_pack.hpp"
#include "gpu_plugin/compile/libraries.hpp"
#include "engine/dispatch/kernel_registry.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vibespatial {

class Precompiler {
public:
	//! Makes the payload of a kernel launchable on the device; throws GpuError. `is_unit` tells a cubin from a spec.
	using Loader = std::function<void(const std::string &name, bool is_unit, const std::string &payload)>;

	Precompiler(const GpuOptions &options, Libraries &libraries, std::chrono::steady_clock::time_point epoch);
	~Precompiler();
	//! Waits for the threads, at most so long each: a compiler in the middle of its work is cancelled, a helper is ended
	void Stop(double timeout_seconds = 60);
	//! Waits until nothing is looked up or loaded, as long as that is short work
	void WaitForLoads(double timeout_seconds);

	//! Until this is called requests wait. 90: sm_90. What is found or compiled waits for the loader.
	void Start(int capability);
	void SetLoader(Loader loader);
	//! There will be no device: what was asked for fails with that reason
	void Refuse(const std::string &reason);
	void Configure(const GpuOptions &options);

	void Request(const std::vector<std::string> &names, const std::string &requested_by, bool urgent);
	//! Ready within that time. Asks for it where nobody has.
	bool Wait(const std::string &name, const std::string &requested_by, double timeout_seconds, std::string &error);
	std::vector<std::string> EnsureWarm(const std::vector<std::string> &names, double timeout_seconds);
	std::vector<KernelStatus> Status() const;

	//! The cache as it is configured now
	std::shared_ptr<KernelCache> Cache() const;

	//! The cache and the pack, as components
	std::vector<GpuComponent> Components();

	//! Processes that compile at the same time when nobody says how many
	static uint32_t DefaultWorkers();

private:
	using Clock = std::chrono::steady_clock;

	struct Kernel {
		KernelStatus status;
		bool is_unit;
		bool urgent = false;
		uint64_t order = 0;
		Clock::time_point requested;
		Clock::time_point begun;
		//! Compiling is left to do: neither cache nor pack had it
		bool missed = false;
	};

	//! With the lock: as many as there is work for, or as many as the system allows; throws where that is none
	void StartThreads();
	void Worker();
	//! With the lock: the kernel to look up next, or those to compile next; empty when there is nothing to do now
	std::vector<Kernel *> Next(bool &compile, bool &precompiled_headers);
	void LookUp(Kernel &kernel, std::unique_lock<std::mutex> &guard);
	void CompileUnits(Kernel &kernel, std::unique_lock<std::mutex> &guard);
	void CompileSpecs(const std::vector<Kernel *> &kernels, bool precompiled_headers,
	                  std::unique_lock<std::mutex> &guard);
	//! Without the lock: whether there is a loader now. Such a wait is no time of the kernel's own.
	bool WaitForLoader(Kernel &kernel, std::string &why_not);
	void Finish(Kernel &kernel, const std::string &payload, const char *source);
	void Fail(Kernel &kernel, const std::string &error);
	void Begin(Kernel &kernel);
	double Millis(Clock::time_point at) const;
	uint32_t Workers() const;
	KernelKey KeyOf(const Kernel &kernel);

	Libraries &libraries;
	const Clock::time_point epoch;
	GpuOptions options;
	std::shared_ptr<KernelCache> cache;
	KernelPack pack;

	mutable std::mutex lock;
	std::condition_variable changed;
	std::map<std::string, Kernel> kernels;
	int capability = 0;
	Loader loader;
	std::string refused;
	uint64_t next_order = 0;
	uint32_t compiling = 0; // helper processes and NVRTC threads
	uint32_t looking = 0;   // in the cache or the pack
	uint32_t loading = 0;   // onto the device
	std::atomic<bool> stopping {false};
	std::vector<BackgroundThread> threads;
};

} // namespace vibespatial
