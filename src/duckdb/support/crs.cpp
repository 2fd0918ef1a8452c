#include "duckdb/support/crs.hpp"

#include "duckdb/common/types/geometry_crs.hpp"
#include "duckdb/planner/expression.hpp"

namespace duckdb {

//! Whether `actual` is `declared` but for the CRS: GEOMETRY, or lists of it
static bool IsGeometryOf(const LogicalType &declared, const LogicalType &actual) {
	if (declared.id() != actual.id()) {
		return false;
	}
	if (declared.id() == LogicalTypeId::LIST) {
		return IsGeometryOf(ListType::GetChildType(declared), ListType::GetChildType(actual));
	}
	return declared.id() == LogicalTypeId::GEOMETRY;
}

static const LogicalType &InnermostType(const LogicalType &type) {
	return type.id() == LogicalTypeId::LIST ? InnermostType(ListType::GetChildType(type)) : type;
}

//! `type` with every GEOMETRY in it replaced
static LogicalType ReplaceGeometry(const LogicalType &type, const LogicalType &geometry) {
	switch (type.id()) {
	case LogicalTypeId::GEOMETRY:
		return geometry;
	case LogicalTypeId::LIST:
		return LogicalType::LIST(ReplaceGeometry(ListType::GetChildType(type), geometry));
	case LogicalTypeId::STRUCT: {
		if (type.HasAlias()) {
			return type;
		}
		child_list_t<LogicalType> children;
		for (auto &child : StructType::GetChildTypes(type)) {
			children.emplace_back(child.first, ReplaceGeometry(child.second, geometry));
		}
		return LogicalType::STRUCT(std::move(children));
	}
	default:
		return type;
	}
}

void PropagateCrs(BoundFunction &bound_function, const vector<unique_ptr<Expression>> &arguments) {
	LogicalType geometry = LogicalType::GEOMETRY();
	auto &declared = ArgumentTypesOf(bound_function);
	for (idx_t i = 0; i < arguments.size() && i < declared.size(); i++) {
		auto &actual = ReturnTypeOf(*arguments[i]);
		if (!IsGeometryOf(declared[i], actual)) {
			continue;
		}
		declared[i] = actual;
		auto &argument = InnermostType(actual);
		if (!GeoType::HasCRS(argument)) {
			continue;
		}
		if (!GeoType::HasCRS(geometry)) {
			geometry = argument;
			continue;
		}
		auto &left = GeoType::GetCRS(geometry);
		auto &right = GeoType::GetCRS(argument);
		if (!left.Equals(right)) {
			throw BinderException(*arguments[i],
			                      "%s: the geometries have different coordinate reference systems, '%s' and '%s'. "
			                      "Bring them into one first, or say with ST_SetCRS that they are in the same.",
			                      NameOf(bound_function), left.GetIdentifier(), right.GetIdentifier());
		}
	}
	if (GeoType::HasCRS(geometry)) {
		auto &result = ResultTypeOf(bound_function);
		result = ReplaceGeometry(result, geometry);
	}
}

} // namespace duckdb
