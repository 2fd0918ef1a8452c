//===----------------------------------------------------------------------===//
// engine/dispatch/dispatch.hpp
//
// Which engine does an operation, why, and what became of it. An operator has one Dispatch for each of its operations; it decides once, when
// the rows are known, and leaves one event in vibe_dispatch_log().
//===----------------------------------------------------------------------===//
#pragma once

#include "engine/dispatch/events.hpp"
#include "engine/dispatch/operation.hpp"
#include "engine/gpu/interface/engine.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace vibespatial {

enum class ExecutionMode : uint8_t { AUTO, CPU, GPU };

const char *ToText(ExecutionMode mode);

struct Decision {
	//! CPU or GPU
	ExecutionMode selected = ExecutionMode::CPU;
	std::string reason;
	//! The open engine, if the GPU is selected and there is one
	GpuEngine *engine = nullptr;
	//! There is enough work for a device, and none that is up
	bool device_is_missing = false;

	bool IsGpu() const {
		return selected == ExecutionMode::GPU;
	}
	//! For EXPLAIN: "cpu (there is no NVIDIA GPU)"
	std::string Describe() const {
		return std::string(ToText(selected)) + " (" + reason + ")";
	}
};

//! How long the CPU would take, and from when on a device pays, where that was found out
struct Forecast {
	double cpu_ms = 0;
	double gpu_from_ms = 0;
};

//! What would be decided now; never blocks. AUTO selects the GPU where an engine is open, its device is up, and there are rows enough. GPU
//! selects it wherever the operation has a GPU variant, with or without a device: without one the operator fails.
//! `min_rows` replaces the operation's threshold unless it is negative; else a forecast does, where there is one.
Decision Decide(ExecutionMode mode, Operation operation, uint64_t rows, int64_t min_rows = -1,
                const Forecast *forecast = nullptr);

//! One operation of one operator: the decision, the event, and the fallback. Any thread may call anything after Decide().
class Dispatch {
public:
	typedef std::chrono::steady_clock Clock;

	//! The time of the operation starts here
	Dispatch(Operation operation, ExecutionMode mode, const char *operator_name, QueryText query);
	//! Writes the event
	~Dispatch();
	Dispatch(const Dispatch &) = delete;
	Dispatch &operator=(const Dispatch &) = delete;

	//! Once, when the rows are known
	void Decide(uint64_t rows, int64_t min_rows);
	//! The same, where the decision was made for several dispatches at once
	void SetDecision(Decision made);
	//! The GPU was selected, but this input is not for it
	void KeepOnCpu(const std::string &reason);
	//! The operation turned out to be another one: decides anew, and the event goes by that name
	void DecideAgain(Operation other, uint64_t rows, int64_t min_rows, const Forecast *forecast = nullptr);

	ExecutionMode Mode() const {
		return mode;
	}
	Operation GetOperation() const;
	//! The GPU was selected and has not failed
	bool OnGpu() const;
	//! Throws GpuError where none is open
	GpuEngine &Engine() const;
	//! The open engine, or null
	GpuEngine *EngineIfOpen() const;

	//! What the work on the device came to
	void AddTimes(const GpuTimes &times);
	void AddWait(double milliseconds);
	//! Kernels that were waited for, so long, and where each came from
	void AddKernels(const std::vector<std::pair<std::string, std::string>> &kernels, double milliseconds);
	//! So far, for kernels
	double KernelWait() const;
	void AddRows(uint64_t rows);
	//! Of the rows: those that the CPU did while others went to the device
	void AddRowsOnCpu(uint64_t rows);
	//! Pairs that the device left to the CPU to decide
	void AddOpenPairs(uint64_t pairs);
	//! Pieces of work (tiles, batches) that the device finished, and pieces that the CPU did for lack of device memory. An operation that
	//! counts pieces was done by the GPU if it finished one.
	void CountPieces(uint64_t on_gpu, uint64_t on_cpu);
	//! How long the work took, if not from the constructor to Finish()
	void SetTime(double milliseconds);
	//! Added to the reason when the event is written: "; rows decided by the CPU"
	void AddNote(const std::string &note);

	//! The device failed: the CPU does the rest. In mode gpu the caller has to throw instead; `false` says so.
	bool Fail(const std::string &why);
	//! The device has no memory for this: the CPU does it, in mode gpu, too
	void RunOutOfMemory(const std::string &why);

	//! Writes the event, once. Mode cpu has no choice and leaves none.
	void Finish(const char *pieces = "pieces");
	std::string Reason() const;
	//! For EXPLAIN ANALYZE
	std::string Describe() const;

private:
	const ExecutionMode mode;
	const Clock::time_point begin;
	mutable std::mutex lock;
	Operation operation;
	Decision decision;
	DispatchEvent event;
	bool in_pieces = false;
	uint64_t pieces_on_gpu = 0;
	uint64_t pieces_on_cpu = 0;
	std::string notes;
	std::string failure;
	bool decided = false;
	bool finished = false;
};

} // namespace vibespatial
