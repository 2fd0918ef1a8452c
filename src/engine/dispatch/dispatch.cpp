#include "engine/dispatch/dispatch.hpp"

#include "engine/dispatch/thresholds.hpp"
#include "engine/gpu/runtime/runtime.hpp"

#include <algorithm>
#include <cstdio>

namespace vibespatial {

const char *ToText(ExecutionMode mode) {
	switch (mode) {
	case ExecutionMode::CPU:
		return "cpu";
	case ExecutionMode::GPU:
		return "gpu";
	default:
		return "auto";
	}
}

//! Whether there is enough work for a device, and why
static bool DevicePays(uint64_t rows, uint64_t threshold, const Forecast *forecast, std::string &reason) {
	reason = std::to_string(rows) + " rows: ";
	if (forecast) {
		char text[96];
		const bool pays = forecast->cpu_ms >= forecast->gpu_from_ms;
		std::snprintf(text, sizeof(text), "about %.1f ms on the CPU, %s %.1f from which the GPU pays", forecast->cpu_ms,
		              pays ? "not below the" : "below the", forecast->gpu_from_ms);
		reason += text;
		return pays;
	}
	if (threshold == OperationInfo::NEVER) {
		reason += "the CPU is faster at any number of rows";
		return false;
	}
	reason +=
	    (rows < threshold ? "below the threshold of " : "not below the threshold of ") + std::to_string(threshold);
	return rows >= threshold;
}

Decision Decide(ExecutionMode mode, Operation operation, uint64_t rows, int64_t min_rows, const Forecast *forecast) {
	auto &info = InfoOf(operation);
	const uint64_t threshold = min_rows < 0 ? Thresholds::Current().Rows(operation) : static_cast<uint64_t>(min_rows);
	auto cpu = [](std::string reason) { return Decision {ExecutionMode::CPU, std::move(reason), nullptr}; };
	if (mode == ExecutionMode::CPU) {
		return cpu("vibe_execution_mode is cpu");
	}
	if (!info.HasGpu()) {
		return cpu(std::string(info.name) + " has no GPU variant");
	}
	auto &runtime = GpuRuntime::Get();
	auto engine = runtime.IfOpen();
	if (mode == ExecutionMode::GPU) {
		return Decision {ExecutionMode::GPU, "vibe_execution_mode is gpu", engine};
	}
	if (runtime.GetPhase() == GpuRuntime::Phase::NOT_STARTED && !GpuRuntime::DeviceIsPossible()) {
		return cpu("there is no NVIDIA GPU");
	}
	std::string reason;
	if (!DevicePays(rows, threshold, min_rows < 0 ? forecast : nullptr, reason)) {
		return cpu(std::move(reason));
	}
	const auto missing = [&](std::string why) {
		auto decision = cpu(std::move(why));
		decision.device_is_missing = true;
		return decision;
	};
	if (!engine) {
		return missing("no GPU engine: " + runtime.State());
	}
	std::string error;
	if (!engine->WaitForDevice(0, error)) {
		return missing("no device: " + (error.empty() ? "it is not up yet" : error));
	}
	return Decision {ExecutionMode::GPU, std::move(reason), engine};
}

Dispatch::Dispatch(Operation operation, ExecutionMode mode, const char *operator_name, QueryText query)
    : mode(mode), begin(Clock::now()), operation(operation) {
	event.query = std::move(query);
	event.operator_name = operator_name;
	event.operation = InfoOf(operation).name;
	event.requested = ToText(mode);
}

Dispatch::~Dispatch() {
	try {
		Finish();
	} catch (const std::exception &) { // NOLINT: a log without this line is better than no end
	}
}

void Dispatch::Decide(uint64_t rows, int64_t min_rows) {
	DecideAgain(operation, rows, min_rows);
}

void Dispatch::DecideAgain(Operation other, uint64_t rows, int64_t min_rows, const Forecast *forecast) {
	auto next = vibespatial::Decide(mode, other, rows, min_rows, forecast);
	{
		std::lock_guard<std::mutex> guard(lock);
		operation = other;
		event.operation = InfoOf(other).name;
	}
	SetDecision(std::move(next));
}

void Dispatch::SetDecision(Decision made) {
	std::lock_guard<std::mutex> guard(lock);
	decision = std::move(made);
	decided = true;
	event.selected = event.actual = ToText(decision.selected);
	event.reason = decision.reason;
}

void Dispatch::KeepOnCpu(const std::string &reason) {
	SetDecision(Decision {ExecutionMode::CPU, reason, EngineIfOpen()});
}

Operation Dispatch::GetOperation() const {
	std::lock_guard<std::mutex> guard(lock);
	return operation;
}

bool Dispatch::OnGpu() const {
	std::lock_guard<std::mutex> guard(lock);
	return decision.IsGpu() && failure.empty();
}

GpuEngine &Dispatch::Engine() const {
	auto engine = EngineIfOpen();
	if (!engine) {
		throw GpuError("no GPU engine is open");
	}
	return *engine;
}

GpuEngine *Dispatch::EngineIfOpen() const {
	std::lock_guard<std::mutex> guard(lock);
	return decision.engine;
}

void Dispatch::AddTimes(const GpuTimes &times) {
	std::lock_guard<std::mutex> guard(lock);
	event.bytes_to_device += times.bytes_to_device;
	event.bytes_from_device += times.bytes_from_device;
	event.wait_ms += times.wait_ms;
	event.to_device_ms += times.to_device_ms;
	event.kernel_ms += times.kernel_ms;
	event.from_device_ms += times.from_device_ms;
}

void Dispatch::AddWait(double milliseconds) {
	std::lock_guard<std::mutex> guard(lock);
	event.wait_ms += milliseconds;
}

void Dispatch::AddKernels(const std::vector<std::pair<std::string, std::string>> &kernels, double milliseconds) {
	std::lock_guard<std::mutex> guard(lock);
	event.wait_ms += milliseconds;
	event.kernel_wait_ms += milliseconds;
	for (auto &kernel : kernels) {
		const auto same = [&](const auto &known) { return known.first == kernel.first; };
		if (std::none_of(event.kernels.begin(), event.kernels.end(), same)) {
			event.kernels.push_back(kernel);
		}
	}
}

double Dispatch::KernelWait() const {
	std::lock_guard<std::mutex> guard(lock);
	return event.kernel_wait_ms;
}

void Dispatch::AddRows(uint64_t rows) {
	std::lock_guard<std::mutex> guard(lock);
	event.rows += rows;
}

void Dispatch::AddRowsOnCpu(uint64_t rows) {
	std::lock_guard<std::mutex> guard(lock);
	event.rows_on_cpu += rows;
}

void Dispatch::AddOpenPairs(uint64_t pairs) {
	std::lock_guard<std::mutex> guard(lock);
	event.open_pairs += pairs;
}

void Dispatch::CountPieces(uint64_t on_gpu, uint64_t on_cpu) {
	std::lock_guard<std::mutex> guard(lock);
	in_pieces = true;
	pieces_on_gpu += on_gpu;
	pieces_on_cpu += on_cpu;
}

void Dispatch::SetTime(double milliseconds) {
	std::lock_guard<std::mutex> guard(lock);
	event.total_ms = milliseconds;
}

void Dispatch::AddNote(const std::string &note) {
	std::lock_guard<std::mutex> guard(lock);
	notes += "; " + note;
}

bool Dispatch::Fail(const std::string &why) {
	std::lock_guard<std::mutex> guard(lock);
	if (failure.empty()) {
		failure = why;
	}
	event.reason = failure;
	event.fallback = mode != ExecutionMode::GPU;
	event.actual = event.fallback ? "cpu" : "none";
	return event.fallback;
}

void Dispatch::RunOutOfMemory(const std::string &why) {
	std::lock_guard<std::mutex> guard(lock);
	failure = why;
	event.reason = why;
	event.fallback = true;
	event.actual = "cpu";
}

void Dispatch::Finish(const char *pieces) {
	std::lock_guard<std::mutex> guard(lock);
	if (!decided || finished || mode == ExecutionMode::CPU) {
		return;
	}
	finished = true;
	if (!failure.empty() && pieces_on_gpu > 0) {
		event.reason += " (after " + std::to_string(pieces_on_gpu) + " " + pieces + ")";
	} else if (failure.empty() && in_pieces) {
		event.actual = pieces_on_gpu > 0 ? "gpu" : "cpu";
		if (pieces_on_cpu > 0) {
			event.fallback = pieces_on_gpu == 0;
			event.reason +=
			    "; " + std::to_string(pieces_on_cpu) + " " + pieces + " on the CPU, for lack of device memory";
		}
	}
	event.reason += notes;
	const bool used_device = event.actual == "gpu" || pieces_on_gpu > 0;
	if (!used_device) {
		event.rows_on_cpu = event.actual == "cpu" ? event.rows : 0;
	}
	event.rows_on_cpu = std::min(event.rows_on_cpu, event.rows);
	event.rows_on_device = used_device ? event.rows - event.rows_on_cpu : 0;
	if (event.total_ms == 0) {
		event.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
	}
	DispatchLog::Get().Add(event);
}

std::string Dispatch::Reason() const {
	std::lock_guard<std::mutex> guard(lock);
	return event.reason;
}

std::string Dispatch::Describe() const {
	std::lock_guard<std::mutex> guard(lock);
	if (!decided) {
		return ToText(mode);
	}
	auto result = (event.fallback ? "fell back from gpu: " : "") + event.actual + " (" + event.reason + ")";
	if (event.actual == "gpu") {
		char times[160];
		std::snprintf(times, sizeof(times), ", %.1f ms waiting, %.1f to the device, %.1f kernels, %.1f back",
		              event.wait_ms, event.to_device_ms, event.kernel_ms, event.from_device_ms);
		result += times;
	}
	return result;
}

} // namespace vibespatial
