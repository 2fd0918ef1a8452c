#include "duckdb/tables/tables.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/expression/cast_expression.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/expression/star_expression.hpp"
#include "duckdb/parser/query_node/select_node.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"
#include "duckdb/pinned/logical.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/tables/relation_argument.hpp"
#include "duckdb/tables/table_builder.hpp"

namespace duckdb {

namespace {

//! The place of a row in the table: its row id, NULL where that is too large. Null where a column has that name.
unique_ptr<ParsedExpression> PlaceOfRow(const vector<string> &all_columns) {
	const string row_id = "rowid";
	for (auto &column : all_columns) {
		if (StringUtil::CIEquals(column, row_id)) {
			return nullptr;
		}
	}
	return make_uniq<CastExpression>(LogicalType::UINTEGER, make_uniq<ColumnRefExpression>(Identifier(row_id)), true);
}

//! All columns of a table; or some of them, with the place of each row
BoundStatement BindColumns(ClientContext &context, Binder &parent, const string &table, const vector<string> &columns,
                           unique_ptr<ParsedExpression> place = nullptr) {
	auto binder = Binder::CreateBinder(context, parent);
	SelectNode select;
	for (auto &column : columns) {
		select.select_list.push_back(make_uniq<ColumnRefExpression>(Identifier(column)));
	}
	if (place) {
		select.select_list.push_back(std::move(place));
	}
	if (columns.empty()) {
		select.select_list.push_back(make_uniq<StarExpression>());
	}
	select.from_table = TableOf(QualifiedName::Parse(table));
	return binder->Bind(select);
}

//! SELECT .. of a table is a projection over its scan; that of a view has more between them
TableCatalogEntry &RequireTable(const string &text, LogicalOperator &plan) {
	if (plan.children.size() == 1 && plan.children[0]->type == LogicalOperatorType::LOGICAL_GET) {
		auto table = plan.children[0]->Cast<LogicalGet>().GetTable();
		if (table && table->IsDuckTable() && !table->ParentCatalog().GetAttached().IsTemporary()) {
			return *table;
		}
	}
	throw BinderException(
	    "vibe_pin: %s is no table of a DuckDB database; views, queries, temporary tables, files and tables of other "
	    "systems cannot be pinned: CREATE TABLE .. AS copies their rows",
	    text);
}

unique_ptr<LogicalOperator> BindPin(ClientContext &context, TableFunctionBindInput &input, TableIndex table_index,
                                    vector<Identifier> &names) {
	if (input.inputs[0].IsNull()) {
		throw BinderException("vibe_pin: the name of the table is NULL");
	}
	auto text = StringValue::Get(input.inputs[0]);
	auto all = BindColumns(context, *input.binder, text, {});
	auto &table = RequireTable(text, *all.plan);
	auto all_names = NamesOf(all.names);
	auto find = [&](const string &name) {
		for (idx_t i = 0; i < all_names.size(); i++) {
			if (StringUtil::CIEquals(all_names[i], name)) {
				return i;
			}
		}
		throw BinderException("vibe_pin: %s has no column \"%s\"; it has %s", text, name,
		                      StringUtil::Join(all_names, ", "));
	};
	PinRequest request;
	request.table = PinnedName::Of(table);
	if (auto chosen = NamedParameter(input, "columns")) {
		for (auto &name : NamesOf("vibe_pin", "columns", *chosen)) {
			auto column = find(name);
			auto &type = all.types[column];
			if (type.id() == LogicalTypeId::GEOMETRY) {
				request.geometries.push_back(all_names[column]);
			} else if (PinnedWidth(type) > 0) {
				request.columns.push_back({all_names[column], type});
			} else {
				throw BinderException(
				    "vibe_pin: column \"%s\" is %s; columns of geometries, numbers, booleans, dates and timestamps can "
				    "be pinned",
				    all_names[column], type.ToString());
			}
		}
	}
	if (request.geometries.empty()) {
		for (idx_t i = 0; i < all_names.size(); i++) {
			if (all.types[i].id() == LogicalTypeId::GEOMETRY) {
				request.geometries.push_back(all_names[i]);
			}
		}
	}
	if (request.geometries.empty()) {
		throw BinderException("vibe_pin: %s has no column of type GEOMETRY; it has %s", text,
		                      StringUtil::Join(all_names, ", "));
	}
	auto columns = request.geometries;
	for (auto &column : request.columns) {
		columns.push_back(column.name);
	}
	auto place = PlaceOfRow(all_names);
	request.has_places = place != nullptr;
	auto rows = BindColumns(context, *input.binder, text, columns, std::move(place));
	auto &aliases = input.ref.column_name_alias;
	for (auto &name : LogicalPin::Names()) {
		names.push_back(names.size() < aliases.size() ? aliases[names.size()] : Identifier(name));
	}
	return make_uniq<LogicalPin>(table_index, std::move(request), std::move(rows.plan), rows.types);
}

Value NamesOf(const PinnedTable &table) {
	vector<Value> names;
	for (auto &column : table.columns) {
		names.emplace_back(column.name);
	}
	return Value::LIST(LogicalType::VARCHAR, std::move(names));
}

uint64_t BytesOf(PinnedTable &table) {
	auto pinned = table.OnDevice();
	return pinned ? pinned->Bytes() : 0;
}

SqlTable::rows_t Pins(ClientContext &context, const vector<Value> &) {
	SqlTable::rows_t rows;
	for (auto &table : PinnedTables::Get(context)->All()) {
		auto state = table->State();
		rows.push_back({Value(table->table.text), Value(table->geometry), NamesOf(*table), Value::UBIGINT(table->rows),
		                Value::UBIGINT(BytesOf(*table)), Value(state), Value::UBIGINT(table->hits),
		                Value::UBIGINT(table->host_rows->Bytes())});
	}
	return rows;
}

SqlTable::rows_t Unpin(ClientContext &context, const vector<Value> &arguments) {
	if (arguments[0].IsNull()) {
		throw InvalidInputException("vibe_unpin: the name of the table is NULL");
	}
	SqlTable::rows_t rows;
	for (auto &table : PinnedTables::Get(context)->Remove(StringValue::Get(arguments[0]))) {
		rows.push_back({Value(table->table.text), Value(table->geometry), Value::UBIGINT(BytesOf(*table))});
	}
	return rows;
}

} // namespace

void RegisterPin(ExtensionLoader &loader) {
	TransactionWatch::Register(loader);
	TableFunction function("vibe_pin", {LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_operator = BindPin;
	AddNamedParameter(function, "columns", LogicalType::LIST(LogicalType::VARCHAR));
	RegisterRelationFunction(
	    loader, std::move(function), {"table_name"},
	    "Keeps the geometries of a table on the GPU, with columns of numbers beside them: joins that read no other "
	    "columns "
	    "of it then do not scan it, and send nothing. `columns` are geometries, and numbers, booleans, dates and "
	    "timestamps to filter by or to return; without a geometry among them all geometries are kept. A change of the "
	    "table's database makes the copy invalid.",
	    {"* FROM vibe_pin('points', columns := ['kind'])"});
	SqlTable("vibe_unpin", "Releases a table that vibe_pin() keeps on the GPU.")
	    .Column("table_name", LogicalType::VARCHAR)
	    .Column("geometry", LogicalType::VARCHAR)
	    .Column("bytes", LogicalType::UBIGINT)
	    .Overload({{"table_name", LogicalType::VARCHAR}})
	    .Example("* FROM vibe_unpin('points')")
	    .Register(loader, Unpin);
	SqlTable("vibe_pins",
	         "The tables that vibe_pin() keeps on the GPU: rows, bytes now, whether queries can read them there or why "
	         "not, how many have, and the bytes of columns that are in host memory for joins that return rows.")
	    .Column("table_name", LogicalType::VARCHAR)
	    .Column("geometry", LogicalType::VARCHAR)
	    .Column("columns", LogicalType::LIST(LogicalType::VARCHAR))
	    .Column("rows", LogicalType::UBIGINT)
	    .Column("bytes", LogicalType::UBIGINT)
	    .Column("state", LogicalType::VARCHAR)
	    .Column("hits", LogicalType::UBIGINT)
	    .Column("host_bytes", LogicalType::UBIGINT)
	    .Overload({})
	    .Example("table_name, rows, bytes, state FROM vibe_pins()")
	    .Register(loader, Pins);
}

} // namespace duckdb
