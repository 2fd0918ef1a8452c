//===----------------------------------------------------------------------===//
// duckdb/tables/relation_argument.hpp
//
// Table functions over two relations. DuckDB gives a table function one relation at most, so both are text: the name of a
// table or view, or a query.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/parser/tableref.hpp"
#include "duckdb/planner/bound_statement.hpp"

namespace duckdb {

//! One side, bound: which of its columns is the geometry, and which come out
class RelationArgument {
public:
	//! `side` is left or right, and begins the names of its parameters
	RelationArgument(ClientContext &context, TableFunctionBindInput &input, string side, const Value &text);

	const string side;
	//! What stands after FROM
	unique_ptr<TableRef> ref;
	//! SELECT * of that
	BoundStatement bound;
	idx_t geometry;
	vector<idx_t> columns;

	//! left_geometry, left_columns and so on
	static void AddParameters(TableFunction &function);

private:
	const string function;

	void Bind(ClientContext &context, Binder &parent);
	idx_t FindColumn(const string &name) const;
	idx_t FindGeometry(TableFunctionBindInput &input) const;
};

//! The names of what comes out: `own`, then the columns of the sides. Those that clash with another begin with their side.
vector<string> OutputNames(const string &function, vector<string> own, const RelationArgument &left,
                           const RelationArgument &right);
//! Throws where the sides are in different coordinate reference systems
void RequireSameCrs(const string &function, const RelationArgument &left, const RelationArgument &right);

//! Adds a function of two relations to the catalog; `examples` stand after SELECT
void RegisterRelationFunction(ExtensionLoader &loader, TableFunction function, vector<string> parameter_names,
                              string description, vector<string> examples);

} // namespace duckdb
