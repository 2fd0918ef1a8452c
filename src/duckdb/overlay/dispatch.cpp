#include "duckdb/overlay/dispatch.hpp"

#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/dispatch/thresholds.hpp"

#include <algorithm>

namespace duckdb {

using vibespatial::GpuMemoryError;
using vibespatial::Operation;
using vibespatial::OperationInfo;

static constexpr const char *OPERATOR = "ST_UNION_AGG";

//! Small groups cost the CPU less for each vertex than one large union does
static Operation OperationFor(size_t groups) {
	return groups > 1 ? Operation::UNION_GROUPS : Operation::UNION_AGG;
}

OverlayDispatch::~OverlayDispatch() {
	try {
		if (dispatch && parts_left > 0) {
			dispatch->AddNote(to_string(parts_left) + " of " + to_string(parts) + " parts on the CPU");
			dispatch->AddRowsOnCpu(vertices_left);
		}
	} catch (const std::exception &) { // NOLINT: a log without this note is better than no end
	}
}

void OverlayDispatch::RequestKernels(ClientContext &context) {
	OperatorDispatch::RequestKernels(context, vibespatial::KernelNeeds(Operation::UNION_AGG), OPERATOR);
}

bool OverlayDispatch::WouldTake(ClientContext &context, size_t groups, size_t vertices) {
	const auto mode = GetExecutionMode(context);
	return mode != vibespatial::ExecutionMode::CPU &&
	       vibespatial::Decide(mode, OperationFor(groups), vertices, GetGpuMinRows(context)).IsGpu();
}

bool OverlayDispatch::Takes(size_t vertices) {
	waiting = make_uniq<OperatorDispatch>(context, OPERATOR);
	dispatch = waiting->NewDispatch(operation);
	const auto kernels = vibespatial::KernelNeeds(operation);
	waiting->StartDevice(operation, kernels);
	dispatch->AddWait(waiting->WaitForDevice(operation));
	dispatch->Decide(vertices, GetGpuMinRows(context));
	dispatch->AddRows(vertices);
	if (pinned && !pinned->Note().empty()) {
		dispatch->AddNote(pinned->Note());
	}
	if (!dispatch->OnGpu()) {
		return false;
	}
	try {
		waiting->WaitForKernels(*dispatch, kernels);
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const std::exception &error) {
		Fail(error, false);
	}
	return dispatch->OnGpu();
}

bool OverlayDispatch::Unite(const vibespatial::OverlayNet &net, vibespatial::Parallel &parallel, const Steps &steps) {
	if (!dispatch->OnGpu()) {
		return false;
	}
	try {
		const auto begin = OperatorDispatch::Now();
		const auto on_device = dispatch->Engine().BeginUnion(net, parallel);
		steps(*on_device);
		dispatch->AddTimes(on_device->times);
		waiting->AddWork("union", begin, on_device->times);
		parts += net.parts;
		parts_left += on_device->parts_left;
		vertices_left += on_device->vertices_left;
		if (on_device->whole_is_left) {
			dispatch->AddNote("the last step on the CPU");
		}
		if (on_device->parts_left > 0 || on_device->whole_is_left) {
			RequireGpu(context, OPERATOR, "the device could not unite some of the polygons");
		}
	} catch (const Exception &) {
		throw;
	} catch (const GpuMemoryError &error) {
		Fail(error, true);
		return false;
	} catch (const std::exception &error) {
		Fail(error, false);
		return false;
	}
	return true;
}

std::shared_ptr<const vibespatial::GpuRings> OverlayDispatch::Resident(const vibespatial::KnownPolygons &,
                                                                       vibespatial::Parallel &parallel) {
	if (!pinned || !pinned->HasRows()) {
		return nullptr;
	}
	try {
		const auto begin = OperatorDispatch::Now();
		vibespatial::GpuTimes times;
		auto rings = pinned->Rings(parallel, times);
		if (times.bytes_to_device > 0) {
			dispatch->AddTimes(times);
			waiting->AddWork("rings", begin, times);
		}
		return rings;
	} catch (const vibespatial::GpuError &error) {
		// This union sends its own
		dispatch->AddNote(string("the rings of the pinned table are not kept: ") + error.what());
		return nullptr;
	}
}

std::vector<size_t> OverlayDispatch::Unite(vibespatial::GroupedOverlay &groups,
                                           vibespatial::PagesVector<uint8_t> &wkb) {
	std::vector<size_t> begins;
	TaskThreads(context).Run([&](vibespatial::Parallel &parallel) { begins = Unite(groups, wkb, parallel); });
	return begins;
}

std::vector<size_t> OverlayDispatch::Unite(vibespatial::GroupedOverlay &groups, vibespatial::PagesVector<uint8_t> &wkb,
                                           vibespatial::Parallel &parallel) {
	std::vector<size_t> begins;
	const auto count = groups.Groups();
	operation = OperationFor(count);
	if (!Takes(groups.Vertices())) {
		return begins;
	}
	begins = groups.Run(*this, parallel, [&](size_t bytes) {
		wkb.resize(bytes);
		return wkb.data();
	});
	idx_t left = 0;
	for (idx_t i = 0; i < count; i++) {
		left += begins[i] == begins[i + 1];
	}
	if (count > 1) {
		dispatch->AddNote(to_string(count) + " groups at once");
	}
	if (left > 0) {
		dispatch->AddNote(to_string(left) + " of " + to_string(count) + " groups left to the CPU");
	}
	// The note tells of them
	parts_left = 0;
	dispatch->AddRowsOnCpu(vertices_left);
	return begins;
}

string OverlayDispatch::DescribePlan(ClientContext &context) {
	// The vertices of a group are known when it is united
	auto decision = vibespatial::Decide(GetExecutionMode(context), Operation::UNION_AGG, OperationInfo::NEVER - 1,
	                                    GetGpuMinRows(context));
	if (!decision.IsGpu()) {
		return decision.Describe();
	}
	if (GetExecutionMode(context) == vibespatial::ExecutionMode::GPU) {
		return "gpu (groups of two or more polygons)";
	}
	const auto min_rows = GetGpuMinRows(context);
	if (min_rows >= 0) {
		return "gpu (polygons of " + to_string(min_rows) + " vertices, of one group or many)";
	}
	const auto &thresholds = vibespatial::Thresholds::Current();
	return "gpu (polygons of " + to_string(thresholds.Rows(Operation::UNION_AGG)) + " vertices, or of " +
	       to_string(thresholds.Rows(Operation::UNION_GROUPS)) + " in several groups)";
}

void OverlayDispatch::Fail(const std::exception &error, bool for_memory) {
	if (for_memory) {
		RequireGpu(context, OPERATOR, error.what());
		dispatch->RunOutOfMemory(error.what());
	} else if (!dispatch->Fail(error.what())) {
		waiting->FailOnDevice("unite", error.what());
	}
}

} // namespace duckdb
