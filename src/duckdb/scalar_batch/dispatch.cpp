#include "duckdb/scalar_batch/dispatch.hpp"

#include "duckdb/scalar_batch/physical.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/dispatch/kernel_registry.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

using vibespatial::BulkTask;
using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;

using Clock = std::chrono::steady_clock;

ScalarBatchDispatch::ScalarBatchDispatch(ClientContext &context, const PhysicalScalarBatch &op)
    : OperatorDispatch(context, "VIBE_SCALAR_BATCH"), op(op), begin(Clock::now()) {
}

ScalarBatchDispatch::~ScalarBatchDispatch() {
	Finish();
}

void ScalarBatchDispatch::Start() {
	if (started) {
		return;
	}
	lock_guard<mutex> guard(start_lock);
	if (started) {
		return;
	}
	auto kernel = op.tasks[0].Kernel();
	auto needs = vibespatial::KernelNeeds(vibespatial::FindKernelSet(kernel));
	if (mode == ExecutionMode::GPU) {
		vibespatial::GpuRuntime::Get().StartInBackground(needs, operator_name);
	}
	// May throw: before there is an event that Finish() would log
	auto waited = WaitForDevice(kernel);
	event = NewEvent(kernel);
	event.wait_ms = waited;
	decision = vibespatial::Decide(mode, vibespatial::FindOperation(kernel), op.children[0].get().estimated_cardinality,
	                               GetGpuMinRows(context));
	event.selected = ToText(decision.selected);
	event.reason = decision.reason;
	if (decision.selected == ExecutionMode::GPU) {
		try {
			if (!decision.engine) {
				throw GpuError("no GPU engine is open");
			}
			event.wait_ms += WaitForKernels(*decision.engine, needs);
			active = true;
		} catch (const GpuError &error) {
			Fail(error);
		}
	}
	started = true;
}

std::unique_ptr<vibespatial::GpuBulk> ScalarBatchDispatch::NewDeviceBatch(const BulkTask &task) {
	return decision.engine->NewBulk(task);
}

void ScalarBatchDispatch::Fail(const std::exception &error) {
	lock_guard<mutex> guard(lock);
	active = false;
	if (failure.empty()) {
		failure = error.what();
	}
	if (mode == ExecutionMode::GPU) {
		FailOnDevice("compute the rows", failure);
	}
}

void ScalarBatchDispatch::AddDone(idx_t rows, idx_t open, const vibespatial::GpuTimes &times) {
	lock_guard<mutex> guard(lock);
	batches_done++;
	open_rows += open;
	event.rows += rows;
	AddTimes(event, times);
}

void ScalarBatchDispatch::AddForLackOfMemory() {
	lock_guard<mutex> guard(lock);
	batches_on_cpu++;
}

void ScalarBatchDispatch::AddPoints(idx_t rows) {
	point_rows += rows;
}

void ScalarBatchDispatch::Finish() {
	lock_guard<mutex> guard(lock);
	if (finished || event.kernel.empty() || mode == ExecutionMode::CPU) {
		return;
	}
	finished = true;
	SetOutcome(event, "batches", batches_done, batches_on_cpu, failure);
	if (point_rows > 0) {
		event.reason += "; " + to_string(point_rows) + " rows of points on the CPU, which has them done sooner";
	}
	if (open_rows > 0) {
		event.reason += "; " + to_string(open_rows) + " rows decided by the CPU";
	}
	event.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
	DispatchLog::Get().Add(event);
}

string ScalarBatchDispatch::DescribePlan(ClientContext &context, const char *kernel, idx_t rows) {
	auto decision = vibespatial::Decide(GetExecutionMode(context), vibespatial::FindOperation(kernel), rows,
	                                    GetGpuMinRows(context));
	return string(ToText(decision.selected)) + " (" + decision.reason + ")";
}

} // namespace duckdb
