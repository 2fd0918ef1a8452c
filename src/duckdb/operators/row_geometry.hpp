//===----------------------------------------------------------------------===//
// duckdb/operators/row_geometry.hpp
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/types/row/tuple_data_layout.hpp"
#include "engine/input/row.hpp"

namespace duckdb {

//! A geometry of a row of a TupleDataCollection, where it lies
inline vibespatial::JoinRow RowGeometry(const TupleDataLayout &layout, idx_t column, data_ptr_t row) {
	if (!TupleDataLayout::ValidityBytes(row, layout.ColumnCount()).RowIsValidUnsafe(column)) {
		return vibespatial::JoinRow {nullptr, 0};
	}
	// Rows are not aligned, so the string is copied; the bytes of a short one are in the row itself
	auto at = row + layout.GetOffsets()[column];
	auto wkb = Load<string_t>(at);
	auto data = wkb.IsInlined() ? at + sizeof(uint32_t) : const_data_ptr_cast(wkb.GetData());
	return vibespatial::JoinRow {data, NumericCast<uint32_t>(wkb.GetSize())};
}

} // namespace duckdb
