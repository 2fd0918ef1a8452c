#include "duckdb/pinned/tables.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/transaction/duck_transaction.hpp"

namespace duckdb {

PinnedName PinnedName::Of(TableCatalogEntry &table) {
	PinnedName name;
	auto &database = table.ParentCatalog().GetAttached();
	name.database = database.shared_from_this();
	name.oid = table.oid;
	name.path = {NameOf(database.GetName()), NameOf(table.ParentSchema().name), NameOf(table.name)};
	for (auto &part : name.path) {
		name.text += (name.text.empty() ? "" : ".") + KeywordHelper::WriteOptionallyQuoted(part);
	}
	return name;
}

bool PinnedName::IsMeantBy(const vector<string> &name) const {
	const auto matches = [&](idx_t part, idx_t at) { return StringUtil::CIEquals(path[part], name[at]); };
	switch (name.size()) {
	case 1:
		return matches(2, 0);
	case 2:
		return matches(2, 1) && (matches(1, 0) || matches(0, 0));
	case 3:
		return matches(2, 2) && matches(1, 1) && matches(0, 0);
	default:
		return false;
	}
}

std::shared_ptr<vibespatial::GpuPinned> PinnedTable::OnDevice() {
	lock_guard<mutex> guard(lock);
	return on_device;
}

void PinnedTable::SetOnDevice(std::shared_ptr<vibespatial::GpuPinned> pinned) {
	lock_guard<mutex> guard(lock);
	on_device = std::move(pinned);
}

string PinnedTable::WhyInvalid() {
	std::shared_ptr<vibespatial::GpuPinned> gone; // freed without the lock
	string why;
	{
		lock_guard<mutex> guard(lock);
		if (invalid.empty()) {
			auto database = table.database.lock();
			if (!database) {
				invalid = "its database was detached";
			} else if (watch->HasChanged(*database, began_at)) {
				invalid = "its database has changed";
			}
			if (!invalid.empty()) {
				gone = std::move(on_device);
			}
		}
		why = invalid;
	}
	if (!why.empty()) {
		host_rows->Clear(); // a query that began before may have copied more
	}
	return why;
}

string PinnedTable::State() {
	auto why = WhyInvalid();
	if (!why.empty()) {
		return "invalid: " + why;
	}
	return IsResident() ? "resident" : "evicted: memory";
}

bool PinnedTable::IsResident() {
	auto pinned = OnDevice();
	if (pinned && pinned->IsResident()) {
		return true;
	}
	host_rows->Clear();
	return false;
}

string PinnedTable::WhyNot(ClientContext &context) {
	// In this order: who commits a change is known to make one until it is known to be made
	auto database = table.database.lock();
	if (database && watch->IsChanging(*database, context)) {
		return "another transaction is changing its database";
	}
	auto why = WhyInvalid();
	if (!why.empty()) {
		return why;
	}
	auto &transaction = DuckTransaction::Get(context, *database);
	if (transaction.start_time < start_time) {
		return "the transaction began before the table was pinned";
	}
	if (transaction.ChangesMade()) {
		return "the transaction has changed its database";
	}
	return IsResident() ? string() : "it was evicted, since the device's memory was needed";
}

string PinnedTable::WhyNot(ClientContext &context, const PinnedScan &scan, vibespatial::PinnedTerms &filter) {
	auto why = scan.why_not.empty() ? WhyNot(context) : scan.why_not;
	return why.empty() ? Translate(scan.clauses, filter) : why;
}

optional_idx PinnedTable::FindColumn(const string &name) const {
	for (idx_t column = 0; column < columns.size(); column++) {
		if (columns[column].name == name) {
			return column;
		}
	}
	return optional_idx();
}

string PinnedTable::Translate(const vector<PinnedClause> &clauses, vibespatial::PinnedTerms &filter) const {
	for (auto &clause : clauses) {
		const auto column = FindColumn(clause.column);
		if (!column.IsValid()) {
			return "the filter reads column \"" + clause.column + "\", which is not pinned";
		}
		for (auto range : clause.ranges) {
			range.column = static_cast<uint32_t>(column.GetIndex());
			filter.push_back(range);
		}
	}
	constexpr idx_t MOST = vibe::PinnedFilter::MAX_RANGES;
	return filter.size() <= MOST
	           ? string()
	           : "the filter has " + to_string(filter.size()) + " ranges; " + to_string(MOST) + " are the most";
}

shared_ptr<PinnedTables> PinnedTables::Get(ClientContext &context) {
	return ObjectCache::GetObjectCache(context).GetOrCreate<PinnedTables>(ObjectType());
}

void PinnedTables::Add(shared_ptr<PinnedTable> pinned) {
	shared_ptr<PinnedTable> before; // freed without the lock
	lock_guard<mutex> guard(lock);
	for (auto &table : tables) {
		if (table->table.text == pinned->table.text && table->geometry == pinned->geometry) {
			before = std::move(table);
			table = std::move(pinned);
			return;
		}
	}
	tables.push_back(std::move(pinned));
}

vector<shared_ptr<PinnedTable>> PinnedTables::Remove(const string &name) {
	vector<shared_ptr<PinnedTable>> gone, kept;
	const auto parts = NamesOf(QualifiedName::ParseComponents(name));
	lock_guard<mutex> guard(lock);
	for (auto &table : tables) {
		(table->table.IsMeantBy(parts) ? gone : kept).push_back(table);
	}
	if (gone.empty()) {
		throw InvalidInputException("vibe_unpin: no pinned table is called %s; FROM vibe_pins() lists them", name);
	}
	for (auto &table : gone) {
		if (table->table.text != gone[0]->table.text) {
			throw InvalidInputException("vibe_unpin: %s may be %s or %s; give the name with its database and schema",
			                            name, gone[0]->table.text, table->table.text);
		}
	}
	tables = std::move(kept);
	return gone;
}

shared_ptr<PinnedTable> PinnedTables::Find(const PinnedName &table, const string &geometry) {
	lock_guard<mutex> guard(lock);
	for (auto &pinned : tables) {
		if (pinned->table == table && pinned->geometry == geometry) {
			return pinned;
		}
	}
	return nullptr;
}

void PinnedTables::FreeInvalid() {
	for (auto &table : All()) {
		table->State();
	}
}

vector<shared_ptr<PinnedTable>> PinnedTables::All() {
	lock_guard<mutex> guard(lock);
	return tables;
}

} // namespace duckdb
