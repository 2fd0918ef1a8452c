//===----------------------------------------------------------------------===//
// duckdb/support/crs.hpp
//
// Coordinate reference systems travel in the type: GEOMETRY('OGC:CRS84').
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/function/function.hpp"
#include "duckdb/function/scalar_function.hpp"

namespace duckdb {

//! For SetBind (duckdb/support/compat.hpp). Lets geometry arguments (also in lists) keep their types, so that no cast is put around a column
//! with a CRS, gives their CRS to geometries in the result type, and throws a BinderException that names the
//! function when two arguments have different ones. Arguments without a CRS go with any.
void PropagateCrs(BoundFunction &bound_function, const vector<unique_ptr<Expression>> &arguments);

} // namespace duckdb
