#include "duckdb/support/types.hpp"

namespace duckdb {

static LogicalType DoubleStruct(const vector<string> &names, const string &alias) {
	child_list_t<LogicalType> children;
	for (auto &name : names) {
		children.emplace_back(name, LogicalType(LogicalTypeId::DOUBLE));
	}
	auto type = LogicalType::STRUCT(std::move(children));
	return WithAlias(type, alias);
}

LogicalType PointType(idx_t ordinates) {
	vector<string> names {"x", "y", "z", "m"};
	names.resize(ordinates);
	return DoubleStruct(names, "POINT_" + to_string(ordinates) + "D");
}

LogicalType BoxType() {
	return DoubleStruct({"min_x", "min_y", "max_x", "max_y"}, "BOX_2D");
}

LogicalType GeometryTypeEnum() {
	const vector<string> names {"POINT",        "LINESTRING",         "POLYGON", "MULTIPOINT", "MULTILINESTRING",
	                            "MULTIPOLYGON", "GEOMETRYCOLLECTION", "UNKNOWN"};
	Vector values(LogicalType::VARCHAR, names.size());
	auto data = MutableData<string_t>(values);
	for (idx_t i = 0; i < names.size(); i++) {
		data[i] = StringVector::AddString(values, names[i]);
	}
	auto type = LogicalType::ENUM(values, names.size());
	return WithAlias(type, "GEOMETRY_TYPE");
}

} // namespace duckdb
