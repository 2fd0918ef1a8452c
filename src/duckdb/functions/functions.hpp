//===----------------------------------------------------------------------===//
// duckdb/functions/functions.hpp
//
// The scalar functions and aggregates. Each file of this folder defines `void Register<Area>(ExtensionLoader &loader)`, named
// after the file (remove_repeated_points.cpp: RegisterRemoveRepeatedPoints); the build finds it by that name.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

namespace duckdb {

class PinnedUnion;
class RowUnion;

//! Registers the functions of every file of this folder. Written by cmake/register_functions.cmake.
void RegisterFunctions(ExtensionLoader &loader);

//! Whether an expression of a plan is one of our unions of groups, which the GPU may unite
bool IsUnionAggregate(const Expression &expr);
//! From now on its rows may be those of a pinned table: then the aggregate leaves the numbers of a group's rows, each of four bytes, and
//! RowUnion unites them
unique_ptr<RowUnion> ReadPinnedUnion(Expression &expr, const shared_ptr<PinnedUnion> &found);

} // namespace duckdb
