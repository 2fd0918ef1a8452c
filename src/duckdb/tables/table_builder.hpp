//===----------------------------------------------------------------------===//
// duckdb/tables/table_builder.hpp
//
// A table function of few rows, from its description to the catalog:
//
//   SqlTable("vibe_kernels", "The pieces of work that an engine does.")
//       .Column("kernel", LogicalType::VARCHAR)
//       .Overload({})
//       .Register(loader, [](ClientContext &context, const vector<Value> &arguments) { return rows; });
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"

#include <functional>

namespace duckdb {

class SqlTable {
public:
	using rows_t = vector<vector<Value>>;
	//! Makes all rows, when the query runs
	using make_rows_t = std::function<rows_t(ClientContext &context, const vector<Value> &arguments)>;
	struct Parameter {
		string name;
		LogicalType type;
	};

	SqlTable(string name, string description);

	SqlTable &Column(string name, LogicalType type);
	SqlTable &Overload(vector<Parameter> parameters);
	//! What stands after SELECT
	SqlTable &Example(string text);
	void Register(ExtensionLoader &loader, make_rows_t make_rows) const;

private:
	string name;
	string description;
	vector<string> examples;
	vector<string> column_names;
	vector<LogicalType> column_types;
	vector<vector<Parameter>> overloads;
};

//! NULL for nothing to say
inline Value TextOrNull(const std::string &text) {
	return text.empty() ? Value(LogicalType::VARCHAR) : Value(text);
}

} // namespace duckdb
