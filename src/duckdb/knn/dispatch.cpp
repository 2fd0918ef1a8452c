#include "duckdb/knn/dispatch.hpp"

#include "duckdb/support/settings.hpp"

namespace duckdb {

using vibespatial::GpuPoints;
using vibespatial::GpuTimes;
using vibespatial::Operation;

KnnDispatch::KnnDispatch(ClientContext &context)
    : OperatorDispatch(context, "VIBE_KNN"), dispatch(Operation::KNN, mode, operator_name, query) {
	StartDevice(Operation::KNN);
}

static const char *WhyNotForGpu(const vibespatial::KnnIndex &index, idx_t left_rows, uint64_t k) {
	return !index.AllPoints()       ? "the GPU searches among points only"
	       : k > GpuPoints::MAX_K   ? "the GPU finds at most 32 neighbours"
	       : left_rows == 0         ? "nothing to search for"
	       : index.ItemCount() == 0 ? "nothing to search among"
	                                : nullptr;
}

void KnnDispatch::Decide(const vibespatial::KnnIndex &index, idx_t left_rows, uint64_t k,
                         vibespatial::Parallel &parallel) {
	dispatch.AddWait(WaitForDevice(Operation::KNN));
	dispatch.Decide(left_rows, GetGpuMinRows(context));
	dispatch.AddRows(left_rows);
	auto why_not = WhyNotForGpu(index, left_rows, k);
	if (dispatch.OnGpu() && why_not) {
		dispatch.KeepOnCpu(why_not);
	}
	if (!dispatch.OnGpu()) {
		return;
	}
	try {
		auto &engine = dispatch.Engine();
		dispatch.AddWait(WaitForKernels(engine, Operation::KNN));
		GpuTimes times;
		points = engine.KnnPoints(index.Tree().Nodes(), index.Tree().Ids(), index.Leaves(), parallel, times);
		dispatch.AddTimes(times);
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
	dispatch.AddTimes(times);
	return true;
}

string KnnDispatch::DescribePlan(ClientContext &context, idx_t left_rows) {
	auto mode = GetExecutionMode(context);
	return vibespatial::Decide(mode, Operation::KNN, left_rows, GetGpuMinRows(context)).Describe();
}

void KnnDispatch::Fail(const std::exception &error) {
	if (!dispatch.Fail(error.what())) {
		FailOnDevice("search", error.what());
	}
}

} // namespace duckdb
