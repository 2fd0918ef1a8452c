#include "duckdb/tables/relation_argument.hpp"

#include "duckdb/common/types/geometry_crs.hpp"
#include "duckdb/parser/expression/star_expression.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/parser/query_node/select_node.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"
#include "duckdb/planner/binder.hpp"

namespace duckdb {

//! A query where the text is one, else the name of a table
static unique_ptr<TableRef> ParseRelation(ClientContext &context, const string &text) {
	Parser parser(context.GetParserOptions());
	try {
		parser.ParseQuery(text);
	} catch (const ParserException &) {
		parser.statements.clear();
	}
	if (parser.statements.size() == 1 && parser.statements[0]->type == StatementType::SELECT_STATEMENT) {
		auto query = unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0]));
		return make_uniq<SubqueryRef>(std::move(query));
	}
	auto name = QualifiedName::Parse(text);
	auto table = make_uniq<BaseTableRef>();
	table->catalog_name = name.catalog;
	table->schema_name = name.schema;
	table->table_name = name.name;
	return std::move(table);
}

RelationArgument::RelationArgument(ClientContext &context, TableFunctionBindInput &input, string side_p,
                                   const Value &text)
    : side(std::move(side_p)), function(input.table_function.name), words(side.empty() ? "" : side + " "),
      prefix(side.empty() ? "" : side + "_") {
	if (text.IsNull()) {
		throw BinderException("%s: the %srelation is NULL; give the name of a table or a query", function, words);
	}
	ref = ParseRelation(context, StringValue::Get(text));
	Bind(context, *input.binder);
	geometry = FindGeometry(input);
	if (auto chosen = NamedParameter(input, prefix + "columns")) {
		for (auto &name : NamesOf(function, prefix + "columns", *chosen)) {
			columns.push_back(FindColumn(name));
		}
	}
}

void RelationArgument::DefaultToAllColumns(TableFunctionBindInput &input) {
	if (NamedParameter(input, prefix + "columns")) {
		return;
	}
	for (idx_t i = 0; i < bound.names.size(); i++) {
		if (i != geometry) {
			columns.push_back(i);
		}
	}
}

string RelationArgument::Rows(bool numbered) const {
	auto result = "(SELECT " + QuotedName(bound.names[geometry]) + " AS g";
	for (idx_t i = 0; i < columns.size(); i++) {
		result += ", " + QuotedName(bound.names[columns[i]]) + " AS c" + to_string(i);
	}
	if (numbered) {
		result += ", row_number() OVER () - 1 AS r";
	}
	return result + " FROM " + ref->ToString() + ")";
}

void RelationArgument::Bind(ClientContext &context, Binder &parent) {
	auto binder = Binder::CreateBinder(context, parent);
	binder->SetCanContainNulls(true);
	SelectNode all;
	all.select_list.push_back(make_uniq<StarExpression>());
	all.from_table = ref->Copy();
	bound = binder->Bind(all);
	if (!binder->correlated_columns.empty()) {
		throw BinderException("%s: the %srelation refers to columns outside of it", function, words);
	}
}

idx_t RelationArgument::FindColumn(const string &name) const {
	for (idx_t i = 0; i < bound.names.size(); i++) {
		if (StringUtil::CIEquals(bound.names[i], name)) {
			return i;
		}
	}
	throw BinderException("%s: the %srelation has no column \"%s\"; it has %s", function, words, name,
	                      StringUtil::Join(bound.names, ", "));
}

idx_t RelationArgument::FindGeometry(TableFunctionBindInput &input) const {
	vector<idx_t> candidates;
	string names;
	for (idx_t i = 0; i < bound.types.size(); i++) {
		if (bound.types[i].id() == LogicalTypeId::GEOMETRY) {
			names += (candidates.empty() ? "" : ", ") + bound.names[i];
			candidates.push_back(i);
		}
	}
	if (auto chosen = NamedParameter(input, prefix + "geometry")) {
		auto column = FindColumn(StringValue::Get(*chosen));
		if (bound.types[column].id() != LogicalTypeId::GEOMETRY) {
			throw BinderException("%s: column \"%s\" of the %srelation is %s, not GEOMETRY; %s", function,
			                      bound.names[column], words, bound.types[column].ToString(),
			                      names.empty() ? "no column is" : "these are: " + names);
		}
		return column;
	}
	if (candidates.empty()) {
		throw BinderException("%s: the %srelation has no column of type GEOMETRY; it has %s", function, words,
		                      StringUtil::Join(bound.names, ", "));
	}
	if (candidates.size() > 1) {
		throw BinderException("%s: the %srelation has several columns of type GEOMETRY; say which with %sgeometry: %s",
		                      function, words, prefix, names);
	}
	return candidates[0];
}

