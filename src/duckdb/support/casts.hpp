//===----------------------------------------------------------------------===//
// duckdb/support/casts.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

//! POINT_2D, POINT_3D, POINT_4D and BOX_2D to GEOMETRY, implicitly, and to text. Does nothing where `spatial` has
//! registered its own; when it comes later, DuckDB keeps these, which give the same.
void RegisterCasts(ExtensionLoader &loader);

//! "BOX(xmin ymin, xmax ymax)" of each BOX_2D; NULL where a limit is
void BoxText(Vector &source, Vector &result, idx_t count);

} // namespace duckdb
