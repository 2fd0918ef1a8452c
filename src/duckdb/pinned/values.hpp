//===----------------------------------------------------------------------===//
// duckdb/pinned/values.hpp
//
// Values of SQL columns as the device compares them: signed integers of the column's own width, in the order of the SQL type
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "engine/gpu/interface/pinned.hpp"

namespace duckdb {

//! Bytes of a value; 0 for types that cannot be pinned beside a geometry
uint32_t PinnedWidth(const LogicalType &type);
//! Appends rows of a column of such a type: their values, and a byte for each that says whether it is NULL
void AppendPinned(Vector &column, idx_t count, vector<uint8_t> &values, vector<uint8_t> &nulls);
//! The way back: writes such values into a flat vector of the type
void ReadPinned(const uint8_t *values, const uint8_t *nulls, idx_t count, Vector &column);

//! A condition on a column of a scan: ranges of which one holds
struct PinnedClause {
	string column;
	//! Their column is this one
	vibespatial::PinnedTerms ranges;
};

//! Adds the clauses of a condition on columns whose names `name_of` gives, or nothing; false for a condition of another form: one that
//! compares anything but one column and constants of its type
bool AddClauses(ClientContext &context, const Expression &condition,
                const std::function<bool(const ColumnBinding &binding, string &name)> &name_of,
                vector<PinnedClause> &clauses);

} // namespace duckdb
