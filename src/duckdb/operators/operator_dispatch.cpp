#include "duckdb/operators/operator_dispatch.hpp"

#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::GpuEngine;
using vibespatial::GpuError;
using vibespatial::GpuRuntime;
using vibespatial::KernelState;

using Clock = std::chrono::steady_clock;

OperatorDispatch::OperatorDispatch(ClientContext &context, const char *operator_name)
    : context(context), operator_name(operator_name), mode(GetExecutionMode(context)),
      kernel_timeout(GetKernelTimeout(context)), query(LoggedQuery(context)) {
}

void OperatorDispatch::StartDevice(vibespatial::Operation operation, const vibespatial::KernelNames &kernels) const {
	if (mode != ExecutionMode::GPU) {
		return;
	}
	// The scan need not wait for what comes up beside it, but a query that cannot succeed need not scan
	auto &runtime = GpuRuntime::Get();
	string why_not;
	if (!MayOpenGpu(context, why_not)) {
		FailWithoutDevice(operation, why_not);
	}
	runtime.StartInBackground(kernels, operator_name);
	auto engine = runtime.IfOpen();
	if (runtime.GetPhase() == GpuRuntime::Phase::FAILED) {
		FailWithoutDevice(operation, runtime.State());
	} else if (engine && !engine->Device().error.empty()) {
		FailWithoutDevice(operation, engine->Device().error);
	}
}

void OperatorDispatch::FailWithoutDevice(vibespatial::Operation operation, const string &why_not) const {
	auto dispatch = NewDispatch(operation);
	dispatch->SetDecision(vibespatial::Decision {ExecutionMode::GPU, why_not, nullptr});
	dispatch->Fail(why_not);
	dispatch->Finish();
	throw IOException("%s: vibe_execution_mode is 'gpu' and there is no GPU to use: %s. FROM vibe_gpu_info() shows "
	                  "all that was looked for; 'auto' or 'cpu' go without",
	                  operator_name, why_not);
}

void OperatorDispatch::FailOnDevice(const string &what, const string &why) const {
	throw IOException("%s: the GPU did not %s, and vibe_execution_mode is 'gpu': %s. 'auto' lets the CPU do it",
	                  operator_name, what, why);
}

void OperatorDispatch::WaitForEngine(vibespatial::Operation operation) const {
	if (mode != ExecutionMode::GPU) {
		return;
	}
	string why_not;
	if (!WaitForGpuEngine(context, GPU_PATIENCE_SECONDS, why_not)) {
		FailWithoutDevice(operation, why_not);
	}
}

bool OperatorDispatch::IsComing(optional_ptr<GpuEngine> engine) {
	string why_not;
	return engine && !engine->WaitForDevice(0, why_not) && engine->Device().error.empty();
}

double OperatorDispatch::WaitForDevice(vibespatial::Operation operation) const {
	if (mode != ExecutionMode::GPU) {
		return 0;
	}
	constexpr double WORTH_A_STEP = 0.05; // milliseconds
	auto waiting = Clock::now();
	auto begin = Now();
	string why_not;
	if (!WaitForGpu(context, GPU_PATIENCE_SECONDS, why_not)) {
		FailWithoutDevice(operation, why_not);
	}
	auto waited = MillisecondsSince(waiting);
	if (waited >= WORTH_A_STEP) {
		AddStep("wait", "device", begin, Now());
	}
	return waited;
}

void OperatorDispatch::LogCpu(vibespatial::Operation operation, const vibespatial::Decision &decision,
                              idx_t rows) const {
	auto dispatch = NewDispatch(operation);
	dispatch->SetDecision(decision);
	dispatch->AddRows(rows);
}

namespace {

//! Tells the event of the kernels and the wait when it ends, however it ends
class KernelWait {
public:
	KernelWait(const OperatorDispatch &waiting, vibespatial::Dispatch &dispatch,
	           const vibespatial::KernelNames &kernels)
	    : waiting(waiting), dispatch(dispatch), kernels(kernels), begin(Clock::now()) {
	}
	~KernelWait() {
		try {
			std::vector<std::pair<std::string, std::string>> sources;
			for (auto &status : dispatch.Engine().Status()) {
				if (std::find(kernels.begin(), kernels.end(), status.name) != kernels.end()) {
					sources.emplace_back(status.name, status.state == KernelState::READY    ? status.source
					                                  : status.state == KernelState::FAILED ? "failed"
					                                                                        : "not ready");
				}
			}
			dispatch.AddKernels(sources, Milliseconds());
			string names;
			for (auto &name : kernels) {
				names += (names.empty() ? "kernels: " : ", ") + name;
			}
			waiting.AddStep("wait", names, since, OperatorDispatch::Now());
		} catch (const std::exception &) { // NOLINT: a log without this is better than no end
		}
	}
	KernelWait(const KernelWait &) = delete;
	KernelWait &operator=(const KernelWait &) = delete;

	double Milliseconds() const {
		return OperatorDispatch::MillisecondsSince(begin);
	}

private:
	const OperatorDispatch &waiting;
	vibespatial::Dispatch &dispatch;
	const vibespatial::KernelNames &kernels;
	const Clock::time_point begin;
	const OperatorDispatch::TimePoint since = OperatorDispatch::Now();
};

} // namespace

void OperatorDispatch::WaitForKernels(vibespatial::Dispatch &dispatch, const vibespatial::KernelNames &kernels) const {
	constexpr double STEP = 0.05;
	auto &engine = dispatch.Engine();
	auto poll = CancelPoll(context);
	// Without the CPU to go to, a compilation is waited for
	double patience = kernel_timeout;
	if (mode == ExecutionMode::GPU) {
		patience = MaxValue(patience, double(GpuRuntime::Get().Options().compile_timeout_seconds));
	}
	const double waited = dispatch.KernelWait() / 1e3;
	KernelWait wait(*this, dispatch, kernels);
	engine.Request(kernels, operator_name, true);
	while (true) {
		auto left = patience - waited - wait.Milliseconds() / 1e3;
		auto cold = engine.EnsureWarm(kernels, MaxValue(0.0, MinValue(STEP, left)));
		if (cold.empty()) {
			return;
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

void OperatorDispatch::RequestKernels(ClientContext &context, const vibespatial::KernelNames &kernels,
                                      const char *operator_name, bool urgent) {
	auto mode = GetExecutionMode(context);
	if (mode == ExecutionMode::CPU || GetPrecompile(context) == Precompile::OFF) {
		return;
	}
	auto &runtime = GpuRuntime::Get();
	// Mode auto leaves the start to LOAD
	if (string unused; mode == ExecutionMode::GPU && MayOpenGpu(context, unused)) {
		runtime.StartInBackground(kernels, operator_name, urgent);
	} else {
		runtime.RequestIfStarted(kernels, operator_name, urgent);
	}
}

} // namespace duckdb
