#include "duckdb/tables/relation_argument.hpp"

#include "duckdb/support/register_once.hpp"
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
	auto parser = ParserFor(context);
	try {
		parser.ParseQuery(text);
	} catch (const ParserException &) {
		parser.statements.clear();
	}
	if (parser.statements.size() == 1 && parser.statements[0]->type == StatementType::SELECT_STATEMENT) {
		auto query = unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0]));
		return make_uniq<SubqueryRef>(std::move(query));
	}
	return TableOf(QualifiedName::Parse(text));
}

RelationArgument::RelationArgument(ClientContext &context, TableFunctionBindInput &input, string side_p,
                                   const Value &text)
    : side(std::move(side_p)), function(FunctionName(input)), words(side.empty() ? "" : side + " "),
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
	for (idx_t i = 0; i < names.size(); i++) {
		if (i != geometry) {
			columns.push_back(i);
		}
	}
}

string RelationArgument::Rows(bool numbered) const {
	auto result = "(SELECT " + QuotedName(names[geometry]) + " AS g";
	for (idx_t i = 0; i < columns.size(); i++) {
		result += ", " + QuotedName(names[columns[i]]) + " AS c" + to_string(i);
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
	names = NamesOf(bound.names);
	if (!binder->correlated_columns.empty()) {
		throw BinderException("%s: the %srelation refers to columns outside of it", function, words);
	}
}

idx_t RelationArgument::FindColumn(const string &name) const {
	for (idx_t i = 0; i < names.size(); i++) {
		if (StringUtil::CIEquals(names[i], name)) {
			return i;
		}
	}
	throw BinderException("%s: the %srelation has no column \"%s\"; it has %s", function, words, name,
	                      StringUtil::Join(names, ", "));
}

idx_t RelationArgument::FindGeometry(TableFunctionBindInput &input) const {
	vector<idx_t> candidates;
	string geometries;
	for (idx_t i = 0; i < bound.types.size(); i++) {
		if (bound.types[i].id() == LogicalTypeId::GEOMETRY) {
			geometries += (candidates.empty() ? "" : ", ") + names[i];
			candidates.push_back(i);
		}
	}
	if (auto chosen = NamedParameter(input, prefix + "geometry")) {
		auto column = FindColumn(StringValue::Get(*chosen));
		if (bound.types[column].id() != LogicalTypeId::GEOMETRY) {
			throw BinderException("%s: column \"%s\" of the %srelation is %s, not GEOMETRY; %s", function,
			                      names[column], words, bound.types[column].ToString(),
			                      geometries.empty() ? "no column is" : "these are: " + geometries);
		}
		return column;
	}
	if (candidates.empty()) {
		throw BinderException("%s: the %srelation has no column of type GEOMETRY; it has %s", function, words,
		                      StringUtil::Join(names, ", "));
	}
	if (candidates.size() > 1) {
		throw BinderException("%s: the %srelation has several columns of type GEOMETRY; say which with %sgeometry: %s",
		                      function, words, prefix, geometries);
	}
	return candidates[0];
}

void RelationArgument::AddSideParameters(TableFunction &function) {
	for (auto side : {"left", "right"}) {
		AddNamedParameter(function, string(side) + "_geometry", LogicalType::VARCHAR);
		AddNamedParameter(function, string(side) + "_columns", LogicalType::LIST(LogicalType::VARCHAR));
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
			times[side->names[column]]++;
		}
	}
	auto names = std::move(own);
	for (auto side : {&left, &right}) {
		for (auto column : side->columns) {
			auto &name = side->names[column];
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
	auto given = input.named_parameters.find(Identifier(name));
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
	throw BinderException("%s: %s is one of %s, not '%s'", FunctionName(input), parameter,
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
	auto parser = ParserFor(context);
	parser.ParseQuery(query);
	auto statement = unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0]));
	return make_uniq<SubqueryRef>(std::move(statement), Identifier(function));
}

void RegisterRelationFunction(ExtensionLoader &loader, TableFunction function, vector<string> parameter_names,
                              string description, vector<string> examples) {
	FunctionDescription described;
	NameParameters(function, parameter_names);
	described.parameter_names = std::move(parameter_names);
	// duckdb_functions() lists the named ones after the others, in this order
	DescribeParameters(function, described);
	described.description = std::move(description);
	described.examples = std::move(examples);
	described.categories = {"relation"};
	const auto name = NameOf(function.name);
	CreateTableFunctionInfo info(std::move(function));
	info.descriptions.push_back(std::move(described));
	RegisterOnce(loader, name, [&] { loader.RegisterFunction(std::move(info)); });
}

} // namespace duckdb
