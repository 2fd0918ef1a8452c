#include "duckdb/spatial_join/index_dispatch.hpp"

#include "duckdb/support/settings.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/dispatch/kernel_registry.hpp"

namespace duckdb {

using vibespatial::BoxTree;
using vibespatial::DispatchEvent;
using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;

static constexpr const char *OPERATOR = "VIBE_SPATIAL_JOIN";

using Clock = std::chrono::steady_clock;

IndexDispatch::IndexDispatch(ClientContext &context)
    : OperatorDispatch(context, OPERATOR), begin(std::chrono::system_clock::now()) {
	StartDevice("box_index", "spatial_join");
}

void IndexDispatch::Decide(idx_t rows) {
	auto scanned = std::chrono::system_clock::now();
	WaitForEngine("box_index");
	decision = vibespatial::Decide(mode, vibespatial::Operation::BOX_INDEX, rows, GetGpuMinRows(context));
	if (decision.engine) {
		AddStep(*decision.engine, "scan of the build side", begin, scanned);
	}
}

bool IndexDispatch::DeviceIsComing() const {
	return mode == ExecutionMode::GPU && IsComing(decision.engine);
}

void IndexDispatch::RequireDevice() {
	WaitForDevice("box_index");
}

unique_ptr<BoxTree> IndexDispatch::BuildOnDevice(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel,
                                                 DispatchEvent &event) {
	if (!decision.engine) {
		throw GpuError("no GPU engine is open");
	}
	event.wait_ms = WaitForDevice("box_index");
	event.wait_ms += WaitForKernels(*decision.engine, vibespatial::KernelNeeds(vibespatial::KernelSet::BOX_INDEX));
	vibespatial::GpuTimes times;
	auto packed = decision.engine->PackBoxes(boxes, count, parallel, times);
	AddTimes(event, times);
	return make_uniq<BoxTree>(BoxTree::FromParts(std::move(packed.ids), std::move(packed.nodes)));
}

DispatchEvent IndexDispatch::BeginEvent(idx_t rows) {
	auto event = NewEvent("box_index");
	event.selected = ToText(decision.selected);
	event.reason = decision.reason;
	event.rows = rows;
	return event;
}

void IndexDispatch::EndEvent(DispatchEvent &event, const char *actual, double milliseconds) {
	event.actual = actual;
	event.total_ms = milliseconds;
	if (mode != ExecutionMode::CPU) {
		DispatchLog::Get().Add(event);
	}
	lock_guard<mutex> guard(lock);
	built++;
	fallbacks += event.fallback;
	last = event;
}

void IndexDispatch::NoteDevice(idx_t boxes, const vibespatial::GpuTimes &times) {
	auto event = BeginEvent(boxes);
	if (!IsForDevice()) {
		event.selected = ToText(ExecutionMode::GPU);
		event.reason = "the GPU looks for the pairs";
	}
	AddTimes(event, times);
	EndEvent(event, "gpu", times.wait_ms + times.to_device_ms + times.kernel_ms);
}

void IndexDispatch::NoteIndex(idx_t rows, double milliseconds) {
	auto event = BeginEvent(rows);
	EndEvent(event, "cpu", milliseconds);
}

std::unique_ptr<BoxTree> IndexDispatch::Build(const vibe::Box *boxes, size_t count, vibespatial::Parallel &parallel) {
	auto begin = Clock::now();
	auto event = BeginEvent(count);
	// A tree of nothing is no work for a device
	if (count == 0) {
		event.reason = "nothing to index";
	} else {
		unique_ptr<BoxTree> tree;
		try {
			tree = BuildOnDevice(boxes, count, parallel, event);
		} catch (const Exception &) {
			throw; // DuckDB's own: the query was cancelled
		} catch (const std::exception &error) {
			event.reason = error.what();
			if (mode == ExecutionMode::GPU) {
				EndEvent(event, "none", MillisecondsSince(begin));
				FailOnDevice("build the index", event.reason);
			}
			event.fallback = true;
		}
		if (tree) {
			EndEvent(event, "gpu", MillisecondsSince(begin));
			return std::unique_ptr<BoxTree>(tree.release());
		}
	}
	auto result = std::make_unique<BoxTree>(boxes, count, parallel);
	EndEvent(event, "cpu", MillisecondsSince(begin));
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
	auto decision =
	    vibespatial::Decide(GetExecutionMode(context), vibespatial::Operation::BOX_INDEX, rows, GetGpuMinRows(context));
	if (decision.selected == ExecutionMode::GPU) {
		return "index on gpu, pairs on cpu (" + decision.reason + ")";
	}
	return "cpu (" + decision.reason + ")";
}

} // namespace duckdb
