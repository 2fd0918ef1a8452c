#include "duckdb/overlay/dispatch.hpp"

#include "duckdb/support/settings.hpp"
#include "engine/dispatch/kernel_registry.hpp"

#include <algorithm>

namespace duckdb {

using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;
using vibespatial::GpuMemoryError;
using vibespatial::GpuTimes;

static constexpr const char *OPERATOR = "ST_UNION_AGG";
static constexpr const char *KERNEL = "union_agg";
static constexpr const char *NEEDS = "union_agg";

OverlayDispatch::~OverlayDispatch() {
	if (event.selected.empty() || dispatch->Mode() == ExecutionMode::CPU) {
		return;
	}
	event.total_ms = OperatorDispatch::MillisecondsSince(begin);
	if (left > 0) {
		event.reason += "; " + to_string(left) + " of " + to_string(parts) + " parts on the CPU";
	}
	try {
		DispatchLog::Get().Add(event);
	} catch (const std::exception &) { // NOLINT: a log without this line is better than no end
	}
}

void OverlayDispatch::RequestKernels(ClientContext &context) {
	OperatorDispatch::RequestKernels(context, NEEDS, OPERATOR);
}

bool OverlayDispatch::Takes(size_t vertices) {
	begin = std::chrono::steady_clock::now();
	dispatch = make_uniq<OperatorDispatch>(context, OPERATOR);
	event = dispatch->NewEvent(KERNEL);
	dispatch->StartDevice(KERNEL, NEEDS);
	event.wait_ms = dispatch->WaitForDevice(KERNEL);
	decision = vibespatial::Decide(dispatch->Mode(), vibespatial::FindKernel(KERNEL), vertices, GetGpuMinRows(context));
	event.selected = event.actual = ToText(decision.selected);
	event.reason = decision.reason;
	event.rows = vertices;
	if (decision.selected != ExecutionMode::GPU) {
		return false;
	}
	try {
		if (!decision.engine) {
			throw GpuError("no GPU engine is open");
		}
		event.wait_ms += dispatch->WaitForKernels(*decision.engine, vibespatial::KernelNeeds(NEEDS));
		on_device = true;
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const std::exception &error) {
		Fail(error, false);
	}
	return on_device;
}

bool OverlayDispatch::Unite(const vibespatial::OverlayNet &net, vibespatial::Parallel &parallel,
                            vibespatial::UnitedNet &united) {
	if (!on_device) {
		return false;
	}
	GpuTimes times;
	try {
		decision.engine->UniteNet(net, parallel, united, times);
	} catch (const Exception &) {
		throw;
	} catch (const GpuMemoryError &error) {
		Fail(error, true);
		return false;
	} catch (const std::exception &error) {
		Fail(error, false);
		return false;
	}
	OperatorDispatch::AddTimes(event, times);
	parts += net.parts;
	left += NumericCast<idx_t>(std::count(united.failed.begin(), united.failed.end(), 1));
	return true;
}

void OverlayDispatch::Fail(const std::exception &error, bool for_memory) {
	on_device = false;
	event.reason = error.what();
	if (dispatch->Mode() == ExecutionMode::GPU && !for_memory) {
		event.actual = "none";
		dispatch->FailOnDevice("unite", event.reason);
	}
	event.actual = "cpu";
	event.fallback = true;
}

} // namespace duckdb
