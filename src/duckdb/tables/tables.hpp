//===----------------------------------------------------------------------===//
// duckdb/tables/tables.hpp
//
// The table functions; each is one file of this folder, or two that belong together
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! vibe_gpu_info
void RegisterGpuInfo(ExtensionLoader &loader);
//! vibe_precompile_status vibe_ensure_warm
void RegisterPrecompiler(ExtensionLoader &loader);
//! vibe_kernels vibe_dispatch_log
void RegisterDispatch(ExtensionLoader &loader);
//! vibe_memory_status
void RegisterMemoryStatus(ExtensionLoader &loader);
//! vibe_device_interface
void RegisterDeviceInterface(ExtensionLoader &loader);
//! vibe_pin vibe_unpin vibe_pins
void RegisterPin(ExtensionLoader &loader);
//! vibe_knn
void RegisterKnn(ExtensionLoader &loader);
//! vibe_sjoin
void RegisterSjoin(ExtensionLoader &loader);
//! vibe_dissolve
void RegisterDissolve(ExtensionLoader &loader);
//! vibe_overlay
void RegisterOverlayTable(ExtensionLoader &loader);
//! vibe_read_geoparquet
void RegisterReadGeoParquet(ExtensionLoader &loader);
//! vibe_timeline
void RegisterTimeline(ExtensionLoader &loader);

} // namespace duckdb
