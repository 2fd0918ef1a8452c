#include "duckdb/tables/tables.hpp"

#include "duckdb/support/settings.hpp"
#include "duckdb/tables/table_builder.hpp"
#include "engine/dispatch/dispatch.hpp"
#include "engine/dispatch/events.hpp"
#include "engine/dispatch/thresholds.hpp"

#include <map>

namespace duckdb {

using vibespatial::DispatchEvent;

namespace {

SqlTable::rows_t KernelRows(ClientContext &, const vector<Value> &) {
	SqlTable::rows_t rows;
	auto &thresholds = vibespatial::Thresholds::Current();
	for (auto &operation : vibespatial::Operations()) {
		const auto threshold = thresholds.Rows(static_cast<vibespatial::Operation>(rows.size()));
		bool by_rows = operation.HasGpu() && threshold != vibespatial::OperationInfo::NEVER;
		vector<Value> kernels;
		for (auto &name : vibespatial::KernelNeeds(operation.kernels)) {
			kernels.emplace_back(name);
		}
		rows.push_back({Value(operation.name), Value(operation.description), Value(operation.precision),
		                Value(operation.guarantee), by_rows ? Value::UBIGINT(threshold) : Value(LogicalType::UBIGINT),
		                Value(operation.HasGpu() ? "cpu, gpu" : "cpu"),
		                Value::LIST(LogicalType::VARCHAR, std::move(kernels)),
		                operation.HasGpu() ? Value(thresholds.AreCalibrated() ? "calibration" : "reference")
		                                   : Value(LogicalType::VARCHAR)});
	}
	return rows;
}

//! Kernel by kernel, where it came from
Value KernelsOf(const vibespatial::DispatchEvent &event) {
	vector<Value> names, sources;
	for (auto &kernel : event.kernels) {
		names.emplace_back(kernel.first);
		sources.emplace_back(kernel.second);
	}
	return Value::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR, std::move(names), std::move(sources));
}

SqlTable::rows_t LogRows(ClientContext &context, const vector<Value> &) {
	SqlTable::rows_t rows;
	for (auto &event : vibespatial::DispatchLog::Get().Events()) {
		rows.push_back({Value::UBIGINT(event.sequence),
		                Value::TIMESTAMPTZ(timestamp_tz_t(event.time)),
		                MaySee(context, event.query) ? Value(event.query.text) : Value(LogicalType::VARCHAR),
		                Value(event.operator_name),
		                Value(event.operation),
		                Value(event.requested),
		                Value(event.selected),
		                Value(event.actual),
		                Value(event.reason),
		                Value::UBIGINT(event.rows),
		                Value::UBIGINT(event.rows_on_device),
		                Value::UBIGINT(event.rows_on_cpu),
		                Value::UBIGINT(event.open_pairs),
		                Value::UBIGINT(event.bytes_to_device),
		                Value::UBIGINT(event.bytes_from_device),
		                Value::DOUBLE(event.wait_ms),
		                Value::DOUBLE(event.to_device_ms),
		                Value::DOUBLE(event.kernel_ms),
		                Value::DOUBLE(event.from_device_ms),
		                Value::DOUBLE(event.total_ms),
		                Value::BOOLEAN(event.fallback),
		                KernelsOf(event),
		                Value::DOUBLE(event.kernel_wait_ms),
		                Value::UBIGINT(event.query.id)});
	}
	return rows;
}

//! The events of one operation or function
struct Coverage {
	uint64_t events = 0;
	uint64_t fallbacks = 0;
	DispatchEvent sum;

	void Add(const DispatchEvent &event) {
		events++;
		fallbacks += event.fallback ? 1 : 0;
		sum.rows += event.rows;
		sum.rows_on_device += event.rows_on_device;
		sum.rows_on_cpu += event.rows_on_cpu;
		sum.open_pairs += event.open_pairs;
		sum.bytes_to_device += event.bytes_to_device;
		sum.bytes_from_device += event.bytes_from_device;
		sum.wait_ms += event.wait_ms;
		sum.kernel_ms += event.kernel_ms;
		sum.total_ms += event.total_ms;
	}
};

SqlTable::rows_t CoverageRows(ClientContext &, const vector<Value> &) {
	std::map<string, Coverage> coverage;
	for (auto &event : vibespatial::DispatchLog::Get().Events()) {
		coverage[event.operation].Add(event);
	}
	SqlTable::rows_t rows;
	for (auto &entry : coverage) {
		auto &sum = entry.second.sum;
		const auto done = sum.rows_on_device + sum.rows_on_cpu;
		rows.push_back(
		    {Value(entry.first), Value::UBIGINT(entry.second.events), Value::UBIGINT(sum.rows),
		     Value::UBIGINT(sum.rows_on_device), Value::UBIGINT(sum.rows_on_cpu),
		     done > 0 ? Value::DOUBLE(double(sum.rows_on_device) / double(done)) : Value(LogicalType::DOUBLE),
		     Value::UBIGINT(sum.open_pairs), Value::UBIGINT(sum.bytes_to_device), Value::UBIGINT(sum.bytes_from_device),
		     Value::DOUBLE(sum.wait_ms), Value::DOUBLE(sum.kernel_ms), Value::DOUBLE(sum.total_ms),
		     Value::UBIGINT(entry.second.fallbacks)});
	}
	return rows;
}

} // namespace

