#include "duckdb/tables/tables.hpp"

#include "duckdb/tables/table_builder.hpp"
#include "engine/dispatch/timeline.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

static SqlTable::rows_t TimelineRows(ClientContext &, const vector<Value> &) {
	SqlTable::rows_t rows;
	auto add = [&](const string &lane, const string &name, int64_t begin_us, int64_t end_us, uint64_t bytes,
	               Value query) {
		rows.push_back({Value(lane), Value(name), Value::TIMESTAMPTZ(timestamp_tz_t(begin_us)),
		                Value::TIMESTAMPTZ(timestamp_tz_t(end_us)), Value::DOUBLE(double(end_us - begin_us) / 1000),
		                Value::UBIGINT(bytes), std::move(query)});
	};
	if (auto engine = vibespatial::GpuRuntime::Get().IfOpen()) {
		for (auto &step : engine->Steps()) {
			add(step.lane, step.name, step.begin_us, step.end_us, 0, Value(LogicalType::UBIGINT));
		}
	}
	for (auto &step : vibespatial::Timeline::Get().Steps()) {
		add(step.lane, step.name, step.begin_us, step.end_us, step.bytes, Value::UBIGINT(step.query));
	}
	return rows;
}

void RegisterTimeline(ExtensionLoader &loader) {
	SqlTable(
	    "vibe_timeline",
	    "What the last queries spent their time on, in the lanes scan, sink, index, wait, upload, kernels, download "
	    "and emit, with the bytes that were copied; and, without a query_id, how the GPU came up (start) and which "
	    "of its kernels were loaded or compiled (compile). Only operators of vibespatial leave steps. "
	    "vibe_dispatch_log() has the same query_id.")
	    .Column("lane", LogicalType::VARCHAR)
	    .Column("step", LogicalType::VARCHAR)
	    .Column("begin_time", LogicalType::TIMESTAMP_TZ)
	    .Column("end_time", LogicalType::TIMESTAMP_TZ)
	    .Column("ms", LogicalType::DOUBLE)
	    .Column("bytes", LogicalType::UBIGINT)
	    .Column("query_id", LogicalType::UBIGINT)
	    .Overload({})
	    .Example("lane, step, ms FROM vibe_timeline() ORDER BY begin_time")
	    .Register(loader, TimelineRows);
}

} // namespace duckdb
