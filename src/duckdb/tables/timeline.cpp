#include "duckdb/tables/tables.hpp"

#include "duckdb/tables/table_builder.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

static SqlTable::rows_t TimelineRows(ClientContext &, const vector<Value> &) {
	SqlTable::rows_t rows;
	auto engine = vibespatial::GpuRuntime::Get().IfOpen();
	if (!engine) {
		return rows;
	}
	for (auto &step : engine->Steps()) {
		rows.push_back({Value(step.lane), Value(step.name), Value::TIMESTAMPTZ(timestamp_tz_t(step.begin_us)),
		                Value::TIMESTAMPTZ(timestamp_tz_t(step.end_us)),
		                Value::DOUBLE(double(step.end_us - step.begin_us) / 1000)});
	}
	return rows;
}

void RegisterTimeline(ExtensionLoader &loader) {
	SqlTable("vibe_timeline",
	         "What the GPU engine spent its time on: how the device came up (lane start), kernels that were "
	         "loaded or compiled (kernels), and the work of queries (query). No rows without an engine.")
	    .Column("lane", LogicalType::VARCHAR)
	    .Column("step", LogicalType::VARCHAR)
	    .Column("begin_time", LogicalType::TIMESTAMP_TZ)
	    .Column("end_time", LogicalType::TIMESTAMP_TZ)
	    .Column("ms", LogicalType::DOUBLE)
	    .Overload({})
	    .Example("lane, step, ms FROM vibe_timeline() ORDER BY begin_time")
	    .Register(loader, TimelineRows);
}

} // namespace duckdb
