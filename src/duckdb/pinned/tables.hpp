//===----------------------------------------------------------------------===//
// duckdb/pinned/tables.hpp
//
// The tables that vibe_pin() keeps on the device, and whether a transaction may read them there
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb/pinned/host_rows.hpp"
#include "duckdb/pinned/values.hpp"
#include "duckdb/pinned/watch.hpp"

#include <atomic>

namespace duckdb {

class TableCatalogEntry;

//! A table of one of DuckDB's own databases
struct PinnedName {
	weak_ptr<AttachedDatabase> database;
	//! Of the entry in the catalog, which is another one after an ALTER
	idx_t oid = 0;
	//! Database, schema and table
	vector<string> path;
	//! The same as one text, quoted where SQL needs it
	string text;

	static PinnedName Of(TableCatalogEntry &table);
	//! Whether a name means it: the table's, with or without its schema or database before it
	bool IsMeantBy(const vector<string> &name) const;
	bool operator==(const PinnedName &other) const {
		return oid == other.oid && database.lock() == other.database.lock();
	}
};

//! What a query asks of a table: the geometries of a column, and the rows that the clauses keep
struct PinnedScan {
	PinnedName table;
	string geometry;
	vector<PinnedClause> clauses;
	//! And only those whose geometry is not NULL. Others meet nothing: it matters where they are returned all the same.
	bool only_present = false;
	//! The columns of the table that come out of the scan; empty for what is no column of it
	vector<string> columns;
	//! Why such a query always scans the table; empty where it need not
	string why_not;
};

//! One geometry column of a table, with columns of numbers beside it
class PinnedTable {
public:
	struct Column {
		string name;
		LogicalType type;
	};

	PinnedName table;
	string geometry;
	vector<Column> columns;
	//! Some rows are NULL
	bool has_null = false;
	//! Some rows are EMPTY
	bool has_empty = false;
	//! Some are EMPTY points that are kept as if they were NULL
	bool has_empty_points = false;
	//! Some points have Z or M, which are not kept
	bool has_more_ordinates = false;
	//! Some rows are kept as shapes
	bool has_shapes = false;
	//! The places of rows in the table are known
	bool has_order = true;
	//! Columns that queries have read, and the WKB of shapes
	unique_ptr<HostRows> host_rows;
	//! The snapshot: when its transaction began, for DuckDB and for the watch
	transaction_t start_time = 0;
	uint64_t began_at = 0;
	shared_ptr<TransactionWatch> watch;
	uint64_t rows = 0;
	std::atomic<uint64_t> hits {0};

	//! The column of UINTEGER on the device with the place of each row in the table, after those that queries can read
	idx_t OrderColumn() const {
		return columns.size();
	}
	//! Null where the table may have changed
	std::shared_ptr<vibespatial::GpuPinned> OnDevice();
	void SetOnDevice(std::shared_ptr<vibespatial::GpuPinned> pinned);

	//! Why the rows on the device are not those that the transaction of the context sees, or cannot be read there; empty if they can
	string WhyNot(ClientContext &context);
	//! The same for what a query asks, of which the device takes `filter`
	string WhyNot(ClientContext &context, const PinnedScan &scan, vibespatial::PinnedTerms &filter);
	//! For vibe_pins(): resident, invalid or evicted, and why
	string State();
	//! The number of a column, or of none
	optional_idx FindColumn(const string &name) const;

private:
	//! The clauses as the device takes them; why not, where it cannot
	string Translate(const vector<PinnedClause> &clauses, vibespatial::PinnedTerms &filter) const;
	//! Why the table may have changed, or nothing; frees the memory then
	string WhyInvalid();
	//! False where the rows were evicted; frees the host's copy then
	bool IsResident();

	mutex lock;
	std::shared_ptr<vibespatial::GpuPinned> on_device;
	string invalid;
};

//! All pinned tables of a database instance
class PinnedTables : public ObjectCacheEntry {
public:
	static shared_ptr<PinnedTables> Get(ClientContext &context);

	//! In the place of those of the same table and geometry
	void Add(shared_ptr<PinnedTable> pinned);
	//! Forgets a table by its name, with or without database and schema; throws where none, or several, have it
	vector<shared_ptr<PinnedTable>> Remove(const string &name);
	shared_ptr<PinnedTable> Find(const PinnedName &table, const string &geometry);
	//! Frees what no query can use any more: tables that may have changed, whoever asks
	void FreeInvalid();
	vector<shared_ptr<PinnedTable>> All();

	static string ObjectType() {
		return "vibespatial_pinned_tables";
	}
	string GetObjectType() override {
		return ObjectType();
	}
	optional_idx GetEstimatedCacheMemory() const override {
		return optional_idx();
	}

private:
	mutex lock;
	vector<shared_ptr<PinnedTable>> tables;
};

} // namespace duckdb
