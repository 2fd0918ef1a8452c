//===----------------------------------------------------------------------===//
// duckdb/operators/operator_dispatch.hpp
//
// What every operator that may use the GPU does around the work itself: it waits for the device and its kernels where the mode
// says so, and tells of it in vibe_dispatch_log()
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "engine/dispatch/dispatch.hpp"
#include "engine/dispatch/needs.hpp"
#include "engine/dispatch/timeline.hpp"
#include "engine/gpu/runtime/runtime.hpp"

#include <chrono>

namespace duckdb {

//! What all dispatches of one operator share. Begins with the scan.
class OperatorDispatch {
public:
	OperatorDispatch(ClientContext &context, const char *operator_name);

	vibespatial::ExecutionMode Mode() const {
		return mode;
	}
	unique_ptr<vibespatial::Dispatch> NewDispatch(vibespatial::Operation operation) const {
		return make_uniq<vibespatial::Dispatch>(operation, mode, operator_name, query);
	}
	//! In mode gpu starts the device beside the scan, and asks for kernels; throws if there is no device
	void StartDevice(vibespatial::Operation operation, const vibespatial::KernelNames &kernels) const;
	//! What was planned for the CPU, and why; nothing in mode cpu, which has no choice
	void LogCpu(vibespatial::Operation operation, const vibespatial::Decision &decision, idx_t rows) const;
	//! Mode gpu, and there is none: an event, and an IOException that says what to do
	[[noreturn]] void FailWithoutDevice(vibespatial::Operation operation, const string &why_not) const;
	//! Mode gpu, and it failed
	[[noreturn]] void FailOnDevice(const string &what, const string &why) const;
	//! In mode gpu waits for the plug-in to be open, whose device may still be coming up, and throws where it cannot be opened
	void WaitForEngine(vibespatial::Operation operation) const;
	//! It is not up, and may still be
	static bool IsComing(optional_ptr<vibespatial::GpuEngine> engine);
	//! In mode gpu waits for the device, and throws where it does not come; the milliseconds
	double WaitForDevice(vibespatial::Operation operation) const;
	//! Throws GpuError where they do not come in time, which is that of all waits of the operation together. Either way the event tells
	//! of the kernels and of the wait.
	void WaitForKernels(vibespatial::Dispatch &dispatch, const vibespatial::KernelNames &kernels) const;
	//! What a plan needs, before it runs; never waits. While the plug-in is being opened the request is kept for it. `urgent`: the plan
	//! is going to wait for these; others it may wait for.
	static void RequestKernels(ClientContext &context, const vibespatial::KernelNames &kernels,
	                           const char *operator_name, bool urgent = true);

	//! For vibe_timeline()
	typedef vibespatial::Timeline::Clock::time_point TimePoint;
	static TimePoint Now() {
		return vibespatial::Timeline::Clock::now();
	}
	void AddStep(const char *lane, const string &name, TimePoint begin, TimePoint end, uint64_t bytes = 0) const {
		vibespatial::Timeline::Get().Add(query.id, lane, name, begin, end, bytes);
	}
	//! A piece of work on the device
	void AddWork(const string &name, TimePoint begin, const vibespatial::GpuTimes &times) const {
		vibespatial::Timeline::Get().AddWork(query.id, name, begin, times);
	}
	static double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
		return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
	}

protected:
	ClientContext &context;
	const char *operator_name;
	vibespatial::ExecutionMode mode;
	double kernel_timeout;
	vibespatial::QueryText query;

private:
	vibespatial::GpuRuntime::Work work;
};

} // namespace duckdb
