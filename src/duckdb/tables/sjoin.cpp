#include "duckdb/tables/tables.hpp"

#include "duckdb/tables/relation_argument.hpp"

namespace duckdb {

namespace {

unique_ptr<TableRef> BindSjoin(ClientContext &context, TableFunctionBindInput &input) {
	auto &function = FunctionName(input);
	auto predicate = ChooseWord(input, "predicate",
	                            {"intersects", "within", "contains", "covers", "coveredby", "touches", "crosses",
	                             "overlaps", "equals", "disjoint", "dwithin", "containsproperly", "withinproperly"});
	auto how = ChooseWord(input, "how", {"inner", "left", "semi", "anti"});
	bool by_distance = predicate == "dwithin";
	bool only_left = how == "semi" || how == "anti";
	string limit;
	if (auto distance = NamedParameter(input, "distance")) {
		// As text it is read back as the same number
		limit = ", '" + distance->ToString() + "'::DOUBLE";
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
		select += (i == 0 ? "" : ", ") + values[i] + " AS " + QuotedName(names[i]);
	}
	// The vibe_ names are ours, whatever else is loaded
	auto query = "SELECT " + select + " FROM " + left.Rows(true) + " AS l " + StringUtil::Upper(how) + " JOIN " +
	             right.Rows(true) + " AS r ON vibe_" + predicate + "(l.g, r.g" + limit + ")";
	return ReplaceByQuery(context, function, query);
}

} // namespace

void RegisterSjoin(ExtensionLoader &loader) {
	TableFunction function("vibe_sjoin", {LogicalType::VARCHAR, LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_replace = BindSjoin;
	AddNamedParameter(function, "predicate", LogicalType::VARCHAR);
	AddNamedParameter(function, "how", LogicalType::VARCHAR);
	AddNamedParameter(function, "distance", LogicalType::DOUBLE);
	RelationArgument::AddSideParameters(function);
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
