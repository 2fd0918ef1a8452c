#include "duckdb/tables/tables.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"
#include "duckdb/tables/relation_argument.hpp"

namespace duckdb {

namespace {

constexpr const char *PREDICATES[] = {"intersects", "within",           "contains",      "covers", "coveredby",
                                      "touches",    "crosses",          "overlaps",      "equals", "disjoint",
                                      "dwithin",    "containsproperly", "withinproperly"};
constexpr const char *KINDS[] = {"inner", "left", "semi", "anti"};

//! A named parameter that is one of a few words
template <size_t COUNT>
string Choose(TableFunctionBindInput &input, const string &parameter, const char *const (&words)[COUNT]) {
	auto given = input.named_parameters.find(parameter);
	if (given == input.named_parameters.end() || given->second.IsNull()) {
		return words[0];
	}
	auto word = StringUtil::Replace(StringUtil::Lower(StringValue::Get(given->second)), "_", "");
	string all;
	for (auto known : words) {
		if (word == known) {
			return known;
		}
		all += (all.empty() ? "" : ", ") + string(known);
	}
	throw BinderException("%s: %s is one of %s, not '%s'", input.table_function.name, parameter, all,
	                      StringValue::Get(given->second));
}

string Quoted(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

//! The rows of one side with their numbers: r, g, and c0, c1 .. for the columns that come out
string Numbered(const RelationArgument &relation) {
	auto &names = relation.bound.names;
	auto result = "(SELECT row_number() OVER () - 1 AS r, " + Quoted(names[relation.geometry]) + " AS g";
	for (idx_t i = 0; i < relation.columns.size(); i++) {
		result += ", " + Quoted(names[relation.columns[i]]) + " AS c" + to_string(i);
	}
	return result + " FROM " + relation.ref->ToString() + ")";
}

unique_ptr<TableRef> BindSjoin(ClientContext &context, TableFunctionBindInput &input) {
	auto &function = input.table_function.name;
	auto predicate = Choose(input, "predicate", PREDICATES);
	auto how = Choose(input, "how", KINDS);
	bool by_distance = predicate == "dwithin";
	bool only_left = how == "semi" || how == "anti";
	string limit;
	auto distance = input.named_parameters.find("distance");
	if (distance != input.named_parameters.end() && !distance->second.IsNull()) {
		// As text it is read back as the same number
		limit = ", '" + distance->second.ToString() + "'::DOUBLE";
	}
	if (by_distance == limit.empty()) {
		throw BinderException("%s: distance is needed with predicate := 'dwithin', and with no other", function);
	}
	RelationArgument left(context, input, "left", input.inputs[0]);
	RelationArgument right(context, input, "right", input.inputs[1]);
	RequireSameCrs(function, left, right);
	if (only_left && !right.columns.empty()) {
		throw BinderException("%s: how := '%s' gives no rows of the right relation: right_columns must be empty",
		                      function, how);
	}
	vector<string> values {"l.r"};
	vector<string> own {"left_row"};
	if (!only_left) {
		values.emplace_back("r.r");
		own.emplace_back("right_row");
		if (by_distance) {
			values.emplace_back("vibe_distance(l.g, r.g)");
			own.emplace_back("distance");
		}
	}
	auto names = OutputNames(function, std::move(own), left, right);
	for (idx_t i = 0; i < left.columns.size(); i++) {
		values.push_back("l.c" + to_string(i));
	}
	for (idx_t i = 0; i < right.columns.size(); i++) {
		values.push_back("r.c" + to_string(i));
	}
	string select;
	for (idx_t i = 0; i < values.size(); i++) {
		select += (i == 0 ? "" : ", ") + values[i] + " AS " + Quoted(names[i]);
	}
	// The vibe_ names are ours, whatever else is loaded
	auto query = "SELECT " + select + " FROM " + Numbered(left) + " AS l " + StringUtil::Upper(how) + " JOIN " +
	             Numbered(right) + " AS r ON vibe_" + predicate + "(l.g, r.g" + limit + ")";
	Parser parser(context.GetParserOptions());
	parser.ParseQuery(query);
	auto statement = unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0]));
	return make_uniq<SubqueryRef>(std::move(statement), function);
}

} // namespace

void RegisterSjoin(ExtensionLoader &loader) {
	TableFunction function("vibe_sjoin", {LogicalType::VARCHAR, LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_replace = BindSjoin;
	function.named_parameters["predicate"] = LogicalType::VARCHAR;
	function.named_parameters["how"] = LogicalType::VARCHAR;
	function.named_parameters["distance"] = LogicalType::DOUBLE;
	RegisterRelationFunction(
	    loader, std::move(function), {"left", "right"},
	    "The pairs of rows of two relations that meet a spatial `predicate`: 'intersects' where none is given, "
	    "'dwithin' with "
	    "a `distance`. Both are names of tables or queries as text; `how` is 'inner', 'left', 'semi' or 'anti'. "
	    "Columns: "
	    "left_row and right_row (numbered from 0 as scanned), the distance with 'dwithin', then left_columns and "
	    "right_columns.",
	    {"left_row, right_row FROM vibe_sjoin('SELECT ST_Point(i, 0) AS g FROM range(3) t(i)', 'SELECT "
	     "ST_MakeEnvelope(0, 0, i, "
	     "i) AS g FROM range(1, 3) t(i)', predicate := 'covered_by')"});
}

} // namespace duckdb
