#include "duckdb/support/function_builder.hpp"

namespace duckdb {

static void Version(DataChunk &, ExpressionState &, Vector &result) {
	ReferenceValue(result, Value("v" VIBESPATIAL_VERSION), 1);
}

void RegisterVersion(ExtensionLoader &loader) {
	SqlFunction("vibe_version", "The version of the vibespatial extension.")
	    .Category("information")
	    .Example("vibe_version()", "v" VIBESPATIAL_VERSION)
	    .Overload({}, LogicalType::VARCHAR, Version, SqlFunction::Infallible)
	    .Register(loader);
}

} // namespace duckdb
