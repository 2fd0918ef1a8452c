#include "duckdb/tables/tables.hpp"

#include "duckdb/support/task_parallel.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/tables/table_builder.hpp"
#include "engine/gpu/runtime/runtime.hpp"
#include "engine/dispatch/kernel_registry.hpp"
#include "engine/dispatch/operation.hpp"

#include <chrono>

namespace duckdb {

using vibespatial::ExecutionMode;
using vibespatial::GpuRuntime;
using vibespatial::KernelState;
using vibespatial::KernelStatus;

namespace {

const char *StateText(KernelState state) {
	switch (state) {
	case KernelState::PENDING:
		return "pending";
	case KernelState::COMPILING:
		return "compiling";
	case KernelState::READY:
		return "ready";
	case KernelState::FAILED:
		return "failed";
	default:
		return "idle";
	}
}

//! Why no engine compiles anything
string WhyIdle(ClientContext &context) {
	auto &runtime = GpuRuntime::Get();
	switch (runtime.GetPhase()) {
	case GpuRuntime::Phase::OPENING:
		return "the GPU engine is being opened";
	case GpuRuntime::Phase::FAILED:
		return runtime.State();
	default:
		break;
	}
	string error;
	if (runtime.PluginPath(error).empty()) {
		return error;
	}
	if (GetPrecompile(context) == Precompile::OFF) {
		return "not started: vibe_precompile is off";
	}
	if (GetExecutionMode(context) == ExecutionMode::CPU) {
		return "not started: vibe_execution_mode is cpu";
	}
	if (!GpuRuntime::DeviceIsPossible()) {
		return string("not started: ") + GpuRuntime::NoDeviceText();
	}
	return "not started: FROM vibe_ensure_warm() starts it";
}

//! A row for everything in the registry, then what else the engine knows
vector<KernelStatus> AllStatus(ClientContext &context) {
	vector<KernelStatus> result;
	unordered_map<string, idx_t> places;
	auto add = [&](const char *kind, const char *name) {
		KernelStatus status;
		status.kind = kind;
		status.name = name;
		places.emplace(name, result.size());
		result.push_back(std::move(status));
	};
	for (auto &unit : vibespatial::KernelUnits()) {
		add("unit", unit.name);
	}
	for (auto &spec : vibespatial::KernelSpecs()) {
		add("spec", spec.name);
	}
	string idle;
	if (auto engine = GpuRuntime::Get().IfOpen()) {
		for (auto &status : engine->Status()) {
			auto place = places.find(status.name);
			if (place == places.end()) {
				result.push_back(std::move(status));
			} else {
				result[place->second] = std::move(status);
			}
		}
		idle = engine->Device().error;
	} else {
		idle = WhyIdle(context);
	}
	for (auto &status : result) {
		if (status.state == KernelState::IDLE && status.error.empty()) {
			auto spec = vibespatial::FindSpec(status.name);
			status.error = idle.empty() && spec && spec->on_demand ? "on demand: no operator needs it" : idle;
		}
	}
	return result;
}

SqlTable::rows_t StatusRows(ClientContext &context, const vector<Value> &) {
	SqlTable::rows_t rows;
	idx_t submitted = 0, compiled = 0, pending = 0, failed = 0, bytes = 0;
	double begin = NumericLimits<double>::Maximum(), end = 0, longest_wait = 0;
	for (auto &status : AllStatus(context)) {
		submitted += status.state != KernelState::IDLE;
		compiled += status.state == KernelState::READY;
		pending += status.state == KernelState::PENDING || status.state == KernelState::COMPILING;
		failed += status.state == KernelState::FAILED;
		bytes += status.bytes;
		if (status.end_ms > 0) {
			begin = MinValue(begin, status.begin_ms);
			end = MaxValue(end, status.end_ms);
		}
		longest_wait = MaxValue(longest_wait, status.queue_ms);
		rows.push_back({Value(status.kind), Value(status.name), Value(StateText(status.state)),
		                TextOrNull(status.source), TextOrNull(status.requested_by), Value::DOUBLE(status.queue_ms),
		                Value::DOUBLE(status.wall_ms), Value::UBIGINT(status.bytes), TextOrNull(status.error)});
	}
	auto state = submitted == 0 ? "idle" : pending > 0 ? "compiling" : failed > 0 ? "failed" : "ready";
	auto totals = StringUtil::Format("submitted %llu, compiled %llu, pending %llu, failed %llu", submitted, compiled,
	                                 pending, failed);
	rows.push_back({Value("total"), Value("all"), Value(state), Value(LogicalType::VARCHAR),
	                Value(LogicalType::VARCHAR), Value::DOUBLE(longest_wait), Value::DOUBLE(end > 0 ? end - begin : 0),
	                Value::UBIGINT(bytes), Value(totals)});
	return rows;
}

//! Waits, but not when the query is cancelled
SqlTable::rows_t WarmRows(ClientContext &context, const vector<Value> &arguments) {
	constexpr double STEP = 0.1;
	double timeout = 60;
	if (!arguments.empty()) {
		timeout = arguments[0].IsNull() ? -1 : DoubleValue::Get(arguments[0]);
		if (!(timeout >= 0)) {
			throw InvalidInputException("vibe_ensure_warm: the timeout is a number of seconds, not %s",
			                            arguments[0].ToString());
		}
	}
	auto names = AllKernels();
	if (arguments.size() > 1) {
		auto set = arguments[1].IsNull() ? vibespatial::KernelSet::NONE
		                                 : vibespatial::FindKernelSet(StringValue::Get(arguments[1]));
		if (set == vibespatial::KernelSet::NONE) {
			string known;
			for (auto *name : vibespatial::KernelSetNames()) {
				known += (known.empty() || !*name ? "" : ", ") + string(name);
			}
			throw InvalidInputException("vibe_ensure_warm: there are no kernels for %s, only for %s",
			                            arguments[1].ToString(), known);
		}
		names = vibespatial::KernelNeeds(set);
	}
	auto begin = std::chrono::steady_clock::now();
	auto left = [&] {
		return timeout - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	};
	auto poll = CancelPoll(context);
	SqlTable::rows_t rows;
	string why_not;
	auto engine = WaitForGpu(context, timeout, why_not);
	if (!engine) {
		for (auto &name : names) {
			rows.push_back({Value(name), Value(why_not)});
		}
		return rows;
	}
	engine->Request(names, "vibe_ensure_warm", true);
	std::vector<std::string> cold;
	while (true) {
		poll();
		cold = engine->EnsureWarm(names, MaxValue(0.0, MinValue(STEP, left())));
		bool can_come = false;
		if (!cold.empty()) {
			for (auto &status : engine->Status()) {
				can_come |= std::find(cold.begin(), cold.end(), status.name) != cold.end() &&
				            status.state != KernelState::FAILED;
			}
		}
		if (!can_come || left() <= 0) {
			break;
		}
	}
	unordered_map<string, string> reasons;
	for (auto &status : engine->Status()) {
		reasons[status.name] = status.error.empty() ? StateText(status.state) : status.error;
	}
	for (auto &name : cold) {
		rows.push_back({Value(name), TextOrNull(reasons[name])});
	}
	return rows;
}

} // namespace

void RegisterPrecompiler(ExtensionLoader &loader) {
	SqlTable(
	    "vibe_precompile_status",
	    "The GPU kernels and whether they are ready: a row for each, and their totals in a last one. Opens nothing; "
	    "where nothing is compiled, error says why.")
	    .Column("kind", LogicalType::VARCHAR)
	    .Column("name", LogicalType::VARCHAR)
	    .Column("state", LogicalType::VARCHAR)
	    .Column("source", LogicalType::VARCHAR)
	    .Column("requested_by", LogicalType::VARCHAR)
	    .Column("queue_ms", LogicalType::DOUBLE)
	    .Column("wall_ms", LogicalType::DOUBLE)
	    .Column("bytes", LogicalType::UBIGINT)
	    .Column("error", LogicalType::VARCHAR)
	    .Overload({})
	    .Example("kind, name, state, error FROM vibe_precompile_status()")
	    .Register(loader, StatusRows);
	SqlTable("vibe_ensure_warm", "Waits until all GPU kernels that operators need, or those of one operator, are "
	                             "ready, for at most `timeout` seconds (60). The rows are "
	                             "those that are not, with the reason.")
	    .Column("name", LogicalType::VARCHAR)
	    .Column("reason", LogicalType::VARCHAR)
	    .Overload({})
	    .Overload({{"timeout", LogicalType::DOUBLE}})
	    .Overload({{"timeout", LogicalType::DOUBLE}, {"operator", LogicalType::VARCHAR}})
	    .Example("name, reason FROM vibe_ensure_warm(10, 'spatial_join')")
	    .Register(loader, WarmRows);
}

} // namespace duckdb
