#include "duckdb/overlay/dispatch.hpp"

#include "duckdb/support/settings.hpp"

namespace duckdb {

using vibespatial::GpuMemoryError;
using vibespatial::Operation;

static constexpr const char *OPERATOR = "ST_UNION_AGG";

OverlayDispatch::~OverlayDispatch() {
	try {
		if (dispatch && parts_left > 0) {
			dispatch->AddNote(to_string(parts_left) + " of " + to_string(parts) + " parts on the CPU");
		}
	} catch (const std::exception &) { // NOLINT: a log without this note is better than no end
	}
}

void OverlayDispatch::RequestKernels(ClientContext &context) {
	OperatorDispatch::RequestKernels(context, vibespatial::KernelNeeds(Operation::UNION_AGG), OPERATOR);
}

bool OverlayDispatch::Takes(size_t vertices) {
	waiting = make_uniq<OperatorDispatch>(context, OPERATOR);
	dispatch = waiting->NewDispatch(Operation::UNION_AGG);
	const auto kernels = vibespatial::KernelNeeds(Operation::UNION_AGG);
	waiting->StartDevice(Operation::UNION_AGG, kernels);
	dispatch->AddWait(waiting->WaitForDevice(Operation::UNION_AGG));
	dispatch->Decide(vertices, GetGpuMinRows(context));
	dispatch->AddRows(vertices);
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
		const auto on_device = dispatch->Engine().BeginUnion(net, parallel);
		steps(*on_device);
		dispatch->AddTimes(on_device->times);
		parts += net.parts;
		parts_left += on_device->parts_left;
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

void OverlayDispatch::Fail(const std::exception &error, bool for_memory) {
	if (for_memory) {
		dispatch->RunOutOfMemory(error.what());
	} else if (!dispatch->Fail(error.what())) {
		waiting->FailOnDevice("unite", error.what());
	}
}

} // namespace duckdb
