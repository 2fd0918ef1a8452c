#include "duckdb/operators/index_dispatch.hpp"

#include "duckdb/operators/task_parallel.hpp"
#include "duckdb/settings.hpp"
#include "engine/gpu_runtime.hpp"
#include "engine/kernel_registry.hpp"

#include <chrono>

namespace duckdb {

using vibespatial::BoxTree;
using vibespatial::DispatchEvent;
using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuEngine;
using vibespatial::GpuError;
using vibespatial::GpuRuntime;
using vibespatial::KernelState;

static constexpr const char *OPERATOR = "VIBE_SPATIAL_JOIN";
//! Of a query's text, in the log
static constexpr idx_t MAX_QUERY_SIZE = 1000;

using Clock = std::chrono::steady_clock;

static double MillisecondsSince(Clock::time_point begin) {
	return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

//===----------------------------------------------------------------------===//
// Any operator
//===----------------------------------------------------------------------===//
OperatorDispatch::OperatorDispatch(ClientContext &context, const char *operator_name)
    : context(context), operator_name(operator_name), mode(GetExecutionMode(context)),
      kernel_timeout(GetKernelTimeout(context)), query(context.GetCurrentQuery().substr(0, MAX_QUERY_SIZE)) {
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

double OperatorDispatch::WaitForDevice(const char *kernel) const {
	if (mode != ExecutionMode::GPU) {
		return 0;
	}
	auto waiting = Clock::now();
	string why_not;
	if (!WaitForGpu(GPU_PATIENCE_SECONDS, why_not, CancelPoll(context))) {
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

//===----------------------------------------------------------------------===//
// The index of a join
//===----------------------------------------------------------------------===//
IndexDispatch::IndexDispatch(ClientContext &context)
    : OperatorDispatch(context, OPERATOR), begin(std::chrono::system_clock::now()) {
	if (mode != ExecutionMode::GPU) {
		return;
	}
	// The scan need not wait for what comes up beside it, but a query that cannot succeed need not scan
	auto &runtime = GpuRuntime::Get();
	runtime.StartInBackground(vibespatial::KernelNeeds("spatial_join"), OPERATOR);
	auto engine = runtime.IfOpen();
	if (runtime.GetPhase() == GpuRuntime::Phase::FAILED) {
		FailWithoutDevice("box_index", runtime.State());
	} else if (engine && !engine->Device().error.empty()) {
		FailWithoutDevice("box_index", engine->Device().error);
	}
}

void IndexDispatch::Decide(idx_t rows) {
	auto scanned = std::chrono::system_clock::now();
	wait_ms = WaitForDevice("box_index");
	decision = vibespatial::Decide(mode, vibespatial::FindKernel("box_index"), rows, GetGpuMinRows(context));
	if (decision.engine) {
		auto micros = [](std::chrono::system_clock::time_point at) {
			return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
		};
		decision.engine->AddStep(
		    vibespatial::GpuStep {"query", "scan of the build side", micros(begin), micros(scanned)});
	}
}

unique_ptr<BoxTree> IndexDispatch::BuildOnDevice(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel,
                                                 DispatchEvent &event) {
	if (!decision.engine) {
		throw GpuError("no GPU engine is open");
	}
	event.wait_ms = wait_ms + WaitForKernels(*decision.engine, vibespatial::KernelNeeds("box_index"));
	vibespatial::GpuTimes times;
	auto packed = decision.engine->PackBoxes(boxes, count, parallel, times);
	event.bytes_to_device = times.bytes_to_device;
	event.bytes_from_device = times.bytes_from_device;
	event.wait_ms += times.wait_ms;
	event.to_device_ms = times.to_device_ms;
	event.kernel_ms = times.kernel_ms;
	event.from_device_ms = times.from_device_ms;
	return make_uniq<BoxTree>(BoxTree::FromParts(std::move(packed.ids), std::move(packed.nodes)));
}

std::unique_ptr<BoxTree> IndexDispatch::Build(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel) {
	auto begin = Clock::now();
	auto event = NewEvent("box_index");
	event.selected = ToText(decision.selected);
	event.reason = decision.reason;
	event.rows = count;
	unique_ptr<BoxTree> tree;
	auto done = [&](const char *actual) {
		event.actual = actual;
		event.total_ms = MillisecondsSince(begin);
		if (mode != ExecutionMode::CPU) {
			DispatchLog::Get().Add(event);
		}
		lock_guard<mutex> guard(lock);
		built++;
		fallbacks += event.fallback;
		last = event;
	};
	// A tree of nothing is no work for a device
	if (decision.selected == ExecutionMode::GPU && count > 0) {
		try {
			tree = BuildOnDevice(boxes, count, parallel, event);
		} catch (const Exception &) {
			throw; // DuckDB's own: the query was cancelled
		} catch (const std::exception &error) {
			event.reason = error.what();
			if (mode == ExecutionMode::GPU) {
				done("none");
				FailOnDevice("build the index", event.reason);
			}
			event.fallback = true;
		}
		if (tree) {
			done("gpu");
			return std::unique_ptr<BoxTree>(tree.release());
		}
	}
	if (decision.selected == ExecutionMode::GPU && count == 0) {
		event.reason = "nothing to index";
	}
	auto result = std::make_unique<BoxTree>(boxes, count, parallel);
	done("cpu");
	return result;
}

string IndexDispatch::Describe() {
	lock_guard<mutex> guard(lock);
	if (built == 0) {
		return ToText(decision.selected);
	}
	auto result = last.actual + " (" + last.reason + ")";
	if (last.actual == "gpu") {
		result +=
		    StringUtil::Format(", %.1f ms: %.1f waiting, %.1f to the device, %.1f kernels, %.1f back", last.total_ms,
		                       last.wait_ms, last.to_device_ms, last.kernel_ms, last.from_device_ms);
	}
	if (fallbacks > 0) {
		result = "fell back from gpu: " + result;
	}
	return result;
}

string IndexDispatch::DescribePlan(ClientContext &context, idx_t rows) {
	auto decision = vibespatial::Decide(GetExecutionMode(context), vibespatial::FindKernel("box_index"), rows, GetGpuMinRows(context));
	if (decision.selected == ExecutionMode::GPU) {
		return "index on gpu, pairs on cpu (" + decision.reason + ")";
	}
	return "cpu (" + decision.reason + ")";
}

void IndexDispatch::RequestKernels(ClientContext &context) {
	auto mode = GetExecutionMode(context);
	if (mode == ExecutionMode::CPU || GetPrecompile(context) == Precompile::OFF) {
		return;
	}
	auto &runtime = GpuRuntime::Get();
	auto needs = vibespatial::KernelNeeds("spatial_join");
	if (auto engine = runtime.IfOpen()) {
		engine->Request(needs, OPERATOR, true);
	} else if (mode == ExecutionMode::GPU) {
		runtime.StartInBackground(needs, OPERATOR);
	}
}

} // namespace duckdb