void RelationArgument::AddSideParameters(TableFunction &function) {
	for (auto side : {"left", "right"}) {
		function.named_parameters[string(side) + "_geometry"] = LogicalType::VARCHAR;
		function.named_parameters[string(side) + "_columns"] = LogicalType::LIST(LogicalType::VARCHAR);
	}
}

vector<string> OutputNames(const string &function, vector<string> own, const RelationArgument &left,
                           const RelationArgument &right) {
	case_insensitive_map_t<idx_t> times;
	for (auto &name : own) {
		times[name]++;
	}
	for (auto side : {&left, &right}) {
		for (auto column : side->columns) {
			times[side->bound.names[column]]++;
		}
	}
	auto names = std::move(own);
	for (auto side : {&left, &right}) {
		for (auto column : side->columns) {
			auto &name = side->bound.names[column];
			names.push_back(times[name] > 1 ? side->side + "_" + name : name);
		}
	}
	case_insensitive_set_t distinct;
	for (auto &name : names) {
		if (!distinct.insert(name).second) {
			throw BinderException("%s: two columns would be called \"%s\"; give one of them another name, in a query",
			                      function, name);
		}
	}
	return names;
}

void RequireSameCrs(const string &function, const RelationArgument &left, const RelationArgument &right) {
	auto &left_type = left.bound.types[left.geometry];
	auto &right_type = right.bound.types[right.geometry];
	if (!GeoType::HasCRS(left_type) || !GeoType::HasCRS(right_type)) {
		return;
	}
	auto &left_crs = GeoType::GetCRS(left_type);
	auto &right_crs = GeoType::GetCRS(right_type);
	if (!left_crs.Equals(right_crs)) {
		throw BinderException("%s: the geometries have different coordinate reference systems, '%s' and '%s'. Bring "
		                      "them into one first, or say with ST_SetCRS that they are in the same.",
		                      function, left_crs.GetIdentifier(), right_crs.GetIdentifier());
	}
}

optional_ptr<const Value> NamedParameter(TableFunctionBindInput &input, const string &name) {
	auto given = input.named_parameters.find(name);
	if (given == input.named_parameters.end() || given->second.IsNull()) {
		return nullptr;
	}
	return given->second;
}

string ChooseWord(TableFunctionBindInput &input, const string &parameter, const vector<string> &words) {
	auto given = NamedParameter(input, parameter);
	if (!given) {
		return words[0];
	}
	auto word = StringUtil::Replace(StringUtil::Lower(StringValue::Get(*given)), "_", "");
	for (auto &known : words) {
		if (word == known) {
			return known;
		}
	}
	throw BinderException("%s: %s is one of %s, not '%s'", input.table_function.name, parameter,
	                      StringUtil::Join(words, ", "), StringValue::Get(*given));
}

vector<string> NamesOf(const string &function, const string &parameter, const Value &value) {
	vector<Value> values {value};
	if (value.type().id() == LogicalTypeId::LIST) {
		values = ListValue::GetChildren(value);
	}
	vector<string> names;
	for (auto &name : values) {
		if (name.IsNull()) {
			throw BinderException("%s: a name in %s is NULL", function, parameter);
		}
		if (name.type().id() != LogicalTypeId::VARCHAR) {
			throw BinderException("%s: %s is a name or a list of names, not %s", function, parameter,
			                      value.type().ToString());
		}
		names.push_back(StringValue::Get(name));
	}
	return names;
}

string QuotedName(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

unique_ptr<TableRef> ReplaceByQuery(ClientContext &context, const string &function, const string &query) {
	Parser parser(context.GetParserOptions());
	parser.ParseQuery(query);
	auto statement = unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0]));
	return make_uniq<SubqueryRef>(std::move(statement), function);
}

void RegisterRelationFunction(ExtensionLoader &loader, TableFunction function, vector<string> parameter_names,
                              string description, vector<string> examples) {
	FunctionDescription described;
	described.parameter_types = function.arguments;
	described.parameter_names = std::move(parameter_names);
	// duckdb_functions() lists the named ones after the others, in this order
	for (auto &parameter : function.named_parameters) {
		described.parameter_names.push_back(parameter.first);
	}
	described.description = std::move(description);
	described.examples = std::move(examples);
	described.categories = {"relation"};
	CreateTableFunctionInfo info(std::move(function));
	info.descriptions.push_back(std::move(described));
	loader.RegisterFunction(std::move(info));
}

} // namespace duckdb
