#include "duckdb/parquet/covering.hpp"

#include "duckdb/common/multi_file/multi_file_states.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/functions/native.hpp"
#include "duckdb/parquet/geoparquet.hpp"
#include "duckdb/expressions/condition.hpp"
#include "duckdb/planner/expression/list.hpp"

#include <cmath>
#include <limits>

namespace duckdb {

namespace {

//! The place of a field of floats or doubles in a struct
bool FindNumber(const LogicalType &type, const string &name, idx_t &field) {
	auto &children = StructType::GetChildTypes(type);
	for (field = 0; field < children.size(); field++) {
		auto id = children[field].second.id();
		if (NameOf(children[field].first) == name) {
			return id == LogicalTypeId::FLOAT || id == LogicalTypeId::DOUBLE;
		}
	}
	return false;
}

//! Files hold a box in doubles or in floats that were rounded: to either side, or to the nearest. A limit that is itself rounded
//! outward to a float is met by all that the exact one would have met.
double OutwardFloat(double value, bool up) {
	constexpr float INF = std::numeric_limits<float>::infinity();
	constexpr float MOST = std::numeric_limits<float>::max();
	if (std::fabs(value) > double(MOST)) {
		return (value > 0) == up ? (up ? INF : -INF) : (up ? -MOST : MOST);
	}
	auto rounded = static_cast<float>(value);
	if (up ? double(rounded) < value : double(rounded) > value) {
		rounded = std::nextafter(rounded, up ? INF : -INF);
	}
	return rounded;
}

//! Whether columns of the files are known by their names alone, and all of the files can be asked
optional_ptr<const MultiFileBindData> ParquetScan(const LogicalGet &get) {
	auto &name = FunctionName(get);
	if ((name != "read_parquet" && name != "parquet_scan") || !get.bind_data || !get.children.empty() ||
	    !get.function.filter_pushdown || !get.function.filter_prune || !get.function.projection_pushdown) {
		return nullptr;
	}
	for (auto &parameter : get.named_parameters) {
		auto &given = NameOf(parameter.first);
		if (StringUtil::CIEquals(given, "schema") || StringUtil::CIEquals(given, "encryption_config")) {
			return nullptr;
		}
	}
	auto &data = get.bind_data->Cast<MultiFileBindData>();
	if (!data.file_list || !data.reader_bind.schema.empty() ||
	    data.reader_bind.mapping != MultiFileColumnMappingMode::BY_NAME) {
		return nullptr;
	}
	return &data;
}

bool HasStructOfNumbers(const LogicalGet &get) {
	for (auto &type : get.returned_types) {
		if (type.id() != LogicalTypeId::STRUCT) {
			continue;
		}
		idx_t numbers = 0;
		for (auto &child : StructType::GetChildTypes(type)) {
			numbers += child.second.id() == LogicalTypeId::FLOAT || child.second.id() == LogicalTypeId::DOUBLE;
		}
		if (numbers >= 4) {
			return true;
		}
	}
	return false;
}

//! The boxes of geometries that the metadata of all files name alike. Columns of the scan may have aliases: `names` are those of the files.
bool FindInMetadata(ClientContext &context, LogicalGet &get, idx_t geometry, Covering &result) {
	auto data = ParquetScan(get);
	if (!data || !HasStructOfNumbers(get) || data->names.size() != get.returned_types.size()) {
		return false;
	}
	auto &names = data->names;
	vector<shared_ptr<const GeoParquetFile>> files;
	if (!ReadGeoParquetFiles(context, data->file_list->GetAllFiles(), files)) {
		return false;
	}
	auto first = files[0]->Find(NameOf(names[geometry]));
	if (!first || first->box_column.empty()) {
		return false;
	}
	for (auto &file : files) {
		auto column = file->Find(first->name);
		if (!column || column->box_column != first->box_column || column->box_fields != first->box_fields) {
			return false;
		}
		// The metadata of a file outlive the columns that they speak of
		for (auto &field : column->box_fields) {
			if (!file->HasNumber(column->box_column, field)) {
				return false;
			}
		}
	}
	for (idx_t i = 0; i < names.size(); i++) {
		if (NameOf(names[i]) != first->box_column || get.returned_types[i].id() != LogicalTypeId::STRUCT) {
			continue;
		}
		result.column = i;
		for (idx_t side = 0; side < 4; side++) {
			if (!FindNumber(get.returned_types[i], first->box_fields[side], result.fields[side])) {
				return false;
			}
		}
		return true;
	}
	return false;
}

} // namespace

bool Covering::Find(ClientContext &context, LogicalGet &get, idx_t position, Covering &result) {
	auto &id = get.GetColumnIds()[position];
	if (id.IsVirtualColumn() || id.IsPushdownExtract()) {
		return false;
	}
	auto column = id.GetPrimaryIndex();
	auto &type = get.returned_types[column];
	if (type.id() == LogicalTypeId::GEOMETRY) {
		if (!FindInMetadata(context, get, column, result)) {
			return false;
		}
	} else if (type.id() == LogicalTypeId::STRUCT && ParquetScan(get)) {
		for (idx_t side = 0; side < 4; side++) {
			if (!FindNumber(type, side % 2 == 0 ? "x" : "y", result.fields[side])) {
				return false;
			}
		}
		result.column = column;
	} else {
		return false;
	}
	result.name = NameOf(get.names[result.column]);
	result.type = get.returned_types[result.column];
	return true;
}

idx_t Covering::Read(LogicalGet &get) const {
	auto &ids = get.GetMutableColumnIds();
	// A scan can give a field alone, which is not the struct
	auto is_struct = [&](const ColumnIndex &id) {
		return !id.IsVirtualColumn() && !id.IsPushdownExtract() && id.GetPrimaryIndex() == column;
	};
	idx_t position = 0;
	while (position < ids.size() && !is_struct(ids[position])) {
		position++;
	}
	if (position == ids.size()) {
		if (get.projection_ids.empty()) {
			for (idx_t i = 0; i < ids.size(); i++) {
				get.projection_ids.emplace_back(i);
			}
		}
		vector<ColumnIndex> children;
		for (auto field : fields) {
			children.emplace_back(field);
		}
		ids.emplace_back(column, std::move(children));
		return position;
	}
	if (!ids[position].HasChildren()) {
		return position; // all of its fields are read
	}
	for (auto field : fields) {
		bool is_read = false;
		for (auto &child : ids[position].GetChildIndexes()) {
			is_read = is_read || child.GetPrimaryIndex() == field;
		}
		if (!is_read) {
			ids[position].AddChildIndex(ColumnIndex(field));
		}
	}
	return position;
}

unique_ptr<TableFilter> Covering::Filter(ClientContext &context, const vibe::Box &box) const {
	vector<FieldLimit> limits;
	auto add = [&](idx_t side, ExpressionType comparison, double limit, bool up) {
		auto rounded = OutwardFloat(limit, up);
		bool is_float = StructType::GetChildType(type, fields[side]).id() == LogicalTypeId::FLOAT;
		limits.push_back(FieldLimit {fields[side], comparison,
		                             is_float ? Value::FLOAT(static_cast<float>(rounded)) : Value::DOUBLE(rounded)});
	};
	add(0, ExpressionType::COMPARE_LESSTHANOREQUALTO, box.max_x, true);
	add(1, ExpressionType::COMPARE_LESSTHANOREQUALTO, box.max_y, true);
	add(2, ExpressionType::COMPARE_GREATERTHANOREQUALTO, box.min_x, false);
	add(3, ExpressionType::COMPARE_GREATERTHANOREQUALTO, box.min_y, false);
	return MakeOptionalFilter(context, limits, type);
}

bool IsGeometryColumn(const Expression &expr, ColumnBinding &column) {
	auto native = NativeArgument(expr);
	auto &argument = native ? *native : expr;
	if (argument.GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
		return false;
	}
	column = BindingOf(argument.Cast<BoundColumnRefExpression>());
	return true;
}

//===----------------------------------------------------------------------===//
// Boxes of constants
//===----------------------------------------------------------------------===//
namespace {

class BoxFinder {
public:
	BoxFinder(ClientContext &context, LogicalOperator &input) : context(context), tables(JoinTables::OfFilter(input)) {
	}

