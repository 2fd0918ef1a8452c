#include "duckdb/operators/operator_dispatch.hpp"

#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/dispatch/kernel_registry.hpp"

namespace duckdb {

using vibespatial::DispatchEvent;
using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuEngine;
using vibespatial::GpuError;
using vibespatial::GpuRuntime;
using vibespatial::KernelState;

using Clock = std::chrono::steady_clock;

//! Of a query's text, in the log
static constexpr idx_t MAX_QUERY_SIZE = 1000;

OperatorDispatch::OperatorDispatch(ClientContext &context, const char *operator_name)
    : context(context), operator_name(operator_name), mode(GetExecutionMode(context)),
      kernel_timeout(GetKernelTimeout(context)), query(QueryOf(context)) {
	query.text = context.GetCurrentQuery().substr(0, MAX_QUERY_SIZE);
}

void OperatorDispatch::StartDevice(const char *kernel, const char *requests) const {
	if (mode != ExecutionMode::GPU) {
		return;
	}
	// The scan need not wait for what comes up beside it, but a query that cannot succeed need not scan
	auto &runtime = GpuRuntime::Get();
	string why_not;
	if (!MayOpenGpu(context, why_not)) {
		FailWithoutDevice(kernel, why_not);
	}
	runtime.StartInBackground(vibespatial::KernelNeeds(vibespatial::FindKernelSet(requests)), operator_name);
	auto engine = runtime.IfOpen();
	if (runtime.GetPhase() == GpuRuntime::Phase::FAILED) {
		FailWithoutDevice(kernel, runtime.State());
	} else if (engine && !engine->Device().error.empty()) {
		FailWithoutDevice(kernel, engine->Device().error);
	}
}

void OperatorDispatch::FailWithoutDevice(const char *kernel, const string &why_not) const {
	auto event = NewEvent(kernel);
	event.selected = "gpu";
	event.actual = "none";
	event.reason = why_not;
	DispatchLog::Get().Add(std::move(event));
	throw IOException("%s: vibe_execution_mode is 'gpu' and there is no GPU to use: %s. FROM vibe_gpu_info() shows "
	                  "all that was looked for; 'auto' or 'cpu' go without",
	                  operator_name, why_not);
}

void OperatorDispatch::FailOnDevice(const string &what, const string &why) const {
	throw IOException("%s: the GPU did not %s, and vibe_execution_mode is 'gpu': %s. 'auto' lets the CPU do it",
	                  operator_name, what, why);
}

void OperatorDispatch::WaitForEngine(const char *kernel) const {
	if (mode != ExecutionMode::GPU) {
		return;
	}
	string why_not;
	if (!WaitForGpuEngine(context, GPU_PATIENCE_SECONDS, why_not)) {
		FailWithoutDevice(kernel, why_not);
	}
}

bool OperatorDispatch::IsComing(optional_ptr<GpuEngine> engine) {
	string why_not;
	return engine && !engine->WaitForDevice(0, why_not) && engine->Device().error.empty();
}

double OperatorDispatch::WaitForDevice(const char *kernel) const {
	if (mode != ExecutionMode::GPU) {
		return 0;
	}
	auto waiting = Clock::now();
	string why_not;
	if (!WaitForGpu(context, GPU_PATIENCE_SECONDS, why_not)) {
		FailWithoutDevice(kernel, why_not);
	}
	return MillisecondsSince(waiting);
}

DispatchEvent OperatorDispatch::NewEvent(const char *kernel) const {
	DispatchEvent event;
	event.query = query;
	event.operator_name = operator_name;
	event.kernel = kernel;
	event.requested = ToText(mode);
	return event;
}

void OperatorDispatch::LogCpu(const char *kernel, const vibespatial::Decision &decision, idx_t rows) const {
	if (mode == ExecutionMode::CPU) {
		return;
	}
	auto event = NewEvent(kernel);
	event.selected = "cpu";
	event.actual = "cpu";
	event.reason = decision.reason;
	event.rows = rows;
	DispatchLog::Get().Add(std::move(event));
}

double OperatorDispatch::WaitForKernels(GpuEngine &engine, const std::vector<std::string> &needs) const {
	constexpr double STEP = 0.05;
	auto begin = Clock::now();
	auto poll = CancelPoll(context);
	// Without the CPU to go to, a compilation is waited for
	double patience = kernel_timeout;
	if (mode == ExecutionMode::GPU) {
		patience = MaxValue(patience, double(GpuRuntime::Get().Options().compile_timeout_seconds));
	}
	engine.Request(needs, operator_name, true);
	while (true) {
		auto left = patience - MillisecondsSince(begin) / 1e3;
		auto cold = engine.EnsureWarm(needs, MaxValue(0.0, MinValue(STEP, left)));
		if (cold.empty()) {
			return MillisecondsSince(begin);
		}
		for (auto &status : engine.Status()) {
			bool is_cold = std::find(cold.begin(), cold.end(), status.name) != cold.end();
			if (is_cold && status.state == KernelState::FAILED) {
				throw GpuError("kernel " + status.name + ": " + status.error);
			}
		}
		if (left <= 0) {
			throw GpuError("kernel " + cold[0] + " was not ready after " +
			               StringUtil::Format("%.1f seconds", patience));
		}
		poll();
	}
}

void OperatorDispatch::AddStep(GpuEngine &engine, const char *name, TimePoint begin, TimePoint end) {
	auto micros = [](TimePoint at) {
		return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
	};
	engine.AddStep(vibespatial::GpuStep {"query", name, micros(begin), micros(end)});
}

void OperatorDispatch::AddTimes(DispatchEvent &event, const vibespatial::GpuTimes &times) {
	event.bytes_to_device += times.bytes_to_device;
	event.bytes_from_device += times.bytes_from_device;
	event.wait_ms += times.wait_ms;
	event.to_device_ms += times.to_device_ms;
	event.kernel_ms += times.kernel_ms;
	event.from_device_ms += times.from_device_ms;
}

void OperatorDispatch::SetOutcome(DispatchEvent &event, const char *pieces, idx_t done, idx_t on_cpu,
                                  const string &failure) const {
	event.actual = done > 0 ? "gpu" : "cpu";
	if (!failure.empty()) {
		event.fallback = mode != ExecutionMode::GPU;
		event.actual = mode == ExecutionMode::GPU ? "none" : "cpu";
		event.reason = failure + (done > 0 ? " (after " + to_string(done) + " " + pieces + ")" : "");
	} else if (on_cpu > 0) {
		event.fallback = done == 0;
		event.reason += "; " + to_string(on_cpu) + " " + pieces + " on the CPU, for lack of device memory";
	}
}

void OperatorDispatch::RequestKernels(ClientContext &context, const char *needs, const char *operator_name) {
	auto mode = GetExecutionMode(context);
	if (mode == ExecutionMode::CPU || GetPrecompile(context) == Precompile::OFF) {
		return;
	}
	auto &runtime = GpuRuntime::Get();
	auto names = vibespatial::KernelNeeds(vibespatial::FindKernelSet(needs));
	if (auto engine = runtime.IfOpen()) {
		engine->Request(names, operator_name, true);
	} else if (string unused; mode == ExecutionMode::GPU && MayOpenGpu(context, unused)) {
		runtime.StartInBackground(names, operator_name);
	}
}

} // namespace duckdb
