//===----------------------------------------------------------------------===//
// duckdb/functions/native.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/planner/expression.hpp"

namespace duckdb {

//! What vibe_from_native makes a geometry of; nothing where an expression is no call of it
optional_ptr<const Expression> NativeArgument(const Expression &expr);

} // namespace duckdb
