#include "duckdb/spatial_join/pairs_dispatch.hpp"

#include "duckdb/spatial_join/tile_chunks.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/dispatch/thresholds.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/join/session/forecast.hpp"
#include "engine/join/tuning.hpp"

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::JoinOutput;

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

PairsDispatch::PairsDispatch(ClientContext &context, const PhysicalSpatialJoin &op, TaskThreads &threads)
    : OperatorDispatch(context, "VIBE_SPATIAL_JOIN"), op(op), threads(threads),
      dispatch(op.points_operation, mode, operator_name, query),
      session(*this, op.condition, OutputOf(op), op.deterministic), ready(Now()) {
}

PairsDispatch::~PairsDispatch() {
	try {
		Finish();
	} catch (const std::exception &) { // NOLINT: a log without this line is better than no end
	}
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//
//! The pinned table that a join may read; `why_not`: why it cannot be read on the device now
static shared_ptr<PinnedTable> LookUpPin(ClientContext &context, const PhysicalSpatialJoin &op,
                                         vibespatial::PinnedTerms &filter, string &why_not) {
	auto &scan = *op.pinned_scan;
	auto table = PinnedTables::Get(context)->Find(scan.table, scan.geometry);
	if (!table) {
		return nullptr;
	}
	why_not = table->WhyNot(context, scan, filter);
	if (why_not.empty() && !op.OnlyCounts()) {
		why_not = op.deterministic ? "vibe_deterministic asks for its rows in the order of the table"
		                           : PinnedSide::WhyNot(*table, scan, op.buffered_columns, op.KeepsProbe());
	}
	return table;
}

void PairsDispatch::NoteUnused(const PinnedTable &table, const string &why) {
	dispatch.AddNote("pinned " + table.table.text + " is not used: " + why);
}

static string DescribePinned(const PinnedTable &table) {
	return (table.has_shapes ? "the geometries are pinned: " : "the points are pinned: ") + table.table.text;
}

void PairsDispatch::FindPinned() {
	if (mode == ExecutionMode::CPU) {
		return;
	}
	PinnedTables::Get(context)->FreeInvalid();
	if (op.pinned_build) {
		if (auto table = PinnedTables::Get(context)->Find(op.pinned_build->table, op.pinned_build->geometry)) {
			NoteUnused(*table, "it is the build side, which is expected to have fewer rows");
		}
	}
	if (!op.pinned_scan) {
		return;
	}
	string why_not;
	auto &probe = pinned_work.probe;
	auto table = LookUpPin(context, op, probe.filter, why_not);
	auto on_device = table ? table->OnDevice() : nullptr;
	if (on_device && why_not.empty()) {
		probe.rows = on_device->Use();
		pinned_work.shapes = table->host_rows->Shapes();
		if (table->has_shapes && !pinned_work.shapes) {
			probe.rows.reset(); // another query has found that it was evicted, or is invalid
		}
	}
	if (probe.rows) {
		pinned = std::move(table);
		pinned_work.device = std::move(on_device);
	} else if (table) {
		NoteUnused(*table, why_not.empty() ? "it was evicted, since the device's memory was needed" : why_not);
	}
}

//! As for points, or for the smallest join whose work may be found out; the first rows will tell
void PairsDispatch::DecideScanned() {
	const auto min_rows = GetGpuMinRows(context);
	may_sample = mode == ExecutionMode::AUTO && min_rows < 0 &&
	             op.points_operation == vibespatial::Operation::JOIN_POINTS &&
	             build_rows <= vibespatial::join_tuning::MAX_FORECAST_BUILD_ROWS;
	may_forecast = may_sample && expected_rows < vibespatial::Thresholds::Current().Rows(op.shapes_operation);
	kind_is_known = false;
	dispatch.DecideAgain(op.points_operation, expected_rows,
	                     may_forecast ? vibespatial::join_tuning::MIN_FORECAST_ROWS : min_rows);
}

void PairsDispatch::LeavePin(const string &why) {
	NoteUnused(*pinned, why);
	DecideScanned();
	if (!dispatch.OnGpu()) {
		session.LeaveDevice();
	}
}

void PairsDispatch::Decide(idx_t build_rows_p, idx_t build_bytes_p, idx_t probe_rows) {
	expected_rows = probe_rows;
	build_rows = build_rows_p;
	build_bytes = build_bytes_p;
	FindPinned();
	if (pinned) {
		expected_rows = probe_rows = pinned->rows;
		kind_is_known = true;
		dispatch.DecideAgain(vibespatial::Operation::JOIN_PINNED, probe_rows, GetGpuMinRows(context));
	} else {
		DecideScanned();
	}
	if (!dispatch.OnGpu()) {
		return;
	}
	if (build_rows == 0) {
		dispatch.KeepOnCpu("the build side has no rows");
	} else if (mode == ExecutionMode::AUTO && build_rows > probe_rows) {
		dispatch.KeepOnCpu("fewer rows than the build side has");
	} else {
		session.UseDevice(dispatch.EngineIfOpen(), build_rows);
	}
}

void PairsDispatch::DecideAgain(const vibespatial::JoinInput &first_rows, optional_ptr<SpatialBuild> build) {
	lock_guard<mutex> guard(lock);
	if (kind_is_known) {
		return;
	}
	auto min_rows = GetGpuMinRows(context);
	if (first_rows.x) {
		dispatch.DecideAgain(op.points_operation, expected_rows, min_rows);
	} else {
		vibespatial::ForecastInput input;
		input.probe_rows = expected_rows;
		input.build_bytes = build_bytes;
		input.first_only = session.Output() == JoinOutput::FOUND;
		vibespatial::Forecast forecast;
		const bool has_forecast = build && (may_forecast || (may_sample && build->Index().HasOnlyPoints())) &&
		                          vibespatial::ForecastJoin(*this, build->Index(), first_rows, input, forecast);
		dispatch.DecideAgain(op.shapes_operation, expected_rows, min_rows, has_forecast ? &forecast : nullptr);
	}
	if (!dispatch.OnGpu()) {
		session.LeaveDevice();
	} else if (auto engine = dispatch.EngineIfOpen()) {
		auto probe = vibespatial::SideKinds();
		(first_rows.x ? probe.shapes : probe.points) = false;
		engine->Request(vibespatial::JoinNeeds(op.condition, probe, op.build_kinds), operator_name, true);
	}
	kind_is_known = true;
}

idx_t PairsDispatch::PartCount(idx_t build_bytes, idx_t build_rows) const {
	//! One part gets a quarter of the device's memory: others are in work at the same time, and tiles need room
	constexpr idx_t SHARE = 4;
	//! Device memory for a row beside its coordinates, which take about twice their size in WKB
	constexpr idx_t ROW_BYTES = sizeof(vibe::ShapeView) + 2 * sizeof(vibe::Box) + 64;
	//! Every device has room for a build side of this size
	constexpr idx_t SMALL = idx_t(2) << 30;
	auto engine = dispatch.EngineIfOpen();
	if (!IsActive() || !engine) {
		return 1;
	}
	auto limit = engine->MemoryLimit();
	auto needed = 2 * build_bytes + build_rows * ROW_BYTES;
	if (limit == 0 && needed <= SMALL && vibespatial::GpuRuntime::Get().Options().memory_limit == 0) {
		return 1; // not worth waiting for the device
	}
	if (limit == 0) {
		OperatorDispatch::WaitForDevice(op.points_operation);
		limit = engine->MemoryLimit();
	}
	return limit == 0 || needed <= limit / SHARE ? 1 : needed / (limit / SHARE + 1) + 1;
}

//! EMPTY rows of the build side are at distance 0 of all others, which only the CPU finds
static constexpr const char *EMPTY_ROWS = "EMPTY rows of the build side are at distance 0 of all others";

bool PairsDispatch::Attach(SpatialBuild &build) {
	const bool on_device = IsActive() && !build.Index().EmptyRowsMatter();
	auto note = [this, &build](const vibespatial::UploadReport &upload) {
		if (upload.boxes > 0) {
			build.NoteDeviceTree(upload.boxes, upload.tree_times);
		}
		AddStep("upload", upload.what, upload.begin, upload.end, upload.bytes);
	};
	build.SetJoin(session.NewBuild(build.Index(), on_device, note));
	return on_device;
}

void PairsDispatch::SetPart(SpatialBuild &part) {
	if (!Attach(part) && IsActive()) {
		RequireGpu(context, operator_name, EMPTY_ROWS);
		dispatch.AddNote(string("a part on the CPU: ") + EMPTY_ROWS);
	}
}

void PairsDispatch::SetBuild(SpatialBuild &build) {
	has_build = Attach(build);
	if (!has_build) {
		if (IsActive()) {
			RequireGpu(context, operator_name, EMPTY_ROWS);
			dispatch.KeepOnCpu(EMPTY_ROWS);
		}
		session.LeaveDevice();
	}
	ready = Now();
}

bool PairsDispatch::UsePinned(optional_ptr<SpatialBuild> build) {
	if (!pinned || !IsActive()) {
		return false;
	}
	if (!build) {
		LeavePin("the build side is joined in parts, for lack of memory");
		return false;
	}
	if (!has_build) {
		return false;
	}
	if (pinned->has_empty && build->Index().EmptyProbesMatter()) {
		LeavePin("it has EMPTY geometries, which are near or equal to others");
		return false;
	}
	if ((!op.OnlyCounts() || pinned->has_shapes) && !BringPinned()) {
		return false;
	}
	if (op.OnlyCounts()) {
		try {
			vibespatial::CountPinned(build->Join(), pinned_work.probe);
		} catch (const vibespatial::GpuError &) { // the session has the reason
			return false;
		}
		pinned_work.probe.rows.reset();
	} else {
		pinned_work.pieces = vibespatial::CutPinned(*pinned_work.probe.rows);
	}
	pinned->hits++;
	dispatch.AddNote(DescribePinned(*pinned));
	uses_pin = true;
	return true;
}

bool PairsDispatch::BringPinned() {
	auto &probe = pinned_work.probe;
	const auto begin = Now();
	const auto needed = op.OnlyCounts() ? vector<bool>() : op.buffered_columns;
	vibespatial::GpuTimes times;
	try {
		threads.Run([&](vibespatial::Parallel &parallel) {
			pinned_work.side = make_uniq<PinnedSide>(context, *pinned, *pinned_work.device, *op.pinned_scan,
			                                         op.children[0].get().types, needed, probe.rows, pinned_work.shapes,
			                                         probe.filter, parallel, times);
		});
	} catch (const vibespatial::GpuError &error) {
		session.Fail(error);
		return false;
	} catch (const OutOfMemoryException &error) {
		LeavePin(string("there is no room for its columns in host memory: ") + error.what());
		return false;
	}
	if (times.bytes_from_device > 0) {
		AddStep("download", "pinned columns", begin, Now(), times.bytes_from_device);
		session.AddTimes(times);
	}
	auto &side = *pinned_work.side;
	if (!op.OnlyCounts()) {
		probe.read = [&side](size_t segment, size_t first, size_t count, vibe::Vec2 *to) {
			side.ReadPoints(segment, first, count, to);
		};
	}
	probe.read_shapes = [&side](size_t segment, const std::vector<size_t> &rows,
	                            const vibespatial::PinnedProbe::Visit &visit) {
		side.ReadShapes(segment, rows, visit);
	};
	return true;
}

//===----------------------------------------------------------------------===//
// The host of the session
//===----------------------------------------------------------------------===//
void PairsDispatch::Poll() {
	if (context.IsInterrupted()) {
		throw InterruptException();
	}
}

std::unique_ptr<vibespatial::TilePayload> PairsDispatch::NewPayload() {
	return std::make_unique<TileChunks>(context, op.buffered_columns);
}

bool PairsDispatch::DeviceIsStarting() {
	return mode == ExecutionMode::GPU && IsComing(dispatch.EngineIfOpen());
}

void PairsDispatch::WaitForDevice() {
	dispatch.AddWait(OperatorDispatch::WaitForDevice(op.points_operation));
}

void PairsDispatch::TileFinished(TimePoint begin, const vibespatial::GpuTimes &times) {
	{
		lock_guard<mutex> guard(lock);
		if (first_result == TimePoint()) {
			first_result = Now();
		}
	}
	AddWork("tile", begin, times);
}

void PairsDispatch::EndProbe() {
	AddStep("scan", "probe side", ready, Now());
}

void PairsDispatch::WaitForKernels(const std::vector<std::string> &names) {
	OperatorDispatch::WaitForKernels(dispatch, names);
}

void PairsDispatch::DeviceFailed(const string &reason) {
	if (mode == ExecutionMode::GPU) {
		FailOnDevice("find the pairs", reason);
	}
}

void PairsDispatch::LeftToCpu(size_t count, const char *what, const char *why) {
	RequireGpu(context, operator_name, to_string(count) + " " + what + " are left to it, since " + why);
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//
void PairsDispatch::CountedRows(idx_t &rows, idx_t &pairs) const {
	if (Counts().empty()) {
		return;
	}
	rows += session.Report().rows;
	for (auto count : Counts()) {
		pairs += count;
	}
}

void PairsDispatch::Finish(idx_t probed_rows) {
	lock_guard<mutex> guard(lock);
	if (finished) {
		return;
	}
	finished = true;
	auto report = session.Report();
	dispatch.AddRows(report.tiles == 0 && report.rows == 0 ? probed_rows : report.rows);
	dispatch.AddRowsOnCpu(report.cpu_rows);
	dispatch.AddOpenPairs(report.open_pairs);
	dispatch.AddTimes(report.times);
	dispatch.CountPieces(report.tiles, report.tiles_on_cpu);
	if (!report.failure.empty()) {
		dispatch.Fail(report.failure);
	}
	if (report.open_pairs > 0) {
		dispatch.AddNote("pairs that the device left open decided by the CPU");
	}
	if (report.left_rows > 0) {
		dispatch.AddNote("rows that the device could not read done by the CPU");
	}
	if (report.was_resident) {
		dispatch.AddNote("the build side was on the device");
	}
	pinned_work.probe.rows.reset();
	// The CPU finds pairs and emits them in turn
	const bool on_device = first_result != TimePoint();
	AddStep("emit", on_device ? "pairs" : "pairs, found by the CPU", on_device ? first_result : ready, Now());
	dispatch.Finish("tiles");
}

string PairsDispatch::Describe() {
	auto report = session.Report();
	if (report.tiles == 0) {
		return "cpu (" + (report.failure.empty() ? dispatch.Reason() : report.failure) + ")";
	}
	return StringUtil::Format("gpu (%s): %llu tiles, %.1f ms to the device, %.1f kernels, %.1f back, summed over "
	                          "tiles that overlap; %llu pairs left to the CPU",
	                          dispatch.Reason(), report.tiles, report.times.to_device_ms, report.times.kernel_ms,
	                          report.times.from_device_ms, report.open_pairs);
}

static vibespatial::Decision DecidePlan(ClientContext &context, vibespatial::Operation operation, idx_t probe_rows) {
	return vibespatial::Decide(GetExecutionMode(context), operation, probe_rows, GetGpuMinRows(context));
}

string PairsDispatch::DescribePin(ClientContext &context, const PhysicalSpatialJoin &op) {
	if (!op.pinned_scan) {
		return string();
	}
	vibespatial::PinnedTerms filter;
	string why_not;
	auto table = LookUpPin(context, op, filter, why_not);
	if (!table || !why_not.empty()) {
		return string();
	}
	auto decision = DecidePlan(context, vibespatial::Operation::JOIN_PINNED, table->rows);
	return decision.IsGpu() ? "gpu (" + DescribePinned(*table) + ")" : string();
}

bool PairsDispatch::IsPlanned(ClientContext &context, vibespatial::Operation operation, idx_t probe_rows) {
	return DecidePlan(context, operation, probe_rows).IsGpu();
}

string PairsDispatch::DescribePlan(ClientContext &context, vibespatial::Operation operation, idx_t probe_rows,
                                   idx_t build_rows) {
	auto decision = DecidePlan(context, operation, probe_rows);
	if (decision.IsGpu()) {
		return (GetExecutionMode(context) == ExecutionMode::AUTO ? "gpu for points (" : "gpu (") + decision.reason +
		       ")";
	}
	return IndexDispatch::DescribePlan(context, build_rows);
}

} // namespace duckdb
