#include "duckdb/tables/tables.hpp"

#include "duckdb/tables/relation_argument.hpp"

namespace duckdb {

namespace {

//! A column and the aggregate that makes one value of a group's
struct ColumnAggregate {
	idx_t column;
	string function;
};

//! aggregates := {'population': 'sum', ..}, as a struct or a map. All other columns by their first value where it is not given.
vector<ColumnAggregate> ChooseAggregates(TableFunctionBindInput &input, const RelationArgument &relation,
                                         const vector<idx_t> &by) {
	auto &function = FunctionName(input);
	vector<ColumnAggregate> result;
	auto given = NamedParameter(input, "aggregates");
	if (!given) {
		for (idx_t i = 0; i < relation.names.size(); i++) {
			if (i != relation.geometry && std::find(by.begin(), by.end(), i) == by.end()) {
				result.push_back(ColumnAggregate {i, "first"});
			}
		}
		return result;
	}
	auto add = [&](const Value &column, const Value &aggregate) {
		if (column.type().id() != LogicalTypeId::VARCHAR || aggregate.type().id() != LogicalTypeId::VARCHAR ||
		    aggregate.IsNull()) {
			throw BinderException("%s: aggregates are columns with the name of an aggregate each, as in {'population': "
			                      "'sum'}, not %s",
			                      function, given->ToString());
		}
		result.push_back(ColumnAggregate {relation.FindColumn(StringValue::Get(column)), StringValue::Get(aggregate)});
	};
	switch (given->type().id()) {
	case LogicalTypeId::STRUCT:
		for (idx_t i = 0; i < StructType::GetChildCount(given->type()); i++) {
			add(Value(StructType::GetChildName(given->type(), i)), StructValue::GetChildren(*given)[i]);
		}
		return result;
	case LogicalTypeId::MAP:
		for (auto &entry : MapValue::GetChildren(*given)) {
			auto &pair = StructValue::GetChildren(entry);
			add(pair[0], pair[1]);
		}
		return result;
	default:
		throw BinderException("%s: aggregates is a struct or a map, as in {'population': 'sum'}, not %s", function,
		                      given->type().ToString());
	}
}

//! The aggregate of a column. As in a data frame the first value is one that is not NULL; it is the first by the numbers of the rows.
string AggregateText(const string &function, const string &column, bool &numbered) {
	auto word = StringUtil::Lower(function);
	if (word == "first" || word == "last") {
		numbered = true;
		return (word == "first" ? "arg_min(" : "arg_max(") + column + ", r)";
	}
	return QuotedName(function) + "(" + column + ")";
}

unique_ptr<TableRef> BindDissolve(ClientContext &context, TableFunctionBindInput &input) {
	auto &function = FunctionName(input);
	RelationArgument relation(context, input, "", input.inputs[0]);
	auto &names = relation.names;
	vector<idx_t> by;
	if (auto given = NamedParameter(input, "by")) {
		for (auto &name : NamesOf(function, "by", *given)) {
			by.push_back(relation.FindColumn(name));
		}
	}
	auto aggregates = ChooseAggregates(input, relation, by);

	case_insensitive_set_t distinct {names[relation.geometry]};
	vector<string> select;
	string group;
	auto add = [&](idx_t column, const string &text) {
		if (column != relation.geometry && !distinct.insert(names[column]).second) {
			throw BinderException("%s: column \"%s\" would come out twice", function, names[column]);
		}
		select.push_back(text + " AS " + QuotedName(names[column]));
	};
	auto refer = [&](idx_t column) {
		relation.columns.push_back(column);
		return "c" + to_string(relation.columns.size() - 1);
	};
	for (auto column : by) {
		if (column == relation.geometry) {
			throw BinderException("%s: \"%s\" is the geometry and cannot be in by", function, names[column]);
		}
		auto name = refer(column);
		group += (group.empty() ? " GROUP BY " : ", ") + name;
		add(column, name);
	}
	add(relation.geometry, "vibe_union_agg(g)");
	bool numbered = false;
	for (auto &aggregate : aggregates) {
		if (aggregate.column == relation.geometry) {
			throw BinderException("%s: \"%s\" is the geometry, which is united; no other aggregate is made of it",
			                      function, names[aggregate.column]);
		}
		add(aggregate.column, AggregateText(aggregate.function, refer(aggregate.column), numbered));
	}
	return ReplaceByQuery(context, function,
	                      "SELECT " + StringUtil::Join(select, ", ") + " FROM " + relation.Rows(numbered) + group);
}

} // namespace

void RegisterDissolve(ExtensionLoader &loader) {
	TableFunction function("vibe_dissolve", {LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_replace = BindDissolve;
	AddNamedParameter(function, "by", LogicalType::ANY);
	AddNamedParameter(function, "geometry", LogicalType::VARCHAR);
	AddNamedParameter(function, "aggregates", LogicalType::ANY);
	RegisterRelationFunction(
	    loader, std::move(function), {"relation"},
	    "The rows of a relation, the name of a table or a query as text, with those that agree in `by`, a column or a "
	    "list of them, merged into one row with the union of their geometries. Without `by`, all rows are merged. "
	    "Columns: those of `by`, the geometry, then the others, by their first value that is not NULL, or those of "
	    "`aggregates` alone, "
	    "by "
	    "the aggregate given for each: {'population': 'sum'}.",
	    {"k, vibe_area(g), n FROM vibe_dissolve('SELECT i % 2 AS k, i AS n, ST_MakeEnvelope(i, 0, i + 2, 1) AS g FROM "
	     "range(4) t(i)', by := 'k', aggregates := {'n': 'sum'})"});
}

} // namespace duckdb
