#include "duckdb/knn/dispatch.hpp"

#include "duckdb/knn/pinned_right.hpp"
#include "duckdb/support/cpu_work.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/support/task_parallel.hpp"
#include "engine/join/session/forecast.hpp"
#include "engine/join/tuning.hpp"
#include "vibe/wkb.h"

namespace duckdb {

using vibespatial::GpuSearch;
using vibespatial::GpuTimes;
using vibespatial::JoinRow;
using vibespatial::KnnIndex;
using vibespatial::Operation;
using vibespatial::SideKinds;
using vibespatial::join_tuning::MIN_FORECAST_ROWS;

string KnnDispatch::TooMany() {
	return "the GPU finds at most " + to_string(GpuSearch::MAX_K) + " neighbours";
}

KnnDispatch::KnnDispatch(ClientContext &context, uint64_t k, double max_distance,
                         const vibespatial::KernelNames &kernels)
    : OperatorDispatch(context, "VIBE_KNN"), k(k), max_distance(max_distance),
      dispatch(Operation::KNN, mode, operator_name, query) {
	ready = Now();
	StartDevice(Operation::KNN, kernels);
}

KnnDispatch::~KnnDispatch() {
	try {
		if (cpu_rows > 0 && dispatch.OnGpu()) {
			dispatch.AddNote("rows that the device does not take searched for by the CPU");
		}
		dispatch.AddRowsOnCpu(cpu_rows);
		AddStep("emit", "neighbours", ready, Now());
		dispatch.Finish("tiles");
	} catch (const std::exception &) { // NOLINT: a log without this line is better than no end
	}
}

static string WhyNotForGpu(const KnnIndex &index, idx_t left_rows, uint64_t k) {
	return k > GpuSearch::MAX_K     ? KnnDispatch::TooMany()
	       : left_rows == 0         ? "nothing to search for"
	       : index.ItemCount() == 0 ? "nothing to search among"
	                                : "";
}

static bool IsPoint(const JoinRow &row) {
	return !row.data || vibe::WkbTypeOf(vibe::LoadCount(row.data + 1)) == vibe::WKB_POINT;
}

void KnnDispatch::Decide(const KnnIndex &index, idx_t left_rows, const std::vector<JoinRow> &first_rows,
                         vibespatial::Parallel &parallel) {
	dispatch.AddWait(WaitForDevice(Operation::KNN));
	left_has_shapes = !std::all_of(first_rows.begin(), first_rows.end(), IsPoint);
	const auto operation = left_has_shapes || !index.AllPoints() ? Operation::KNN_SHAPES : Operation::KNN;
	const auto min_rows = GetGpuMinRows(context);
	const bool may_forecast = mode == vibespatial::ExecutionMode::AUTO && min_rows < 0;
	dispatch.DecideAgain(operation, left_rows, may_forecast ? MIN_FORECAST_ROWS : min_rows);
	dispatch.AddRows(left_rows);
	auto why_not = WhyNotForGpu(index, left_rows, k);
	if (dispatch.OnGpu() && !why_not.empty()) {
		if (left_rows > 0 && index.ItemCount() > 0) {
			RequireGpu(context, operator_name, why_not);
		}
		dispatch.KeepOnCpu(why_not);
	}
	if (dispatch.OnGpu() && may_forecast) {
		vibespatial::Forecast forecast;
		vibespatial::KnnSearch search(index, k, max_distance, CancelPoll(context));
		const bool found_out =
		    vibespatial::ForecastNeighbours(search, index, first_rows, left_rows, parallel.Threads(), forecast);
		dispatch.DecideAgain(operation, left_rows, min_rows, found_out ? &forecast : nullptr);
	}
	ready = Now();
	if (!dispatch.OnGpu()) {
		return;
	}
	device_k = NumericCast<uint32_t>(MinValue<uint64_t>(k, index.RowCount()));
	try {
		part_count = CountParts(index);
		// Where some left rows are no points, there are still tiles of points, and there may be parts of points
		const auto others = part_count > 1 ? SideKinds() : SideKinds::Shapes(true, true);
		WaitForKernels(dispatch, NeighbourNeeds(left_has_shapes ? SideKinds() : SideKinds::Points(),
		                                        index.AllPoints() ? SideKinds::Points() : others));
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const std::exception &error) {
		part_count = 1;
		Fail(error);
		return;
	}
	if (part_count == 1) {
		Upload(index, parallel);
	}
	ready = Now();
}

void KnnDispatch::DecidePinned(const PinnedRight &right, idx_t left_rows, const std::vector<JoinRow> &first_rows) {
	dispatch.AddWait(WaitForDevice(Operation::KNN_PINNED));
	left_has_shapes = !std::all_of(first_rows.begin(), first_rows.end(), IsPoint);
	dispatch.DecideAgain(Operation::KNN_PINNED, right.RowCount(), GetGpuMinRows(context));
	dispatch.AddRows(left_rows);
	dispatch.AddNote(right.Note());
	right.CountHit();
	ready = Now();
	if (dispatch.OnGpu() && left_rows == 0) {
		dispatch.KeepOnCpu("nothing to search for");
	}
	if (!dispatch.OnGpu()) {
		return;
	}
	device_k = NumericCast<uint32_t>(MinValue<uint64_t>(k, right.RowCount()));
	try {
		WaitForKernels(dispatch, PinnedNeighbourNeeds(left_has_shapes ? SideKinds() : SideKinds::Points()));
		pinned = right;
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const std::exception &error) {
		Fail(error);
	}
	ready = Now();
}

idx_t KnnDispatch::CountParts(const KnnIndex &index) const {
	//! The rest is for the tiles of all threads
	constexpr idx_t SHARE = 2;
	//! Of a row or a part of one, beside its coordinates and its box
	constexpr idx_t ITEM_BYTES = sizeof(vibe::ShapeView) + 64;
	const auto limit = dispatch.Engine().MemoryLimit();
	// Shapes are sent as WKB, and their coordinates are copied out of it
	const auto needed =
	    index.AllPoints() ? index.DeviceBytes() : 2 * index.DeviceBytes() + index.ItemCount() * ITEM_BYTES;
	return limit == 0 || needed <= limit / SHARE ? 1 : MinValue(index.RowCount(), needed / (limit / SHARE + 1) + 1);
}

bool KnnDispatch::Upload(const KnnIndex &index, vibespatial::Parallel &parallel) {
	try {
		auto made = dispatch.Engine().NewBuild();
		GpuTimes times;
		const auto begin = Now();
		index.Upload(*made, parallel, times);
		dispatch.AddTimes(times);
		AddWork("right side", begin, times);
		build = std::move(made);
		return true;
	} catch (const Exception &) {
		throw; // DuckDB's own: the query was cancelled
	} catch (const vibespatial::GpuMemoryError &error) {
		RequireGpu(context, operator_name, error.what());
		dispatch.RunOutOfMemory(error.what());
	} catch (const std::exception &error) {
		Fail(error);
	}
	return false;
}

bool KnnDispatch::UploadPart(const KnnIndex &part, vibespatial::Parallel &parallel) {
	build.reset(); // makes room
	return dispatch.OnGpu() && Upload(part, parallel);
}

void KnnDispatch::LeaveParts(const string &why) {
	build.reset();
	RequireGpu(context, operator_name, why);
	dispatch.RunOutOfMemory(why);
}

void KnnDispatch::FinishParts() {
	build.reset();
	ready = Now();
	dispatch.AddNote("among " + to_string(part_count) + " parts of the right side, one after the other");
}

std::unique_ptr<GpuSearch> KnnDispatch::NewSearch() {
	return pinned ? pinned->NewSearch(device_k, max_distance)
	              : dispatch.Engine().NewSearch(build, device_k, max_distance);
}

bool KnnDispatch::Try(const std::function<void()> &work) {
	try {
		work();
		return true;
	} catch (const vibespatial::GpuMemoryError &error) {
		RequireGpu(context, operator_name, error.what());
		dispatch.CountPieces(0, 1);
	} catch (const std::exception &error) {
		Fail(error);
	}
	return false;
}

void KnnDispatch::AddCpuRows(idx_t rows) {
	if (rows > 0 && dispatch.OnGpu()) {
		RequireGpu(context, operator_name,
		           to_string(rows) +
		               " left rows are EMPTY, collections or of more than 16 KiB, or other geometries than "
		               "points where the first rows are points");
	}
	cpu_rows += rows;
}

void KnnDispatch::AddTile(TimePoint begin, const GpuTimes &times) {
	AddWork("tile", begin, times);
	dispatch.AddTimes(times);
	dispatch.CountPieces(1, 0);
}

string KnnDispatch::DescribePlan(ClientContext &context, idx_t left_rows, uint64_t k) {
	auto mode = GetExecutionMode(context);
	auto decision = vibespatial::Decide(mode, Operation::KNN, left_rows, GetGpuMinRows(context));
	if (decision.IsGpu() && k > GpuSearch::MAX_K) {
		RequireGpu(context, "VIBE_KNN", TooMany());
		decision = vibespatial::Decision {vibespatial::ExecutionMode::CPU, TooMany(), nullptr};
	}
	return decision.Describe();
}

void KnnDispatch::Fail(const std::exception &error) {
	if (!dispatch.Fail(error.what())) {
		FailOnDevice("search", error.what());
	}
}

} // namespace duckdb
