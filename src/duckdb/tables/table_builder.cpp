#include "duckdb/tables/table_builder.hpp"

#include "duckdb/support/register_once.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"

namespace duckdb {

namespace {

//! What bind and init know of the function
struct SqlTableInfo : public TableFunctionInfo {
	vector<string> column_names;
	vector<LogicalType> column_types;
	SqlTable::make_rows_t make_rows;
};

struct SqlTableBindData : public TableFunctionData {
	shared_ptr<SqlTableInfo> info;
	vector<Value> arguments;
};

struct SqlTableState : public GlobalTableFunctionState {
	SqlTable::rows_t rows;
	idx_t next = 0;
};

unique_ptr<FunctionData> Bind(ClientContext &, TableFunctionBindInput &input, vector<LogicalType> &return_types,
                              vector<Identifier> &names) {
	auto result = make_uniq<SqlTableBindData>();
	result->info = shared_ptr_cast<TableFunctionInfo, SqlTableInfo>(input.table_function.function_info);
	result->arguments = input.inputs;
	return_types = result->info->column_types;
	for (auto &name : result->info->column_names) {
		names.push_back(Identifier(name));
	}
	return std::move(result);
}

unique_ptr<GlobalTableFunctionState> Init(ClientContext &context, TableFunctionInitInput &input) {
	auto &bound = input.bind_data->Cast<SqlTableBindData>();
	auto result = make_uniq<SqlTableState>();
	result->rows = bound.info->make_rows(context, bound.arguments);
	return std::move(result);
}

void Emit(ClientContext &, TableFunctionInput &input, DataChunk &output) {
	auto &state = input.global_state->Cast<SqlTableState>();
	idx_t count = 0;
	for (; count < STANDARD_VECTOR_SIZE && state.next < state.rows.size(); count++, state.next++) {
		for (idx_t column = 0; column < output.ColumnCount(); column++) {
			output.SetValue(column, count, state.rows[state.next][column]);
		}
	}
	SetRowCount(output, count);
}

} // namespace

SqlTable::SqlTable(string name_p, string description_p)
    : name(std::move(name_p)), description(std::move(description_p)) {
}

SqlTable &SqlTable::Column(string column, LogicalType type) {
	column_names.push_back(std::move(column));
	column_types.push_back(std::move(type));
	return *this;
}

SqlTable &SqlTable::Overload(vector<Parameter> parameters) {
	overloads.push_back(std::move(parameters));
	return *this;
}

SqlTable &SqlTable::Example(string text) {
	examples.push_back(std::move(text));
	return *this;
}

void SqlTable::Register(ExtensionLoader &loader, make_rows_t make_rows) const {
	auto shared = make_shared_ptr<SqlTableInfo>();
	shared->column_names = column_names;
	shared->column_types = column_types;
	shared->make_rows = std::move(make_rows);
	TableFunctionSet set {Identifier(name)};
	vector<FunctionDescription> descriptions;
	for (auto &parameters : overloads) {
		FunctionDescription described;
		for (auto &parameter : parameters) {
			described.parameter_names.push_back(parameter.name);
			described.parameter_types.push_back(parameter.type);
		}
		described.description = description;
		described.examples = examples;
		described.categories = {"diagnostic"};
		TableFunction function(described.parameter_types, Emit, Bind, Init);
		function.function_info = shared;
		NameParameters(function, described.parameter_names);
		set.AddFunction(std::move(function));
		descriptions.push_back(std::move(described));
	}
	CreateTableFunctionInfo info(std::move(set));
	info.descriptions = std::move(descriptions);
	RegisterOnce(loader, name, [&] { loader.RegisterFunction(std::move(info)); });
}

} // namespace duckdb
