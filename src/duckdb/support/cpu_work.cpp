#include "duckdb/support/cpu_work.hpp"

#include "duckdb/main/client_context_state.hpp"
#include "duckdb/support/settings.hpp"
#include "engine/dispatch/events.hpp"
#include "engine/overlay/tuning.hpp"

#include <map>

namespace duckdb {

using vibespatial::DispatchEvent;
using vibespatial::ExecutionMode;

//! Operators around the calling thread's calls that log them
static thread_local idx_t operators_that_log = 0;
//! How often the calling thread's call has called the device
static thread_local idx_t device_calls = 0;
//! The groups that the calling thread finalizes
static thread_local CpuWorkOfGroups *current_groups = nullptr;

namespace {

//! The events of a connection's query, until it ends
class CpuWorkLog : public ClientContextState {
public:
	void Add(ClientContext &context, const CpuFunction &function, idx_t rows, double milliseconds) {
		lock_guard<mutex> guard(lock);
		if (events.empty()) {
			try {
				query = LoggedQuery(context);
			} catch (const std::exception &) { // NOLINT: not every call is part of a query
				query = QueryOf(context);
			}
		}
		auto &event = events[function.name];
		event.operator_name = function.kind;
		event.reason = function.reason;
		event.rows += rows;
		event.total_ms += milliseconds;
	}

	using ClientContextState::QueryEnd;
	void QueryEnd(ClientContext &) override {
		lock_guard<mutex> guard(lock);
		for (auto &entry : events) {
			auto &event = entry.second;
			event.query = query;
			event.operation = entry.first;
			event.requested = ToText(ExecutionMode::GPU);
			event.selected = event.actual = ToText(ExecutionMode::CPU);
			event.rows_on_cpu = event.rows;
			vibespatial::DispatchLog::Get().Add(std::move(event));
		}
		events.clear();
	}

private:
	mutex lock;
	vibespatial::QueryText query;
	//! By the function
	std::map<string, DispatchEvent> events;
};

//! Those that VIBE_SCALAR_BATCH takes: duckdb/scalar_batch/logical.cpp
bool HasBatch(const string &name) {
	static const vector<string> NAMES {"ST_Area",
	                                   "ST_Contains",
	                                   "ST_ContainsProperly",
	                                   "ST_CoveredBy",
	                                   "ST_Covers",
	                                   "ST_Crosses",
	                                   "ST_Centroid",
	                                   "ST_ConvexHull",
	                                   "ST_Difference",
	                                   "ST_Disjoint",
	                                   "ST_Distance",
	                                   "ST_DWithin",
	                                   "ST_Equals",
	                                   "ST_FlipCoordinates",
	                                   "ST_HausdorffDistance",
	                                   "ST_Intersection",
	                                   "ST_Intersects",
	                                   "ST_Length",
	                                   "ST_Overlaps",
	                                   "ST_Perimeter",
	                                   "ST_Simplify",
	                                   "ST_SymDifference",
	                                   "ST_Touches",
	                                   "ST_Union",
	                                   "ST_Within",
	                                   "ST_WithinProperly",
	                                   "vibe_difference_area",
	                                   "vibe_intersection_area",
	                                   "vibe_symdifference_area",
	                                   "vibe_union_area"};
	return std::find(NAMES.begin(), NAMES.end(), name) != NAMES.end();
}

string SmallUnions() {
	// Not by StringUtil::Format(): without memory that ends the database
	return "the GPU unites polygons alone, from " + to_string(vibespatial::overlay_tuning::LEAST_POLYGONS) +
	       " of them and " + to_string(vibespatial::overlay_tuning::LEAST_VERTICES) + " vertices on";
}

} // namespace

CpuFunction CpuFunction::Scalar(const string &name) {
	if (name == "ST_UnaryUnion") {
		return CpuFunction {"FUNCTION", name, SmallUnions(), true};
	}
	if (HasBatch(name)) {
		return CpuFunction {
		    "FUNCTION", name,
		    "the GPU computes it in filters, projections and aggregates, but not in the filter of a scan, "
		    "inside of CASE, COALESCE, TRY, FILTER, a lambda or another call, or in a join's conditions "
		    "beside the first",
		    false};
	}
	return CpuFunction {"FUNCTION", name, name + " has no GPU variant", false};
}

CpuFunction CpuFunction::Aggregate(const string &name) {
	auto lower = StringUtil::Lower(name);
	const bool unites = StringUtil::EndsWith(lower, "union_agg");
	return CpuFunction {"AGGREGATE", name,
	                    unites ? "the GPU unites groups of two or more polygons, if all of them are valid"
	                           : name + " has no GPU variant",
	                    unites};
}

//! Adds to the event of the query
static void Log(ClientContext &context, const CpuFunction &function, idx_t rows, double milliseconds) {
	context.registered_state->GetOrCreate<CpuWorkLog>("vibespatial_cpu_work")
	    ->Add(context, function, rows, milliseconds);
}

bool CpuWork::IsLogged(ClientContext &context) {
	if (operators_that_log > 0) {
		return false;
	}
	auto groups = current_groups;
	if (!groups) {
		return IsModeGpu(context);
	}
	if (groups->context != &context) {
		groups->context = &context;
		groups->is_logged = IsModeGpu(context);
	}
	return groups->is_logged;
}

CpuWork::CpuWork(ClientContext &context, const CpuFunction &function)
    : context(context), function(function), begin(std::chrono::steady_clock::now()) {
	device_calls = 0;
	const bool is_known = current_groups && current_groups->function == &function;
	if (!function.may_use_device && !is_known) {
		RequireGpu(context, function.name, function.reason);
	}
}

void CpuWork::Finish(idx_t rows, idx_t rows_at_once) {
	if (function.may_use_device) {
		rows -= MinValue(rows, device_calls * rows_at_once);
	}
	if (rows == 0) {
		return;
	}
	const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
	auto groups = current_groups;
	if (!groups || (groups->function && groups->function != &function)) {
		RequireGpu(context, function.name, function.reason);
		Log(context, function, rows, took.count());
		return;
	}
	if (!groups->function) {
		RequireGpu(context, function.name, function.reason);
		groups->function = &function;
	}
	groups->rows += rows;
	groups->milliseconds += took.count();
}

void CpuWork::CountDeviceCall() {
	device_calls++;
}

CpuWorkOfGroups::CpuWorkOfGroups() : around(current_groups) {
	current_groups = this;
}

CpuWorkOfGroups::~CpuWorkOfGroups() {
	current_groups = around;
}

void CpuWorkOfGroups::Finish() {
	if (function) {
		Log(*context, *function, rows, milliseconds);
		function = nullptr;
	}
}

CpuWorkOfOperator::CpuWorkOfOperator() {
	operators_that_log++;
}

CpuWorkOfOperator::~CpuWorkOfOperator() {
	operators_that_log--;
}

void RequireGpu(ClientContext &context, const string &what, const string &reason) {
	if (GetGpuStrict(context)) {
		throw NotImplementedException("%s: vibe_gpu_strict is on, and this would be done by the CPU: %s. SET "
		                              "vibe_gpu_strict = false lets the CPU do it",
		                              what, reason);
	}
}

} // namespace duckdb
