#include "duckdb/operators/geometry_kinds.hpp"

#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/operator/list.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"
#include "duckdb/storage/statistics/geometry_stats.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/support/function_builder.hpp"

namespace duckdb {

using vibespatial::SideKinds;

static SideKinds KindsOfTypes(const GeometryTypeSet &types) {
	if (types.IsEmpty() || types.IsUnknown()) {
		return SideKinds();
	}
	uint8_t all = 0;
	for (auto set : types.sets) {
		all |= set;
	}
	const auto bit = [](GeometryType type) { return uint8_t(1U << static_cast<uint8_t>(type)); };
	const auto points = bit(GeometryType::POINT), multipoints = bit(GeometryType::MULTIPOINT);
	SideKinds kinds;
	// A chunk with one other geometry travels as WKB
	kinds.points = all & points;
	kinds.shapes = all & ~points;
	kinds.multipoints = kinds.shapes && (all & (points | multipoints));
	kinds.large = kinds.shapes;
	return kinds;
}

static SideKinds KindsOfScan(ClientContext &context, LogicalGet &get, idx_t position) {
	auto &ids = get.GetColumnIds();
	if (position >= ids.size() || ids[position].IsVirtualColumn() || !get.bind_data) {
		return SideKinds();
	}
	unique_ptr<BaseStatistics> statistics;
	if (get.function.statistics_extended) {
		TableFunctionGetStatisticsInput input(get.bind_data.get(), ids[position]);
		statistics = get.function.statistics_extended(context, input);
	} else if (get.function.statistics) {
		statistics = get.function.statistics(context, get.bind_data.get(), ids[position].GetPrimaryIndex());
	}
	const bool of_geometries = statistics && statistics->GetType().id() == LogicalTypeId::GEOMETRY;
	return of_geometries ? KindsOfTypes(GeometryStats::GetTypes(*statistics)) : SideKinds();
}

static SideKinds KindsOfColumn(ClientContext &context, LogicalOperator &op, ColumnBinding column) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		if (op.Cast<LogicalGet>().table_index == column.table_index) {
			return KindsOfScan(context, op.Cast<LogicalGet>(), column.column_index);
		}
		return SideKinds();
	case LogicalOperatorType::LOGICAL_PROJECTION:
		if (op.Cast<LogicalProjection>().table_index == column.table_index) {
			return FindGeometryKinds(context, *op.children[0], *op.expressions[column.column_index]);
		}
		return SideKinds();
	default:
		break;
	}
	for (auto &child : op.children) {
		auto bindings = child->GetColumnBindings();
		if (std::find(bindings.begin(), bindings.end(), column) != bindings.end()) {
			return KindsOfColumn(context, *child, column);
		}
	}
	return SideKinds();
}

static SideKinds KindsOfConstant(const Value &value) {
	if (value.IsNull() || value.type().id() != LogicalTypeId::GEOMETRY) {
		return SideKinds();
	}
	auto statistics = GeometryStats::CreateEmpty(value.type());
	auto &wkb = StringValue::Get(value);
	GeometryStats::Update(statistics, string_t(wkb.data(), NumericCast<uint32_t>(wkb.size())));
	return KindsOfTypes(GeometryStats::GetTypes(statistics));
}

//! By its name, with or without the prefix st_ or vibe_
static bool MakesPoints(const string &function) {
	auto name = StringUtil::Lower(function);
	name = name.substr(name.find('_') + 1);
	for (auto known : {"point", "makepoint", "centroid", "startpoint", "endpoint", "pointn"}) {
		if (name == known) {
			return true;
		}
	}
	return false;
}

SideKinds FindGeometryKinds(ClientContext &context, LogicalOperator &input, Expression &geometry) {
	if (IsCast(geometry)) {
		return FindGeometryKinds(context, input, *CastChild(geometry));
	}
	switch (geometry.GetExpressionClass()) {
	case ExpressionClass::BOUND_COLUMN_REF:
		return KindsOfColumn(context, input, BindingOf(geometry.Cast<BoundColumnRefExpression>()));
	case ExpressionClass::BOUND_CONSTANT:
		return KindsOfConstant(ValueOf(geometry.Cast<BoundConstantExpression>()));
	case ExpressionClass::BOUND_FUNCTION: {
		auto &call = geometry.Cast<BoundFunctionExpression>();
		return SqlFunction::IsOurs(FunctionOf(call)) && MakesPoints(FunctionName(call)) ? SideKinds::Points()
		                                                                                : SideKinds();
	}
	default:
		return SideKinds();
	}
}

} // namespace duckdb
