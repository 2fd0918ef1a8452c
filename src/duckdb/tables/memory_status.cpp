#include "duckdb/tables/tables.hpp"

#include "duckdb/tables/table_builder.hpp"
#include "engine/gpu/runtime/runtime.hpp"

namespace duckdb {

using vibespatial::GpuRuntime;

static SqlTable::rows_t Rows(ClientContext &, const vector<Value> &) {
	SqlTable::rows_t rows;
	auto engine = GpuRuntime::Get().IfOpen();
	if (!engine) {
		auto zero = Value::UBIGINT(0);
		return {{Value("engine"), Value("no GPU engine holds memory: " + GpuRuntime::Get().State()), zero, zero, zero}};
	}
	for (auto &row : engine->Memory()) {
		rows.push_back({Value(row.name), TextOrNull(row.detail), Value::UBIGINT(row.bytes),
		                Value::UBIGINT(row.peak_bytes), Value::UBIGINT(row.count)});
	}
	return rows;
}

void RegisterMemoryStatus(ExtensionLoader &loader) {
	SqlTable("vibe_memory_status",
	         "The memory of the GPU engine: bytes now, the most so far, and how many pieces. Opens "
	         "nothing.")
	    .Column("name", LogicalType::VARCHAR)
	    .Column("detail", LogicalType::VARCHAR)
	    .Column("bytes", LogicalType::UBIGINT)
	    .Column("peak_bytes", LogicalType::UBIGINT)
	    .Column("count", LogicalType::UBIGINT)
	    .Overload({})
	    .Example("name, bytes, peak_bytes FROM vibe_memory_status()")
	    .Register(loader, Rows);
}

} // namespace duckdb
