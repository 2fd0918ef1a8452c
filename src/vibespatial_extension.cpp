#include "vibespatial_extension.hpp"

#include "duckdb/arrow/geoarrow.hpp"
#include "duckdb/arrow_files/arrow_files.hpp"
#include "duckdb/support/casts.hpp"
#include "duckdb/functions/functions.hpp"
#include "duckdb/planning/optimizer.hpp"
#include "duckdb/support/settings.hpp"
#include "duckdb/tables/tables.hpp"

#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

static void LoadInternal(ExtensionLoader &loader) {
	loader.SetDescription("Exact spatial SQL on DuckDB's GEOMETRY");

	RegisterSettings(loader);
	RegisterCasts(loader);

	// Scalar functions and aggregates
	RegisterFunctions(loader);

	// Table functions
	RegisterKnn(loader);
	RegisterSjoin(loader);
	RegisterDissolve(loader);
	RegisterOverlayTable(loader);
	RegisterReadGeoParquet(loader);
	RegisterGpuInfo(loader);
	RegisterPrecompiler(loader);
	RegisterDispatch(loader);
	RegisterMemoryStatus(loader);
	RegisterDeviceInterface(loader);
	RegisterPin(loader);
	RegisterTimeline(loader);

	// Arrow
	RegisterGeoArrow(loader);
	RegisterArrowFiles(loader);

	// Operators
	RegisterOptimizer(loader);

	// Last, so that a LOAD that fails starts nothing. What cannot be started now is started by the first query that needs it.
	try {
		StartGpu(loader);
	} catch (const std::exception &) { // NOLINT: FROM vibe_gpu_info() says why
	}
}

void VibespatialExtension::Load(ExtensionLoader &loader) {
	LoadInternal(loader);
}

std::string VibespatialExtension::Name() {
	return "vibespatial";
}

std::string VibespatialExtension::Version() const {
	return "v" VIBESPATIAL_VERSION;
}

} // namespace duckdb

extern "C" {
DUCKDB_CPP_EXTENSION_ENTRY(vibespatial, loader) {
	duckdb::LoadInternal(loader);
}
}