void RegisterDispatch(ExtensionLoader &loader) {
	SqlTable("vibe_kernels", "The operations that the CPU or the GPU does: their precision, what they guarantee, the "
	                         "number of rows from which mode auto prefers the GPU (NULL: never), the units and "
	                         "specs that they need there, and where that number comes from: calibration (the "
	                         "figures of this machine, see vibe_gpu_info()) or reference (until it was measured).")
	    .Column("operation", LogicalType::VARCHAR)
	    .Column("description", LogicalType::VARCHAR)
	    .Column("precision", LogicalType::VARCHAR)
	    .Column("guarantee", LogicalType::VARCHAR)
	    .Column("threshold_rows", LogicalType::UBIGINT)
	    .Column("variants", LogicalType::VARCHAR)
	    .Column("kernels", LogicalType::LIST(LogicalType::VARCHAR))
	    .Column("threshold_source", LogicalType::VARCHAR)
	    .Overload({})
	    .Example("operation, threshold_rows, variants FROM vibe_kernels()")
	    .Register(loader, KernelRows);
	SqlTable(
	    "vibe_dispatch_log",
	    "The last 4096 decisions for the CPU or the GPU in this process, oldest first: what was requested, "
	    "selected and done, why, how many rows each did, and where the time went. In mode gpu there is also a row for "
	    "each function of a query that the CPU computed. Mode cpu decides nothing and leaves no row. The text of a "
	    "query is NULL where it is another connection's, unless vibe_log_queries is 'all'. kernels has the GPU kernels "
	    "that the work waited for, kernel_wait_ms in all, and where each came from: pack, disk (the cache) or jit "
	    "(compiled).")
	    .Column("sequence", LogicalType::UBIGINT)
	    .Column("time", LogicalType::TIMESTAMP_TZ)
	    .Column("query", LogicalType::VARCHAR)
	    .Column("operator", LogicalType::VARCHAR)
	    .Column("operation", LogicalType::VARCHAR)
	    .Column("requested", LogicalType::VARCHAR)
	    .Column("selected", LogicalType::VARCHAR)
	    .Column("actual", LogicalType::VARCHAR)
	    .Column("reason", LogicalType::VARCHAR)
	    .Column("rows", LogicalType::UBIGINT)
	    .Column("rows_on_device", LogicalType::UBIGINT)
	    .Column("rows_on_cpu", LogicalType::UBIGINT)
	    .Column("open_pairs", LogicalType::UBIGINT)
	    .Column("bytes_to_device", LogicalType::UBIGINT)
	    .Column("bytes_from_device", LogicalType::UBIGINT)
	    .Column("wait_ms", LogicalType::DOUBLE)
	    .Column("to_device_ms", LogicalType::DOUBLE)
	    .Column("kernel_ms", LogicalType::DOUBLE)
	    .Column("from_device_ms", LogicalType::DOUBLE)
	    .Column("total_ms", LogicalType::DOUBLE)
	    .Column("fallback", LogicalType::BOOLEAN)
	    .Column("kernels", LogicalType::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR))
	    .Column("kernel_wait_ms", LogicalType::DOUBLE)
	    .Column("query_id", LogicalType::UBIGINT)
	    .Overload({})
	    .Example("operator, selected, actual, reason FROM vibe_dispatch_log()")
	    .Register(loader, LogRows);
	SqlTable(
	    "vibe_gpu_coverage",
	    "The events of vibe_dispatch_log() summed up by operation or function: how many rows the GPU and the CPU "
	    "did, what share of them the GPU (NULL where no row was counted), the bytes that were copied, the time, and "
	    "how often the CPU did what the GPU was selected for.")
	    .Column("operation", LogicalType::VARCHAR)
	    .Column("events", LogicalType::UBIGINT)
	    .Column("rows", LogicalType::UBIGINT)
	    .Column("rows_on_device", LogicalType::UBIGINT)
	    .Column("rows_on_cpu", LogicalType::UBIGINT)
	    .Column("device_share", LogicalType::DOUBLE)
	    .Column("open_pairs", LogicalType::UBIGINT)
	    .Column("bytes_to_device", LogicalType::UBIGINT)
	    .Column("bytes_from_device", LogicalType::UBIGINT)
	    .Column("wait_ms", LogicalType::DOUBLE)
	    .Column("kernel_ms", LogicalType::DOUBLE)
	    .Column("total_ms", LogicalType::DOUBLE)
	    .Column("fallbacks", LogicalType::UBIGINT)
	    .Overload({})
	    .Example("operation, rows, device_share FROM vibe_gpu_coverage()")
	    .Register(loader, CoverageRows);
}

} // namespace duckdb