	//! A geometry meets each of the boxes of its column
	vector<ColumnBox> Find(const Expression &expr) {
		switch (expr.GetExpressionType()) {
		case ExpressionType::CONJUNCTION_AND: {
			vector<ColumnBox> result;
			for (auto &child : ChildrenOf(expr.Cast<BoundConjunctionExpression>())) {
				for (auto &found : Find(*child)) {
					result.push_back(found);
				}
			}
			return result;
		}
		case ExpressionType::CONJUNCTION_OR:
			return FindOfAny(expr.Cast<BoundConjunctionExpression>());
		default:
			return FindOfTerm(expr);
		}
	}

private:
	//! Around a box of each member, where all members have one for the column
	vector<ColumnBox> FindOfAny(const BoundConjunctionExpression &any) {
		vector<ColumnBox> result;
		auto &children = ChildrenOf(any);
		for (idx_t i = 0; i < children.size(); i++) {
			auto found = Find(*children[i]);
			if (i == 0) {
				result = std::move(found);
				continue;
			}
			vector<ColumnBox> both;
			for (auto &entry : result) {
				for (auto &other : found) {
					if (other.column == entry.column) {
						entry.box.Add(other.box);
						both.push_back(entry);
						break;
					}
				}
			}
			result = std::move(both);
		}
		return result;
	}

	vector<ColumnBox> FindOfTerm(const Expression &expr) {
		vector<unique_ptr<Expression>> alone;
		alone.push_back(expr.Copy());
		SpatialCondition spatial;
		if (expr.IsVolatile() || !SpatialCondition::Take(context, tables, alone, spatial) || spatial.left_limit ||
		    spatial.right_limit || spatial.condition.EmptyIsNear() || !spatial.right->IsFoldable()) {
			return {};
		}
		ColumnBox result;
		if (!IsGeometryColumn(*spatial.left, result.column)) {
			return {};
		}
		Value value;
		if (!ExpressionExecutor::TryEvaluateScalar(context, *spatial.right, value) || value.IsNull()) {
			return {};
		}
		auto &wkb = StringValue::Get(value);
		auto &condition = spatial.condition;
		result.box = condition.Reach({const_data_ptr_cast(wkb.data()), NumericCast<uint32_t>(wkb.size())},
		                             condition.limit_from == vibespatial::JoinLimit::CONSTANT ? condition.limit : 0);
		// A constant with NaN among its coordinates has no box that could be trusted
		if (!(result.box.min_x <= result.box.max_x) || !(result.box.min_y <= result.box.max_y)) {
			return {};
		}
		return {result};
	}

	ClientContext &context;
	JoinTables tables;
};

} // namespace

vector<ColumnBox> BoxesOfFilter(ClientContext &context, LogicalOperator &input,
                                const vector<unique_ptr<Expression>> &conditions) {
	BoxFinder finder(context, input);
	vector<ColumnBox> result;
	for (auto &condition : conditions) {
		for (auto &found : finder.Find(*condition)) {
			result.push_back(found);
		}
	}
	return result;
}

} // namespace duckdb
