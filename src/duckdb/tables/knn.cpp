#include "duckdb/tables/tables.hpp"

#include "duckdb/knn/logical.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/tables/relation_argument.hpp"

#include <limits>

namespace duckdb {

namespace {

//! The geometry, then the columns that come out
vector<unique_ptr<Expression>> ColumnsOf(RelationArgument &relation) {
	auto bindings = relation.bound.plan->GetColumnBindings();
	vector<unique_ptr<Expression>> result;
	auto add = [&](idx_t column) {
		auto &bound = relation.bound;
		result.push_back(make_uniq<BoundColumnRefExpression>(Identifier(relation.names[column]), bound.types[column],
		                                                     bindings[column]));
	};
	add(relation.geometry);
	for (auto column : relation.columns) {
		add(column);
	}
	return result;
}

unique_ptr<LogicalOperator> BindKnn(ClientContext &context, TableFunctionBindInput &input, TableIndex table_index,
                                    vector<Identifier> &names) {
	auto &function = FunctionName(input);
	if (input.inputs[2].IsNull() || BigIntValue::Get(input.inputs[2]) < 1) {
		throw BinderException("%s: k must be at least 1, not %s", function, input.inputs[2].ToString());
	}
	auto max_distance = std::numeric_limits<double>::infinity();
	if (auto parameter = NamedParameter(input, "max_distance")) {
		max_distance = DoubleValue::Get(*parameter);
		if (!(max_distance >= 0)) {
			throw BinderException("%s: max_distance must be at least 0, not %s", function, parameter->ToString());
		}
	}
	RelationArgument left(context, input, "left", input.inputs[0]);
	RelationArgument right(context, input, "right", input.inputs[1]);
	RequireSameCrs(function, left, right);
	for (auto &name : OutputNames(function, {"left_row", "right_row", "distance", "rank"}, left, right)) {
		names.push_back(Identifier(name));
	}
	auto &aliases = input.ref.column_name_alias;
	for (idx_t i = 0; i < aliases.size() && i < names.size(); i++) {
		names[i] = aliases[i];
	}
	auto left_columns = ColumnsOf(left);
	auto right_columns = ColumnsOf(right);
	return make_uniq<LogicalKnn>(table_index, NumericCast<uint64_t>(BigIntValue::Get(input.inputs[2])), max_distance,
	                             std::move(left_columns), std::move(right_columns), std::move(left.bound.plan),
	                             std::move(right.bound.plan));
}

} // namespace

void RegisterKnn(ExtensionLoader &loader) {
	TableFunction function("vibe_knn", {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::BIGINT}, nullptr,
	                       nullptr);
	function.bind_operator = BindKnn;
	AddNamedParameter(function, "max_distance", LogicalType::DOUBLE);
	RelationArgument::AddSideParameters(function);
	RegisterRelationFunction(loader, std::move(function), {"left", "right", "k"},
	                         "For every row of `left` the `k` rows of `right` that are nearest by ST_Distance, the "
	                         "lower row number first where "
	                         "two are equally far. Both are names of tables or queries as text. Columns: left_row and "
	                         "right_row (numbered from 0 "
	                         "as scanned), distance, rank, then left_columns and right_columns. NULL and EMPTY "
	                         "geometries have no neighbours.",
	                         {"left_row, right_row, distance FROM vibe_knn('SELECT ST_Point(i, 0) AS g FROM range(3) "
	                          "t(i)', 'SELECT ST_Point(1, i) "
	                          "AS g FROM range(9) t(i)', 2)"});
}

} // namespace duckdb
