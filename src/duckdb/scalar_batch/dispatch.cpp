#include "duckdb/scalar_batch/dispatch.hpp"

#include "duckdb/scalar_batch/physical.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/scalar/overlay_batch.hpp"

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::Operation;
using vibespatial::ScalarTask;

Operation OperationOf(const ScalarTask &task) {
	switch (task.kind) {
	case ScalarTask::OVERLAY:
	case ScalarTask::OVERLAY_AREA:
		return Operation::OVERLAY_PAIRS;
	case ScalarTask::HAUSDORFF:
		return Operation::SCALAR_HAUSDORFF;
	case ScalarTask::HULL:
		return Operation::SCALAR_HULLS;
	case ScalarTask::SIMPLIFY:
		return Operation::SCALAR_SIMPLIFY;
	default:
		return task.IsOfPairs() ? Operation::SCALAR_PAIRS : Operation::SCALAR_ROWS;
	}
}

ScalarBatchDispatch::ScalarBatchDispatch(ClientContext &context, const PhysicalScalarBatch &op)
    : OperatorDispatch(context, "VIBE_SCALAR_BATCH"), op(op),
      dispatch(OperationOf(op.tasks[0]), mode, operator_name, query), threads(context) {
}

ScalarBatchDispatch::~ScalarBatchDispatch() {
	try {
		Finish();
	} catch (const std::exception &) { // NOLINT: a log without this line is better than no end
	}
}

void ScalarBatchDispatch::Start() {
	if (started) {
		return;
	}
	lock_guard<mutex> guard(start_lock);
	if (started) {
		return;
	}
	auto operation = OperationOf(op.tasks[0]);
	begin = Now();
	StartDevice(operation, Needs(op.tasks));
	dispatch.AddWait(WaitForDevice(operation));
	dispatch.Decide(op.children[0].get().estimated_cardinality, GetGpuMinRows(context));
	dispatch.CountPieces(0, 0);
	active = dispatch.OnGpu();
	started = true;
}

void ScalarBatchDispatch::WaitForKernels(const std::vector<std::string> &names) {
	lock_guard<mutex> guard(kernel_lock);
	OperatorDispatch::WaitForKernels(dispatch, names);
}

vibespatial::KernelNames ScalarBatchDispatch::Needs(const vector<ScalarTask> &tasks) {
	vibespatial::KernelNames names;
	for (auto &task : tasks) {
		vibespatial::AddNames(names,
		                      vibespatial::ScalarNeeds(task, vibespatial::SideKinds(), vibespatial::SideKinds()));
	}
	return names;
}

std::unique_ptr<vibespatial::GpuScalarBatch> ScalarBatchDispatch::NewDeviceBatch(const ScalarTask &task) {
	auto &engine = dispatch.Engine();
	if (task.IsOverlay()) {
		return vibespatial::MakeOverlayBatch(
		    task,
		    [&engine](const vibespatial::OverlayNet &net, vibespatial::Parallel &parallel) {
			    return engine.BeginUnion(net, parallel);
		    },
		    [this](const std::function<void(vibespatial::Parallel &)> &work) { threads.Run(work); });
	}
	return engine.NewScalarBatch(task);
}

void ScalarBatchDispatch::Poll() {
	CancelPoll(context)();
}

void ScalarBatchDispatch::DeviceFailed(const vibespatial::GpuError &error) {
	active = false;
	if (!dispatch.Fail(error.what())) {
		FailOnDevice("compute the rows", error.what());
	}
}

void ScalarBatchDispatch::DeviceFinished(size_t rows, size_t open, TimePoint begun,
                                         const vibespatial::GpuTimes &times) {
	AddWork("batch", begun, times);
	dispatch.CountPieces(1, 0);
	dispatch.AddRows(rows);
	dispatch.AddTimes(times);
	if (open > 0) {
		dispatch.AddRowsOnCpu(open);
		has_open_rows = true;
		const char *why =
		    op.tasks[0].IsOverlay()
		        ? " rows have a geometry that is EMPTY, malformed, larger than a megabyte or no polygon, touch in "
		          "lines or points, or have borders that nearly coincide"
		        : " rows have a geometry that is malformed or EMPTY, too many vertices for one "
		          "thread of the device, or a result that is NaN";
		RequireGpu(context, Name(), to_string(open) + why);
		if (mode == ExecutionMode::AUTO && op.tasks[0].IsOverlay() && 2 * open > rows && active.exchange(false)) {
			dispatch.AddNote("most rows of a batch were left to the CPU, which does all others, too");
		}
	}
}

void ScalarBatchDispatch::LackedMemory(size_t rows) {
	dispatch.CountPieces(0, 1);
	dispatch.AddRows(rows);
	dispatch.AddRowsOnCpu(rows);
	RequireGpu(context, Name(), "the device has no room for " + to_string(rows) + " rows");
}

string ScalarBatchDispatch::Name() const {
	return operator_name + string(" (") + op.calls[0]->GetName() + ")";
}

void ScalarBatchDispatch::AddRowsOnCpu(idx_t rows, bool points) {
	// The engine counts the rows of every call
	rows_on_cpu += rows * op.calls.size();
	has_points = has_points || points;
}

void ScalarBatchDispatch::Finish() {
	if (has_points.exchange(false)) {
		dispatch.AddNote("chunks of points on the CPU, which has them done sooner");
	}
	if (has_open_rows.exchange(false)) {
		dispatch.AddNote("rows that the device left open decided by the CPU");
	}
	const auto rows = rows_on_cpu.exchange(0);
	dispatch.AddRows(rows);
	dispatch.AddRowsOnCpu(rows);
	if (started.exchange(false)) {
		AddStep("emit", "rows", begin, Now());
	}
	dispatch.Finish("batches");
}

string ScalarBatchDispatch::DescribePlan(ClientContext &context, Operation operation, idx_t rows) {
	return vibespatial::Decide(GetExecutionMode(context), operation, rows, GetGpuMinRows(context)).Describe();
}

} // namespace duckdb
