#include "duckdb/spatial_join/physical/probe_filters.hpp"

#include "duckdb/function/function_binder.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/support/wkb_output.hpp"

#include <cmath>

namespace duckdb {

//! A geometry with this bounding box: its diagonal
static Value BoxValue(const vibe::Box &box, const LogicalType &type) {
	char wkb[WKB_HEADER_SIZE + WKB_COUNT_SIZE + 4 * sizeof(double)];
	WkbOutput out(wkb);
	out.Header(vibespatial::GeometryType::LINESTRING, 0);
	out.Count(2);
	for (auto value : {box.min_x, box.min_y, box.max_x, box.max_y}) {
		out.Ordinate(value);
	}
	return GeometryValue(const_data_ptr_cast(wkb), sizeof(wkb), type);
}

//! column && box, as DuckDB's own function on the statistics of a GEOMETRY column
static unique_ptr<Expression> BoxFilter(ClientContext &context, const vibe::Box &box, const LogicalType &type) {
	vector<unique_ptr<Expression>> arguments;
	arguments.push_back(make_uniq<BoundReferenceExpression>(type, 0ULL));
	arguments.push_back(make_uniq<BoundConstantExpression>(BoxValue(box, type)));
	FunctionBinder binder(context);
	ErrorData error;
	auto expr =
	    binder.BindScalarFunction(Identifier(DEFAULT_SCHEMA), "st_intersects_extent", std::move(arguments), error);
	if (error.HasError()) {
		error.Throw();
	}
	// The binder adds casts that drop the CRS. DuckDB would not use the statistics of a column below a cast.
	for (auto &argument : ChildrenOf(expr->Cast<BoundFunctionExpression>())) {
		if (IsCast(*argument)) {
			auto geometry = std::move(CastChild(*argument));
			argument = std::move(geometry);
		}
	}
	return expr;
}

void PushProbeFilters(ClientContext &context, const PhysicalSpatialJoin &op, vibe::Box box) {
	if (box.IsEmpty()) {
		return;
	}
	if (op.condition.limit_from == vibespatial::JoinLimit::CONSTANT) {
		box = vibe::Grow(box, op.condition.limit);
	}
	// DuckDB treats an infinite box as empty
	for (auto ordinate : {box.min_x, box.min_y, box.max_x, box.max_y}) {
		if (!std::isfinite(ordinate)) {
			return;
		}
	}
	for (auto &scan : op.probe_scans) {
		if (scan.covering_index.IsValid()) {
			scan.filters->PushFilter(op, ProjectionIndex(scan.covering_index.GetIndex()),
			                         scan.covering.Filter(context, box));
		}
		if (scan.type.id() == LogicalTypeId::GEOMETRY) {
			scan.filters->PushFilter(op, scan.column_index,
			                         MakeOptionalFilter(BoxFilter(context, box, scan.type), scan.type));
		}
	}
}

void ClearProbeFilters(const PhysicalSpatialJoin &op) {
	for (auto &scan : op.probe_scans) {
		scan.filters->ClearFilters(op);
	}
}

} // namespace duckdb
