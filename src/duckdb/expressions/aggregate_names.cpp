#include "duckdb/expressions/aggregate_names.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/aggregate_function_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/duck_schema_entry.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/parser/parsed_data/create_aggregate_function_info.hpp"
#include "duckdb/planner/extension_callback.hpp"
#include "duckdb/support/register_once.hpp"

namespace duckdb {

namespace {

class YieldedAggregates : public ExtensionCallback {
public:
	YieldedAggregates(vector<string> names, bind_aggregate_function_t bind) : names(std::move(names)), bind(bind) {
	}

	void OnBeginExtensionLoad(DatabaseInstance &db, const string &name) override {
		if (name != "spatial") {
			return;
		}
		auto transaction = CatalogTransaction::GetSystemTransaction(db);
		auto &set = Aggregates(db, transaction);
		for (auto &aggregate : names) {
			auto entry = set.GetEntry(transaction, Identifier(aggregate));
			if (!entry || entry->type != CatalogType::AGGREGATE_FUNCTION_ENTRY) {
				continue;
			}
			auto &ours = entry->Cast<AggregateFunctionCatalogEntry>();
			if (BindCallbackOf(ours.functions) != bind) {
				continue;
			}
			CreateAggregateFunctionInfo info(ours.functions);
			info.descriptions = ours.descriptions;
			info.alias_of = ours.alias_of;
			info.on_conflict = OnCreateConflict::IGNORE_ON_CONFLICT;
			taken.push_back(std::move(info));
			set.DropEntry(transaction, Identifier(aggregate), false, true);
		}
	}
	void OnExtensionLoaded(DatabaseInstance &db, const string &name) override {
		PutBack(db, name);
	}
	void OnExtensionLoadFail(DatabaseInstance &db, const string &name, const ErrorData &) override {
		PutBack(db, name);
	}

private:
	static CatalogSet &Aggregates(DatabaseInstance &db, CatalogTransaction &transaction) {
		auto &schema = Catalog::GetSystemCatalog(db).GetSchema(transaction, Identifier(DEFAULT_SCHEMA));
		return schema.Cast<DuckSchemaEntry>().GetCatalogSet(CatalogType::AGGREGATE_FUNCTION_ENTRY);
	}

	//! Those whose names are free
	void PutBack(DatabaseInstance &db, const string &name) {
		if (name != "spatial") {
			return;
		}
		auto transaction = CatalogTransaction::GetSystemTransaction(db);
		for (auto &info : taken) {
			Catalog::GetSystemCatalog(db).CreateFunction(transaction, info);
		}
		taken.clear();
	}

	const vector<string> names;
	const bind_aggregate_function_t bind;
	//! While `spatial` is loading, which only one thread does
	vector<CreateAggregateFunctionInfo> taken;
};

} // namespace

void YieldAggregates(ExtensionLoader &loader, vector<string> names, bind_aggregate_function_t bind) {
	RegisterOnce(loader, "aggregates of spatial", [&] {
		auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
		ExtensionCallback::Register(config, make_shared_ptr<YieldedAggregates>(std::move(names), bind));
	});
}

} // namespace duckdb
