#include "duckdb/spatial_join/index_dispatch.hpp"

#include "duckdb/support/settings.hpp"

namespace duckdb {

using vibespatial::BoxTree;
using vibespatial::Decision;
using vibespatial::Dispatch;
using vibespatial::ExecutionMode;
using vibespatial::Operation;

IndexDispatch::IndexDispatch(ClientContext &context, const vibespatial::KernelNames &kernels)
    : OperatorDispatch(context, "VIBE_SPATIAL_JOIN"), begin(std::chrono::system_clock::now()) {
	StartDevice(Operation::BOX_INDEX, kernels);
}

void IndexDispatch::Decide(idx_t rows, idx_t bytes) {
	auto scanned = std::chrono::system_clock::now();
	WaitForEngine(Operation::BOX_INDEX);
	decision = vibespatial::Decide(mode, Operation::BOX_INDEX, rows, GetGpuMinRows(context));
	AddStep("scan", "build side", begin, scanned);
	if (auto first = first_row.load(); first != TimePoint()) {
		AddStep("sink", "build side", first, scanned, bytes);
	}
}

bool IndexDispatch::DeviceIsComing() const {
	return mode == ExecutionMode::GPU && IsComing(decision.engine);
}

void IndexDispatch::RequireDevice() {
	WaitForDevice(Operation::BOX_INDEX);
}

unique_ptr<Dispatch> IndexDispatch::NewTree(idx_t rows, const Decision &made) const {
	auto dispatch = NewDispatch(Operation::BOX_INDEX);
	dispatch->SetDecision(made);
	dispatch->AddRows(rows);
	return dispatch;
}

void IndexDispatch::EndTree(Dispatch &dispatch) {
	dispatch.Finish();
	lock_guard<mutex> guard(lock);
	last = dispatch.Describe();
}

void IndexDispatch::NoteDevice(idx_t boxes, const vibespatial::GpuTimes &times) {
	auto dispatch =
	    NewTree(boxes, IsForDevice() ? decision
	                                 : Decision {ExecutionMode::GPU, "the GPU looks for the pairs", decision.engine});
	dispatch->AddTimes(times);
	dispatch->SetTime(times.wait_ms + times.to_device_ms + times.kernel_ms);
	EndTree(*dispatch);
}

void IndexDispatch::NoteIndex(idx_t rows, double milliseconds) {
	auto dispatch = NewTree(rows, decision);
	dispatch->SetTime(milliseconds);
	EndTree(*dispatch);
}

std::unique_ptr<BoxTree> IndexDispatch::BuildOnDevice(Dispatch &dispatch, const vibe::Box *boxes, size_t count,
                                                      vibespatial::Parallel &parallel) {
	try {
		auto &engine = dispatch.Engine();
		dispatch.AddWait(WaitForDevice(Operation::BOX_INDEX));
		WaitForKernels(dispatch, vibespatial::KernelNeeds(Operation::BOX_INDEX));
		vibespatial::GpuTimes times;
		auto started = Now();
		auto packed = engine.PackBoxes(boxes, count, parallel, times);
		dispatch.AddTimes(times);
		AddWork("tree", started, times);
		return std::make_unique<BoxTree>(BoxTree::FromParts(std::move(packed.ids), std::move(packed.nodes)));
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const std::exception &error) {
		if (!dispatch.Fail(error.what())) {
			EndTree(dispatch);
			FailOnDevice("build the index", error.what());
		}
		return nullptr;
	}
}

std::unique_ptr<BoxTree> IndexDispatch::Build(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel) {
	auto dispatch = NewTree(count, decision);
	if (count == 0) {
		dispatch->KeepOnCpu("nothing to index");
	}
	auto tree = dispatch->OnGpu() ? BuildOnDevice(*dispatch, boxes, count, parallel) : nullptr;
	if (!tree) {
		tree = std::make_unique<BoxTree>(boxes, count, parallel);
	}
	EndTree(*dispatch);
	return tree;
}

string IndexDispatch::Describe() {
	lock_guard<mutex> guard(lock);
	return last.empty() ? ToText(decision.selected) : last;
}

string IndexDispatch::DescribePlan(ClientContext &context, idx_t rows) {
	auto decision = vibespatial::Decide(GetExecutionMode(context), Operation::BOX_INDEX, rows, GetGpuMinRows(context));
	if (decision.IsGpu()) {
		return "index on gpu, pairs on cpu (" + decision.reason + ")";
	}
	return "cpu (" + decision.reason + ")";
}

} // namespace duckdb
