#include "duckdb/functions/functions.hpp"

#include "duckdb/function_builder.hpp"

namespace duckdb {

static void Version(DataChunk &, ExpressionState &, Vector &result) {
	result.Reference(Value("v" VIBESPATIAL_VERSION));
}

void RegisterVersion(ExtensionLoader &loader) {
	SqlFunction("vibe_version", "The version of the vibespatial extension.")
	    .Category("information")
	    .Example("vibe_version()", "v" VIBESPATIAL_VERSION)
	    .Overload({}, LogicalType::VARCHAR, Version, SqlFunction::Infallible)
	    .Register(loader);
}

} // namespace duckdb
