#include "duckdb/knn/dispatch.hpp"

#include "duckdb/support/settings.hpp"
#include "engine/dispatch/kernel_registry.hpp"

namespace duckdb {

using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;
using vibespatial::GpuPoints;
using vibespatial::GpuTimes;

static constexpr const char *OPERATOR = "VIBE_KNN";
static constexpr const char *KERNEL = "knn";

KnnDispatch::KnnDispatch(ClientContext &context)
    : OperatorDispatch(context, OPERATOR), begin(std::chrono::steady_clock::now()), event(NewEvent(KERNEL)) {
	StartDevice(KERNEL, KERNEL);
}

KnnDispatch::~KnnDispatch() {
	if (!decided || mode == ExecutionMode::CPU) {
		return;
	}
	event.total_ms = MillisecondsSince(begin);
	try {
		DispatchLog::Get().Add(event);
	} catch (const std::exception &) { // NOLINT: a log without this line is better than no end
	}
}

void KnnDispatch::Decide(const vibespatial::KnnIndex &index, idx_t left_rows, uint64_t k,
                         vibespatial::Parallel &parallel) {
	event.wait_ms = WaitForDevice(KERNEL);
	decision = vibespatial::Decide(mode, vibespatial::FindKernel(KERNEL), left_rows, GetGpuMinRows(context));
	decided = true;
	if (decision.selected == ExecutionMode::GPU) {
		const char *why_not = !index.AllPoints()       ? "the GPU searches among points only"
		                      : k > GpuPoints::MAX_K   ? "the GPU finds at most 32 neighbours"
		                      : left_rows == 0         ? "nothing to search for"
		                      : index.ItemCount() == 0 ? "nothing to search among"
		                                               : nullptr;
		if (why_not) {
			decision.selected = ExecutionMode::CPU;
			decision.reason = why_not;
		}
	}
	event.selected = event.actual = ToText(decision.selected);
	event.reason = decision.reason;
	event.rows = left_rows;
	if (decision.selected != ExecutionMode::GPU) {
		return;
	}
	try {
		if (!decision.engine) {
			throw GpuError("no GPU engine is open");
		}
		event.wait_ms += WaitForKernels(*decision.engine, vibespatial::KernelNeeds(KERNEL));
		GpuTimes times;
		points = decision.engine->KnnPoints(index.Tree().Nodes(), index.Tree().Ids(), index.Leaves(), parallel, times);
		AddTimes(event, times); // nobody searches yet
		on_device = true;
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const std::exception &error) {
		Fail(error);
	}
}

bool KnnDispatch::Find(const std::vector<vibe::Vec2> &queries, uint64_t k, double most,
                       vibespatial::PackedNeighbours &neighbours) {
	GpuTimes times;
	try {
		points->Find(queries.data(), queries.size(), NumericCast<uint32_t>(k), most, neighbours, times);
	} catch (const std::exception &error) {
		Fail(error);
		return false;
	}
	lock_guard<mutex> guard(lock);
	AddTimes(event, times);
	return true;
}

void KnnDispatch::Fail(const std::exception &error) {
	lock_guard<mutex> guard(lock);
	on_device = false;
	event.reason = error.what();
	if (mode == ExecutionMode::GPU) {
		event.actual = "none";
		FailOnDevice("search", event.reason);
	}
	event.actual = "cpu";
	event.fallback = true;
}

string KnnDispatch::Describe() {
	lock_guard<mutex> guard(lock);
	auto result = (event.fallback ? "fell back from gpu: " : "") + event.actual + " (" + event.reason + ")";
	if (event.actual == "gpu") {
		result += StringUtil::Format(", %.1f ms waiting, %.1f to the device, %.1f kernels, %.1f back", event.wait_ms,
		                             event.to_device_ms, event.kernel_ms, event.from_device_ms);
	}
	return result;
}

} // namespace duckdb
