// DuckDB 2.0 has those parts of its own that a program registers, LOAD among them; before that a generated archive named them.
#include "duckdb_static_extension.h"

extern "C" {
int32_t duckdb_extension_core_functions_describe(duckdb_extension_descriptor *descriptor);
int32_t duckdb_extension_parquet_describe(duckdb_extension_descriptor *descriptor);
int32_t duckdb_extension_loadable_extensions_describe(duckdb_extension_descriptor *descriptor);
}

//! Before main; where it fails, opening a database fails with the reason
static const int32_t REGISTERED = duckdb_register_static_extension(duckdb_extension_core_functions_describe) |
                                  duckdb_register_static_extension(duckdb_extension_parquet_describe) |
                                  duckdb_register_static_extension(duckdb_extension_loadable_extensions_describe);
