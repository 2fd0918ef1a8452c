//===----------------------------------------------------------------------===//
// duckdb/arrow_files/arrow_files.hpp
//
// Arrow files in SQL: vibe_read_arrow and COPY .. (FORMAT vibe_arrow), through the Arrow plug-in
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

#include "engine/arrow/arrow_files.hpp"

namespace duckdb {

//! The setting vibe_arrow_library, vibe_read_arrow and the format vibe_arrow
void RegisterArrowFiles(ExtensionLoader &loader);

void RegisterReadArrow(ExtensionLoader &loader);
void RegisterCopyArrow(ExtensionLoader &loader);

//! The plug-in, opened where it is not yet; an error that says how to get what is missing
const vibespatial::ArrowFiles &GetArrowFiles(ClientContext &context);

} // namespace duckdb
