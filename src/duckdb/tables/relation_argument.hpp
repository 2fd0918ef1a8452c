//===----------------------------------------------------------------------===//
// duckdb/tables/relation_argument.hpp
//
// Table functions over relations. DuckDB gives a table function one relation at most, and no names of its columns to
// choose from, so they are text: the name of a table or view, or a query.
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"
#include "duckdb/support/compat.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/parser/tableref.hpp"
#include "duckdb/planner/bound_statement.hpp"

namespace duckdb {

//! One relation, bound: which of its columns is the geometry, and which come out
class RelationArgument {
public:
	//! `side` is left or right, and begins the names of its parameters; empty where there is one relation only
	RelationArgument(ClientContext &context, TableFunctionBindInput &input, string side, const Value &text);

	const string side;
	//! What stands after FROM
	unique_ptr<TableRef> ref;
	//! SELECT * of that
	BoundStatement bound;
	//! Of its columns
	vector<string> names;
	idx_t geometry;
	vector<idx_t> columns;

	idx_t FindColumn(const string &name) const;
	//! Has all columns but the geometry come out where none were chosen
	void DefaultToAllColumns(TableFunctionBindInput &input);
	//! (SELECT .. FROM ..): the geometry as g, c0, c1 .. for the columns that come out, and the number of a row as r
	string Rows(bool numbered) const;

	//! left_geometry, left_columns and so on
	static void AddSideParameters(TableFunction &function);

private:
	const string function;
	//! "left " and "left_"
	const string words;
	const string prefix;

	void Bind(ClientContext &context, Binder &parent);
	idx_t FindGeometry(TableFunctionBindInput &input) const;
};

//! The names of what comes out: `own`, then the columns of the sides. Those that clash with another begin with their side.
vector<string> OutputNames(const string &function, vector<string> own, const RelationArgument &left,
                           const RelationArgument &right);
//! Throws where the sides are in different coordinate reference systems
void RequireSameCrs(const string &function, const RelationArgument &left, const RelationArgument &right);

//! A named parameter, or nothing where it is not given or NULL
optional_ptr<const Value> NamedParameter(TableFunctionBindInput &input, const string &name);
//! A named parameter that is one of a few words; the first where it is not given
string ChooseWord(TableFunctionBindInput &input, const string &parameter, const vector<string> &words);
//! The names in a value that is one or a list of them
vector<string> NamesOf(const string &function, const string &parameter, const Value &value);
//! As it stands in a query
string QuotedName(const string &name);
//! A query as what a table function stands for
unique_ptr<TableRef> ReplaceByQuery(ClientContext &context, const string &function, const string &query);

//! Adds a function of relations to the catalog; `examples` stand after SELECT
void RegisterRelationFunction(ExtensionLoader &loader, TableFunction function, vector<string> parameter_names,
                              string description, vector<string> examples);

} // namespace duckdb
