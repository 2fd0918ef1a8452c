//===----------------------------------------------------------------------===//
// duckdb/parquet/covering.hpp
//
// Boxes that Parquet files keep beside their geometries: by the smallest and largest of a row group a scan leaves it out
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/support/compat.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/table_filter.hpp"
#include "vibe/views.h"

#include <array>

namespace duckdb {

//! A struct in a scan with the boxes of its geometries
struct Covering {
	//! Among all columns that the scan could read
	idx_t column;
	string name;
	//! The fields xmin, ymin, xmax, ymax
	std::array<idx_t, 4> fields;
	LogicalType type;

	//! Of a column of geometries, by its place among the columns that are read; a struct of points has their boxes itself
	static bool Find(ClientContext &context, LogicalGet &get, idx_t position, Covering &result);
	//! Has the scan read the struct, which need not come out of it. Returns its place among the columns that are read.
	idx_t Read(LogicalGet &get) const;
	//! Leaves out row groups where no geometry has a box that meets this one, and no single rows
	unique_ptr<TableFilter> Filter(ClientContext &context, const vibe::Box &box) const;
};

//! Whether an expression is a column of geometries as it is, or made of a native one
bool IsGeometryColumn(const Expression &expr, ColumnBinding &column);

//! A column of geometries with a box that it must meet, or the row does not come out of a filter
struct ColumnBox {
	ColumnBinding column;
	vibe::Box box;
};

//! What the conditions of a filter over `input` say by constants
vector<ColumnBox> BoxesOfFilter(ClientContext &context, LogicalOperator &input,
                                const vector<unique_ptr<Expression>> &conditions);

} // namespace duckdb
