#include "duckdb/spatial_join/device_join.hpp"

#include "duckdb/spatial_join/tile_chunks.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/dispatch/kernel_registry.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

using vibespatial::DispatchLog;
using vibespatial::ExecutionMode;
using vibespatial::GpuError;
using vibespatial::JoinOutput;

using Clock = std::chrono::steady_clock;

static JoinOutput OutputOf(const PhysicalSpatialJoin &op) {
	if (op.residual) {
		return JoinOutput::PAIRS;
	}
	if (op.has_aggregate) {
		return op.OnlyCounts() ? JoinOutput::COUNTS : JoinOutput::PAIRS;
	}
	bool one_is_enough =
	    op.join_type == JoinType::SEMI || op.join_type == JoinType::ANTI || op.join_type == JoinType::MARK;
	return one_is_enough ? JoinOutput::FOUND : JoinOutput::PAIRS;
}

DeviceJoin::DeviceJoin(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads)
    : OperatorDispatch(context, "VIBE_SPATIAL_JOIN"), op(op), threads(threads),
      session(*this, op.condition, OutputOf(op), op.deterministic), begin(Clock::now()) {
}

DeviceJoin::~DeviceJoin() {
	Finish();
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//
void DeviceJoin::Decide(idx_t build_rows, idx_t probe_rows) {
	// For points; the first rows will tell whether they are
	decision = vibespatial::Decide(mode, vibespatial::FindOperation(op.kernel), probe_rows, GetGpuMinRows(context));
	event = NewEvent(op.kernel);
	event.rows = 0;
	event.selected = ToText(decision.selected);
	event.reason = decision.reason;
	if (decision.selected != ExecutionMode::GPU) {
		return;
	}
	expected_rows = probe_rows;
	if (build_rows == 0) {
		event.reason = "the build side has no rows";
		return;
	}
	if (mode == ExecutionMode::AUTO && build_rows > probe_rows) {
		event.selected = ToText(ExecutionMode::CPU);
		event.reason = "fewer rows than the build side has";
		return;
	}
	session.UseDevice(decision.engine, build_rows);
}

void DeviceJoin::DecideKind(bool points) {
	lock_guard<mutex> guard(lock);
	if (kind_is_known || points) {
		kind_is_known = true;
		return;
	}
	kind_is_known = true;
	if (event.kernel == "join_points") {
		event.kernel = "join_shapes"; // a filter keeps its own name
	}
	auto shapes = vibespatial::Decide(mode, vibespatial::Operation::JOIN_SHAPES, expected_rows, GetGpuMinRows(context));
	event.selected = ToText(shapes.selected);
	event.reason = shapes.reason;
	if (shapes.selected != ExecutionMode::GPU) {
		session.LeaveDevice();
	}
}

idx_t DeviceJoin::PartCount(idx_t build_bytes, idx_t build_rows) const {
	//! One part gets a quarter of the device's memory: others are in work at the same time, and tiles need room
	constexpr idx_t SHARE = 4;
	//! Device memory for a row beside its coordinates, which take about twice their size in WKB
	constexpr idx_t ROW_BYTES = sizeof(vibe::ShapeView) + 2 * sizeof(vibe::Box) + 64;
	//! Every device has room for a build side of this size
	constexpr idx_t SMALL = idx_t(2) << 30;
	if (!IsActive() || !decision.engine) {
		return 1;
	}
	auto limit = decision.engine->MemoryLimit();
	auto needed = 2 * build_bytes + build_rows * ROW_BYTES;
	if (limit == 0 && needed <= SMALL && vibespatial::GpuRuntime::Get().Options().memory_limit == 0) {
		return 1; // not worth waiting for the device
	}
	if (limit == 0) {
		OperatorDispatch::WaitForDevice(op.kernel);
		limit = decision.engine->MemoryLimit();
	}
	return limit == 0 || needed <= limit / SHARE ? 1 : needed / (limit / SHARE + 1) + 1;
}

bool DeviceJoin::Attach(SpatialBuild &build) {
	bool on_device = IsActive();
	if (on_device && build.Index().EmptyRowsMatter()) {
		on_device = false;
		lock_guard<mutex> guard(lock);
		event.reason = "EMPTY rows of the build side are at distance 0 of all others, which the CPU finds";
	}
	auto note = [this, &build](const vibespatial::UploadReport &upload) {
		if (upload.boxes > 0) {
			build.NoteDeviceTree(upload.boxes, upload.tree_times);
		}
		AddStep(*decision.engine, "build side to device", upload.begin, upload.end);
	};
	build.SetJoin(session.NewBuild(build.Index(), on_device, note));
	return on_device;
}

void DeviceJoin::SetPart(SpatialBuild &part) {
	Attach(part);
}

void DeviceJoin::SetBuild(SpatialBuild &build) {
	has_build = Attach(build);
	if (!has_build) {
		session.LeaveDevice();
	}
	ready = std::chrono::system_clock::now();
}

//===----------------------------------------------------------------------===//
// The host of the session
//===----------------------------------------------------------------------===//
void DeviceJoin::Poll() {
	if (context.IsInterrupted()) {
		throw InterruptException();
	}
}

std::unique_ptr<vibespatial::TilePayload> DeviceJoin::NewPayload() {
	return std::make_unique<TileChunks>(context, op.buffered_columns);
}

bool DeviceJoin::DeviceIsStarting() {
	return mode == ExecutionMode::GPU && IsComing(decision.engine);
}

void DeviceJoin::WaitForDevice() {
	if (!decision.engine) {
		throw GpuError("no GPU engine is open");
	}
	using std::chrono::system_clock;
	auto waiting = system_clock::now();
	bool scanned = IsAwaited() && has_build;
	auto waited = OperatorDispatch::WaitForDevice(op.kernel);
	waited += WaitForKernels(*decision.engine, vibespatial::KernelNeeds(vibespatial::KernelSet::SPATIAL_JOIN));
	lock_guard<mutex> guard(lock);
	event.wait_ms += waited;
	if (scanned) {
		AddStep(*decision.engine, "scan of the probe side", ready, waiting);
		AddStep(*decision.engine, "wait for the device", waiting, system_clock::now());
		ready = system_clock::now();
	}
}

void DeviceJoin::DeviceFailed(const string &reason) {
	if (mode == ExecutionMode::GPU) {
		FailOnDevice("find the pairs", reason);
	}
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//
void DeviceJoin::CountedRows(idx_t &rows, idx_t &pairs) const {
	if (Counts().empty()) {
		return;
	}
	rows += session.Report().rows;
	for (auto count : Counts()) {
		pairs += count;
	}
}

void DeviceJoin::Finish() {
	lock_guard<mutex> guard(lock);
	if (finished || mode == ExecutionMode::CPU) {
		return;
	}
	finished = true;
	auto report = session.Report();
	event.rows = report.rows;
	AddTimes(event, report.times);
	SetOutcome(event, "tiles", report.tiles, report.tiles_on_cpu, report.failure);
	if (report.open_pairs > 0) {
		event.reason += "; " + to_string(report.open_pairs) + " pairs decided by the CPU";
	}
	if (report.left_rows > 0) {
		event.reason += "; " + to_string(report.left_rows) + " rows done by the CPU";
	}
	if (report.was_resident) {
		event.reason += "; the build side was on the device";
	}
	if (has_build && report.tiles > 0) {
		AddStep(*decision.engine, "pairs", ready, std::chrono::system_clock::now());
	}
	event.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
	if (!event.kernel.empty()) {
		DispatchLog::Get().Add(event);
	}
}

string DeviceJoin::Describe() {
	auto report = session.Report();
	lock_guard<mutex> guard(lock);
	auto &reason = report.failure.empty() ? event.reason : report.failure;
	if (report.tiles == 0) {
		return "cpu (" + reason + ")";
	}
	return StringUtil::Format("gpu (%s): %llu tiles, %.1f ms to the device, %.1f kernels, %.1f back, summed over "
	                          "tiles that overlap; %llu pairs left to the CPU",
	                          reason, report.tiles, report.times.to_device_ms, report.times.kernel_ms,
	                          report.times.from_device_ms, report.open_pairs);
}

static vibespatial::Decision DecidePlan(ClientContext &context, const char *kernel, idx_t probe_rows) {
	return vibespatial::Decide(GetExecutionMode(context), vibespatial::FindOperation(kernel), probe_rows,
	                           GetGpuMinRows(context));
}

bool DeviceJoin::IsPlanned(ClientContext &context, const char *kernel, idx_t probe_rows) {
	return DecidePlan(context, kernel, probe_rows).selected == ExecutionMode::GPU;
}

string DeviceJoin::DescribePlan(ClientContext &context, const char *kernel, idx_t probe_rows, idx_t build_rows) {
	auto decision = DecidePlan(context, kernel, probe_rows);
	if (decision.selected == ExecutionMode::GPU) {
		return (GetExecutionMode(context) == ExecutionMode::AUTO ? "gpu for points (" : "gpu (") + decision.reason +
		       ")";
	}
	return IndexDispatch::DescribePlan(context, build_rows);
}

} // namespace duckdb
