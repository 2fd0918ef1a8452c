#include "duckdb/tables/tables.hpp"

#include "duckdb/support/settings.hpp"
#include "duckdb/tables/table_builder.hpp"
#include "engine/device_arrays/c_interface.hpp"

namespace duckdb {

static SqlTable::rows_t Rows(ClientContext &context, const vector<Value> &) {
	string why_not;
	if (GetExecutionMode(context) == vibespatial::ExecutionMode::CPU) {
		why_not = "vibe_execution_mode is 'cpu', which does not touch the GPU";
	} else if (WaitForGpu(context, GPU_PATIENCE_SECONDS, why_not)) {
		const auto address = CastPointerToValue(&vibespatial::DeviceArraysInterface());
		return {{Value::UBIGINT(address), Value(LogicalType::VARCHAR)}};
	}
	return {{Value(LogicalType::UBIGINT), Value(why_not)}};
}

void RegisterDeviceInterface(ExtensionLoader &loader) {
	SqlTable(
	    "vibe_device_interface",
	    "For the Python package: where its C interface for results on the GPU is in this process, or the reason why "
	    "there is no GPU to put them on. Waits until the GPU is up. `vibespatial.to_device` calls it.")
	    .Column("address", LogicalType::UBIGINT)
	    .Column("reason", LogicalType::VARCHAR)
	    .Overload({})
	    .Example("address IS NULL, reason FROM vibe_device_interface()")
	    .Register(loader, Rows);
}

} // namespace duckdb
